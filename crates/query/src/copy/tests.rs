//! Goal: rows are read back as they were written, in each format, wherever the data is cut. Method: small texts with
//! all special characters, cut at every byte.

use super::out::CopyWriter;
use super::{CopyColumns, CopyFields, CopyFormat, CopyOptions, CopyReader, NextRow};
use types::datum::Datum;
use types::forms::Forms;
use types::{Kind, SqlType};

fn options(format: CopyFormat) -> CopyOptions {
    let is_csv = format == CopyFormat::Csv;
    CopyOptions {
        format,
        delimiter: if is_csv { b',' } else { b'\t' },
        null: if is_csv { "" } else { "\\N" }.to_owned(),
        header: false,
        header_must_match: false,
        quote: b'"',
        escape: b'"',
        force_quote: CopyColumns::These(Vec::new()),
        force_not_null: CopyColumns::These(Vec::new()),
        force_null: CopyColumns::These(Vec::new()),
        freeze: false,
    }
}

/// Reads rows from data that arrives in two pieces, the first of this size.
fn read(options: &CopyOptions, data: &[u8], first: usize) -> Result<Vec<Vec<Option<String>>>, String> {
    let mut reader = CopyReader::new(options, 3);
    let (mut at, mut rows, mut fields) = (0, Vec::new(), CopyFields::default());
    for (here, is_all) in [(first, false), (data.len(), true)] {
        loop {
            let next = reader.next(&data[..here], &mut at, is_all, &mut fields).map_err(|e| e.message().to_owned())?;
            if next != NextRow::Row {
                break;
            }
            let text = |at| fields.bytes(data, at).map(|bytes| String::from_utf8(bytes.to_vec()).unwrap());
            rows.push((0..fields.all.len()).map(text).collect());
        }
    }
    Ok(rows)
}

fn every_cut(options: &CopyOptions, data: &[u8]) -> Result<Vec<Vec<Option<String>>>, String> {
    let whole = read(options, data, data.len());
    for cut in 0..data.len() {
        assert_eq!(read(options, data, cut), whole, "cut at {cut}");
    }
    whole
}

fn some(texts: &[&str]) -> Vec<Option<String>> {
    texts.iter().map(|text| (*text != "NULL").then(|| (*text).to_owned())).collect()
}

#[test]
fn text_is_read() {
    let data = b"1\ta\\tb\\\\c\\n\\x41\\101\\e\t\\N\n\t\\NN\tx\\\ny\n2\t\xc3\xbc\t";
    let rows = every_cut(&options(CopyFormat::Text), data).unwrap();
    assert_eq!(rows, [some(&["1", "a\tb\\c\nAAe", "NULL"]), some(&["", "NN", "x\ny"]), some(&["2", "ü", ""])]);
    let text = options(CopyFormat::Text);
    assert_eq!(every_cut(&text, b"1\r\n2\r\n").unwrap(), [some(&["1"]), some(&["2"])]);
    assert_eq!(every_cut(&text, b"1\r2\r").unwrap(), [some(&["1"]), some(&["2"])]);
    assert_eq!(every_cut(&text, b"1\n\\.\n2\n").unwrap(), [some(&["1"])]);
    assert_eq!(every_cut(&text, b"1\n2\\.\n3\n").unwrap(), [some(&["1"]), some(&["2"])]);
    assert_eq!(every_cut(&text, b"").unwrap(), Vec::<Vec<_>>::new());
    assert_eq!(read(&text, b"1\n\\.x\n", 0).unwrap_err(), "end-of-copy marker corrupt");
    assert_eq!(read(&text, b"1\n2\r3\n", 0).unwrap_err(), "literal carriage return found in data");
    assert_eq!(read(&text, b"1\r\n2\n", 0).unwrap_err(), "literal newline found in data");
    assert_eq!(read(&text, b"\\377\n", 0).unwrap_err(), "invalid byte sequence for encoding \"UTF8\": 0xff");
}

#[test]
fn csv_is_read() {
    let csv = options(CopyFormat::Csv);
    let rows = every_cut(&csv, b"1,\"a,\"\"b\"\"\n c\",\n\"\",x\"y\"z,\\.\n").unwrap();
    assert_eq!(rows, [some(&["1", "a,\"b\"\n c", "NULL"]), some(&["", "xyz", "\\."])]);
    assert_eq!(every_cut(&csv, b"a,b\r\n\"c\r\n\",d\r\n").unwrap(), [some(&["a", "b"]), some(&["c\r\n", "d"])]);
    assert_eq!(every_cut(&csv, b"a\n\\.\nb\n").unwrap(), [some(&["a"])]);
    assert_eq!(read(&csv, b"\"a\n", 0).unwrap_err(), "unterminated CSV quoted field");
    assert_eq!(read(&csv, b"a\nb\rc\n", 0).unwrap_err(), "unquoted carriage return found in data");
    let other =
        CopyOptions { quote: b'\'', escape: b'\\', delimiter: b';', null: "-".to_owned(), ..options(CopyFormat::Csv) };
    assert_eq!(every_cut(&other, b"'a\\'b\\\\';-;'-'\n").unwrap(), [some(&["a'b\\", "NULL", "-"])]);
}

#[test]
fn what_is_written_is_read_back() {
    let kinds: Vec<SqlType> = vec![Kind::Text.into(); 3];
    let rows: Vec<Vec<Datum>> = [["a\tb", "\\N", ""], ["\n\r", "x,\"y\"", "\\."], ["NULL", "\u{8}\u{b}\u{c}", "ü"]]
        .iter()
        .map(|row| row.iter().map(|text| if *text == "NULL" { Datum::Null } else { Datum::text(*text) }).collect())
        .collect();
    for format in [CopyFormat::Text, CopyFormat::Csv, CopyFormat::Binary] {
        let options = options(format);
        let writer = CopyWriter { options: &options, kinds: &kinds, force_quote: &[], forms: &Forms::default() };
        let (mut out, mut buffer) = (Vec::new(), String::new());
        writer.begin(&[], &mut out);
        rows.iter().for_each(|row| writer.row(row, &mut buffer, &mut out).unwrap());
        writer.end(&mut out);
        let expected: Vec<Vec<Option<String>>> = rows
            .iter()
            .map(|row| {
                row.iter()
                    .map(|value| match value {
                        Datum::Text(text) => Some(text.to_string()),
                        _ => None,
                    })
                    .collect()
            })
            .collect();
        assert_eq!(every_cut(&options, &out).unwrap(), expected, "{format:?}");
    }
}
