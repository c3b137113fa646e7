//! Tests that both stores give the same answers, and that the measurement measures each of the four operations.

use super::*;

/// Number of rows: more than two chunks, the last one not full.
const ROWS: usize = 2 * CHUNK_ROWS + 77;

#[test]
fn both_stores_hold_what_was_appended() {
    let samples = stock::samples(SAMPLES);
    let (rows, columns) = (fill::<RowStore>(ROWS, &samples), fill::<ColumnStore>(ROWS, &samples));
    let (mut from_rows, mut from_columns) = (Copied::default(), Copied::default());
    for at in 0..ROWS {
        let sample = &samples[at % SAMPLES];
        rows.read_row(at, &mut from_rows);
        columns.read_row(at, &mut from_columns);
        assert_eq!(from_rows, Copied { integers: sample.integers, text: sample.texts.concat().into_bytes() });
        assert_eq!(from_rows, from_columns);
        let mut integers = [0; stock::INTEGERS];
        for column in [stock::QUANTITY, stock::YTD, stock::ORDER_COUNT] {
            integers[column] = sample.integers[column];
        }
        let expected = Copied { integers, text: sample.texts[at % 10].clone().into_bytes() };
        let (mut four_of_rows, mut four_of_columns) = (Copied::default(), Copied::default());
        rows.read_4(at, at % 10, &mut four_of_rows);
        columns.read_4(at, at % 10, &mut four_of_columns);
        assert_eq!(four_of_rows, expected);
        assert_eq!(four_of_columns, expected);
    }
    let quantities = (0..ROWS).map(|at| samples[at % SAMPLES].integers[2]).sum::<i64>();
    assert_eq!(rows.scan_1(), quantities);
    assert_eq!(columns.scan_1(), quantities);
}

#[test]
fn each_operation_has_a_figure() {
    let figures = run(1_000, 0.0);
    assert_eq!(
        figures.iter().map(|figure| figure.name).collect::<Vec<_>>(),
        ["append", "read_row", "read_4", "scan_1"]
    );
    assert!(figures.iter().all(|figure| 0.0 < figure.row_ns && 0.0 < figure.column_ns), "{figures:?}");
}

#[test]
fn places_are_rows_and_districts() {
    let mut places = Places::new(3);
    let mut seen = [0; 3];
    for _ in 0..3_000 {
        let (at, district) = places.next();
        seen[at] += 1;
        assert!(district < 10);
    }
    assert!(seen.iter().all(|count| 800 < *count), "{seen:?}");
}
