use super::*;

const TEXT: &str = "//! A file.

/// What a table is.
pub struct Table;

/// Table of joins.
#[derive(Debug)]
pub(crate) enum Joins {
    One, // of them
}

/// Returns one.
pub fn one() -> u32 {
    // The first.
    1
}

fn two() -> u32 { 2 }

trait Both {
    fn three(
        &self,
        x: u32,
    ) -> u32;
}
";

#[test]
fn documents_functions_and_types_are_counted() {
    let source = SourceFile { name: "crates/x/src/a.rs".into(), text: TEXT.into() };
    let shape = SourceFigures::of(&[source]);
    assert_eq!(shape.file_lines, [25]);
    assert_eq!(shape.function_lines, [1, 4, 4]);
    assert_eq!((shape.doc_items, shape.opened, shape.pub_doc_items, shape.pub_opened), (3, 1, 2, 1));
    assert_eq!((shape.doc_lines, shape.comment_lines), (4, 1));
    assert_eq!(shape.types.keys().collect::<Vec<_>>(), ["Both", "Joins", "Table"]);
}
