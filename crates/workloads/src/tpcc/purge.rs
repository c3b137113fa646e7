//! The purge: deletes delivered orders behind a window, and payments likewise, so that TPC-C runs for ever in tables of
//! bounded size.
//!
//! **Invariant:** a transaction of the purge adds the rows that it deletes, in the same transaction, to the sums in
//! [`PurgeTables`](super::PurgeTables); rows there plus sums equal the rows that would be there without a purge.
//!
//! Of a district, the newest delivered orders stay, at least the twenty that Stock-Level looks at; new orders stay, and
//! so does *each customer's last order*, for which Order-Status asks. An order that stays for this reason goes when a
//! later order of its customer falls behind the window, so behind it there is at most one order per customer. The row
//! of [`PurgeTables::district`](super::PurgeTables) that records the progress of the purge is also its lock.
//!
//! Payments have no key. The purge sweeps over their row IDs, again and again, and deletes those older than a moment
//! that it estimated in the sweep before, from a sample, such that about as many payments stay as orders.

use super::columns::{
    district as d, history as h, new_order as no, order_line as ol, orders as o, purged_customer as pc,
    purged_district as pd, purged_supply as ps,
};
use super::schema::{BY_CUSTOMER, PRIMARY, existing};
use super::stock_level::LAST_ORDERS;
use super::{Scale, TpccTables};
use engine::{Begin, Direction, Engine, Error, Result, Row, RowId, Txn, Value};
use stage::Class;

/// Amount of data that a purge keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PurgeConfig {
    /// Number of newest delivered orders of each district that stay, 20 at least; about as many payments stay.
    pub orders_kept: i32,
}

impl Default for PurgeConfig {
    /// Keeps a third of the initial population.
    fn default() -> PurgeConfig {
        PurgeConfig { orders_kept: 1_000 }
    }
}

/// Number of rows that one transaction of the purge deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Purged {
    /// Number of orders.
    pub orders: u64,
    /// Number of the orders' lines.
    pub lines: u64,
    /// Number of payments.
    pub payments: u64,
}

impl Purged {
    /// Adds the numbers of another transaction.
    pub fn add(&mut self, other: Purged) {
        self.orders += other.orders;
        self.lines += other.lines;
        self.payments += other.payments;
    }
}

/// Purge of all warehouses. One at a time is enough; several do no harm.
pub struct Purge {
    scale: Scale,
    config: PurgeConfig,
    /// District whose turn it is, counted over all warehouses.
    turn: i32,
    sweep: Sweep,
}

/// Pass over the row IDs of payments.
#[derive(Default)]
struct Sweep {
    next_row: u64,
    /// Moment before which payments are deleted.
    before_us: Option<i64>,
    /// Number of payments met that stay.
    stay: u64,
    /// Moments of some of those.
    sample: Vec<i64>,
}

/// Result of one transaction of the purge, to be given to [`Purge::advance`] when it has committed.
#[derive(Debug, Default)]
pub struct PurgeStep {
    /// Rows deleted.
    pub purged: Purged,
    next_row: u64,
    stay: u64,
    sample: Vec<i64>,
}

/// Number of orders looked at in one transaction.
const ORDERS_PER_STEP: i32 = 8;
/// Number of row IDs of payments looked at in one transaction, and again for each order deleted: in step with the
/// orders, a sweep passes several IDs for each new payment.
const PAYMENTS_PER_STEP: u64 = 32;
const PAYMENTS_PER_ORDER: u64 = 4;
/// Interval of the sample: one in this many of the payments that stay.
const SAMPLED: u64 = 16;
/// Number of rows of sums inserted in one transaction.
const CHUNK_ROWS: usize = 1_000;

impl Purge {
    /// Creates a purge, and the rows of the sums if no purge has run before.
    ///
    /// # Errors
    /// Errors of the engine.
    ///
    /// # Panics
    /// If fewer than 20 orders shall stay.
    pub fn new(engine: &Engine, tables: &TpccTables, scale: Scale, config: PurgeConfig) -> Result<Purge> {
        assert!(LAST_ORDERS <= config.orders_kept, "Stock-Level looks at the last 20 orders of a district");
        let begin = Begin::new(Class::Normal);
        let is_prepared = engine.try_begin(begin)?.get(&tables.purged.supply, PRIMARY, &[Value::Int32(1)])?.is_some();
        if !is_prepared {
            prepare(engine, tables, scale)?;
        }
        Ok(Purge { scale, config, turn: 0, sweep: Sweep::default() })
    }

    /// Runs one transaction of the purge and commits it.
    ///
    /// # Errors
    /// Errors of the engine; after a [retryable](Error::is_retryable) one nothing has happened.
    pub fn attempt(&mut self, engine: &Engine, begin: Begin, tables: &TpccTables) -> Result<Purged> {
        let txn = engine.try_begin(begin)?;
        let step = self.step(&txn, tables)?;
        txn.commit()?;
        Ok(self.advance(step))
    }

