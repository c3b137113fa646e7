//! Goal: tables that the program has created in the engine are SQL tables: sessions and the program see each other's
//! rows, keys hold for both, and no definition takes a table away from the program. Method: tables created by the
//! engine's own calls, and a session beside them.
#![allow(missing_docs, clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use engine::{Begin, Column, Engine, EngineConfig, IndexDef, Table, TableDef, Type, Value};
use query::analytics::AnalyticsQuery;
use sql::session::{Database, Session, Step};
use stage::Class;
use statement::{SqlError, SqlResult};
use std::sync::Arc;
use std::thread;
use support::{connect, run};
use types::{Datum, SqlType};

/// Returns rows as text, one per line.
fn shown(session: &mut Session, text: &str) -> Vec<String> {
    let cell = |value: &Datum| match value {
        Datum::Text(text) => text.to_string(),
        Datum::Bool(value) => value.to_string(),
        Datum::Int2(value) => value.to_string(),
        Datum::Int4(value) => value.to_string(),
        Datum::Int8(value) => value.to_string(),
        Datum::Numeric(value) => value.to_string(),
        other => format!("{other:?}"),
    };
    let rows = run(session, text).unwrap();
    rows.iter().map(|row| row.iter().map(cell).collect::<Vec<_>>().join("|")).collect()
}

fn refused(result: SqlResult<Vec<Box<[Datum]>>>) -> SqlError {
    result.unwrap_err()
}

const PRICE: Type = Type::Decimal { precision: 12, scale: 2 };

fn items(engine: &Engine) -> Arc<Table> {
    let columns = vec![
        Column::required("place", Type::Int32),
        Column::required("id", Type::Int64),
        Column::nullable("name", Type::Text),
        Column::nullable("price", PRICE),
        Column::nullable("made", Type::Date),
        Column::nullable("sold", Type::Timestamp),
        Column::nullable("weight", Type::Float64),
        Column::nullable("is_new", Type::Bool),
        Column::nullable("size", Type::Int16),
        Column::nullable("picture", Type::Bytes),
    ];
    let indexes = vec![IndexDef::unique("items_pkey", &[0, 1]), IndexDef::plain("items_by_name", &[2])];
    engine.create_table(TableDef { name: "shop.items".to_owned(), columns, indexes }).unwrap()
}

fn numbers(engine: &Engine) -> Arc<Table> {
    let columns = vec![Column::nullable("number", Type::Int32)];
    let indexes = vec![IndexDef::unique("numbers_key", &[0])];
    engine.create_table(TableDef { name: "numbers".to_owned(), columns, indexes }).unwrap()
}

fn insert(engine: &Engine, table: &Table, id: i64, name: &str) -> engine::Result<()> {
    let txn = engine.try_begin(Begin::new(Class::Normal)).unwrap();
    let mut values = vec![Value::Int32(1), Value::Int64(id), Value::Text(name), Value::Decimal(1_250)];
    values.resize(table.columns().len(), Value::Null);
    txn.insert(table, &values)?;
    txn.commit().map(drop)
}

fn adopted() -> (Engine, Database, [Arc<Table>; 2]) {
    let engine = Engine::new(EngineConfig::in_memory());
    let database = Database::new(engine.clone());
    let tables = [items(&engine), numbers(&engine)];
    insert(&engine, &tables[0], 7, "seven").unwrap();
    database.adopt(&tables).unwrap();
    (engine, database, tables)
}

#[test]
fn the_catalog_shows_columns_and_keys() {
    let (_, database, _) = adopted();
    let mut session = connect(&database);
    let columns = "select attname, format_type(atttypid, atttypmod), attnotnull from pg_attribute
                   where attrelid = 'shop.items'::regclass and attnum > 0 order by attnum";
    let expected = [
        "place|integer|true",
        "id|bigint|true",
        "name|text|false",
        "price|numeric(12,2)|false",
        "made|date|false",
        "sold|timestamp without time zone|false",
        "weight|double precision|false",
        "is_new|boolean|false",
        "size|smallint|false",
        "picture|bytea|false",
    ];
    assert_eq!(shown(&mut session, columns), expected);
    let indexes = "select pg_get_indexdef(indexrelid), indisprimary from pg_index order by indexrelid";
    let expected = [
        "CREATE UNIQUE INDEX items_pkey ON shop.items USING btree (place, id)|true",
        "CREATE INDEX items_by_name ON shop.items USING btree (name)|false",
        // The column may be null, so this is no primary key.
        "CREATE UNIQUE INDEX numbers_key ON public.numbers USING btree (number)|false",
    ];
    assert_eq!(shown(&mut session, indexes), expected);
    let keys = "select conname, pg_get_constraintdef(oid) from pg_constraint";
    assert_eq!(shown(&mut session, keys), ["items_pkey|PRIMARY KEY (place, id)"]);
}

