//! What is PostgreSQL's grammar and is not here: statements and clauses, known by their words, which are refused by name.
//!
//! **Invariant:** a text that PostgreSQL takes is never called a syntax error. Statements of [`HEADS`] are refused before the library
//! looks at them; a clause of [`CLAUSES`] is refused where the library has stumbled over it. All else stays a syntax error.

use super::rewrite::is_word;
use super::{at_end, position};
use sqlparser::tokenizer::{Token, TokenWithSpan};
use statement::error::SqlError;
use statement::pulse;

const MAKE: &[&str] = &["create"];
const CHANGE: &[&str] = &["alter", "drop"];
const ANY: &[&str] = &["create", "alter", "drop"];

/// Verbs, and what they would make, change or drop.
const HEADS: &[(&[&str], &str)] = &[
    (ANY, "function"),
    (ANY, "procedure"),
    (CHANGE, "routine"),
    (ANY, "trigger"),
    (ANY, "event trigger"),
    (ANY, "rule"),
    (ANY, "policy"),
    (ANY, "type"),
    (ANY, "domain"),
    (ANY, "aggregate"),
    (ANY, "operator class"),
    (ANY, "operator family"),
    (ANY, "operator"),
    (ANY, "cast"),
    (ANY, "collation"),
    (ANY, "conversion"),
    (ANY, "transform"),
    (ANY, "language"),
    (ANY, "access method"),
    (ANY, "extension"),
    (ANY, "foreign table"),
    (ANY, "foreign data wrapper"),
    (ANY, "server"),
    (ANY, "user mapping"),
    (ANY, "publication"),
    (ANY, "subscription"),
    (ANY, "statistics"),
    (ANY, "text search"),
    (ANY, "tablespace"),
    (ANY, "materialized view"),
    (MAKE, "database"),
    (&["alter"], "system"),
    (&["alter"], "large object"),
    (&["alter"], "default privileges"),
    (&["refresh"], "materialized view"),
    (&["drop", "reassign"], "owned"),
    (&["import"], "foreign schema"),
    (&["security"], "label"),
    (&["set"], "role"),
    (&["set"], "seed"),
    (&["prepare"], "transaction '"),
    (&["commit", "rollback"], "prepared"),
    (&["grant", "revoke", "call", "do", "load", "listen", "notify", "merge"], ""),
];

/// Words between `CREATE` and what it makes.
const QUALIFIERS: &[&str] = &["or", "replace", "trusted", "procedural", "constraint", "default"];

