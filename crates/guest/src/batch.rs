//! Batches of calls.

use crate::bytes::Reader;
use crate::call::{
    Call, Executed, NoticeLevel, Queried, Statement, Table, put_delete, put_execute, put_get, put_notice, put_put,
    put_query, put_scan, read_executed, read_get, read_queried,
};
use crate::cursor::Cursor;
use crate::error::{Error, Result};
use crate::row::{IntoRow, Row};
use std::marker::PhantomData;

/// Calls that the database makes at once, in order: one crossing instead of one for each call.
#[derive(Debug)]
#[must_use = "`run` makes the calls"]
pub struct Batch<'c, 'h> {
    call: &'c mut Call<'h>,
    answers: Vec<AnswerKind>,
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

/// Answer to a call.
#[derive(Debug)]
enum Answer {
    Row(Option<Row>),
    Nothing,
    Bool(bool),
    Cursor(Cursor),
    Executed(Executed),
    Queried(Queried),
}

/// Answers to a batch of calls.
#[derive(Debug)]
pub struct Answers(Vec<Option<Answer>>);

impl<'c, 'h> Batch<'c, 'h> {
    pub(crate) fn new(call: &'c mut Call<'h>) -> Batch<'c, 'h> {
        call.request.clear();
        Batch { call, answers: Vec::new() }
    }

    fn expect<T>(&mut self, kind: AnswerKind) -> Later<T> {
        self.answers.push(kind);
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
        self.answers.push(AnswerKind::Nothing);
    }

    /// Adds [`Call::insert`].
    pub fn insert(&mut self, table: Table, row: impl IntoRow) {
        put_put(table, row, true, &mut self.call.request);
        self.answers.push(AnswerKind::Nothing);
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
        self.answers.push(AnswerKind::Nothing);
    }

    /// Makes the calls, and returns their answers.
    ///
    /// # Errors
    /// As [`Call`]: the first error of a call ends the invocation. `54000` if the calls exceed
    /// [`AREA_BYTES`](crate::AREA_BYTES).
    pub fn run(self) -> Result<Answers> {
        if self.answers.is_empty() {
            return Ok(Answers(Vec::new()));
        }
        let mut reader = self.call.exchange()?;
        self.answers.into_iter().map(|kind| read(kind, &mut reader).map(Some)).collect::<Result<_>>().map(Answers)
    }
}

fn read(kind: AnswerKind, reader: &mut Reader<'_>) -> Result<Answer> {
    Ok(match kind {
        AnswerKind::Get(columns) => Answer::Row(read_get(reader, columns)?),
        AnswerKind::Nothing => Answer::Nothing,
        AnswerKind::Bool => Answer::Bool(reader.bool()?),
        AnswerKind::Cursor => Answer::Cursor(Cursor::numbered(reader.u32()?)),
        AnswerKind::Executed => Answer::Executed(read_executed(reader)?),
        AnswerKind::Queried => Answer::Queried(read_queried(reader)?),
    })
}

impl Answers {
    /// Returns the answer to a call.
    ///
    /// # Errors
    /// `38000` for a call of another batch.
    pub fn take<T: FromAnswer>(&mut self, later: Later<T>) -> Result<T> {
        let answer = self.0.get_mut(later.at).and_then(Option::take);
        answer
            .and_then(|answer| T::from_answer(OneAnswer(answer)))
            .ok_or_else(|| Error::new("38000", "the answer belongs to another batch of calls"))
    }
}

/// Answer to one call.
#[derive(Debug)]
pub struct OneAnswer(Answer);

/// Type of answers. Only this crate implements it.
pub trait FromAnswer: Sized {
    /// Returns the answer, if it is of this type.
    fn from_answer(answer: OneAnswer) -> Option<Self>;
}

macro_rules! answers {
    ($($variant:ident => $of:ty;)*) => {
        $(impl FromAnswer for $of {
            fn from_answer(answer: OneAnswer) -> Option<$of> {
                if let Answer::$variant(answer) = answer.0 { Some(answer) } else { None }
            }
        })*
    };
}

answers! {
    Row => Option<Row>;
    Bool => bool;
    Cursor => Cursor;
    Executed => Executed;
    Queried => Queried;
}
