//! Goal: the text that `pg_get_viewdef` returns for a view creates the same view. Method: for every query of the files
//! under `tests/slt`, and every generated one, that can be a view, a second view is created from the text, and has the
//! same columns and rows. With `OVERTAKE_SLT_URL` set to the address of a PostgreSQL, each text becomes a view there,
//! too, if the query itself can be one.

use super::generated::{schema, statements};
use super::{Client, Peer};
use sqllogictest::{DB, DBOutput, DefaultColumnType, Record};

/// Names and types of a relation's columns, and its rows or an error's SQLSTATE.
#[derive(PartialEq, Debug)]
struct Contents {
    columns: Vec<(String, u32, i32)>,
    rows: Result<Vec<Vec<Option<String>>>, &'static str>,
}

struct Servers {
    ours: Client,
    peer: Option<Peer>,
    /// Numbers of queries that could be views here and, of those, there.
    counts: (usize, usize),
    faults: Vec<String>,
}

impl Servers {
    fn new(peer: Option<Peer>) -> Servers {
        Servers { ours: Client::new(), peer, counts: (0, 0), faults: Vec::new() }
    }

    /// Runs a statement that others build on. Other tests check its result.
    fn run(&mut self, statement: &str) {
        let _ = self.ours.run(statement);
        if let Some(peer) = &mut self.peer {
            let _ = peer.run(statement);
        }
    }

    fn contents(&mut self, relation: &str) -> Contents {
        let query = format!("select * from {relation}");
        let session = &mut self.ours.0;
        let statement = session.prepare(&query, &[]).unwrap();
        let column =
            |column: &query::plan::ColumnInfo| (column.name.to_string(), column.kind.kind.oid(), column.kind.typmod);
        let columns = statement.columns().unwrap().iter().map(column).collect();
        let rows = self.ours.give(&query).map(|given| given.rows);
        if rows.is_err() {
            self.ours.0.fail();
        }
        self.ours.0.sync().unwrap();
        Contents { columns, rows: rows.map_err(|error| error.state().0) }
    }

    fn check(&mut self, query: &str) {
        let in_block = self.ours.run("savepoint written").is_ok();
        if self.ours.run(&format!("create view written_1 as {query}")).is_ok() {
            self.counts.0 += 1;
            if let Err(fault) = self.again(query) {
                self.faults.push(format!("{query}\n  {fault}"));
            }
        }
        let _ = self.ours.run("drop view if exists written_1, written_2");
        if in_block {
            let _ = self.ours.run("rollback to written");
        }
    }

    fn again(&mut self, query: &str) -> Result<(), String> {
        let text = match self.ours.run("select pg_get_viewdef('written_1'::regclass)") {
            Ok(DBOutput::Rows { rows, .. }) => rows.concat().concat(),
            Ok(_) => return Err("no text".to_owned()),
            Err(error) => return Err(format!("no text: {error}")),
        };
        if let Err(error) = self.ours.run(&format!("create view written_2 as {text}")) {
            return Err(format!("{text}\n  is refused: {error}"));
        }
        let (first, second) = (self.contents("written_1"), self.contents("written_2"));
        // A query may return different rows each time.
        if first != second && (first.columns != second.columns || first == self.contents("written_1")) {
            return Err(format!("{text}\n  {first:?}\n  {second:?}"));
        }
        if let Some(peer) = &mut self.peer {
            peer_again(peer, query, &text).map(|is_view| self.counts.1 += usize::from(is_view))?;
        }
        Ok(())
    }
}

/// Creates both views on the other server. Returns true if the query can be one there.
fn peer_again(peer: &mut Peer, query: &str, text: &str) -> Result<bool, String> {
    let in_block = peer.run("savepoint written").is_ok();
    let is_view = peer.run(&format!("create view written_1 as {query}")).is_ok();
    let again = if is_view { peer.run(&format!("create view written_2 as {text}")).map(drop) } else { Ok(()) };
    let columns = "select count(*) from (select attname, attnum, atttypid, atttypmod from pg_attribute where attrelid in \
                   ('written_1'::regclass, 'written_2'::regclass) group by 1, 2, 3, 4 having count(*) = 1) a";
    let different = if is_view && again.is_ok() { peer.run(columns) } else { Ok(DBOutput::StatementComplete(0)) };
    let result = match (again, different) {
        (Err(error), _) => Err(format!("{text}\n  is refused by PostgreSQL: {error}")),
        (_, Ok(DBOutput::Rows { rows, .. })) if rows.concat().concat() != "0" => {
            Err(format!("{text}\n  has other columns on PostgreSQL"))
        }
        _ => Ok(is_view),
    };
    let _ = peer.run("drop view if exists written_1, written_2");
    if in_block {
        let _ = peer.run("rollback to written");
    }
    result
}

fn peer(name: &str) -> Option<Peer> {
    let url = std::env::var("OVERTAKE_SLT_URL").ok()?;
    Some(Peer::connect(&url, &format!("written_{}_{name}", std::process::id())))
}

fn summed(all: Vec<Servers>, least: usize) {
    let counts = all.iter().fold((0, 0), |sum, one| (sum.0 + one.counts.0, sum.1 + one.counts.1));
    let faults: Vec<String> = all.into_iter().flat_map(|one| one.faults).collect();
    println!("{} views here, {} of them on PostgreSQL", counts.0, counts.1);
    assert!(faults.is_empty(), "{} of {}:\n{}", faults.len(), counts.0, faults.join("\n"));
    assert!(least < counts.0, "{}", counts.0);
}

#[test]
fn views_of_the_files_are_written_so_that_they_can_be_made_again() {
    let only = std::env::var("OVERTAKE_SLT_ONLY").ok();
    let mut all = Vec::new();
    for entry in std::fs::read_dir("tests/slt").unwrap() {
        let path = entry.unwrap().path();
        if only.as_ref().is_some_and(|only| !path.to_string_lossy().contains(only.as_str())) {
            continue;
        }
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let mut servers = Servers::new(peer(&name));
        for record in sqllogictest::parse_file::<DefaultColumnType>(&path).unwrap() {
            match record {
                Record::Statement { sql, .. } => servers.run(&sql),
                Record::Query { sql, .. } => {
                    servers.check(&sql);
                    servers.run(&sql);
                }
                _ => {}
            }
        }
        all.push(servers);
    }
    summed(all, if only.is_some() { 0 } else { 900 });
}

#[test]
fn views_of_generated_queries_are_written_so_that_they_can_be_made_again() {
    let mut servers = Servers::new(peer("generated"));
    schema().for_each(|statement| servers.run(statement));
    statements().for_each(|query| servers.check(query));
    summed(vec![servers], 1500);
}