#[test]
fn sessions_and_the_program_see_each_others_rows() {
    let (engine, database, [items, _]) = adopted();
    let mut session = connect(&database);
    assert_eq!(
        shown(&mut session, "select id, name, price from shop.items where place = 1 and id = 7"),
        ["7|seven|12.50"]
    );
    run(
        &mut session,
        "insert into shop.items values
            (1, 8, 'eight', 0.5, '2026-11-22', '2026-11-22 12:00', 1.5, true, 3, '\\x0102');
         update shop.items set price = price + 1, name = 'Seven' where id = 7",
    )
    .unwrap();
    let txn = engine.try_begin(Begin::new(Class::Normal)).unwrap();
    let row = |id: i64| {
        let row = txn.get(&items, 0, &[Value::Int32(1), Value::Int64(id)]).unwrap().unwrap();
        (0..items.columns().len()).map(|at| format!("{:?}", row.get(at))).collect::<Vec<_>>()
    };
    let show = |values: &[Value<'_>]| values.iter().map(|value| format!("{value:?}")).collect::<Vec<_>>();
    // The values as the program would have written them.
    let expected = show(&[
        Value::Int32(1),
        Value::Int64(8),
        Value::Text("eight"),
        Value::Decimal(50),
        Value::Date(20_779),
        Value::Timestamp(20_779 * 86_400_000_000 + 43_200_000_000),
        Value::Float64(1.5),
        Value::Bool(true),
        Value::Int16(3),
        Value::Bytes(&[1, 2]),
    ]);
    assert_eq!(row(8), expected);
    assert_eq!(row(7)[..4], show(&[Value::Int32(1), Value::Int64(7), Value::Text("Seven"), Value::Decimal(1_350)]));
    drop(txn);
    run(&mut session, "delete from shop.items where id = 8").unwrap();
    insert(&engine, &items, 8, "another eight").unwrap();
    assert_eq!(shown(&mut session, "select name from shop.items order by name"), ["Seven", "another eight"]);
}

#[test]
fn keys_hold_for_both() {
    let (engine, database, [items, _]) = adopted();
    let mut session = connect(&database);
    let error = refused(run(&mut session, "insert into shop.items (place, id) values (1, 7)"));
    assert_eq!(
        (error.state().0, error.message()),
        ("23505", "duplicate key value violates unique constraint \"items_pkey\"")
    );
    assert_eq!(error.detail_text(), Some("Key (place, id)=(1, 7) already exists."));
    assert_eq!(refused(run(&mut session, "insert into shop.items (place) values (1)")).state().0, "23502");
    run(&mut session, "insert into shop.items (place, id) values (1, 9) on conflict do nothing").unwrap();
    assert!(matches!(insert(&engine, &items, 9, "nine"), Err(engine::Error::UniqueViolation { .. })));
}

#[test]
fn no_definition_takes_a_table_from_the_program() {
    let (engine, database, [items, _]) = adopted();
    let mut session = connect(&database);
    for text in [
        "alter table shop.items add column more int",
        "alter table shop.items rename to other",
        "alter table shop.items add check (id > 0)",
        "alter index shop.items_pkey rename to other",
        "create index on shop.items (size)",
        "drop index shop.items_by_name",
        "drop table shop.items",
        "drop schema shop cascade",
        "truncate shop.items",
        "create table child (place int, id bigint, foreign key (place, id) references shop.items)",
    ] {
        let error = refused(run(&mut session, text));
        assert_eq!(
            (error.state().0, error.message()),
            ("0A000", "a definition that changes \"items\" or refers to it is not supported"),
            "{text}"
        );
    }
    // Definitions that change nothing for the program.
    run(
        &mut session,
        "create view names as select name from shop.items; comment on table shop.items is 'for sale';
         create table shop.own (like_items int primary key); alter table shop.own add column more int",
    )
    .unwrap();
    insert(&engine, &items, 8, "eight").unwrap();
    assert_eq!(shown(&mut session, "select name from names order by name"), ["eight", "seven"]);
}

#[test]
fn a_table_is_adopted_once_and_all_or_none() {
    let (engine, database, [items, numbers]) = adopted();
    let mut session = connect(&database);
    let oid = "select 'numbers'::regclass::oid::int8";
    let before = shown(&mut session, oid);
    let create = |name: &str, kind, index: &str| {
        let columns = vec![Column::required("a", kind)];
        let indexes = vec![IndexDef::unique(index, &[0])];
        engine.create_table(TableDef { name: name.to_owned(), columns, indexes }).unwrap()
    };
    let fine = create("fine", Type::Int32, "fine_pkey");
    let keyed = create("keyed", Type::Keyed, "keyed_pkey");
    let taken = create("taken", Type::Int32, "numbers_key");
    assert_eq!(database.adopt(&[Arc::clone(&fine), keyed]).unwrap_err().state().0, "0A000");
    assert_eq!(database.adopt(&[Arc::clone(&fine), taken]).unwrap_err().state().0, "42P07");
    assert_eq!(refused(run(&mut session, "select * from fine")).state().0, "42P01");
    database.adopt(&[items, numbers, fine]).unwrap();
    assert_eq!(shown(&mut session, "select count(*) from fine"), ["0"]);
    assert_eq!(shown(&mut session, oid), before);
    // The engine has the catalog's own table by now, which is not adopted.
    database
        .adopt(&engine.tables().into_iter().filter(|table| table.name().starts_with("pg_")).collect::<Vec<_>>())
        .unwrap();
    assert_eq!(shown(&mut session, "select count(*) from pg_class where relname = 'order'"), ["0"]);
}

#[test]
fn adopting_waits_for_who_defines_something_and_loses_nothing_of_it() {
    let engine = Engine::new(EngineConfig::in_memory());
    let database = Database::new(engine.clone());
    let mut session = connect(&database);
    let statement = |session: &mut Session, text: &str| {
        let statement = session.prepare(text, &[]).unwrap();
        let mut portal = session.bind(&statement, Vec::new()).unwrap();
        assert!(matches!(session.execute(&mut portal).unwrap(), Step::Done(_)), "{text}");
    };
    statement(&mut session, "begin");
    statement(&mut session, "create table own (a int)");
    let table = numbers(&engine);
    let adopter = {
        let database = database.clone();
        thread::spawn(move || database.adopt(&[table]))
    };
    while engine.locks().iter().all(|lock| lock.granted) {
        assert!(!adopter.is_finished(), "it does not wait");
        thread::yield_now();
    }
    statement(&mut session, "commit");
    adopter.join().unwrap().unwrap();
    assert_eq!(shown(&mut session, "select (select count(*) from own) + (select count(*) from numbers)"), ["0"]);
}

#[test]
fn a_query_is_bound_by_itself() {
    let (_, database, _) = adopted();
    let alone = database.query_alone("select name, price * 2 as twice from shop.items where id < 10").unwrap();
    let names: Vec<&str> = alone.columns().iter().map(|column| &*column.name).collect();
    assert_eq!(names, ["name", "twice"]);
    let AnalyticsQuery { plan, parameters, columns, context: _, code: _ } = alone.query();
    let kinds: Vec<String> = columns.iter().copied().map(SqlType::name).collect();
    assert!(parameters.is_empty() && kinds == ["text", "numeric"], "{kinds:?}");
    assert!(format!("{plan:?}").contains("Project"), "{plan:?}");
    for (text, state) in [
        ("select nothing from shop.items", "42703"),
        ("select name from shop.items where id = $1", "42P02"),
        ("select name from shop.items for update", "0A000"),
        ("select relname from pg_class", "0A000"),
        ("delete from shop.items", "0A000"),
        ("drop table shop.items", "0A000"),
        ("select 1; select 2", "42601"),
        ("selct 1", "42601"),
        ("", "0A000"),
    ] {
        assert_eq!(database.query_alone(text).unwrap_err().state().0, state, "{text}");
    }
}
