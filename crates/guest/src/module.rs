//! Modules: entries, and how the server runs them.

use crate::bytes::{Message, Reader, put_raise};
use crate::call::{Call, Host};
use crate::error::{Error, Result};
use crate::row::{IntoRow, Row, Rows, put_single};
use std::sync::Arc;

/// Module of stored code. [`module!`](crate::module!) implements it.
pub trait Module {
    /// Text of the manifest.
    const MANIFEST: &'static str;

    /// Runs an entry.
    ///
    /// # Errors
    /// Those of the entry; `39000` for an entry that does not exist.
    fn run(entry: u32, invocation: &mut Invocation<'_>) -> Result<()>;
}

/// Invocation of an entry, for one or more rows of arguments.
#[derive(Debug)]
pub struct Invocation<'h> {
    call: Call<'h>,
    arguments: Arguments,
    result: Rows,
    /// True if `call.request` holds the result.
    is_written: bool,
}

/// Rows of arguments in the message that has brought them.
#[derive(Debug)]
pub(crate) struct Arguments {
    message: Arc<[u8]>,
    count: u32,
    columns: u16,
    begin: usize,
}

impl Arguments {
    /// Reads the head of the rows.
    ///
    /// # Errors
    /// `39000`
    pub(crate) fn read(bytes: &[u8]) -> Result<Arguments> {
        let mut reader = Reader::new(bytes);
        let (count, columns) = (reader.u32()?, reader.u16()?);
        Ok(Arguments { message: Arc::from(bytes), count, columns, begin: bytes.len() - reader.rest().len() })
    }

    /// Returns the only row, if there is one. Nothing is behind it, so its end need not be found.
    #[inline]
    fn single(&self) -> Option<Row> {
        (self.count == 1).then(|| Row::within(&self.message, self.begin, self.columns).into_arguments())
    }

    fn rows(&self) -> Result<Vec<Row>> {
        let rows = Message::from(&self.message, self.begin).rows_of(self.count, self.columns)?;
        Ok(rows.into_iter().map(Row::into_arguments).collect())
    }
}

impl Invocation<'_> {
    /// Calls the entry for each row of arguments.
    ///
    /// # Errors
    /// Those of the entry.
    pub fn each<R: IntoRow>(&mut self, entry: impl Fn(&mut Call<'_>) -> Result<R>) -> Result<()> {
        if let Some(row) = self.arguments.single() {
            self.call.arguments = row;
            let row = entry(&mut self.call)?;
            // Emitted rows that are not sent yet go first.
            if self.call.emitted().is_empty() {
                self.is_written = put_single(row, &mut self.call.request)?;
                return Ok(());
            }
            return self.result.push(row);
        }
        for row in self.arguments.rows()? {
            self.call.arguments = row;
            let row = entry(&mut self.call)?;
            self.result.push(row)?;
        }
        Ok(())
    }

    /// Calls the entry once, with all rows of arguments. It returns as many.
    ///
    /// # Errors
    /// Those of the entry.
    pub fn whole<R: IntoRow>(&mut self, entry: impl Fn(&mut Call<'_>, &[Row]) -> Result<Vec<R>>) -> Result<()> {
        let rows = self.arguments.rows()?;
        entry(&mut self.call, &rows)?.into_iter().try_for_each(|row| self.result.push(row))
    }

    /// Returns the bytes of the result.
    fn finish(mut self) -> Result<Vec<u8>> {
        if self.is_written {
            return Ok(self.call.request);
        }
        // Emitted rows that are not sent yet need no call if the entry has no other result.
        let rows = match self.result.is_empty() {
            true => std::mem::take(self.call.emitted()),
            false => {
                self.call.flush()?;
                self.result
            }
        };
        // No request needs the room any more.
        let mut bytes = self.call.request;
        bytes.clear();
        rows.put(&mut bytes)?;
        Ok(bytes)
    }
}

/// Returns the error for a number that is no entry's.
///
/// # Errors
/// Always.
pub fn no_entry(entry: u32) -> Result<()> {
    Err(Error::new("39000", format!("the module has no entry {entry}")))
}

/// Runs an entry with these rows of arguments. Returns the bytes of the result.
///
/// # Errors
/// Those of the entry, after the database knows them.
pub(crate) fn invoke<M: Module>(host: &mut dyn Host, entry: u32, arguments: Result<Arguments>) -> Result<Vec<u8>> {
    let error = match arguments.and_then(|arguments| invoke_unraised::<M>(host, entry, arguments)) {
        Ok(result) => return Ok(result),
        Err(error) => error,
    };
    raise(host, &error)?;
    Err(error)
}

/// Tells the database an error that it does not know.
pub(crate) fn raise(host: &mut dyn Host, error: &Error) -> Result<()> {
    if let Some(raised) = error.raised() {
        let mut request = Vec::new();
        put_raise(raised, &mut request);
        host.exchange(&request)?;
    }
    Ok(())
}

fn invoke_unraised<M: Module>(host: &mut dyn Host, entry: u32, arguments: Arguments) -> Result<Vec<u8>> {
    let mut invocation = Invocation { call: Call::new(host), arguments, result: Rows::default(), is_written: false };
    M::run(entry, &mut invocation)?;
    invocation.finish()
}

/// Returns true for a text that fits a line of a manifest.
pub const fn is_line(text: &str) -> bool {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at] == b'\n' {
            return false;
        }
        at += 1;
    }
    !bytes.is_empty()
}

