//! The paper's set-ups that one machine can reproduce, on PostgreSQL.
//!
//! Mapping: a number of processors is a set of them that the server is pinned to. Isolation levels of the paper's
//! database differ by the locks that readers take. Readers of PostgreSQL take none, so transactions that the paper runs
//! under repeatable read explicitly lock the rows that they read here (`FOR SHARE`, `FOR UPDATE`), and those that it
//! runs under uncommitted read do not.
//!
//! **Invariant:** names are the paper's set-ups' of [`gate::sim::Setup`]; a script is one transaction.

use super::super::super::client::Control;
use super::super::super::postgres::Folder;
use super::super::super::servers::MeasuredServer;
use anyhow::Context;
use std::fs;
use std::path::PathBuf;

/// Work of the clients.
#[derive(Clone, Copy, Debug)]
pub enum SetupWork {
    /// TPC-C with this many warehouses, by an ordinary driver.
    Tpcc(i32),
    /// pgbench's TPC-B at this scale.
    Tpcb(u32),
    /// Scripts, with their weights, on tables made by these statements.
    Scripts { tables: &'static str, scripts: &'static [(&'static str, u32)] },
}

/// Set-up of the paper.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// Name of the paper's set-up, or a description.
    pub name: &'static str,
    pub description: &'static str,
    /// Processors that the server is pinned to.
    pub processors: usize,
    pub work: SetupWork,
    /// True if the server's device is slow, and its data is larger than its memory.
    pub is_on_disk: bool,
}

const fn setup(name: &'static str, processors: usize, description: &'static str, work: SetupWork) -> Setup {
    Setup { name, description, processors, work, is_on_disk: false }
}

/// Short reads by key, and a few reports that take a hundred times as long: TPC-W's browsing has a C² of 15.
const BROWSING: SetupWork = SetupWork::Scripts {
    tables: "create table item (id int primary key, subject int not null, price numeric not null, title text not null);
        insert into item select g, g % 24, g % 9973 / 100.0, md5(g::text) from generate_series(1, 50000) g;
        create index on item (subject); analyze item",
    scripts: &[
        ("\\set id random(1, 50000)\nselect title, price from item where id = :id;\n", 600),
        ("\\set s random(0, 23)\nselect id, title from item where subject = :s order by price desc limit 20;\n", 60),
        ("select subject, avg(price), max(md5(title)) from item where id <= 15000 group by subject;\n", 5),
    ],
};

const ITEMS: &str = "create table stock (id int primary key, quantity int not null) with (fillfactor = 50);
    insert into stock select g, 1000000 from generate_series(1, 10) g;
    create table orders (id bigserial primary key, item int not null, at timestamptz not null default now());
    analyze stock";

/// Orders of few items, whose rows are locked from the first look on.
const ORDERING_LOCKED: SetupWork = SetupWork::Scripts {
    tables: ITEMS,
    scripts: &[(
        "\\set a random(1, 10)\n\\set b random(1, 10)\nbegin;\n\
         select quantity from stock where id in (:a, :b) order by id for update;\n\
         update stock set quantity = quantity - 1 where id = :a;\ninsert into orders (item) values (:a);\nend;\n",
        1,
    )],
};

/// Orders of few items, whose rows are locked only by the writes, at the end.
const ORDERING: SetupWork = SetupWork::Scripts {
    tables: ITEMS,
    scripts: &[(
        "\\set a random(1, 10)\n\\set b random(1, 10)\nbegin;\n\
         select quantity from stock where id in (:a, :b) order by id;\ninsert into orders (item) values (:a);\n\
         update stock set quantity = quantity - 1 where id = :a;\nend;\n",
        1,
    )],
};

/// Look-ups by key in 800 MB.
const ON_DISK: SetupWork = SetupWork::Scripts {
    tables: "create table parts (id int primary key, data text not null);
        alter table parts alter data set storage plain;
        insert into parts select g, repeat(md5(g::text), 30) from generate_series(1, 750000) g;
        vacuum analyze parts",
    scripts: &[("\\set id random(1, 750000)\nselect data from parts where id = :id;\n", 1)],
};

/// Every set-up, those that show most in least time first.
pub const ALL: [Setup; 11] = [
    setup("s15", 2, "ordering, rows locked when read", ORDERING_LOCKED),
    setup("s04", 2, "browsing", BROWSING),
    setup("s02", 2, "TPC-C, 10 warehouses", SetupWork::Tpcc(10)),
    setup("few", 2, "TPC-C, 1 warehouse", SetupWork::Tpcc(1)),
    setup("tpcb", 2, "TPC-B, scale 1", SetupWork::Tpcb(1)),
    setup("s16", 2, "ordering, rows locked when written", ORDERING),
    setup("s01", 1, "TPC-C, 10 warehouses", SetupWork::Tpcc(10)),
    setup("s03", 1, "browsing", BROWSING),
    setup("s13", 1, "ordering, rows locked when read", ORDERING_LOCKED),
    setup("s14", 1, "ordering, rows locked when written", ORDERING),
    Setup { is_on_disk: true, ..setup("s05", 1, "look-ups on a slow disk", ON_DISK) },
];

/// Names of the set-ups of `--quick`.
pub const QUICK: [&str; 2] = ["s15", "s04"];

/// Scripts in files, as pgbench demands them.
pub struct Files {
    _folder: Folder,
    /// Files with their weights.
    pub all: Vec<(PathBuf, u32)>,
}

/// Makes the tables.
///
/// # Errors
/// Errors of the server.
pub fn fill(target: &MeasuredServer, tables: &str) -> anyhow::Result<()> {
    let control = Control::connect(target)?;
    tables.split(';').try_for_each(|statement| control.batch(statement))
}

/// Writes the files.
///
/// # Errors
/// Errors of the file system.
pub fn write(scripts: &[(&str, u32)]) -> anyhow::Result<Files> {
    let folder = Folder::new("overtake-scripts")?;
    let mut all = Vec::new();
    for (at, (text, weight)) in scripts.iter().enumerate() {
        let path = folder.path().join(format!("{at}.sql"));
        fs::write(&path, text).context("a script")?;
        all.push((path, *weight));
    }
    Ok(Files { _folder: folder, all })
}