/// Words with which a statement begins, those of a clause in it, and what it is called. In the words `'` is a text, `$` is the
/// end, `%` is any word, `...` whatever stands behind, `(` and the like are signs.
const CLAUSES: &[(&str, &str, &str)] = &[
    ("alter table all", "in tablespace", "ALTER TABLE ALL IN TABLESPACE"),
    ("alter table", "set statistics", "ALTER COLUMN SET STATISTICS"),
    ("alter table", "set storage", "ALTER COLUMN SET STORAGE"),
    ("alter table", "set compression", "ALTER COLUMN SET COMPRESSION"),
    ("alter table", "drop expression", "ALTER COLUMN DROP EXPRESSION"),
    ("alter table", "collate", "COLLATE in ALTER COLUMN TYPE"),
    ("alter table", "cluster on", "ALTER TABLE CLUSTER ON"),
    ("alter table", "set without cluster", "ALTER TABLE SET WITHOUT CLUSTER"),
    ("alter table", "set tablespace", "ALTER TABLE SET TABLESPACE"),
    ("alter table", "set access method", "ALTER TABLE SET ACCESS METHOD"),
    ("alter table", "inherit", "ALTER TABLE INHERIT"),
    ("alter table", "no inherit", "ALTER TABLE NO INHERIT"),
    ("alter table", "not of", "ALTER TABLE NOT OF"),
    ("alter table", "of", "ALTER TABLE OF"),
    ("alter table", "alter constraint", "ALTER TABLE ALTER CONSTRAINT"),
    ("alter table", "attach partition", "ALTER TABLE ATTACH PARTITION"),
    ("alter table", "detach partition", "ALTER TABLE DETACH PARTITION"),
    ("alter index all", "in tablespace", "ALTER INDEX ALL IN TABLESPACE"),
    ("alter index", "set tablespace", "ALTER INDEX SET TABLESPACE"),
    ("alter index", "alter", "ALTER INDEX ALTER COLUMN"),
    ("alter index", "attach partition", "ALTER INDEX ATTACH PARTITION"),
    ("alter index", "depends", "ALTER INDEX DEPENDS ON EXTENSION"),
    ("alter index", "no depends", "ALTER INDEX DEPENDS ON EXTENSION"),
    ("alter view", "alter", "ALTER VIEW ALTER COLUMN"),
    ("alter view", "set (", "ALTER VIEW SET (option)"),
    ("alter view", "reset (", "ALTER VIEW RESET (option)"),
    ("alter sequence", "set logged", "ALTER SEQUENCE SET LOGGED"),
    ("alter sequence", "set unlogged", "ALTER SEQUENCE SET UNLOGGED"),
    ("alter database", "rename", "ALTER DATABASE RENAME"),
    ("alter database", "owner", "ALTER DATABASE OWNER"),
    ("alter database", "", "an option of ALTER DATABASE"),
    ("alter group", "", "ALTER GROUP"),
    ("alter schema", "", "ALTER SCHEMA"),
    ("drop database", "with", "DROP DATABASE WITH (FORCE)"),
    ("create schema", "create", "definitions in CREATE SCHEMA"),
    ("create schema", "grant", "definitions in CREATE SCHEMA"),
    ("create unlogged sequence", "", "CREATE UNLOGGED SEQUENCE"),
    ("create index", "tablespace", "TABLESPACE of an index"),
    ("create unique index", "tablespace", "TABLESPACE of an index"),
    ("create", "partition by ...", "PARTITION BY"),
    ("create", "partition of ...", "PARTITION OF"),
    ("create index", "( % % (", "parameters of an operator class"),
    ("create index", ", % % (", "parameters of an operator class"),
    ("create unique index", "( % % (", "parameters of an operator class"),
    ("create unique index", ", % % (", "parameters of an operator class"),
    ("create", "sysid", "SYSID"),
    ("", "not valid", "NOT VALID"),
    ("drop database", "(", "DROP DATABASE WITH (FORCE)"),
    ("", "collate", "COLLATE there"),
    ("", "* any (", "ANY with an operator that compares nothing"),
    ("", ". * ::", "a cast of a whole row"),
    ("create", "with check option", "WITH CHECK OPTION"),
    ("create", "with local check option", "WITH CHECK OPTION"),
    ("create", "with cascaded check option", "WITH CHECK OPTION"),
    ("create view", "with (", "WITH in CREATE VIEW"),
    ("create or replace view", "with (", "WITH in CREATE VIEW"),
    ("create", "as execute", "CREATE TABLE AS EXECUTE"),
    ("create", "of", "CREATE TABLE OF"),
    ("create", "using index tablespace", "TABLESPACE of a key's index"),
    ("create", "with (", "a storage parameter without a value, or of a key's index"),
    ("create", "using", "USING in CREATE TABLE"),
    ("create", "setof", "SETOF of a column"),
    ("", "compression", "COMPRESSION of a column"),
    ("", "nulls not distinct", "NULLS NOT DISTINCT"),
    ("", "set null (", "ON DELETE SET NULL with columns"),
    ("", "set default (", "ON DELETE SET DEFAULT with columns"),
    ("", "primary key with (", "a storage parameter of a key's index"),
    ("set", "xml option", "SET XML OPTION"),
    ("set", "catalog", "SET CATALOG"),
    ("set", "session authorization", "SET SESSION AUTHORIZATION"),
    ("", "on conflict ( (", "an expression in ON CONFLICT"),
    ("", "on conflict ( % (", "an expression in ON CONFLICT"),
    ("", "on conflict ( % collate", "COLLATE in ON CONFLICT"),
    ("insert", "[", "to insert into an element of an array"),
    ("update", "[", "to update an element of an array"),
    ("explain", "[", "to update an element of an array"),
    ("with", "merge into", "MERGE"),
    ("explain", "merge into", "MERGE"),
    ("explain", "create materialized view ...", "CREATE MATERIALIZED VIEW"),
    ("", ") as (", "a list of column definitions"),
    ("", "rows from (", "ROWS FROM with several functions"),
    ("", "fetch first (", "an expression in FETCH FIRST"),
    ("", "fetch next (", "an expression in FETCH FIRST"),
    ("", "group by distinct", "GROUP BY DISTINCT"),
    ("", "group by all", "GROUP BY ALL"),
    ("", "select )", "SELECT without columns"),
    ("", "select $", "SELECT without columns"),
    ("with", "search depth first", "SEARCH"),
    ("with", "search breadth first", "SEARCH"),
    ("with", "cycle", "CYCLE"),
    ("create", "cycle", "CYCLE"),
    ("", "operator (", "OPERATOR() before its operand"),
    ("", "collation for (", "COLLATION FOR"),
    ("", "( variadic", "VARIADIC"),
    ("", ", variadic", "VARIADIC"),
    ("", "xmlelement (", "xmlelement"),
    ("", "xmlforest (", "xmlforest"),
    ("", "xmlpi (", "xmlpi"),
    ("", "xmlparse (", "xmlparse"),
    ("", "xmlroot (", "xmlroot"),
    ("", "xmlserialize (", "xmlserialize"),
    ("", "xmlexists (", "xmlexists"),
    ("", "xmltable (", "xmltable"),
    ("", "is document", "IS DOCUMENT"),
    ("", "is not document", "IS NOT DOCUMENT"),
    ("", ") . *", "the columns of a composite value"),
];

