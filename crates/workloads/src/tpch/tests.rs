//! Tests of the texts, the definitions and the comparison, without an engine.

use super::answers::TextRow;
use super::answers::{OrderKey, compare};
use super::cell::Cell;
use super::generate::{Comments, generate, parts_count};
use super::{QUERIES_COUNT, TpchTable, compare_answer, query, write_rows};
use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::{Date32Type, Decimal128Type, Int32Type, Int64Type};
use arrow_schema::DataType;

/// Goal: the definitions are what the generator makes: names, order and types.
#[test]
fn definitions_match_the_generator() {
    for table in TpchTable::ALL {
        let definition = table.definition();
        let batch = generate(table, 0.001, Comments::Short).next().expect("every table has rows");
        let schema = batch.schema();
        assert_eq!(schema.fields().len(), definition.columns.len(), "{}", table.name());
        for (field, column) in schema.fields().iter().zip(&definition.columns) {
            assert_eq!(field.name(), &column.name);
            assert_eq!(field.data_type(), &column.kind.arrow(), "{}", column.name);
            assert_eq!(field.is_nullable(), column.nullable);
        }
    }
}

/// Goal: row counts are the specification's, in parts of at most one block.
#[test]
fn row_counts_are_the_specifications() {
    for table in TpchTable::ALL {
        let batches: Vec<usize> = generate(table, 0.05, Comments::Short).map(|batch| batch.num_rows()).collect();
        let (rows_count, expected) = (batches.iter().sum::<usize>() as f64, table.rows_expected(0.05) as f64);
        let slack = if table == TpchTable::LineItem { 0.01 * expected } else { 0.0 };
        assert!((rows_count - expected).abs() <= slack, "{}: {rows_count}", table.name());
        assert_eq!(batches.len(), parts_count(table, 0.05) as usize, "{}: a part did not fit a batch", table.name());
    }
}

#[test]
fn queries_are_there() {
    for number in 1..=QUERIES_COUNT {
        assert!(query(number).contains("select"), "query {number}");
    }
}

#[test]
fn cells_print_exactly() {
    let number = |unscaled, scale| Cell::Number { unscaled, scale }.to_string();
    assert_eq!(number(-5, 2), "-0.05");
    assert_eq!(number(123_456, 4), "12.3456");
    assert_eq!(Cell::Date(0).to_string(), "1970-01-01");
    assert_eq!(Cell::Date(10_561).to_string(), "1998-12-01");
    assert_eq!(Cell::Date(-1).to_string(), "1969-12-31");
}

fn row(cells: &[&dyn ToString]) -> TextRow {
    cells.iter().map(|cell| Some(cell.to_string())).collect()
}

fn answer(keys: &[i64], names: &[&str], shares: &[f64]) -> Vec<TextRow> {
    let cells = keys.iter().zip(names).zip(shares);
    cells.map(|((key, name), share)| row(&[key, name, share])).collect()
}