    /// Returns the number of districts of all warehouses: after this many steps each had its turn.
    pub fn steps_per_round(&self) -> usize {
        (self.scale.warehouses * self.scale.districts) as usize
    }

    /// Deletes some rows; the caller commits the transaction.
    ///
    /// # Errors
    /// Errors of the engine.
    pub fn step(&self, txn: &Txn<'_>, tables: &TpccTables) -> Result<PurgeStep> {
        let place = (self.turn / self.scale.districts + 1, self.turn % self.scale.districts + 1);
        let mut sums = DeletedSums::default();
        let mut step = PurgeStep { next_row: self.sweep.next_row, ..PurgeStep::default() };
        self.orders(txn, tables, place, &mut step, &mut sums)?;
        self.payments(txn, tables, &mut step, &mut sums)?;
        sums.store(txn, tables)?;
        Ok(step)
    }

    /// Moves the purge on after a step whose transaction has committed.
    pub fn advance(&mut self, step: PurgeStep) -> Purged {
        self.turn = (self.turn + 1) % (self.scale.warehouses * self.scale.districts);
        let PurgeStep { purged, next_row, stay, sample } = step;
        self.sweep.stay += stay;
        self.sweep.sample.extend(sample);
        self.sweep.next_row = next_row;
        if next_row == 0 {
            let districts = self.scale.warehouses as u64 * self.scale.districts as u64;
            self.sweep = core::mem::take(&mut self.sweep).ended(districts * self.config.orders_kept as u64);
        }
        purged
    }

    /// Deletes orders of one district.
    fn orders(
        &self,
        txn: &Txn<'_>,
        tables: &TpccTables,
        (warehouse, district): (i32, i32),
        step: &mut PurgeStep,
        sums: &mut DeletedSums,
    ) -> Result<()> {
        use Value::Int32;
        let place = [Int32(warehouse), Int32(district)];
        let progress = existing(txn.get(&tables.purged.district, PRIMARY, &place)?, &tables.purged.district)?;
        let first = progress.get_i32(pd::PD_NEXT_O_ID);
        let first_new = txn.range(&tables.new_order, PRIMARY, &place, Direction::Forward)?.next();
        let first_new = match first_new {
            Some(row) => row.get_i32(no::NO_O_ID),
            None => existing(txn.get(&tables.district, PRIMARY, &place)?, &tables.district)?.get_i32(d::D_NEXT_O_ID),
        };
        let end = first_new.saturating_sub(self.config.orders_kept).min(first + ORDERS_PER_STEP);
        if end <= first {
            return Ok(());
        }
        let mut found = 0;
        txn.update(&tables.purged.district, progress.row_id(), |row| {
            found = row.get_i32(pd::PD_NEXT_O_ID);
            row.set_i32(pd::PD_NEXT_O_ID, end);
        })?;
        if found != first {
            // Another purge has been here after the snapshot.
            let table = tables.purged.district.name().to_owned();
            return Err(Error::WriteConflict { table, is_deleted: false });
        }
        let keys: Vec<_> = (first..end).map(|order| [place[0], place[1], Int32(order)]).collect();
        let mut rows = Vec::with_capacity(keys.len());
        txn.get_many(&tables.orders, PRIMARY, &keys, &mut rows)?;
        let mut orders = 0;
        for order in rows.into_iter().flatten() {
            let (number, customer) = (order.get_i32(o::O_ID), order.get_i32(o::O_C_ID));
            let key = [place[0], place[1], Int32(customer)];
            // The customer's orders up to this one, without the last.
            let of_customer = txn.range(&tables.orders, BY_CUSTOMER, &key, Direction::Backward)?.skip(1);
            for old in of_customer.filter(|old| old.get_i32(o::O_ID) <= number) {
                step.purged.lines += self.order(txn, tables, old, sums)?;
                orders += 1;
            }
        }
        step.purged.orders += orders;
        sums.districts.push(((warehouse, district), DistrictSum { orders: orders as i64, paid: 0 }));
        Ok(())
    }

