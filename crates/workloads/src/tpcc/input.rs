//! The terminals' entries (clauses 2.4.1, 2.5.1, 2.6.1, 2.7.1 and 2.8.1), made ahead of the transaction.
//!
//! **Invariant:** the same seed gives the same entries in the same order, whatever becomes of them.

use super::mix::{Deck, Mix, TransactionKind};
use super::random::{Constants, LAST_NAME_SKEW, LastName, Random, last_name};
use super::scale::Scale;

/// Maximum number of lines of an order.
pub const LINES_MAX: usize = 15;
/// Maximum number of districts of a warehouse.
pub const DISTRICTS_MAX: usize = 10;

/// Line of an order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NewOrderLine {
    /// Item; an unused number in the last line of an order that shall roll back.
    pub item: i32,
    /// Warehouse that supplies the item.
    pub supply_warehouse: i32,
    /// Quantity, 1 to 10.
    pub quantity: i32,
}

/// Order as it is entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewOrderInput {
    /// Terminal's warehouse.
    pub warehouse: i32,
    /// District of the warehouse.
    pub district: i32,
    /// Customer of the district.
    pub customer: i32,
    /// Moment of the order's entry, in microseconds since 1970.
    pub entered_us: i64,
    lines: [NewOrderLine; LINES_MAX],
    lines_count: u8,
}

impl NewOrderInput {
    /// Creates an order of these lines.
    ///
    /// # Panics
    /// If there are none, or more than 15.
    pub fn new(
        warehouse: i32,
        district: i32,
        customer: i32,
        entered_us: i64,
        order_lines: &[NewOrderLine],
    ) -> NewOrderInput {
        assert!((1..=LINES_MAX).contains(&order_lines.len()), "an order has 1 to 15 lines");
        let mut lines = [NewOrderLine::default(); LINES_MAX];
        lines[..order_lines.len()].copy_from_slice(order_lines);
        NewOrderInput { warehouse, district, customer, entered_us, lines, lines_count: order_lines.len() as u8 }
    }

    /// Returns the order's lines.
    #[inline]
    pub fn lines(&self) -> &[NewOrderLine] {
        &self.lines[..usize::from(self.lines_count)]
    }
}

/// Customer as a terminal names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whom {
    /// Customer by number.
    Number(i32),
    /// Customer by last name: the middle one of those who have it.
    LastName(LastName),
}

/// Payment as it is entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PaymentInput {
    /// Terminal's warehouse.
    pub warehouse: i32,
    /// District of the warehouse.
    pub district: i32,
    /// Customer's warehouse: another one in 15 % of the cases.
    pub customer_warehouse: i32,
    /// Customer's district.
    pub customer_district: i32,
    /// Customer.
    pub customer: Whom,
    /// Amount in cents, 1.00 to 5,000.00.
    pub amount_cents: i64,
    /// Moment of the payment's entry, in microseconds since 1970.
    pub entered_us: i64,
}

/// Question for a customer's last order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderStatusInput {
    /// Terminal's warehouse.
    pub warehouse: i32,
    /// District of the warehouse.
    pub district: i32,
    /// Customer of the district.
    pub customer: Whom,
}

/// Request to deliver the oldest new order of each district.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeliveryInput {
    /// Terminal's warehouse.
    pub warehouse: i32,
    /// Number of the warehouse's districts, at most [`DISTRICTS_MAX`].
    pub districts: i32,
    /// Number of the carrier, 1 to 10.
    pub carrier: i32,
    /// Moment of the delivery, in microseconds since 1970.
    pub delivered_us: i64,
}

/// Question for the items that run out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StockLevelInput {
    /// Terminal's warehouse.
    pub warehouse: i32,
    /// Terminal's district.
    pub district: i32,
    /// Threshold of the stock, 10 to 20.
    pub threshold: i32,
}

/// Input of a transaction of any kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// Input of New-Order.
    NewOrder(NewOrderInput),
    /// Input of Payment.
    Payment(PaymentInput),
    /// Input of Order-Status.
    OrderStatus(OrderStatusInput),
    /// Input of Delivery.
    Delivery(DeliveryInput),
    /// Input of Stock-Level.
    StockLevel(StockLevelInput),
}

impl Input {
    /// Returns the kind of the transaction.
    pub const fn kind(&self) -> TransactionKind {
        match self {
            Input::NewOrder(_) => TransactionKind::NewOrder,
            Input::Payment(_) => TransactionKind::Payment,
            Input::OrderStatus(_) => TransactionKind::OrderStatus,
            Input::Delivery(_) => TransactionKind::Delivery,
            Input::StockLevel(_) => TransactionKind::StockLevel,
        }
    }
}

/// Generator of a terminal's random entries: the same seed gives the same ones.
#[derive(Clone, Debug)]
pub struct Inputs {
    random: Random,
    scale: Scale,
    constants: Constants,
    now_us: i64,
    deck: Option<Deck>,
}

/// Moment of the first entry, 2026-01-01; each next one is a millisecond later. A procedure reads no clock.
const FIRST_ENTRY_US: i64 = 1_767_225_600_000_000;
const ENTRY_STEP_US: i64 = 1_000;

impl Inputs {
    /// Creates the generator for `seed`. All terminals of a run share the constants of NURand (clause 2.1.6.1), so
    /// these depend on `run_seed`.
    pub fn new(scale: Scale, run_seed: u64, seed: u64) -> Inputs {
        let constants = Constants::of_run(&mut Random::new(run_seed), scale.customer_skew, scale.item_skew);
        Inputs {
            random: Random::new(seed ^ run_seed.rotate_left(32)),
            scale,
            constants,
            now_us: FIRST_ENTRY_US,
            deck: None,
        }
    }

