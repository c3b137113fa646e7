//! The rungs: ways in which a transaction is invoked, in the order of the tables.
//!
//! **Invariant:** a rung is a row of [`RUNGS`]; all are measured by the same code, and what a server does not have is
//! returned as a reason, to be printed.

use super::code::{self, CodePlace};
use super::key_value;
use crate::wire::client::Control;
use crate::wire::postgres;
use crate::wire::servers::MeasuredServer;

/// Way in which a client has a transaction done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Statement by statement: each waits for the answer of the one before.
    Statements,
    /// Several statements are sent before their answers are read, where no value of one is needed for another.
    Pipelined,
    /// Statements outside of blocks, so many of them on the way at once.
    Deep(usize),
    /// One call of a stored function, whose name ends with the key of its rung.
    Call,
}

/// Way of invoking transactions, and what it needs in the server.
pub struct Rung {
    /// Key in figures' names, and end of the names of its functions.
    pub key: &'static str,
    /// Title in tables.
    pub title: &'static str,
    /// Way of invoking a transaction.
    pub way: Way,
    /// Makes what the rung needs in the server; returns the reason if the server does not have it.
    set_up: fn(&Control, &MeasuredServer) -> anyhow::Result<Option<String>>,
}

/// All rungs.
pub const RUNGS: [Rung; 12] = [
    Rung { key: "interactive", title: "interactive", way: Way::Statements, set_up: nothing },
    Rung { key: "pipelined", title: "pipelined", way: Way::Pipelined, set_up: nothing },
    Rung { key: "stored_sql", title: "stored, SQL", way: Way::Call, set_up: in_sql },
    Rung { key: "native", title: "stored, native", way: Way::Call, set_up: native },
    Rung { key: "wasm", title: "stored, wasm", way: Way::Call, set_up: wasm },
    Rung { key: "process", title: "stored, process", way: Way::Call, set_up: process },
    Rung { key: "process_socket", title: "stored, process by socket", way: Way::Call, set_up: process_socket },
    Rung { key: "container", title: "stored, container", way: Way::Call, set_up: container },
    Rung { key: "gvisor", title: "stored, gvisor", way: Way::Call, set_up: gvisor },
    Rung { key: "vm", title: "stored, vm", way: Way::Call, set_up: vm },
    Rung { key: "plpgsql", title: "stored, PL/pgSQL", way: Way::Call, set_up: in_plpgsql },
    Rung { key: "plpython", title: "stored, PL/Python", way: Way::Call, set_up: in_plpython },
];

/// Numbers of requests on the way at once with which look-ups by key are measured.
pub const POINTS: [Rung; 2] = [
    Rung { key: "depth_1", title: "1 on the way", way: Way::Deep(1), set_up: nothing },
    Rung { key: "depth_16", title: "16 on the way", way: Way::Deep(16), set_up: nothing },
];

/// Package of PL/Python in Debian's archive.
const PLPYTHON: &str = "postgresql-plpython3-15";

impl Rung {
    /// Makes the rung's functions in the server. Returns the reason if the server does not have what they need.
    ///
    /// # Errors
    /// Errors of the server.
    pub fn set_up(&self, control: &Control, target: &MeasuredServer) -> anyhow::Result<Option<String>> {
        (self.set_up)(control, target)
    }
}

fn nothing(_: &Control, _: &MeasuredServer) -> anyhow::Result<Option<String>> {
    Ok(None)
}

fn in_sql(control: &Control, _: &MeasuredServer) -> anyhow::Result<Option<String>> {
    let key_value = key_value::SHAPES.into_iter().map(key_value::in_sql);
    create(control, [include_str!("sql/new_order_sql.sql").to_owned()].into_iter().chain(key_value))
}

fn native(control: &Control, target: &MeasuredServer) -> anyhow::Result<Option<String>> {
    code::make(control, target, CodePlace { key: "native", language: "native", isolation: "" })
}

fn wasm(control: &Control, target: &MeasuredServer) -> anyhow::Result<Option<String>> {
    code::make(control, target, CodePlace { key: "wasm", language: "wasm", isolation: "" })
}

fn process(control: &Control, target: &MeasuredServer) -> anyhow::Result<Option<String>> {
    code::make(control, target, CodePlace { key: "process", language: "exec", isolation: "" })
}

fn process_socket(control: &Control, target: &MeasuredServer) -> anyhow::Result<Option<String>> {
    let isolation = "channel = 'unix_socket'";
    code::make(control, target, CodePlace { key: "process_socket", language: "exec", isolation })
}

fn container(control: &Control, target: &MeasuredServer) -> anyhow::Result<Option<String>> {
    let isolation = "isolation = 'container'";
    code::make(control, target, CodePlace { key: "container", language: "exec", isolation })
}

fn gvisor(control: &Control, target: &MeasuredServer) -> anyhow::Result<Option<String>> {
    let isolation = "isolation = 'gvisor'";
    code::make(control, target, CodePlace { key: "gvisor", language: "exec", isolation })
}

fn vm(control: &Control, target: &MeasuredServer) -> anyhow::Result<Option<String>> {
    let isolation = "isolation = 'vm'";
    code::make(control, target, CodePlace { key: "vm", language: "exec", isolation })
}

fn in_plpgsql(control: &Control, target: &MeasuredServer) -> anyhow::Result<Option<String>> {
    if !target.is_postgres() {
        return Ok(Some("Overtake has no PL/pgSQL".to_owned()));
    }
    let key_value = key_value::SHAPES.into_iter().map(key_value::in_plpgsql);
    create(control, [include_str!("sql/new_order_plpgsql.sql").to_owned()].into_iter().chain(key_value))
}

fn in_plpython(control: &Control, target: &MeasuredServer) -> anyhow::Result<Option<String>> {
    if !target.is_postgres() {
        return Ok(Some("Overtake has no PL/Python".to_owned()));
    }
    let available = "select name from pg_available_extensions where name = 'plpython3u'";
    if control.rows(available)?.is_empty() {
        // If the package cannot be had, the reason is printed and the row is missing.
        let installed = postgres::install(PLPYTHON, &format!("install the package {PLPYTHON}"));
        if let Err(refusal) = installed {
            return Ok(Some(refusal.to_string()));
        }
    }
    if control.rows(available)?.is_empty() {
        return Ok(Some(format!("PL/Python is not installed (package {PLPYTHON})")));
    }
    control.batch("create extension plpython3u")?;
    let key_value = key_value::SHAPES.into_iter().map(key_value::in_plpython);
    create(control, [include_str!("sql/new_order_plpython.sql").to_owned()].into_iter().chain(key_value))
}

fn create(control: &Control, functions: impl Iterator<Item = String>) -> anyhow::Result<Option<String>> {
    for function in functions {
        if let Some(refused) = control.batch_if_supported(&function)? {
            return Ok(Some(refused));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rungs_have_keys_of_their_own() {
        for (at, rung) in RUNGS.iter().enumerate() {
            assert_eq!(RUNGS.iter().position(|other| other.key == rung.key), Some(at));
        }
    }

    #[test]
    fn files_define_the_function_of_their_rung() {
        let files = [
            ("stored_sql", include_str!("sql/new_order_sql.sql")),
            ("plpgsql", include_str!("sql/new_order_plpgsql.sql")),
            ("plpython", include_str!("sql/new_order_plpython.sql")),
        ];
        for (key, text) in files {
            assert!(text.contains(&format!("create function glass_new_order_{key}(")), "{key}");
        }
    }
}
