//! Library for stored procedures in Rust.
//!
//! [`module!`] lists the tables and statements that the code uses, and the entries that SQL can call. One source is
//! compiled to WebAssembly (`cargo build --target wasm32-unknown-unknown`) and to an executable (`cargo build`), so the
//! same code runs at every level of isolation.
//!
//! ```
//! use guest::{Call, Decimal, Error, Result, module};
//!
//! module! {
//!     tables { ACCOUNT: "account" (id, balance); }
//!     statements { AUDIT: "INSERT INTO audit VALUES ($1, $2)"; }
//!     entries { withdraw; }
//! }
//!
//! fn withdraw(call: &mut Call) -> Result<Decimal> {
//!     let (id, amount) = call.arguments::<(i64, Decimal)>()?;
//!     let row = call.get_for_update(ACCOUNT, id)?.ok_or_else(|| Error::new("P0002", "no such account"))?;
//!     let balance = row.get::<Decimal>(1)? - amount;
//!     if balance < Decimal::ZERO {
//!         return Err(Error::new("P0001", "the balance is too low"));
//!     }
//!     let mut batch = call.batch();
//!     batch.put(ACCOUNT, (id, balance));
//!     batch.execute(AUDIT, (id, amount));
//!     batch.run()?;
//!     Ok(balance)
//! }
//! ```
//!
//! Each use of [`Call`] leaves the code and enters the database, which is the main cost of stored code outside of the
//! server. A [`Batch`] makes many calls at once.
//!
//! **Invariant:** the first error of a call ends the invocation. The code may clean up, but none of its later calls
//! reaches the database.
//!
//! # Layers
//!
//! Bottom up; a module uses its own layer and those above it in this list.
//!
//! - errors: `error`
//! - values and rows, which are read where their bytes are: `bytes`, `decimal`, `row`, `value`
//! - calls of the database; a cursor fetches by a call, and a batch makes many: `call`, `cursor`, `batch`
//! - entries: `module`
//! - memory shared with the server: `shared`
//! - WebAssembly and executables: `heap`, `wasm`, `worker`

mod batch;
mod bytes;
mod call;
mod cursor;
mod decimal;
mod error;
#[cfg(target_arch = "wasm32")]
mod heap;
pub mod module;
mod row;
#[cfg(target_os = "linux")]
mod shared;
mod value;
pub mod wasm;
#[cfg(target_os = "linux")]
mod worker;

pub use batch::{Answers, Batch, FromAnswer, Later};
pub use bytes::AREA_BYTES;
pub use call::{Call, Executed, Host, NoticeLevel, Queried, Statement, Table};
pub use cursor::{Cursor, CursorRows};
pub use decimal::Decimal;
pub use error::{Error, Result};
pub use row::{FromRow, IntoRow, Row, ValueSink};
pub use value::{Array, Date, FromValue, Time, Timestamp, Uuid, Value};
#[cfg(target_os = "linux")]
pub use worker::worker;
