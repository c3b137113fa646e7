//! The key-value mix: transactions of some point calls, four reads for each update.
//!
//! **Invariant:** every way runs the same calls in the same order. A transaction sorts its keys, so that two of them
//! that change the same rows do not deadlock.

use super::rungs::{Rung, Way};
use crate::wire::client::Control;
use crate::wire::servers::MeasuredServer;
use crate::wire::tpcc::{Failure, TpccOutcome, settle};
use futures::future::{join_all, try_join_all};
use std::iter;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Statement};
use workloads::tpcc::Random;

/// Number of rows of the table.
pub const ROWS: i32 = 100_000;
/// One call in this many is an update.
const UPDATE_EVERY: usize = 5;

/// Numbers of calls of a transaction.
pub const CALLS: [usize; 3] = [1, 10, 40];

/// Calls of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Number of calls.
    pub calls: usize,
    /// True if a transaction of too few calls for an update among reads is one that updates.
    pub updates: bool,
}

/// Shapes that have stored functions: a transaction of one call either reads or updates.
pub const SHAPES: [Shape; 4] = [
    Shape { calls: 1, updates: false },
    Shape { calls: 1, updates: true },
    Shape { calls: 10, updates: true },
    Shape { calls: 40, updates: true },
];

impl Shape {
    /// Returns the shape of the transaction with this number, from 0.
    fn of_transaction(calls: usize, number: usize) -> Shape {
        Shape { calls, updates: UPDATE_EVERY <= calls || number % UPDATE_EVERY == UPDATE_EVERY - 1 }
    }

    /// Returns true if the call at this place, from 0, is an update.
    fn is_update(self, at: usize) -> bool {
        self.updates && (self.calls < UPDATE_EVERY || at % UPDATE_EVERY == UPDATE_EVERY - 1)
    }

    /// Returns the name of its function for a rung.
    pub fn function(self, key: &str) -> String {
        let kind = if self.updates { "u" } else { "r" };
        format!("glass_kv_{}{kind}_{key}", self.calls)
    }
}

/// Returns the function in SQL: a statement for each call.
pub fn in_sql(shape: Shape) -> String {
    let call = |at: usize| match shape.is_update(at) {
        true => format!("  update glass_kv set v = v + 1 where k = keys[{}] returning v;\n", at + 1),
        false => format!("  select v from glass_kv where k = keys[{}];\n", at + 1),
    };
    let body: String = (0..shape.calls).map(call).collect();
    format!("create function {}(keys int[]) returns int language sql as $$\n{body}$$", shape.function("stored_sql"))
}

/// Returns the function in PL/pgSQL: a loop.
pub fn in_plpgsql(shape: Shape) -> String {
    // The least place of an update, and the distance to the next.
    let every = if shape.calls < UPDATE_EVERY { 1 } else { UPDATE_EVERY };
    let update = "update glass_kv set v = v + 1 where k = keys[at] returning v into got;";
    let read = "select v into got from glass_kv where k = keys[at];";
    let call = match shape.updates {
        true => format!("if at % {every} = 0 then {update} else {read} end if;"),
        false => read.to_owned(),
    };
    format!(
        "create function {}(keys int[]) returns int language plpgsql as $$ declare got int; begin \
         for at in 1..cardinality(keys) loop {call} end loop; return got; end $$",
        shape.function("plpgsql")
    )
}

/// Returns the function in PL/Python: a loop over prepared plans.
pub fn in_plpython(shape: Shape) -> String {
    let every = if shape.calls < UPDATE_EVERY { 1 } else { UPDATE_EVERY };
    let is_update = if shape.updates { format!("at % {every} == 0") } else { "False".to_owned() };
    format!(
        r#"create function {}(keys int[]) returns int language plpython3u as $$
if "read" not in SD:
    SD["read"] = plpy.prepare("select v from glass_kv where k = $1", ["int"])
    SD["update"] = plpy.prepare("update glass_kv set v = v + 1 where k = $1 returning v", ["int"])
read, update, got = SD["read"], SD["update"], 0
for at, key in enumerate(keys, 1):
    got = (update if {is_update} else read).execute([key])[0]["v"]
return got
$$"#,
        shape.function("plpython")
    )
}

/// Makes and fills the table.
///
/// # Errors
/// Errors of the server.
pub fn load(target: &MeasuredServer) -> anyhow::Result<()> {
    let control = Control::connect(target)?;
    control.batch("create table glass_kv (k int not null, v int not null, primary key (k))")?;
    let lines = (1..=ROWS).map(|key| format!("{key}|0\n")).collect::<String>();
    let statement = "copy glass_kv from stdin with (delimiter '|')";
    anyhow::ensure!(control.copy(statement, iter::once(Ok(lines.into_bytes())))?.is_some(), "COPY is needed");
    settle(&control, target)
}

/// Client of the mix.
pub struct KeyValueCaller {
    calls: usize,
    statements: KeyValueStatements,
    way: Way,
    random: Random,
    number: usize,
}

enum KeyValueStatements {
    /// Read and update.
    Points(Statement, Statement),
    /// Calls of the functions that only read and that update.
    Functions(Statement, Statement),
}

