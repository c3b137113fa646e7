//! The kinds of transactions, and their shares in a mix.
//!
//! **Invariant:** a deck gives exactly its shares each time it has been dealt once, in an order that only its random
//! numbers decide (clause 5.2.4.2).

use super::random::Random;

/// Kind of transaction of the specification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TransactionKind {
    /// Clause 2.4.
    NewOrder,
    /// Clause 2.5.
    Payment,
    /// Clause 2.6.
    OrderStatus,
    /// Clause 2.7.
    Delivery,
    /// Clause 2.8.
    StockLevel,
}

impl TransactionKind {
    /// Every kind.
    pub const ALL: [TransactionKind; 5] = [
        TransactionKind::NewOrder,
        TransactionKind::Payment,
        TransactionKind::OrderStatus,
        TransactionKind::Delivery,
        TransactionKind::StockLevel,
    ];

    /// Returns the kind's name in the specification.
    pub const fn name(self) -> &'static str {
        match self {
            TransactionKind::NewOrder => "New-Order",
            TransactionKind::Payment => "Payment",
            TransactionKind::OrderStatus => "Order-Status",
            TransactionKind::Delivery => "Delivery",
            TransactionKind::StockLevel => "Stock-Level",
        }
    }
}

/// Mix of transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mix {
    /// New-Order alone.
    NewOrder,
    /// New-Order and Payment, half and half.
    NewOrderPayment,
    /// Every kind: 45, 43, 4, 4 and 4 in a hundred. The specification's least shares are 43 % for Payment and 4 % for
    /// each of the last three (clause 5.2.3).
    Standard,
    /// Every kind: 43, 43, 4, 5 and 5 in a hundred, so that orders are delivered as fast as they are entered (ten by
    /// each Delivery). With the least shares one order in nine is never delivered, and no purge may delete it.
    Steady,
}

impl Mix {
    /// Returns the share of this kind, in percent.
    pub const fn percent(self, kind: TransactionKind) -> usize {
        match (self, kind) {
            (Mix::NewOrder, TransactionKind::NewOrder) => 100,
            (Mix::NewOrderPayment, TransactionKind::NewOrder | TransactionKind::Payment) => 50,
            (Mix::NewOrder | Mix::NewOrderPayment, _) => 0,
            (Mix::Standard, TransactionKind::NewOrder) => 45,
            (Mix::Standard, TransactionKind::Payment) => 43,
            (Mix::Standard, _) | (Mix::Steady, TransactionKind::OrderStatus) => 4,
            (Mix::Steady, TransactionKind::NewOrder | TransactionKind::Payment) => 43,
            (Mix::Steady, _) => 5,
        }
    }
}

const CARDS: usize = 100;

/// Deck with a card for each hundredth.
#[derive(Clone, Debug)]
pub(crate) struct Deck {
    cards: [TransactionKind; CARDS],
    dealt: usize,
}

impl Deck {
    pub(crate) fn new(mix: Mix) -> Deck {
        let mut kinds = TransactionKind::ALL.into_iter().flat_map(|kind| std::iter::repeat_n(kind, mix.percent(kind)));
        Deck { cards: std::array::from_fn(|_| kinds.next().expect("a hundred in a hundred")), dealt: CARDS }
    }

    #[inline]
    pub(crate) fn draw(&mut self, random: &mut Random) -> TransactionKind {
        if self.dealt == CARDS {
            self.dealt = 0;
            random.shuffle(&mut self.cards);
        }
        self.dealt += 1;
        self.cards[self.dealt - 1]
    }
}
