//! [`sql::session::Session`] as a [`Backend`].
//!
//! **Invariant:** nothing is decided here; each function is one call.

use crate::backend::{Backend, Backends, CopyPart, Run, Unbound};
use crate::codec::{self, column};
use bytes::BytesMut;
use engine::Wake;
use settings::Connect;
use sql::session::{Canceller, Database, Destination, Part, Portal, Renamed, ResultSink, Session, Statement, Step};
use stage::Class;
use statement::outcome::CopyShape;
use statement::outcome::TransactionStatus;
use statement::{SqlError, SqlResult};
use std::sync::Arc;
use std::time::{Duration, Instant};
use types::{Datum, SqlType};
use wire::Cancel;
use wire::Parked;
use wire::copy::CopyRows;
use wire::reply::Column;
use wire::reply::Format;

impl Backends for Database {
    type Backend = Session;

    fn connect(&self, connect: Connect) -> SqlResult<Session> {
        Database::connect(self, connect)
    }
}

/// Wait of an SQL session.
struct SqlWait(sql::session::Parked);

impl Parked for SqlWait {
    fn on_ready(&self, wake: Arc<dyn Wake>) {
        self.0.on_ready(wake);
    }

    fn is_lock(&self) -> bool {
        matches!(self.0, sql::session::Parked::Lock(_))
    }

    fn is_analysis(&self) -> bool {
        matches!(self.0, sql::session::Parked::Analysis(_) | sql::session::Parked::Rows(..))
    }

    fn is_elsewhere(&self) -> bool {
        matches!(self.0, sql::session::Parked::Elsewhere)
    }

    fn until(&self) -> Option<Instant> {
        self.0.until()
    }
}

/// Canceller of an SQL session.
struct SqlCancel(Canceller);

impl Cancel for SqlCancel {
    fn cancel(&self) {
        self.0.cancel();
    }
}

impl Backend for Session {
    type Statement = Arc<Statement>;
    type Portal = Portal;

    fn split(&mut self, text: &str) -> SqlResult<Vec<Part>> {
        Session::split(self, text)
    }

    fn stream_to(&mut self, destination: Destination) {
        Session::stream_to(self, destination);
    }

    fn sink(&self) -> Option<Arc<ResultSink>> {
        Session::sink(self).cloned()
    }

    fn take_leavings(&mut self) -> Option<Box<dyn Send>> {
        let leavings = Session::take_leavings(self);
        if leavings.is_empty() { None } else { Some(Box::new(leavings)) }
    }

    fn goes_on(&self) -> SqlResult<()> {
        Session::goes_on(self)
    }

    fn prepare(&mut self, text: &str, types: &[u32]) -> SqlResult<Arc<Statement>> {
        Session::prepare_once(self, text, types)
    }

    fn fix_columns(&self, statement: &Arc<Statement>) {
        statement.fix_columns();
    }

    fn is_unbound(&self) -> bool {
        Session::is_unbound(self)
    }

    fn await_definitions(&mut self) -> SqlResult<Unbound> {
        Ok(match Session::await_definitions(self)? {
            sql::session::Unbound::Stands => Unbound::Stands,
            sql::session::Unbound::Again => Unbound::Again,
            sql::session::Unbound::Parked(parked) => Unbound::Parked(Box::new(SqlWait(parked))),
        })
    }

    fn parameters(&self, statement: &Arc<Statement>) -> Vec<u32> {
        statement.parameters().iter().map(|of| of.oid()).collect()
    }

    fn parameter_count(&self, statement: &Arc<Statement>) -> usize {
        statement.parameters().len()
    }