/// Defines a module: the tables and statements that it uses, and its entries.
///
/// ```
/// # use guest::{Call, Result, Row, module};
/// module! {
///     // A constant for each table, with the columns that rows consist of; `put` sends all of them.
///     tables { DISTRICT: "tpcc.district" (d_w_id, d_id, d_tax, d_next_o_id); }
///     // A constant for each statement, a text of one line.
///     statements { AUDIT: "INSERT INTO audit VALUES ($1, $2)"; }
///     // A function for each entry. One with `(rows)` gets all rows of a batch at once.
///     entries { next_order; tax(rows); }
/// }
///
/// fn next_order(call: &mut Call) -> Result<i64> {
///     let (warehouse, district) = call.arguments::<(i32, i32)>()?;
///     let row = call.get_for_update(DISTRICT, (warehouse, district))?.unwrap_or_default();
///     row.get(3)
/// }
///
/// fn tax(_call: &mut Call, rows: &[Row]) -> Result<Vec<f64>> {
///     rows.iter().map(|row| Ok(row.get::<f64>(0)? * 0.2)).collect()
/// }
/// ```
///
/// The macro also defines `main` and what the server needs to find the entries, so it stands in `main.rs`. The parts
/// `tables` and `statements` may be missing.
#[macro_export]
macro_rules! module {
    (
        $(tables { $($table:ident : $relation:literal ($first:tt $(, $column:tt)* $(,)?);)* })?
        $(statements { $($statement:ident : $text:literal;)* })?
        entries { $($entry:ident $(($mode:ident))?;)* }
    ) => {
        #[allow(non_camel_case_types, clippy::upper_case_acronyms, dead_code, reason = "numbers of names")]
        enum OvertakeTable { $($($table,)*)? }

        #[allow(non_camel_case_types, clippy::upper_case_acronyms, dead_code, reason = "numbers of names")]
        enum OvertakeStatement { $($($statement,)*)? }

        #[allow(non_camel_case_types, dead_code, reason = "numbers of names")]
        enum OvertakeEntry { $($entry,)* }

        $($(
            #[allow(dead_code, reason = "the code may reach it by SQL alone")]
            const $table: $crate::Table = $crate::Table::numbered(
                OvertakeTable::$table as u16,
                [stringify!($first) $(, stringify!($column))*].len() as u16,
            );
        )*)?

        $($(
            const _: () = assert!($crate::module::is_line($text), "a statement is a text of one line");
            #[allow(dead_code, reason = "a statement may wait for the code that uses it")]
            const $statement: $crate::Statement = $crate::Statement::numbered(OvertakeStatement::$statement as u16);
        )*)?

        struct OvertakeModule;

        impl $crate::module::Module for OvertakeModule {
            const MANIFEST: &'static str = concat!(
                "overtake 1\n",
                $($(
                    "table ", stringify!($table), " ", $relation,
                    " (", stringify!($first), $(", ", stringify!($column),)* ")\n",
                )*)?
                $($("statement ", stringify!($statement), " ", $text, "\n",)*)?
                $("entry ", stringify!($entry), "\n",)*
            );

            fn run(entry: u32, invocation: &mut $crate::module::Invocation<'_>) -> $crate::Result<()> {
                $(
                    if entry == OvertakeEntry::$entry as u32 {
                        return $crate::run_entry!(invocation $entry $($mode)?);
                    }
                )*
                $crate::module::no_entry(entry)
            }
        }

        $crate::exports!(OvertakeModule);
    };
}

/// Part of [`module!`](crate::module!).
#[doc(hidden)]
#[macro_export]
macro_rules! run_entry {
    ($invocation:ident $entry:ident) => {
        $invocation.each($entry)
    };
    ($invocation:ident $entry:ident rows) => {
        $invocation.whole($entry)
    };
}
