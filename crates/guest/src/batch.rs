//! Batches of calls.

use crate::bytes::{Message, Reader};
use crate::call::{
    Call, Executed, NoticeLevel, Queried, Statement, Table, put_delete, put_execute, put_get, put_notice, put_put,
    put_query, put_scan, read_executed, read_get, read_queried,
};
use crate::cursor::Cursor;
use crate::error::{Error, Result};
use crate::row::{IntoRow, Row};
use std::marker::PhantomData;
use std::sync::Arc;

/// Calls that the database makes at once, in order: one crossing instead of one for each call.
#[derive(Debug)]
#[must_use = "`run` makes the calls"]
pub struct Batch<'c, 'h> {
    call: &'c mut Call<'h>,
    answers: Vec<Place>,
}

/// Place of an answer of type `T`, until the batch has run.
#[derive(Debug)]
pub struct Later<T> {
    at: usize,
    of: PhantomData<fn() -> T>,
}

#[derive(Clone, Copy, Debug)]
enum AnswerKind {
    Get(u16),
    Nothing,
    Bool,
    Cursor,
    Executed,
    Queried,
}

/// Answer to a call: its kind, and where it begins.
#[derive(Clone, Copy, Debug)]
struct Place {
    kind: AnswerKind,
    begin: usize,
}

/// Answers to a batch of calls. Each is read when the code takes it.
#[derive(Debug)]
pub struct Answers {
    message: Arc<[u8]>,
    places: Vec<Place>,
}

/// Calls of a batch for which there is room from the beginning.
const BATCH_CALLS: usize = 16;

impl<'c, 'h> Batch<'c, 'h> {
    pub(crate) fn new(call: &'c mut Call<'h>) -> Batch<'c, 'h> {
        call.request.clear();
        Batch { call, answers: Vec::with_capacity(BATCH_CALLS) }
    }

    fn add(&mut self, kind: AnswerKind) {
        self.answers.push(Place { kind, begin: 0 });
    }

    fn expect<T>(&mut self, kind: AnswerKind) -> Later<T> {
        self.add(kind);
        Later { at: self.answers.len() - 1, of: PhantomData }
    }

    /// Adds [`Call::get`].
    pub fn get(&mut self, table: Table, key: impl IntoRow) -> Later<Option<Row>> {
        put_get(table, key, false, &mut self.call.request);
        self.expect(AnswerKind::Get(table.columns))
    }

    /// Adds [`Call::get_for_update`].
    pub fn get_for_update(&mut self, table: Table, key: impl IntoRow) -> Later<Option<Row>> {
        put_get(table, key, true, &mut self.call.request);
        self.expect(AnswerKind::Get(table.columns))
    }

    /// Adds [`Call::put`].
    pub fn put(&mut self, table: Table, row: impl IntoRow) {
        put_put(table, row, false, &mut self.call.request);
        self.add(AnswerKind::Nothing);
    }

    /// Adds [`Call::insert`].
    pub fn insert(&mut self, table: Table, row: impl IntoRow) {
        put_put(table, row, true, &mut self.call.request);
        self.add(AnswerKind::Nothing);
    }

    /// Adds [`Call::delete`].
    pub fn delete(&mut self, table: Table, key: impl IntoRow) -> Later<bool> {
        put_delete(table, key, &mut self.call.request);
        self.expect(AnswerKind::Bool)
    }

    /// Adds [`Call::scan`].
    pub fn scan(&mut self, table: Table, prefix: impl IntoRow) -> Later<Cursor> {
        put_scan(table, prefix, false, &mut self.call.request);
        self.expect(AnswerKind::Cursor)
    }

    /// Adds [`Call::scan_descending`].
    pub fn scan_descending(&mut self, table: Table, prefix: impl IntoRow) -> Later<Cursor> {
        put_scan(table, prefix, true, &mut self.call.request);
        self.expect(AnswerKind::Cursor)
    }

    /// Adds [`Call::execute`].
    pub fn execute(&mut self, statement: Statement, parameters: impl IntoRow) -> Later<Executed> {
        put_execute(statement, parameters, &mut self.call.request);
        self.expect(AnswerKind::Executed)
    }

