//! Statements of a text, for the simple protocol.

use statement::error::{SqlError, SqlResult};
use statement::pulse;
use syntax::grammar::Parsed;
use syntax::lex::Span;
use syntax::tree::Tree;

/// Statement of a text with several.
#[derive(Debug, Default)]
pub struct StatementText {
    /// Text of the statement, with the comments around it and without the semicolon.
    pub text: String,
    /// Number of characters before it in the whole text.
    pub before: usize,
    /// Syntax tree of the text, until the statement is analysed.
    pub(super) parsed: Option<ParsedStatement>,
}

/// Syntax tree of a statement, and the notices of its names.
#[derive(Debug)]
pub(super) struct ParsedStatement {
    pub(super) tree: Tree,
    pub(super) notices: Vec<SqlError>,
}

/// Splits a text into statements; an empty text has none. A statement of PostgreSQL that is not supported is refused
/// in its turn, after those before it have run.
///
/// # Errors
/// Syntax errors, with their positions; `57014`.
pub fn parts(text: &str) -> SqlResult<Vec<StatementText>> {
    let statements = syntax::grammar::parse(text)?;
    let mut parts = Vec::with_capacity(statements.len());
    // Each count continues from the one before, so the time is linear in the length of the text.
    let (mut counted, mut before) = (0, 0);
    for Parsed { statement, span: _, extent, notices } in statements {
        let skipped = Span { start: counted, end: extent.start }.of(text);
        pulse::tick(pulse::ITEM + skipped.len())?;
        before += skipped.chars().count();
        counted = extent.start;
        let parsed = Some(ParsedStatement { tree: Tree::new(statement), notices });
        parts.push(StatementText { text: pulse::copied(extent.of(text))?, before, parsed });
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::parts;

    #[test]
    fn errors_and_parts_count_from_the_begin_of_the_whole_text() {
        let text = format!("{}\nselect 'é', from", "select 'é';\n".repeat(5_000));
        assert_eq!(parts(&text).unwrap_err().position(), Some(5_000 * 12 + 1 + 13));
        let text = format!("{}\nselect 'é", "select 'é';\n".repeat(5_000));
        assert_eq!(parts(&text).unwrap_err().position(), Some(5_000 * 12 + 1 + 8));
        let parts = parts("select 'é'; /* c */ select 2 ;").unwrap();
        assert_eq!(parts.iter().map(|part| part.before).collect::<Vec<_>>(), [0, 12]);
        assert_eq!(parts[1].text, "/* c */ select 2");
    }
}
