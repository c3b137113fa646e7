//! Goal: the contents of the memory can be saved. Method: pg_dump of PostgreSQL 15 against a server with objects
//! of all kinds; psql into a fresh server, and into PostgreSQL. Rows and definitions are the same afterwards, and
//! so is the dump of the copy.

use crate::real::Real;
use std::path::{Path, PathBuf};
use std::process::Command;
use wirekit::cluster::{Cluster, is_there};

/// Command that runs one of PostgreSQL's programs for this server.
fn program(name: &str, port: u16, arguments: &[&str]) -> Command {
    let debian = Path::new(wirekit::cluster::DEBIAN).join(name);
    let mut command = Command::new(if debian.is_file() { debian } else { PathBuf::from(name) });
    command.args(["-h", "127.0.0.1", "-U", "postgres", "-p", &port.to_string()]).args(arguments).env("PGTZ", "UTC");
    command
}

/// Returns the output of a program that must succeed.
fn output(port: u16, name: &str, arguments: &[&str]) -> String {
    let output = program(name, port, arguments).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name} {arguments:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

/// Returns a dump without the parts that differ from run to run and from server to server.
fn dumped(port: u16, how: &[&str]) -> String {
    let whole = output(port, "pg_dump", &[how, &["-d", "postgres"]].concat());
    let is_own =
        |line: &&str| !["-- Dumped ", "\\restrict", "\\unrestrict"].iter().any(|start| line.starts_with(start));
    whole.lines().filter(is_own).collect::<Vec<_>>().join("\n")
}

fn restore(port: u16, file: &Path) {
    output(port, "psql", &["-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", "postgres", "-f", file.to_str().unwrap()]);
}

/// Compares rows in any order.
fn same(one: &str, other: &str) {
    let sorted = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted(one), sorted(other));
}

fn filled() -> Option<Real> {
    if !is_there("pg_dump", "(PostgreSQL) 15.", "pg_dump of PostgreSQL 15") {
        return None;
    }
    let real = Real::new();
    restore(real.address.port(), Path::new("tests/dump/schema.sql"));
    Some(real)
}

/// Dumps as a script of everything, of definitions and of rows; as INSERT statements; of a table, of a schema.
pub fn a_dump_makes_the_same_again() {
    let Some(real) = filled() else { return };
    let folder = testkit::folder("dump");
    let port = real.address.port();
    let of_pairs: &[&str] = &["-t", "public.pairs"];
    let ways: [&[&[&str]]; 4] = [
        &[&[]],
        &[&["--inserts"]],
        &[&["--column-inserts", "--rows-per-insert=7"]],
        // Definitions of all, and the rows of a table.
        &[&["-s"], &["-a", "-t", "public.pairs"]],
    ];
    for ways in ways {
        let copy = Real::new();
        for (at, way) in ways.iter().enumerate() {
            let file = folder.path().join(format!("script-{at}.sql"));
            std::fs::write(&file, dumped(port, way)).unwrap();
            restore(copy.address.port(), &file);
        }
        let to_compare: &[&[&str]] = if ways.len() == 1 { &[&[]] } else { &[of_pairs, &["-s"]] };
        for how in to_compare {
            same(&dumped(port, how), &dumped(copy.address.port(), how));
        }
    }
    let of_schema = dumped(port, &["-n", "\"Odd Schema\""]);
    assert!(of_schema.contains("CREATE TABLE \"Odd Schema\".\"T\"") && !of_schema.contains("public."), "{of_schema}");
}