/// Goal: a planted difference of each sort is found, and rows that tie may swap.
#[test]
fn comparison_finds_differences() {
    const EXPECTED: &str = "key|name|share\nnumber|text|float\n1|a|0.5\n1|b|0.25\n2|c|0.125\n";
    let check = |keys: &[i64], names: &[&str], shares: &[f64]| {
        compare(EXPECTED, &[OrderKey::Up(0)], &answer(keys, names, shares))
    };
    assert_eq!(check(&[1, 1, 2], &["a", "b", "c"], &[0.5, 0.25, 0.125]), Ok(()));
    assert_eq!(check(&[1, 1, 2], &["b", "a", "c"], &[0.25, 0.5, 0.125 + 1e-12]), Ok(()));
    let differs = |found: Result<(), String>, what: &str| {
        let message = found.expect_err("the difference was planted");
        assert!(message.contains(what), "{message}");
    };
    differs(check(&[1, 1], &["a", "b"], &[0.5, 0.25]), "2 rows instead of 3");
    differs(check(&[2, 1, 1], &["c", "a", "b"], &[0.125, 0.5, 0.25]), "not in order");
    differs(check(&[1, 1, 2], &["a", "b", "d"], &[0.5, 0.25, 0.125]), "name differs");
    differs(check(&[1, 1, 2], &["a", "b", "c"], &[0.5, 0.25, 0.135]), "share differs");
    differs(check(&[1, 1, 3], &["a", "b", "c"], &[0.5, 0.25, 0.125]), "key differs");
    let mut null = answer(&[1, 1, 2], &["a", "b", "c"], &[0.5, 0.25, 0.125]);
    null[2][0] = None;
    differs(compare(EXPECTED, &[], &null), "key differs");
    null[2][0] = Some("two".to_owned());
    differs(compare(EXPECTED, &[], &null), "\"two\" is no number");
    // An exact number may be off by one in its last place, where the other engine's is floating.
    let exact = |share: &str| {
        let mut rows = answer(&[1, 1, 2], &["a", "b", "c"], &[0.5, 0.25, 0.125]);
        rows[2][2] = Some(share.to_owned());
        compare(EXPECTED, &[], &rows)
    };
    assert_eq!(exact("0.12"), Ok(()));
    differs(exact("0.120"), "share differs");
}

fn cell(column: &dyn Array, row: usize) -> Cell {
    let number = |unscaled, scale| Cell::Number { unscaled, scale };
    match column.data_type() {
        DataType::Int32 => number(column.as_primitive::<Int32Type>().value(row).into(), 0),
        DataType::Int64 => number(column.as_primitive::<Int64Type>().value(row).into(), 0),
        DataType::Decimal128(_, scale) => {
            number(column.as_primitive::<Decimal128Type>().value(row), scale.unsigned_abs())
        }
        DataType::Utf8View => Cell::Text(column.as_string_view().value(row).to_owned()),
        DataType::Date32 => Cell::Date(column.as_primitive::<Date32Type>().value(row)),
        other => panic!("no table has a column of type {other}"),
    }
}

/// Goal: another engine reads what a [`Cell`] shows. Method: all tables, both ways.
#[test]
fn rows_are_written_as_cells_show_them() {
    for table in TpchTable::ALL {
        let batch = generate(table, 0.001, Comments::Short).next().expect("every table has rows");
        let mut written = Vec::new();
        write_rows(&batch, &mut written).expect("memory takes what is written");
        let line = |row: usize| {
            let cells = batch.columns().iter().map(|column| cell(column, row).to_string());
            cells.collect::<Vec<_>>().join("|") + "\n"
        };
        let shown: String = (0..batch.num_rows()).map(line).collect();
        assert_eq!(String::from_utf8(written).expect("it is text"), shown, "{}", table.name());
    }
}

/// Goal: rows that tie at the limit may be others, all before them may not.
#[test]
fn ties_at_the_limit_are_left_out() {
    let answer = |last: i64, first_key: i64| -> Vec<TextRow> {
        let one = |at: i64| {
            let key = if at == 0 { first_key } else { 20 - at.min(18) };
            let name = if at == 19 { last } else { at };
            row(&[&name, &name, &key])
        };
        (0..20).map(one).collect()
    };
    let text = |rows: &[TextRow]| {
        let line = |row: &TextRow| row.iter().flatten().cloned().collect::<Vec<_>>().join("|");
        let lines: Vec<String> = rows.iter().map(line).collect();
        format!("a|b|revenue\nnumber|number|number\n{}\n", lines.join("\n"))
    };
    let expected = text(&answer(19, 100));
    assert_eq!(compare_answer(10, &expected, &answer(19, 100)), Ok(()));
    assert_eq!(compare_answer(10, &expected, &answer(77, 100)), Ok(()), "the last two tie");
    assert!(compare_answer(10, &expected, &answer(19, 99)).is_err());
}