/// How many tokens there may be before the library stumbles over what stands in parentheses.
const WITHIN: usize = 64;

/// Where the library may stumble at last over a clause that begins there: behind its words, or what they open.
fn end(tokens: &[&TokenWithSpan], from: usize, words: &str) -> usize {
    let behind = from + words.split_whitespace().count();
    if words.ends_with("...") {
        return tokens.len();
    }
    if !words.ends_with('(') {
        return behind;
    }
    let mut depth = 0_usize;
    let closes = |token: &&TokenWithSpan| {
        match token.token {
            Token::LParen => depth += 1,
            Token::RParen if depth == 0 => return true,
            Token::RParen => depth -= 1,
            _ => {}
        }
        false
    };
    tokens[behind..].iter().position(closes).map_or(tokens.len(), |more| behind + more + 1)
}

/// Whether these words stand there.
fn stands(tokens: &[&TokenWithSpan], words: &str) -> bool {
    words.split_whitespace().enumerate().all(|(at, word)| match tokens.get(at) {
        None => word == "$" || word == "...",
        Some(token) => match word {
            "..." => true,
            "%" => matches!(token.token, Token::Word(_)),
            "'" => matches!(token.token, Token::SingleQuotedString(_)),
            word => is_word(token, word) || token.token.to_string() == word,
        },
    })
}

/// Whether some word of a `FUNCTION` or `PROCEDURE` that is made begins a body of statements.
pub(super) fn makes_routine(tokens: &[TokenWithSpan]) -> bool {
    let said: Vec<&TokenWithSpan> = said(tokens).take(4).collect();
    let from = if stands(&said, "create or replace") { 3 } else { 1 };
    stands(&said, "create") && said.get(from).is_some_and(|it| is_word(it, "function") || is_word(it, "procedure"))
}

fn said(tokens: &[TokenWithSpan]) -> impl Iterator<Item = &TokenWithSpan> {
    tokens.iter().filter(|token| !matches!(token.token, Token::Whitespace(_) | Token::EOF))
}