/// PostgreSQL can read this server's dump, and this server PostgreSQL's dump of the same data.
pub fn to_postgresql_and_back() {
    let Some(real) = filled() else { return };
    let Some(cluster) = Cluster::start("") else { return };
    let folder = testkit::folder("dump");
    let port = real.address.port();
    let (there, back) = (folder.path().join("there.sql"), folder.path().join("back.sql"));
    std::fs::write(&there, dumped(port, &[])).unwrap();
    restore(cluster.port, &there);
    let rows = |port: u16| dumped(port, &["-a"]);
    same(&rows(port), &rows(cluster.port));
    // No part of a definition is lost in between.
    let kept = "select array(select seqcache from pg_sequence where seqrelid = 'app.cached'::regclass), \
                array(select collname::text from pg_attribute a join pg_collation c on c.oid = attcollation where \
                attrelid = 'app.collated'::regclass and 0 < attnum order by attnum), \
                pg_get_viewdef('named'::regclass) like '%''app.cached''::regclass%', \
                pg_get_indexdef('app.child_amount'::regclass)";
    let shown = |port: u16| output(port, "psql", &["-X", "-q", "-A", "-t", "-d", "postgres", "-c", kept]);
    let wanted = "{3}|{C,POSIX,default,C}|t|\
                  CREATE INDEX child_amount ON app.child USING btree (amount DESC, parent_id)\n";
    assert_eq!([shown(port), shown(cluster.port)], [wanted, wanted]);
    let of_postgresql = dumped(cluster.port, &[]);
    std::fs::write(&back, &of_postgresql).unwrap();
    let copy = Real::new();
    restore(copy.address.port(), &back);
    same(&rows(port), &rows(copy.address.port()));
    // The rows of views are the same on all three servers.
    let views = [
        ["app.totals", "app.a_first", "app.case_view", "unions", "subs", "wins", "ctes", "joined", "lat", "dis"],
        ["grp", "frames", "locked", "merged", "quotes", "either_way", "named", "sets", "cubes", "functions"],
    ];
    for view in views.as_flattened() {
        let text = format!("select * from {view}");
        let shown = |port: u16| output(port, "psql", &["-X", "-q", "-A", "-d", "postgres", "-c", &text]);
        same(&shown(port), &shown(cluster.port));
        same(&shown(port), &shown(copy.address.port()));
    }
}

/// Archives in both formats, with the globals before them: relations keep their owners, and so do the sequences of
/// their columns. A dump by several jobs needs a snapshot that sessions share, which is refused by name.
pub fn archives_have_their_owners() {
    let Some(real) = filled() else { return };
    let Some(cluster) = Cluster::start("") else { return };
    let folder = testkit::folder("dump");
    let port = real.address.port();
    let ask = |port: u16, text: &str| output(port, "psql", &["-X", "-q", "-A", "-t", "-d", "postgres", "-c", text]);
    for text in [
        "create role ann login password 'pencil'; alter role ann set work_mem = '7MB'",
        "create table owned (id serial primary key, number int generated always as identity, n text)",
        "alter table owned owner to ann",
        "alter table owned add column more bigserial",
        "insert into owned (n) values ('a'), ('b')",
        "create view within as select id from owned where id not between symmetric 9 and 7; alter view within owner to ann",
        "create sequence alone; alter sequence alone owner to ann",
    ] {
        // Roles are not created in a transaction with other statements.
        text.split("; ").for_each(|text| drop(ask(port, text)));
    }
    let owners = "select relname, pg_get_userbyid(relowner) from pg_class where relkind in ('r', 'v', 'S', 'i') and \
                  (relname like 'owned%' or relname in ('within', 'alone')) order by 1";
    let wanted = "alone|ann\nowned|ann\nowned_id_seq|ann\nowned_more_seq|ann\nowned_number_seq|ann\nowned_pkey|ann\n\
                  within|ann\n";
    assert_eq!(ask(port, owners), wanted);
    let globals = folder.path().join("globals.sql");
    let globals = globals.to_str().unwrap();
    output(port, "pg_dumpall", &["-g", "-l", "postgres", "-f", globals]);
    let archive = |format: &str| folder.path().join(format).to_str().unwrap().to_owned();
    for (format, jobs) in [("c", "1"), ("d", "2")] {
        let file = archive(format);
        output(port, "pg_dump", &["-d", "postgres", "-F", format, "-f", &file]);
        let copy = Real::new();
        let to = copy.address.port();
        // The role that restores exists already.
        output(to, "psql", &["-X", "-q", "-d", "postgres", "-f", globals]);
        output(to, "pg_restore", &["-d", "postgres", "--exit-on-error", "-j", jobs, &file]);
        assert_eq!(ask(to, owners), wanted);
        same(&dumped(port, &[]), &dumped(to, &[]));
        assert_eq!(ask(to, "select rolname, rolconfig from pg_roles where rolname = 'ann'"), "ann|{work_mem=7MB}\n");
    }
    output(cluster.port, "psql", &["-X", "-q", "-d", "postgres", "-f", globals]);
    output(cluster.port, "pg_restore", &["-d", "postgres", "--exit-on-error", "-j", "2", &archive("d")]);
    assert_eq!(ask(cluster.port, owners), wanted);
    same(&dumped(port, &["-a"]), &dumped(cluster.port, &["-a"]));
    let within = "select pg_get_viewdef('within'::regclass)";
    assert_eq!(ask(port, within), ask(cluster.port, within));
    let by_jobs = archive("jobs");
    let refused = program("pg_dump", port, &["-d", "postgres", "-F", "d", "-j", "2", "-f", &by_jobs]).output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && said.contains("to export a snapshot is not supported"), "{said}");
}
