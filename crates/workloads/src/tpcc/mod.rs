//! TPC-C (revision 5.11): nine tables, the five transactions, the consistency conditions, and a purge of orders
//! delivered long ago, which lets the load run for ever.
//!
//! **Invariant: a procedure is a function of its input.** It reads no clock and draws no random number, so the same
//! inputs in the same order give the same tables, under any policy; and it keeps the rules of urgent contexts, so it
//! may interrupt a query anywhere.
//!
//! - [`TpccTables`], `columns`: the schema; the tables' names begin with `tpcc.`, because TPC-H has a `customer` too;
//! - [`Scale`], [`load()`]: the amount of data, and the initial population (clause 4.3);
//! - [`Inputs`], [`Mix`]: the terminals' entries, and the shares of the transactions;
//! - [`new_order()`], [`payment()`], [`order_status()`], [`delivery()`], [`stock_level()`]: the procedures;
//!   [`execute()`], [`attempt()`], [`run()`], [`try_run()`]: any of them;
//! - [`Statements`]: New-Order and Payment as a client sends them, one statement after the other;
//! - [`Purge`]: deletes delivered orders behind a window, and keeps the sums that the conditions need;
//! - [`check()`]: the consistency conditions; [`digest()`]: all rows in one number;
//! - [`drive()`]: a closed loop of terminals on threads of its own.

mod check;
pub mod columns;
mod customer;
mod delivery;
mod digest;
mod drive;
mod input;
mod load;
mod mix;
mod new_order;
mod order_status;
mod payment;
mod purge;
mod random;
mod scale;
mod schema;
mod statements;
mod stock_level;
mod stored;
mod transaction;

pub use check::{Violation, check, check_loaded, check_while};
pub use delivery::{DeliveryOutput, delivery};
pub use digest::digest;
pub use drive::{DriveConfig, DriveReport, KindReport, drive, drive_while};
pub use input::{
    DISTRICTS_MAX, DeliveryInput, Input, Inputs, LINES_MAX, NewOrderInput, NewOrderLine, OrderStatusInput,
    PaymentInput, StockLevelInput, Whom,
};
pub use load::{LoadProgress, load};
pub use mix::{Mix, TransactionKind};
pub use new_order::{NewOrderOutput, new_order};
pub use order_status::{OrderStatusLine, OrderStatusOutput, order_status};
pub use payment::{PaymentOutput, payment};
pub use purge::{Purge, PurgeConfig, PurgeStep, Purged};
pub use random::{LastName, Random};
pub use scale::Scale;
pub use schema::{PurgeTables, TpccTables};
pub use statements::Statements;
pub use stock_level::stock_level;
pub use stored::TpccModule;
pub use transaction::{
    ProcedureOutcome, attempt, attempt_new_order, attempt_payment, execute, run, run_new_order, run_payment, try_run,
};

#[cfg(test)]
mod tests;