    /// Deletes an order and its lines, and returns the number of lines.
    fn order(&self, txn: &Txn<'_>, tables: &TpccTables, order: Row<'_>, sums: &mut DeletedSums) -> Result<u64> {
        use Value::Int32;
        let key = [o::O_W_ID, o::O_D_ID, o::O_ID].map(|column| order.get_i32(column));
        let [warehouse, district, number] = key;
        let mut lines_count = 0;
        let mut delivered = 0;
        for line in txn.range(&tables.order_line, PRIMARY, &key.map(Int32), Direction::Forward)?.read_ahead() {
            delivered += line.get_decimal_i64(ol::OL_AMOUNT);
            // The lines of the initial population were taken from no stock.
            if self.scale.customers < number {
                let supply = line.get_i32(ol::OL_SUPPLY_W_ID);
                let sold = Sold::new(
                    line.get_i32(ol::OL_I_ID).into(),
                    line.get_i32(ol::OL_QUANTITY).into(),
                    1,
                    i64::from(supply != warehouse),
                );
                sums.supplies.push((supply, sold));
            }
            txn.delete(&tables.order_line, line.row_id())?;
            lines_count += 1;
        }
        txn.delete(&tables.orders, order.row_id())?;
        let customer = order.get_i32(o::O_C_ID);
        sums.customers.push(((warehouse, district, customer), CustomerSum { delivered, ..CustomerSum::default() }));
        Ok(lines_count)
    }

    /// Sweeps over some payments.
    fn payments(&self, txn: &Txn<'_>, tables: &TpccTables, step: &mut PurgeStep, sums: &mut DeletedSums) -> Result<()> {
        let end = tables.history.rows_bound();
        let to = self.sweep.next_row + PAYMENTS_PER_STEP + PAYMENTS_PER_ORDER * step.purged.orders;
        for row in self.sweep.next_row..to.min(end) {
            let Some(row) = txn.get_row(&tables.history, RowId(row))? else { continue };
            let paid_us = row.get_timestamp(h::H_DATE);
            if self.sweep.before_us.is_none_or(|before_us| before_us <= paid_us) {
                if (self.sweep.stay + step.stay).is_multiple_of(SAMPLED) {
                    step.sample.push(paid_us);
                }
                step.stay += 1;
                continue;
            }
            match txn.delete(&tables.history, row.row_id()) {
                Ok(()) => {}
                // Another purge took the row after the snapshot.
                Err(Error::NoSuchRow { .. }) => continue,
                Err(error) => return Err(error),
            }
            step.purged.payments += 1;
            let paid = row.get_decimal_i64(h::H_AMOUNT);
            let place = (row.get_i32(h::H_W_ID), row.get_i32(h::H_D_ID));
            sums.districts.push((place, DistrictSum { orders: 0, paid }));
            let customer = (row.get_i32(h::H_C_W_ID), row.get_i32(h::H_C_D_ID), row.get_i32(h::H_C_ID));
            sums.customers.push((customer, CustomerSum { delivered: 0, paid, payments: 1 }));
        }
        step.next_row = if to < end { to } else { 0 };
        Ok(())
    }
}

impl Sweep {
    /// Returns the next sweep, which shall leave about `kept` payments.
    fn ended(mut self, kept: u64) -> Sweep {
        self.sample.sort_unstable();
        let excess = self.stay.saturating_sub(kept);
        let at = (excess / SAMPLED) as usize;
        let before_us = if at == 0 { None } else { self.sample.get(at).copied() };
        self.sample.clear();
        Sweep { next_row: 0, before_us, stay: 0, sample: self.sample }
    }
}

/// Sales of one supplying warehouse. Marks are the same sums with each item's own factor: they tell whether the items
/// are the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sold {
    pub(crate) quantity: i64,
    pub(crate) lines: i64,
    pub(crate) remote_lines: i64,
    pub(crate) marks: [i64; 3],
}