impl KeyValueCaller {
    /// Prepares the statements of a rung.
    ///
    /// # Errors
    /// Errors of the server.
    pub async fn prepare(client: &Client, rung: &Rung, calls: usize, seed: u64) -> Result<KeyValueCaller, Failure> {
        let statements = match rung.way {
            Way::Statements | Way::Pipelined | Way::Deep(_) => KeyValueStatements::Points(
                client.prepare("select v from glass_kv where k = $1").await?,
                client.prepare("update glass_kv set v = v + 1 where k = $1 returning v").await?,
            ),
            Way::Call => {
                let call = |number| {
                    let function = Shape::of_transaction(calls, number).function(rung.key);
                    format!("select {function}($1)")
                };
                let (read, update) = (call(0), call(UPDATE_EVERY - 1));
                KeyValueStatements::Functions(client.prepare(&read).await?, client.prepare(&update).await?)
            }
        };
        Ok(KeyValueCaller { calls, statements, way: rung.way, random: Random::new(seed), number: 0 })
    }

    /// Draws the next transaction.
    pub fn draw(&mut self) -> (Shape, Vec<i32>) {
        let shape = Shape::of_transaction(self.calls, self.number);
        self.number += 1;
        let mut keys: Vec<i32> = (0..self.calls).map(|_| self.random.uniform(1, ROWS)).collect();
        keys.sort_unstable();
        (shape, keys)
    }

    /// Makes one attempt at a transaction.
    ///
    /// # Errors
    /// Errors of the server; the block may be open then.
    pub async fn attempt(&self, client: &Client, (shape, keys): &(Shape, Vec<i32>)) -> Result<TpccOutcome, Failure> {
        match &self.statements {
            KeyValueStatements::Functions(reads, updates) => {
                let function = if shape.updates { updates } else { reads };
                client.query_one(function, &[keys]).await?;
            }
            KeyValueStatements::Points(read, update) => {
                let of = |at: usize| if shape.is_update(at) { update } else { read };
                match (self.way, keys.len()) {
                    (_, 1) => drop(client.query_one(of(0), &[&keys.first()]).await?),
                    (Way::Pipelined, _) => pipelined(client, keys, of).await?,
                    (Way::Statements | Way::Deep(_) | Way::Call, _) => {
                        client.batch_execute("begin").await?;
                        for (at, key) in keys.iter().enumerate() {
                            client.query_one(of(at), &[key]).await?;
                        }
                        client.batch_execute("commit").await?;
                    }
                }
            }
        }
        Ok(TpccOutcome::Committed)
    }
}

/// Sends a whole block at once.
async fn pipelined<'s>(client: &Client, keys: &[i32], of: impl Fn(usize) -> &'s Statement) -> Result<(), Failure> {
    let values: Vec<[&(dyn ToSql + Sync); 1]> = keys.iter().map(|key| [key as _]).collect();
    let calls = values.iter().enumerate().map(|(at, value)| client.query_one(of(at), value));
    // Sent in this order. If a call fails, COMMIT rolls back, and the call's error is returned.
    let calls = join_all(calls);
    let (begun, called, committed) =
        futures::join!(client.batch_execute("begin"), calls, client.batch_execute("commit"));
    begun?;
    called.into_iter().collect::<Result<Vec<_>, _>>()?;
    Ok(committed?)
}

/// Client that reads by key, outside of blocks, with some requests on the way at once.
pub struct PointCaller {
    depth: usize,
    read: Statement,
    random: Random,
}

impl PointCaller {
    /// Prepares the statement.
    ///
    /// # Errors
    /// Errors of the server.
    pub async fn prepare(client: &Client, depth: usize, seed: u64) -> Result<PointCaller, Failure> {
        let read = client.prepare("select v from glass_kv where k = $1").await?;
        Ok(PointCaller { depth, read, random: Random::new(seed) })
    }

    /// Sends as many requests as the depth says, and reads the answers.
    ///
    /// # Errors
    /// Errors of the server.
    pub async fn round(&mut self, client: &Client) -> Result<(), Failure> {
        let keys: Vec<i32> = (0..self.depth).map(|_| self.random.uniform(1, ROWS)).collect();
        let values: Vec<[&(dyn ToSql + Sync); 1]> = keys.iter().map(|key| [key as _]).collect();
        try_join_all(values.iter().map(|value| client.query_one(&self.read, value))).await?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_call_in_five_is_an_update() {
        for calls in CALLS {
            let updates = |number| {
                let shape = Shape::of_transaction(calls, number);
                assert!(SHAPES.contains(&shape), "{shape:?} has a function");
                (0..calls).filter(|at| shape.is_update(*at)).count()
            };
            assert_eq!((0..10).map(updates).sum::<usize>(), 10 * calls / 5, "{calls}");
        }
    }

    #[test]
    fn functions_have_a_statement_for_each_call() {
        let [read, update, ten, forty] = SHAPES;
        assert_eq!(
            in_sql(read),
            "create function glass_kv_1r_stored_sql(keys int[]) returns int language sql as $$\n  \
             select v from glass_kv where k = keys[1];\n$$"
        );
        assert!(in_sql(update).contains("update glass_kv set v = v + 1 where k = keys[1] returning v;"));
        assert_eq!((in_sql(ten).matches("update").count(), in_sql(ten).matches("select").count()), (2, 8));
        assert!(in_sql(forty).contains("keys[40] returning v"));
        assert!(in_plpgsql(ten).contains("if at % 5 = 0") && in_plpgsql(update).contains("if at % 1 = 0"));
        assert!(in_plpython(ten).contains("at % 5 == 0") && in_plpython(read).contains("if False else"));
    }
}
