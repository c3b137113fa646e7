//! Answers of the admin console that are tables.
//!
//! **Invariant:** a line has values for the columns that it names; the others are NULL, as in the views.

use types::forms::Forms;
use types::table::{NamedRows, ProvidedTable};
use types::{Datum, Kind, SqlType};
use wire::reply::Column;
use wire::reply::Format;
use wire::reply::{Formats, Replies};

/// Rows and columns of an answer.
pub(super) struct ResultTable {
    columns: Vec<(String, Kind)>,
    lines: NamedRows,
}

impl ResultTable {
    pub(super) fn new(columns: &[(&str, Kind)], lines: NamedRows) -> ResultTable {
        let columns = columns.iter().map(|&(name, kind)| (name.to_owned(), kind)).collect();
        ResultTable { columns, lines }
    }

    /// Table of one of the views.
    pub(super) fn of_view(view: ProvidedTable, lines: NamedRows) -> ResultTable {
        let columns = view.columns.into_iter().map(|column| (column.name.to_owned(), column.kind)).collect();
        ResultTable { columns, lines }
    }

    /// Writes `RowDescription` and the rows.
    pub(super) fn write(&self, replies: &mut Replies) {
        let column = |(name, kind): &'_ (String, Kind)| {
            let kind = SqlType::from(*kind);
            (name.clone(), kind)
        };
        let columns: Vec<(String, SqlType)> = self.columns.iter().map(column).collect();
        let described = columns.iter().map(|(name, kind)| Column {
            name,
            table: 0,
            number: 0,
            oid: kind.oid(),
            length: kind.len(),
            typmod: -1,
        });
        replies.columns(Some(described), &Formats::All(Format::Text));
        for line in &self.lines {
            let value = |(name, kind): &(String, SqlType)| {
                let (_, value) = line.iter().find(|(own, _)| own == name)?;
                (!value.is_null()).then(|| types::text::to_string(value, *kind, &Forms::DEFAULT))
            };
            let values: Vec<Option<String>> = columns.iter().map(value).collect();
            replies.text_row(values.iter().map(Option::as_deref));
        }
    }
}

pub(super) fn text(value: &str) -> Datum {
    Datum::text(value)
}

/// Count as a value of four bytes, which PgBouncer uses.
pub(super) fn count(value: usize) -> Datum {
    Datum::Int4(i32::try_from(value).unwrap_or(i32::MAX))
}

/// Value for everything that is not known here.
pub(super) const ZERO: Datum = Datum::Int4(0);

/// Time in microseconds since 1970, as PgBouncer writes it; empty for 0.
pub(super) fn moment(us: i64) -> Datum {
    if us == 0 {
        return text("");
    }
    let second = Datum::Timestamp(us - us.rem_euclid(1_000_000));
    text(&format!("{} UTC", types::text::to_string(&second, Kind::Timestamp.into(), &Forms::DEFAULT)))
}

/// Columns that clients and servers share.
pub(super) const SOCKET: [(&str, Kind); 18] = [
    ("type", Kind::Text),
    ("user", Kind::Text),
    ("database", Kind::Text),
    ("state", Kind::Text),
    ("addr", Kind::Text),
    ("port", Kind::Int4),
    ("local_addr", Kind::Text),
    ("local_port", Kind::Int4),
    ("connect_time", Kind::Text),
    ("request_time", Kind::Text),
    ("wait", Kind::Int4),
    ("wait_us", Kind::Int4),
    ("close_needed", Kind::Int4),
    ("ptr", Kind::Text),
    ("link", Kind::Text),
    ("remote_pid", Kind::Int4),
    ("tls", Kind::Text),
    ("application_name", Kind::Text),
];

/// Name of a client or a server connection where another one refers to it.
pub(super) fn pointer(kind: char, number: i32) -> String {
    format!("{kind}{number}")
}
