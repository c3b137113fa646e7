//! Texts that only read, as far as they tell: nothing of them can have been committed.
//!
//! **Invariant:** the check may take a text that only reads for a writing one, and never the other way round, except
//! for the silent effects of a view, an operator or a cast. A call counts as reading if its function is one of those
//! known here.

/// Words that may stand before a parenthesis: words that are no calls, and functions that change nothing. Sorted.
#[rustfmt::skip]
const HARMLESS: &[&str] = &[
    "abs", "age", "all", "and", "any", "array", "array_agg", "array_length", "as", "avg", "between", "bit",
    "bool_and", "bool_or", "btrim", "by", "cardinality", "case", "cast", "ceil", "ceiling", "char", "character",
    "clock_timestamp", "coalesce", "concat", "concat_ws", "count", "cube", "current_database", "current_schema",
    "current_setting", "date_part", "date_trunc", "decimal", "dense_rank", "distinct", "else", "every", "except",
    "exists", "exp", "extract", "filter", "first_value", "float", "floor", "format", "from", "generate_series",
    "greatest", "group", "grouping", "having", "in", "initcap", "intersect", "interval", "is", "join", "json_agg",
    "json_build_object", "jsonb_agg", "jsonb_build_object", "lag", "last_value", "lateral", "lead", "least", "left",
    "length", "like", "limit", "ln", "log", "lower", "lpad", "ltrim", "make_date", "materialized", "max", "md5",
    "min", "mod", "not", "now", "ntile", "nullif", "numeric", "offset", "on", "or", "over", "percentile_cont",
    "percentile_disc", "pg_backend_pid", "pg_sleep", "pg_table_size", "pg_total_relation_size", "position", "power",
    "random", "rank", "regexp_matches", "regexp_replace", "repeat", "replace", "reverse", "right", "rollup", "round",
    "row", "row_number", "row_to_json", "rpad", "rtrim", "select", "sets", "sign", "some", "split_part", "sqrt",
    "stddev", "string_agg", "strpos", "substr", "substring", "sum", "then", "time", "timestamp", "timestamptz",
    "to_char", "to_date", "to_json", "to_jsonb", "to_number", "to_timestamp", "to_tsquery", "to_tsvector",
    "translate", "trim", "trunc", "ts_rank", "union", "unnest", "upper", "using", "values", "varchar", "variance",
    "version", "when", "where", "within",
];

/// Check of a text, part by part.
#[derive(Debug, Default)]
pub(crate) struct ReadOnlyCheck {
    writes: bool,
    /// True if a statement has begun; the next field is true if any has.
    is_inside: bool,
    is_something: bool,
    /// Position of the last word. The next field is true if it is the last part of a qualified name.
    last: (usize, usize),
    is_part: bool,
}

impl ReadOnlyCheck {
    pub(crate) fn word(&mut self, text: &[u8], at: usize, end: usize) {
        if self.writes {
            return;
        }
        let word = &text[at..end];
        self.is_part = text[self.last.0..self.last.1].ends_with(b".");
        self.last = (at, end);
        let is = |own: &[u8]| word.eq_ignore_ascii_case(own);
        if !std::mem::replace(&mut self.is_inside, true) {
            self.is_something = true;
            self.writes = !(is(b"select") || is(b"values") || is(b"table") || is(b"show") || is(b"with"));
            return;
        }
        self.writes = match word[0] | 0x20 {
            b'i' => is(b"into") || is(b"insert"),
            b'u' => is(b"update"),
            b'd' => is(b"delete"),
            b'm' => is(b"merge"),
            _ => false,
        };
    }

    /// Handles a comment, or part of a quotation that looks like one.
    pub(crate) fn comment(&mut self, is_quoted: bool) {
        self.writes |= is_quoted;
    }

    /// Handles a semicolon.
    pub(crate) fn ends(&mut self) {
        self.is_inside = false;
    }

    /// Handles a parenthesis at this position.
    pub(crate) fn opens(&mut self, text: &[u8], at: usize) {
        if !self.is_inside || self.writes {
            return;
        }
        let between = text[self.last.1..at].trim_ascii();
        let has_comment = between.windows(2).any(|two| two == b"--" || two == b"/*");
        self.writes = match between.last() {
            // Behind an operator there is no call. The end of a quoted name may stand before a call, and so may a
            // comment.
            Some(byte) => has_comment || !b",(=<>+*|%:[".contains(byte),
            None => self.is_part || !is_harmless(&text[self.last.0..self.last.1]),
        };
    }

    /// True if the whole text only reads.
    pub(crate) fn are_all(&self) -> bool {
        self.is_something && !self.writes
    }
}

fn is_harmless(word: &[u8]) -> bool {
    let word = word.to_ascii_lowercase();
    let name = word.strip_prefix(b"pg_catalog.").unwrap_or(&word);
    HARMLESS.binary_search_by(|own| own.as_bytes().cmp(name)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statements::scan::scan;

    fn reads(text: &str) -> bool {
        scan(text.as_bytes()).reads
    }

    #[test]
    fn the_list_is_in_order() {
        assert!(HARMLESS.is_sorted());
    }

    #[test]
    fn reading_is_told_from_writing() {
        for text in [
            "select 1;",
            " /* x */ SELECT count(*), Sum (a) from t where b in (1, 2) and c = (select max(d) from u) -- x",
            "with a as (select 1) select * from a; show work_mem",
            "(select pg_catalog.pg_sleep(30)) union (values (1), (2))",
            "table t",
            "select 'it''s', $1::varchar(3), (a + (b)) from t",
            "select a from t where b = '/'",
        ] {
            assert!(reads(text), "{text}");
        }
        for text in [
            "",
            "insert into t values (1)",
            "select pay(1)",
            "select pay /* x */ (1)",
            "select pay -- x\n (1)",
            "select pay --,\n(1)",
            "select s . count(1)",
            "select s. count(1)",
            "select \"s\".count(1)",
            "select \"pay\" (1)",
            "select s.count(1)",
            "select a into b from t",
            "with a as (delete from t returning 1) select * from a",
            "select 1; call pay()",
            "select '--', pay(1)",
            "select $$/*$$, pay(1) --*/",
            "select $a$--$a$, pay(1)",
            "select nextval('s')",
            "explain analyze delete from t",
            "do 'x'",
            "select 'a' 'b' \"--\", pay(1)",
        ] {
            assert!(!reads(text), "{text}");
        }
    }
}