impl Sold {
    pub(crate) fn new(item: i64, quantity: i64, lines: i64, remote_lines: i64) -> Sold {
        let factor = (item as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let factor = (factor ^ (factor >> 29)) as i64;
        let marks = [quantity, lines, remote_lines].map(|count| count.wrapping_mul(factor));
        Sold { quantity, lines, remote_lines, marks }
    }

    /// Returns all marks in one number.
    pub(crate) fn mark(&self) -> i64 {
        self.marks.iter().fold(0, |all, mark| all.rotate_left(21) ^ mark)
    }

    pub(crate) fn add(&mut self, other: &Sold) {
        self.quantity += other.quantity;
        self.lines += other.lines;
        self.remote_lines += other.remote_lines;
        for (mark, more) in self.marks.iter_mut().zip(other.marks) {
            *mark = mark.wrapping_add(more);
        }
    }
}

#[derive(Clone, Copy, Default)]
struct CustomerSum {
    delivered: i64,
    paid: i64,
    payments: i64,
}

#[derive(Clone, Copy, Default)]
struct DistrictSum {
    orders: i64,
    paid: i64,
}

/// Sums of the rows that a transaction deleted, to be added to the rows of the sums.
#[derive(Default)]
struct DeletedSums {
    districts: Vec<((i32, i32), DistrictSum)>,
    customers: Vec<((i32, i32, i32), CustomerSum)>,
    supplies: Vec<(i32, Sold)>,
}

/// Adds up the sums of each key, in the order of keys: all transactions change the rows in one order.
fn merged<K: Ord + Copy, S: Copy>(mut sums: Vec<(K, S)>, add: impl Fn(&mut S, &S)) -> Vec<(K, S)> {
    sums.sort_unstable_by_key(|(key, _)| *key);
    sums.dedup_by(|(key, sum), (kept_key, kept)| {
        let is_same = key == kept_key;
        if is_same {
            add(kept, sum);
        }
        is_same
    });
    sums
}

impl DeletedSums {
    fn store(self, txn: &Txn<'_>, tables: &TpccTables) -> Result<()> {
        use Value::Int32;
        let purged = &tables.purged;
        // Customers, then districts, then warehouses, each in the order of keys: two purges never deadlock.
        let customers = merged(self.customers, |sum, more| {
            sum.delivered += more.delivered;
            sum.paid += more.paid;
            sum.payments += more.payments;
        });
        let keys: Vec<_> = customers.iter().map(|((w, d, id), _)| [Int32(*w), Int32(*d), Int32(*id)]).collect();
        let mut rows = Vec::with_capacity(keys.len());
        txn.get_many(&purged.customer, PRIMARY, &keys, &mut rows)?;
        for (row, (_, sum)) in rows.into_iter().zip(&customers) {
            txn.update(&purged.customer, existing(row, &purged.customer)?.row_id(), |row| {
                row.set_decimal_i64(pc::PC_DELIVERED, row.get_decimal_i64(pc::PC_DELIVERED) + sum.delivered);
                row.set_decimal_i64(pc::PC_PAID, row.get_decimal_i64(pc::PC_PAID) + sum.paid);
                row.set_i64(pc::PC_PAYMENTS, row.get_i64(pc::PC_PAYMENTS) + sum.payments);
            })?;
        }
        let districts = merged(self.districts, |sum, more| {
            sum.orders += more.orders;
            sum.paid += more.paid;
        });
        for ((w, d), sum) in &districts {
            let row = existing(txn.get(&purged.district, PRIMARY, &[Int32(*w), Int32(*d)])?, &purged.district)?;
            txn.update(&purged.district, row.row_id(), |row| {
                row.set_i64(pd::PD_ORDERS, row.get_i64(pd::PD_ORDERS) + sum.orders);
                row.set_decimal_i64(pd::PD_PAID, row.get_decimal_i64(pd::PD_PAID) + sum.paid);
            })?;
        }
        for (w, sum) in &merged(self.supplies, Sold::add) {
            let row = existing(txn.get(&purged.supply, PRIMARY, &[Int32(*w)])?, &purged.supply)?;
            txn.update(&purged.supply, row.row_id(), |row| {
                let marks = [ps::PS_QUANTITY_MARK, ps::PS_LINES_MARK, ps::PS_REMOTE_LINES_MARK];
                let counts = [ps::PS_QUANTITY, ps::PS_LINES, ps::PS_REMOTE_LINES];
                let more = [sum.quantity, sum.lines, sum.remote_lines];
                for (column, more) in counts.into_iter().chain(marks).zip(more.into_iter().chain(sum.marks)) {
                    row.set_i64(column, row.get_i64(column).wrapping_add(more));
                }
            })?;
        }
        Ok(())
    }
}

/// Inserts the rows of the sums, all zero. The row that tells that the others exist comes last.
fn prepare(engine: &Engine, tables: &TpccTables, scale: Scale) -> Result<()> {
    use Value::{Decimal, Int32, Int64};
    let zero = [Decimal(0), Int64(0)];
    let insert = |fill: &mut dyn FnMut(&Txn<'_>) -> Result<()>| {
        let txn = engine.try_begin(Begin::new(Class::Normal))?;
        fill(&txn)?;
        txn.commit().map(drop)
    };
    for w in (1..=scale.warehouses).rev() {
        for d in 1..=scale.districts {
            let ids: Vec<i32> = (1..=scale.customers).collect();
            for ids in ids.chunks(CHUNK_ROWS) {
                let rows: Vec<_> =
                    ids.iter().map(|id| [Int32(w), Int32(d), Int32(*id), zero[0], zero[0], zero[1]]).collect();
                insert(&mut |txn| txn.insert_many(&tables.purged.customer, &rows))?;
            }
            let row = [Int32(w), Int32(d), Int32(1), zero[1], zero[0]];
            insert(&mut |txn| txn.insert(&tables.purged.district, &row).map(drop))?;
        }
        let row = [Int32(w), zero[1], zero[1], zero[1], zero[1], zero[1], zero[1]];
        insert(&mut |txn| txn.insert(&tables.purged.supply, &row).map(drop))?;
    }
    Ok(())
}