/// Words with which a statement begins, more than any head has.
const HEAD_MAX: usize = 64;

/// The refusal of a statement that is none of ours, if it is one.
pub(super) fn statement(text: &str, tokens: &[TokenWithSpan]) -> Option<SqlError> {
    let all = tokens;
    let tokens: Vec<&TokenWithSpan> = said(tokens).take(HEAD_MAX).collect();
    let verb = tokens.first()?;
    // `ALTER DEFAULT PRIVILEGES` is no conversion's.
    let of_create = if is_word(verb, "create") { QUALIFIERS } else { &["procedural"] };
    let qualifies = |token: &&&TokenWithSpan| of_create.iter().any(|word| is_word(token, word));
    let skipped = 1 + tokens[1..].iter().take_while(qualifies).count();
    let merges = || {
        let mut words = pulse::walked(all).filter(|token| !matches!(token.token, Token::Whitespace(_)));
        let mut is_behind = false;
        words.any(|word| std::mem::replace(&mut is_behind, is_word(word, "merge")) && is_word(word, "into"))
    };
    if is_word(verb, "prepare") && merges() {
        return Some(SqlError::unsupported("MERGE"));
    }
    for (verbs, object) in HEADS {
        let Some(verb) = verbs.iter().find(|word| is_word(verb, word)) else { continue };
        let object_words = object.split_whitespace().count();
        // A cursor, a role or a prepared statement may have the name of an object.
        let from = if object.is_empty() { 1 } else { skipped };
        if !stands(&tokens[from..], object) || stands(&tokens, "set role none $") {
            continue;
        }
        let is_whole = object.ends_with('\'');
        if tokens.len() == from + object_words && !is_whole {
            return Some(at_end(text));
        }
        let what = object.trim_end_matches(['\'', ' ']).to_uppercase();
        let feature = format!("{} {what}", verb.to_uppercase());
        return Some(SqlError::unsupported(feature.trim_end()));
    }
    None
}

/// What is refused of a statement, if a syntax error in it is none of PostgreSQL's.
pub(super) fn clause(text: &str, tokens: &[TokenWithSpan], error: &SqlError) -> Option<SqlError> {
    let place = error.position()?;
    let tokens: Vec<&TokenWithSpan> = said(tokens).collect();
    let stumbled = tokens.partition_point(|token| position(text, token.span.start) < place);
    if stands(&tokens, "comment on") {
        let names = |token: &&&TokenWithSpan| matches!(token.token, Token::Word(_));
        let objects = ["event trigger", "access method", "foreign table", "foreign data wrapper", "large object"];
        let objects = objects.iter().chain(&["operator class", "operator family", "text search"]);
        let count = objects.filter(|words| stands(&tokens[2..], words)).map(|words| words.split(' ').count()).max();
        let words: Vec<String> =
            tokens[2..].iter().take(count.unwrap_or(1)).take_while(names).map(|one| one.to_string()).collect();
        let knows = ["table", "column", "view", "index", "sequence", "schema", "role", "database"];
        if words.is_empty() || tokens.len() < 5 || knows.iter().any(|word| words[0].eq_ignore_ascii_case(word)) {
            return None;
        }
        return Some(SqlError::unsupported(format_args!("COMMENT ON {}", words.join(" ").to_uppercase())));
    }
    let found = CLAUSES.iter().filter(|(head, ..)| stands(&tokens, head)).filter_map(|(_, words, feature)| {
        let begin = if words.ends_with("...") { 0 } else { stumbled.saturating_sub(WITHIN) };
        let begins =
            |at: &usize| *at < tokens.len() && stands(&tokens[*at..], words) && stumbled <= end(&tokens, *at, words);
        Some(((begin..=stumbled).rev().find(begins)?, feature))
    });
    // The nearest; of those the first in the table.
    let (at, feature) = found.reduce(|best, other| if best.0 < other.0 { other } else { best })?;
    Some(SqlError::unsupported(feature).at(position(text, tokens[at].span.start)))
}