    fn now_us(&mut self) -> i64 {
        self.now_us += ENTRY_STEP_US;
        self.now_us
    }

    /// Draws a warehouse, each with the same probability, for a terminal that belongs to none.
    pub fn warehouse(&mut self) -> i32 {
        self.random.uniform(1, self.scale.warehouses)
    }

    fn other_warehouse(&mut self, than: i32) -> i32 {
        match self.random.uniform(1, self.scale.warehouses - 1) {
            warehouse if warehouse < than => warehouse,
            warehouse => warehouse + 1,
        }
    }

    fn customer(&mut self) -> i32 {
        let Scale { customers, customer_skew, .. } = self.scale;
        self.random.nurand(customer_skew, self.constants.customer, 1, customers)
    }

    /// Draws a customer, by last name in 60 % of the cases.
    fn whom(&mut self) -> Whom {
        if self.random.percent(60) {
            let c = self.constants.last_name;
            Whom::LastName(last_name(self.random.nurand(LAST_NAME_SKEW, c, 0, self.scale.last_names() - 1)))
        } else {
            Whom::Number(self.customer())
        }
    }

    /// Returns the next entry at `warehouse`. A deck of cards, shuffled anew when it is used up (clause 5.2.4.2),
    /// decides the kind of transaction. Every call must pass the same mix.
    pub fn next(&mut self, mix: Mix, warehouse: i32) -> Input {
        let kind = match &mut self.deck {
            Some(deck) => deck.draw(&mut self.random),
            none => none.insert(Deck::new(mix)).draw(&mut self.random),
        };
        self.entry(kind, warehouse)
    }

    /// Returns an entry of this kind at `warehouse`.
    pub fn entry(&mut self, kind: TransactionKind, warehouse: i32) -> Input {
        match kind {
            TransactionKind::NewOrder => Input::NewOrder(self.new_order(warehouse)),
            TransactionKind::Payment => Input::Payment(self.payment(warehouse)),
            TransactionKind::OrderStatus => Input::OrderStatus(self.order_status(warehouse)),
            TransactionKind::Delivery => Input::Delivery(self.delivery(warehouse)),
            TransactionKind::StockLevel => Input::StockLevel(self.stock_level(warehouse)),
        }
    }

    /// Returns a question for the last order of a customer of `warehouse`, by last name in 60 % of the cases.
    pub fn order_status(&mut self, warehouse: i32) -> OrderStatusInput {
        let district = self.random.uniform(1, self.scale.districts);
        OrderStatusInput { warehouse, district, customer: self.whom() }
    }

    /// Returns a delivery for all districts of `warehouse` by one of ten carriers.
    pub fn delivery(&mut self, warehouse: i32) -> DeliveryInput {
        let carrier = self.random.uniform(1, 10);
        DeliveryInput { warehouse, districts: self.scale.districts, carrier, delivered_us: self.now_us() }
    }

    /// Returns a question for the stock below a threshold of 10 to 20. A terminal of the specification has a district
    /// of its own (clause 2.8.1.1); this one stands for all terminals of the warehouse, so it draws one.
    pub fn stock_level(&mut self, warehouse: i32) -> StockLevelInput {
        let district = self.random.uniform(1, self.scale.districts);
        StockLevelInput { warehouse, district, threshold: self.random.uniform(10, 20) }
    }

    /// Returns an order entered at `warehouse`: 5 to 15 lines, each from another warehouse in 1 % of the cases, and an
    /// item that does not exist at the end of 1 % of the orders.
    pub fn new_order(&mut self, warehouse: i32) -> NewOrderInput {
        let district = self.random.uniform(1, self.scale.districts);
        let customer = self.customer();
        let lines_count = self.random.uniform(5, 15) as usize;
        let rolls_back = self.random.percent(1);
        let mut lines = [NewOrderLine::default(); LINES_MAX];
        for line in &mut lines[..lines_count] {
            line.item = self.random.nurand(self.scale.item_skew, self.constants.item, 1, self.scale.items);
            let is_remote = self.random.percent(1) && 1 < self.scale.warehouses;
            line.supply_warehouse = if is_remote { self.other_warehouse(warehouse) } else { warehouse };
            line.quantity = self.random.uniform(1, 10);
        }
        if rolls_back {
            lines[lines_count - 1].item = self.scale.items + 1;
        }
        let entered_us = self.now_us();
        NewOrderInput::new(warehouse, district, customer, entered_us, &lines[..lines_count])
    }

    /// Returns a payment entered at `warehouse`: of a customer of another one in 15 % of the cases, by last name in 60
    /// %.
    pub fn payment(&mut self, warehouse: i32) -> PaymentInput {
        let district = self.random.uniform(1, self.scale.districts);
        let is_remote = !self.random.percent(85) && 1 < self.scale.warehouses;
        let (customer_warehouse, customer_district) = if is_remote {
            (self.other_warehouse(warehouse), self.random.uniform(1, self.scale.districts))
        } else {
            (warehouse, district)
        };
        let customer = self.whom();
        let amount_cents = i64::from(self.random.uniform(100, 500_000));
        let entered_us = self.now_us();
        PaymentInput { warehouse, district, customer_warehouse, customer_district, customer, amount_cents, entered_us }
    }
}
