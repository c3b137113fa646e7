//! The rungs: ways in which a transaction is invoked, in the order of the tables.
//!
//! **Invariant:** a rung is a row of [`RUNGS`]; all are measured by the same code, and what a server does not have is
//! returned as a reason, to be printed.

use super::code::{self, CodePlace};
use super::drive::Work;
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
    /// Code that the rung needs in the server.
    code: Code,
}

/// Code of a rung.
#[derive(Clone, Copy, Debug)]
enum Code {
    /// None: the client sends statements.
    None,
    /// Functions in SQL.
    Sql,
    /// Functions of a module, with an engine call for each row; New-Order in batches.
    Module(&'static str, &'static str),
    /// Functions of a module, with all engine calls in one batch. There is none of New-Order, which has batches
    /// anyway.
    Batch(&'static str, &'static str),
    /// Functions in PL/pgSQL.
    PlPgSql,
    /// Functions in PL/Python.
    PlPython,
}

const fn client(key: &'static str, title: &'static str, way: Way) -> Rung {
    Rung { key, title, way, code: Code::None }
}

const fn stored(key: &'static str, title: &'static str, code: Code) -> Rung {
    Rung { key, title, way: Way::Call, code }
}

/// All rungs. Rungs of level `client` come first.
pub const RUNGS: [Rung; 24] = [
    client("interactive", "client, interactive", Way::Statements),
    client("pipelined", "client, pipelined", Way::Pipelined),
    stored("stored_sql", "stored, SQL", Code::Sql),
    stored("native", "stored, native", Code::Module("native", "")),
    stored("wasm", "stored, wasm", Code::Module("wasm", "")),
    stored("wasm_batch", "stored, wasm, one batch", Code::Batch("wasm", "")),
    stored("process", "stored, process", Code::Module("exec", "")),
    stored("process_batch", "stored, process, one batch", Code::Batch("exec", "")),
    stored("process_socket", "stored, process by socket", Code::Module("exec", SOCKET)),
    stored("process_socket_batch", "stored, process by socket, one batch", Code::Batch("exec", SOCKET)),
    stored("container", "stored, container", Code::Module("exec", "isolation = 'container'")),
    stored("container_batch", "stored, container, one batch", Code::Batch("exec", "isolation = 'container'")),
    stored("container_socket", "stored, container by socket", Code::Module("exec", CONTAINER_SOCKET)),
    stored("container_socket_batch", "stored, container by socket, one batch", Code::Batch("exec", CONTAINER_SOCKET)),
    stored("gvisor", "stored, gvisor", Code::Module("exec", "isolation = 'gvisor'")),
    stored("gvisor_batch", "stored, gvisor, one batch", Code::Batch("exec", "isolation = 'gvisor'")),
    stored("gvisor_socket", "stored, gvisor by socket", Code::Module("exec", GVISOR_SOCKET)),
    stored("gvisor_socket_batch", "stored, gvisor by socket, one batch", Code::Batch("exec", GVISOR_SOCKET)),
    stored("vm", "stored, vm", Code::Module("exec", "isolation = 'vm'")),
    stored("vm_batch", "stored, vm, one batch", Code::Batch("exec", "isolation = 'vm'")),
    stored("vm_socket", "stored, vm by socket", Code::Module("exec", VM_SOCKET)),
    stored("vm_socket_batch", "stored, vm by socket, one batch", Code::Batch("exec", VM_SOCKET)),
    stored("plpgsql", "stored, PL/pgSQL", Code::PlPgSql),
    stored("plpython", "stored, PL/Python", Code::PlPython),
];

/// Parameters of levels over a socket; the default is shared memory.
const SOCKET: &str = "channel = 'unix_socket'";
const CONTAINER_SOCKET: &str = "isolation = 'container', channel = 'unix_socket'";
const GVISOR_SOCKET: &str = "isolation = 'gvisor', channel = 'unix_socket'";
const VM_SOCKET: &str = "isolation = 'vm', channel = 'unix_socket'";

/// Numbers of requests on the way at once with which look-ups by key are measured.
pub const POINTS: [Rung; 2] =
    [client("depth_1", "1 on the way", Way::Deep(1)), client("depth_16", "16 on the way", Way::Deep(16))];

/// Package of PL/Python in Debian's archive.
const PLPYTHON: &str = "postgresql-plpython3-15";

impl Rung {
    /// Makes the rung's functions in the server. Returns the reason if the server does not have what they need.
    ///
    /// # Errors
    /// Errors of the server.
    pub fn set_up(&self, control: &Control, target: &MeasuredServer) -> anyhow::Result<Option<String>> {
        match self.code {
            Code::None => Ok(None),
            Code::Sql => in_sql(control),
            Code::Module(language, isolation) => {
                code::make(control, target, CodePlace { key: self.key, language, isolation }, false)
            }
            Code::Batch(language, isolation) => {
                code::make(control, target, CodePlace { key: self.key, language, isolation }, true)
            }
            Code::PlPgSql => in_plpgsql(control, target),
            Code::PlPython => in_plpython(control, target),
        }
    }

    /// Returns true if the rung has a way of its own of doing a work.
    pub fn does(&self, work: Work) -> bool {
        match self.code {
            Code::Batch(..) => matches!(work, Work::KeyValue(calls) if 1 < calls),
            Code::None | Code::Sql | Code::Module(..) | Code::PlPgSql | Code::PlPython => true,
        }
    }

    /// Returns true if a server of this kind can have the rung's code: otherwise its lack needs no words.
    pub fn is_for(&self, target: &MeasuredServer) -> bool {
        match self.code {
            Code::None | Code::Sql => true,
            Code::Module(..) | Code::Batch(..) => target.is_overtake(),
            Code::PlPgSql | Code::PlPython => target.is_postgres(),
        }
    }
}

fn in_sql(control: &Control) -> anyhow::Result<Option<String>> {
    let key_value = key_value::SHAPES.into_iter().map(key_value::in_sql);
    create(control, [include_str!("sql/new_order_sql.sql").to_owned()].into_iter().chain(key_value))
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
    // A package of another minor version may not fit the server.
    if let Err(error) = control.batch("create extension plpython3u") {
        return Ok(Some(format!("{error:#}")));
    }
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