    fn columns<'s>(&self, statement: &'s Arc<Statement>) -> Option<Vec<Column<'s>>> {
        statement.columns().map(|columns| columns.iter().map(column).collect())
    }

    fn column_count(&self, statement: &Arc<Statement>) -> Option<usize> {
        statement.columns().map(<[_]>::len)
    }

    fn read(&self, statement: &Arc<Statement>, parameter: usize, format: Format, bytes: &[u8]) -> SqlResult<Datum> {
        let of = statement.parameters().get(parameter).copied();
        codec::parameter(parameter + 1, bytes, format, of.unwrap_or(SqlType::from(types::Kind::Unknown)), self.forms())
    }

    fn bind(&mut self, statement: &Arc<Statement>, values: Vec<Datum>) -> SqlResult<Portal> {
        Session::bind(self, statement, values)
    }

    fn name_statement(&mut self, name: &str, statement: &Arc<Statement>) -> SqlResult<()> {
        Session::name_statement(self, name, statement)
    }

    fn statement_named(&self, name: &str) -> Option<(Arc<Statement>, String)> {
        Session::statement_named(self, name).map(|statement| (Arc::clone(&statement), statement.text().to_owned()))
    }

    fn forget_statement(&mut self, name: &str) {
        Session::forget_statement(self, name);
    }

    fn name_portal(&mut self, name: &str, portal: Portal) -> SqlResult<Portal> {
        Session::name_portal(self, name, portal)
    }

    fn portal_named(&self, name: &str) -> Option<(Portal, Arc<Statement>, Format)> {
        Session::portal_named(self, name)
            .map(|(portal, statement, is_binary)| (portal, statement, format_of(is_binary)))
    }

    fn advance(&mut self, portal: &mut Portal, rows: Option<usize>) -> bool {
        Session::advance(portal, rows)
    }

    fn close_portal(&mut self, name: &str) {
        Session::close_portal(self, name);
    }

    fn take_renamed(&mut self) -> Option<Box<Renamed>> {
        Session::take_renamed(self)
    }

    fn kept_bytes(&self) -> usize {
        Session::kept_bytes(self)
    }

    fn simple_format(&self, statement: &Arc<Statement>) -> Format {
        format_of(Session::is_binary(self, statement))
    }

    fn can_move(&self, portal: &Portal) -> bool {
        Session::can_move(self, portal)
    }

    fn stay_for(&mut self, limit: Option<Duration>) {
        Session::stay_for(self, limit);
    }

    fn execute(&mut self, portal: &mut Portal) -> SqlResult<Run> {
        Ok(match Session::execute(self, portal)? {
            Step::Done(outcome) => Run::Done(outcome),
            Step::Parked(parked) => Run::Parked(Box::new(SqlWait(parked))),
            Step::CopyIn(shape) => Run::CopyIn(copy_shape(shape)),
            Step::CopyOut(shape) => Run::CopyOut(copy_shape(shape)),
        })
    }

    fn copy_data(&mut self, _: &mut Portal, data: &[u8]) -> SqlResult<Option<Box<dyn Parked>>> {
        Ok(Session::copy_data(self, data)?.map(|parked| Box::new(SqlWait(parked)) as Box<dyn Parked>))
    }

    fn copy_done(&mut self, _: &mut Portal) -> SqlResult<CopyPart> {
        Ok(copy_part(Session::copy_done(self)?))
    }

    fn copy_next(&mut self, _: &mut Portal, rows: &mut CopyRows<'_>) -> SqlResult<CopyPart> {
        Ok(copy_part(Session::copy_next(self, &mut |row| rows.row(row))?))
    }

    fn write(
        &mut self,
        statement: &Arc<Statement>,
        column: usize,
        format: Format,
        value: &Datum,
        out: &mut BytesMut,
    ) -> SqlResult<()> {
        let of = statement.columns().and_then(|columns| columns.get(column)).map(|column| column.kind);
        codec::output(value, format, of.unwrap_or(SqlType::from(types::Kind::Unknown)), self.forms(), out)
    }

    fn sync(&mut self) -> SqlResult<()> {
        Session::sync(self)
    }

    fn has_long_end(&self) -> bool {
        Session::has_long_end(self)
    }

    fn is_alone(&self, portal: &Portal) -> bool {
        Session::is_alone(self, portal)
    }

    fn is_modifying(&self, portal: &Portal) -> bool {
        Session::is_modifying(self, portal)
    }

    fn begin_again(&mut self) {
        Session::begin_again(self);
    }

    fn fail(&mut self) {
        Session::fail(self);
    }

    fn status(&self) -> TransactionStatus {
        Session::status(self)
    }

    fn class(&self) -> Class {
        Session::class(self)
    }

    fn class_of(&self, portal: &Portal) -> Class {
        Session::class_of(self, portal)
    }

    fn hot_key(&self) -> Option<u64> {
        Session::hot_key(self)
    }

    fn does_nothing_inside(&self, portal: &Portal) -> bool {
        Session::does_nothing_inside(self, portal)
    }

    fn time_left(&self) -> Option<Duration> {
        Session::time_left(self)
    }

    fn holds_nothing(&self, portal: &Portal) -> bool {
        Session::holds_nothing(self, portal)
    }

    fn is_large(&self, portal: &Portal) -> bool {
        Session::is_large(self, portal)
    }

    fn log_from(&self) -> Option<Duration> {
        Session::log_from(self)
    }

    fn idle_limit(&self) -> Option<Duration> {
        Session::idle_limit(self)
    }

    fn take_reports(&mut self) -> Vec<(&'static str, String)> {
        Session::take_reports(self)
    }

    fn take_notices(&mut self) -> Vec<(&'static str, SqlError)> {
        Session::take_notices(self)
    }

    fn canceller(&self) -> Arc<dyn Cancel> {
        Arc::new(SqlCancel(Session::canceller(self)))
    }
}

fn format_of(is_binary: bool) -> Format {
    if is_binary { Format::Binary } else { Format::Text }
}

fn copy_shape(shape: statement::outcome::CopyShape) -> CopyShape {
    let statement::outcome::CopyShape { is_binary, columns } = shape;
    CopyShape { is_binary, columns }
}

fn copy_part(part: sql::session::CopyPart) -> CopyPart {
    match part {
        sql::session::CopyPart::More => CopyPart::More,
        sql::session::CopyPart::Last(tag) => CopyPart::Last(tag),
        sql::session::CopyPart::Parked(parked) => CopyPart::Parked(Box::new(SqlWait(parked))),
    }
}