    /// Adds [`Call::query`]. Rows that do not fit the answer are left to a cursor.
    pub fn query(&mut self, statement: Statement, parameters: impl IntoRow) -> Later<Queried> {
        put_query(statement, parameters, &mut self.call.request);
        self.expect(AnswerKind::Queried)
    }

    /// Adds [`Call::notice`].
    pub fn notice(&mut self, level: NoticeLevel, message: &str) {
        put_notice(level, message, &mut self.call.request);
        self.add(AnswerKind::Nothing);
    }

    /// Makes the calls, and returns their answers.
    ///
    /// # Errors
    /// As [`Call`]: the first error of a call ends the invocation. `54000` if the calls exceed
    /// [`AREA_BYTES`](crate::AREA_BYTES).
    pub fn run(self) -> Result<Answers> {
        if self.answers.is_empty() {
            return Ok(Answers { message: Arc::default(), places: Vec::new() });
        }
        let message = self.call.exchange_shared()?;
        let mut places = self.answers;
        let mut answers = Message::from(&message, 0);
        for place in &mut places {
            place.begin = answers.place();
            skip(place.kind, &mut answers.reader)?;
        }
        Ok(Answers { message, places })
    }
}

/// Passes over an answer.
fn skip(kind: AnswerKind, reader: &mut Reader<'_>) -> Result<()> {
    match kind {
        AnswerKind::Get(columns) => {
            if reader.bool()? {
                reader.skip_all(columns)?;
            }
        }
        AnswerKind::Nothing => {}
        AnswerKind::Bool => drop(reader.bool()?),
        AnswerKind::Cursor => drop(reader.u32()?),
        AnswerKind::Executed => drop(read_executed(reader)?),
        AnswerKind::Queried => {
            reader.u64()?;
            let (rows, columns) = (reader.u32()?, reader.u16()?);
            for _ in 0..rows {
                reader.skip_all(columns)?;
            }
            if !reader.bool()? {
                reader.u32()?;
            }
        }
    }
    Ok(())
}

impl Answers {
    /// Returns the answer to a call.
    ///
    /// # Errors
    /// `38000` for a call of another batch; `39000`: the server broke the protocol.
    pub fn take<T: FromAnswer>(&mut self, later: Later<T>) -> Result<T> {
        let place = self.places.get_mut(later.at).ok_or_else(other_batch)?;
        let kind = std::mem::replace(&mut place.kind, AnswerKind::Nothing);
        T::from_answer(OneAnswer { kind, message: Message::from(&self.message, place.begin) })?.ok_or_else(other_batch)
    }
}

#[cold]
fn other_batch() -> Error {
    Error::new("38000", "the answer belongs to another batch of calls")
}

/// Answer to one call.
#[derive(Debug)]
pub struct OneAnswer<'a> {
    kind: AnswerKind,
    message: Message<'a>,
}

/// Type of answers. Only this crate implements it.
pub trait FromAnswer: Sized {
    /// Returns the answer, if it is of this type.
    ///
    /// # Errors
    /// `39000`: the server broke the protocol.
    fn from_answer(answer: OneAnswer<'_>) -> Result<Option<Self>>;
}

macro_rules! answers {
    ($($kind:pat, $message:ident => $of:ty, $read:expr;)*) => {
        $(impl FromAnswer for $of {
            fn from_answer(answer: OneAnswer<'_>) -> Result<Option<$of>> {
                let OneAnswer { kind, message: mut $message } = answer;
                if let $kind = kind { $read.map(Some) } else { Ok(None) }
            }
        })*
    };
}

answers! {
    AnswerKind::Get(columns), message => Option<Row>, read_get(&mut message, columns);
    AnswerKind::Bool, message => bool, message.reader.bool();
    AnswerKind::Cursor, message => Cursor, message.reader.u32().map(Cursor::numbered);
    AnswerKind::Executed, message => Executed, read_executed(&mut message.reader);
    AnswerKind::Queried, message => Queried, read_queried(&mut message);
}
