//! Possible effects of a text on its session, found without parsing it.
//!
//! **Invariant:** the scan may find something that is not there (a word in a literal costs a question to the server),
//! but it does not miss a statement that leaves state behind, as far as the text tells. (Any CREATE may make a
//! temporary object: only the server knows if the search path begins with `pg_temp`.) Silent effects of a function of
//! the database are missed here as everywhere.

use crate::statements::read_only::ReadOnlyCheck;
use std::cell::RefCell;
use std::collections::BTreeSet;
use syntax::fingerprint::end_of_comment;

/// Result of a scan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Scan {
    /// True if the session may be changed.
    pub(crate) touches: bool,
    /// True if settings may differ up to the end of the transaction.
    pub(crate) sets: bool,
    /// True if the text may name a moment, `'now'` or `'today'` for instance, which becomes a value when it is parsed.
    pub(crate) is_of_moment: bool,
    /// True if state that ties the session to one connection may end.
    pub(crate) lets_go: bool,
    /// True if prepared statements may be removed.
    pub(crate) takes_statements: bool,
    /// True for RESET ALL and DISCARD ALL.
    pub(crate) resets_all: bool,
    /// True if it ends a transaction.
    pub(crate) commits: bool,
    /// True if it only reads.
    pub(crate) reads: bool,
    /// Settings of two parts that it names: the server does not list them.
    pub(crate) customs: BTreeSet<String>,
    /// True if it leaves state that the server cannot be asked for: a setting that it does not name, a library, a
    /// backup.
    pub(crate) binds: bool,
    /// True if it may be, or contain, a COPY FROM STDIN.
    pub(crate) copies_in: bool,
    pub(crate) has_copy: bool,
    pub(crate) has_update: bool,
    /// True if it has a block of code, which may have commands anywhere.
    pub(crate) has_block: bool,
}

/// True for the words that may change a session, except SET, which every UPDATE has, too.
fn touches(word: &[u8]) -> bool {
    const WORDS: &[&[u8]] = &[
        b"reset",
        b"discard",
        b"set_config",
        b"listen",
        b"unlisten",
        b"temp",
        b"temporary",
        b"hold",
        b"prepare",
        b"deallocate",
        b"load",
    ];
    match word[0] | 0x20 {
        b'r' | b'd' | b's' | b'l' | b'u' | b't' | b'h' => WORDS.iter().any(|own| own.eq_ignore_ascii_case(word)),
        b'p' => is_of_session(word) || word.eq_ignore_ascii_case(b"prepare"),
        _ => false,
    }
}

/// True for a function of advisory locks or of replication slots, or the schema of temporary objects.
fn is_of_session(word: &[u8]) -> bool {
    contains(word, b"advisory") || contains(word, b"pg_temp") || contains(word, b"replication_slot")
}

/// True for a function that leaves state in its session which the server cannot be asked for.
fn is_bound(function: &[u8]) -> bool {
    const NAMES: &[&[u8]] = &[
        b"pg_replication_origin_session_setup",
        b"pg_backup_start",
        b"pg_start_backup",
        b"dblink_connect",
        b"dblink_connect_u",
    ];
    NAMES.iter().any(|own| own.eq_ignore_ascii_case(function))
}

/// True if any part of a qualified name is of that kind. The name is one word up to a blank, a comment or a quote
/// (`"pg_catalog".f` has the word `.f`); behind the dollars of a quotation, the rest counts as a part.
fn has_part_of_session(word: &[u8]) -> bool {
    7 < word.len()
        && word.iter().any(|&byte| is_separator(byte))
        && word.split(|&byte| is_separator(byte)).any(is_of_session)
}

/// True for characters that a word may contain, and no name that is searched.
fn is_separator(byte: u8) -> bool {
    matches!(byte, b'.' | b'$')
}

/// Last part of a word: the name of a function, if the word stands for a call.
fn last_part(word: &[u8]) -> &[u8] {
    memchr::memrchr2(b'.', b'$', word).map_or(word, |at| &word[at + 1..])
}

/// True for words that may stand for a moment in a literal of a time.
fn is_moment(word: &[u8]) -> bool {
    // A text quoted by dollars is one word with them.
    let is = |own: &&[u8]| own.eq_ignore_ascii_case(word) || (word[0] == b'$' && contains(word, own));
    [&b"now"[..], b"today", b"tomorrow", b"yesterday"].iter().any(is)
}

/// True if a word contains a part, in any case.
pub(crate) fn contains(word: &[u8], part: &[u8]) -> bool {
    part.len() <= word.len() && word.windows(part.len()).any(|window| window.eq_ignore_ascii_case(part))
}

fn is_word(byte: u8) -> bool {
    const WORD: [bool; 256] = {
        let mut all = [false; 256];
        let mut at = 0;
        while at < all.len() {
            let byte = at as u8;
            all[at] = byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'$') || 0x7f < byte;
            at += 1;
        }
        all
    };
    WORD[byte as usize]
}

/// Returns the end of the blanks and comments that begin here.
pub(crate) fn skip_blanks(text: &[u8], at: usize) -> usize {
    end_of_blanks(text, at).unwrap_or(text.len())
}

/// Returns the end of the blanks and comments that begin here; `None` if a comment has no end.
pub(crate) fn end_of_blanks(text: &[u8], mut at: usize) -> Option<usize> {
    loop {
        match &text[at..] {
            [b' ' | b'\t' | b'\n' | b'\r' | 0x0c | 0x0b, ..] => at += 1,
            [b'-', b'-', ..] | [b'/', b'*', ..] => at = end_of_comment(text, at)?,
            _ => return Some(at),
        }
    }
}

/// Returns the word behind the blanks and comments that begin here.
fn next_word(text: &[u8], at: usize) -> &[u8] {
    let rest = &text[skip_blanks(text, at)..];
    &rest[..rest.iter().take_while(|&&byte| is_word(byte)).count()]
}

/// Text, with the result of its scan.
type CachedScan = (Box<[u8]>, Scan);

thread_local! {
    /// Results for texts that repeat; each text has one place where it may be.
    static KNOWN: RefCell<Vec<Option<CachedScan>>> = RefCell::new(vec![None; 256]);
}

/// Length in bytes above which texts are scanned each time.
const KNOWN_MAX: usize = 1 << 10;

/// Result of [`scan`] for a text that clients send repeatedly: with parameters, that is.
pub(crate) fn scan_known(text: &[u8]) -> Scan {
    if KNOWN_MAX < text.len() {
        return scan(text);
    }
    KNOWN.with_borrow_mut(|known| {
        let place = &mut known[place_of(text)];
        match place {
            Some((own, seen)) if **own == *text => seen.clone(),
            _ => place.insert((text.into(), scan(text))).1.clone(),
        }
    })
}

/// Place of a text, from its length, and its first, middle and last bytes.
fn place_of(text: &[u8]) -> usize {
    let word = |at: usize| text[at..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
    let words = [word(0), word(text.len() / 2), word(text.len().saturating_sub(8)), text.len() as u64];
    let mixed =
        words.into_iter().fold(0, |sum: u64, word| (sum.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    (mixed >> 56) as usize
}

/// Scans a text once. Almost all texts have none of the words.
pub(crate) fn scan(text: &[u8]) -> Scan {
    let (mut scan, mut reads) = (Scan::default(), ReadOnlyCheck::default());
    let (mut at, mut is_first) = (0, true);
    // Position of an INSERT or a MERGE, whose INTO follows.
    let mut into_at = None;
    // True if a quotation may have begun: a comment behind that may be part of it, and is scanned.
    let mut is_quoted = false;
    while at < text.len() {
        let byte = text[at];
        if is_word(byte) {
            let end = text[at..].iter().position(|&byte| !is_word(byte)).map_or(text.len(), |length| at + length);
            let word = &text[at..end];
            scan.word(word, is_first, text, end);
            match word.len() {
                6 if word.eq_ignore_ascii_case(b"insert") => into_at = Some(skip_blanks(text, end)),
                5 if word.eq_ignore_ascii_case(b"merge") => into_at = Some(skip_blanks(text, end)),
                4 if word.eq_ignore_ascii_case(b"into") && into_at != Some(at) => scan.makes(),
                _ => {}
            }
            reads.word(text, at, end);
            is_quoted |= 1 < memchr::memchr_iter(b'$', word).take(2).count();
            is_first = false;
            at = end;
            continue;
        }
        match byte {
            b'-' | b'/' if matches!(&text[at..], [b'-', b'-', ..] | [b'/', b'*', ..]) => {
                reads.comment(is_quoted);
                let end = if is_quoted { Some(at + 2) } else { end_of_comment(text, at) };
                at = end.unwrap_or(text.len());
            }
            b';' => {
                reads.ends();
                (is_first, at) = (true, at + 1);
            }
            // A statement may stand in parentheses or in quotes, of a block of code for instance.
            b'\'' | b'"' => {
                // A name with escapes may be any name.
                if byte == b'"' && matches!(&text[..at], [.., b'u' | b'U', b'&']) {
                    (scan.touches, scan.sets, scan.binds) = (true, true, true);
                }
                (is_quoted, is_first, at) = (true, true, at + 1);
            }
            b'(' => {
                reads.opens(text, at);
                at += 1;
            }
            _ => at += 1,
        }
    }
    scan.reads = reads.are_all();
    scan
}

impl Scan {
    /// True if it leaves nothing behind in its session, removes nothing from it, and means the same whenever it is
    /// parsed.
    pub(crate) fn is_plain(&self) -> bool {
        let leaves = self.touches || self.sets || self.takes_statements || self.resets_all || self.binds;
        !leaves && !self.is_of_moment && self.customs.is_empty()
    }

    /// True if later texts may be parsed under other settings than the session is known to have.
    pub(crate) fn changes_settings(&self) -> bool {
        self.touches || self.sets || self.resets_all
    }

    fn word(&mut self, word: &[u8], is_first: bool, text: &[u8], end: usize) {
        let is = |own: &[u8]| word.eq_ignore_ascii_case(own);
        if is_first && (is(b"reset") || is(b"discard")) {
            self.resets_all |= next_word(text, end).eq_ignore_ascii_case(b"all");
        }
        match word.len() {
            4 => self.has_copy |= is(b"copy"),
            6 if is(b"create") => self.makes(),
            6 => self.has_update |= is(b"update"),
            11.. if self.has_update && contains(word, b"pg_settings") => {
                (self.touches, self.sets) = (true, true);
            }
            5 => self.copies_in |= self.has_copy && is(b"stdin"),
            _ => {}
        }
        match word.len() {
            _ if is_first && (is(b"set") || is(b"reset")) => {
                let next = next_word(text, end);
                self.sets |= ![&b"transaction"[..], b"constraints"].iter().any(|own| own.eq_ignore_ascii_case(next));
                let is_of_session = is(b"set") && !is_of_transaction(text, end);
                self.touches |= is_of_session || is(b"reset");
                let is_whole = self.custom_of_set(text, end);
                // A block of code may compose the name, and then nobody can read it. A reset of a setting leaves no
                // such name.
                self.binds |= self.has_block && is_of_session && !is_whole;
            }
            // A block of code may do anything.
            2 if is_first && is(b"do") => {
                self.touches = true;
                self.has_block |= is_code(text, end);
            }
            0..=2 => return,
            _ if is_first && (is(b"commit") || is(b"end")) => self.commits = true,
            _ if is(b"close") || is(b"drop") => self.lets_go = true,
            10.. if last_part(word).eq_ignore_ascii_case(b"set_config") => {
                self.sets = true;
                self.set_config(text, end);
            }
            14.. if is_bound(last_part(word)) => (self.touches, self.binds) = (true, true),
            _ if matches!(word[0] | 0x20, b'n' | b't' | b'y' | b'$') && is_moment(word) => {
                self.is_of_moment |= !is(b"now") || text.get(end) != Some(&b'(');
            }
            _ if touches(word) || has_part_of_session(word) => {
                self.touches = true;
                self.binds |= is(b"load") && is_first;
                self.takes_statements |= (is_first || self.has_block) && (is(b"discard") || is(b"deallocate"));
                let next = next_word(text, end).get(..11).unwrap_or_default();
                self.commits |= is(b"prepare") && next.eq_ignore_ascii_case(b"transaction");
            }
            _ => {}
        }
        self.lets_go |= self.touches;
    }

    /// Notes a new object, which is temporary where the search path says so.
    fn makes(&mut self) {
        (self.touches, self.lets_go) = (true, true);
    }

    /// Notes the setting that a SET or RESET names, if it is one of several parts. Returns true if it can be read.
    fn custom_of_set(&mut self, text: &[u8], end: usize) -> bool {
        let mut at = skip_blanks(text, end);
        let first = next_word(text, at);
        if [&b"session"[..], b"local"].iter().any(|own| own.eq_ignore_ascii_case(first)) {
            let behind = skip_blanks(text, at + first.len());
            if text.get(behind) != Some(&b'.') {
                at = behind;
            }
        }
        let mut name = Vec::new();
        // Blanks and comments may stand before its dots and behind them, and parts may be quoted.
        loop {
            let is_quoted = text.get(at) == Some(&b'"');
            let begin = at + usize::from(is_quoted);
            let length = match is_quoted {
                true => memchr::memchr(b'"', &text[begin..]).unwrap_or(text.len() - begin),
                false => next_word(text, begin).len(),
            };
            name.extend_from_slice(&text[begin..begin + length]);
            at = skip_blanks(text, (begin + length + usize::from(is_quoted)).min(text.len()));
            if length == 0 || !(name.ends_with(b".") || text.get(at) == Some(&b'.')) {
                break;
            }
        }
        if name.contains(&b'.') {
            self.customs.insert(String::from_utf8_lossy(&name).to_ascii_lowercase());
        }
        is_whole(&name, &text[at..])
    }

    /// Handles `set_config(name, value, is_local)`: a value that ends with the transaction leaves nothing.
    fn set_config(&mut self, text: &[u8], end: usize) {
        // Its name may have been quoted.
        let end = end + usize::from(text.get(end) == Some(&b'"'));
        let begin = skip_blanks(text, end);
        let arguments = text[begin..].strip_prefix(b"(").and_then(arguments);
        let Some([name, _, is_local]) = arguments.as_deref() else {
            self.touches = true;
            self.binds = true;
            return;
        };
        if is_local.eq_ignore_ascii_case(b"true") || is_local.eq_ignore_ascii_case(b"'t'") {
            return;
        }
        self.touches = true;
        match literal(name) {
            Some(name) if name.contains(&b'.') => {
                self.customs.insert(String::from_utf8_lossy(name).to_ascii_lowercase());
            }
            Some(_) => {}
            None => self.binds = true,
        }
    }
}

/// True if this is the whole name of a SET, judged by the text behind it; or if it needs none: a SET of columns, or one
/// with words of its own.
fn is_whole(name: &[u8], rest: &[u8]) -> bool {
    const WORDS: &[&[u8]] =
        &[b"authorization", b"catalog", b"characteristics", b"names", b"role", b"schema", b"time", b"xml"];
    let has_value = || rest.first() == Some(&b'=') || next_word(rest, 0).eq_ignore_ascii_case(b"to");
    match (name, rest) {
        ([], [b'(', ..]) | ([_, ..], [b'[', ..]) => true,
        ([] | [.., b'.'], _) => false,
        // The text between two of its parts was taken for a quoted part: no setting has such a name.
        _ if name.contains(&b'\'') => false,
        _ => has_value() || WORDS.iter().any(|word| word.eq_ignore_ascii_case(name)),
    }
}

/// True if a block of code stands behind the word DO that ends there, as far as that can be told.
fn is_code(text: &[u8], end: usize) -> bool {
    let next = next_word(text, end);
    let is = |own: &[u8]| next.eq_ignore_ascii_case(own);
    let behind = &text[skip_blanks(text, end) + next.len()..];
    // A literal may have escapes of either kind.
    let begins = (next.is_empty() || is(b"e")) && behind.starts_with(b"'") || is(b"u") && behind.starts_with(b"&'");
    begins || matches!(next, [b'$', ..]) || is(b"language")
}

/// Contents of a literal that is the whole argument, except for a cast to `text`.
fn literal(argument: &[u8]) -> Option<&[u8]> {
    let (inside, rest) = argument.strip_prefix(b"'")?.split_at(memchr::memchr(b'\'', &argument[1..])?);
    let rest = rest[1..].trim_ascii();
    let is_cast = || rest.strip_prefix(b"::").is_some_and(|to| to.trim_ascii().eq_ignore_ascii_case(b"text"));
    (!inside.is_empty() && (rest.is_empty() || is_cast())).then_some(inside)
}

/// True if a SET ends with its transaction.
fn is_of_transaction(text: &[u8], end: usize) -> bool {
    let word = next_word(text, end);
    [&b"local"[..], b"transaction", b"constraints"].iter().any(|own| own.eq_ignore_ascii_case(word))
}

/// Returns the arguments of a call, up to its closing parenthesis; `None` where the end is not certain: a literal may
/// have escapes, or be quoted by dollars.
fn arguments(text: &[u8]) -> Option<Vec<&[u8]>> {
    let (mut all, mut begin, mut depth, mut at) = (Vec::new(), 0, 0_usize, 0);
    loop {
        match &text[at..] {
            [] | [b'\\', ..] => return None,
            // A parameter is no quotation.
            [b'$', next, ..] if !next.is_ascii_digit() => return None,
            [quote @ (b'\'' | b'"'), rest @ ..] => {
                let length = memchr::memchr(*quote, rest)?;
                if rest[..length].contains(&b'\\') {
                    return None;
                }
                at += length + 1;
            }
            [b'-', b'-', ..] | [b'/', b'*', ..] => {
                at = end_of_comment(text, at)?;
                continue;
            }
            [b'(' | b'[', ..] => depth += 1,
            [b')' | b']', ..] if depth != 0 => depth -= 1,
            [b')', ..] => {
                all.push(text[begin..at].trim_ascii());
                return Some(all);
            }
            [b',', ..] if depth == 0 => {
                all.push(text[begin..at].trim_ascii());
                begin = at + 1;
            }
            _ => {}
        }
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_statements_leave_nothing() {
        for text in [
            "update t set a = 1 where b = 2",
            "select setting, template, holder from preparedness -- set x = 1",
            "insert into t values ('x') on conflict do update set a = 2",
            "INSERT /* a */ -- b\n INTO t values (1); merge into t using u on a = b when matched then do nothing",
            "begin; set local work_mem = 1; commit",
            "set transaction isolation level serializable",
            "select name, setting from pg_settings",
            "/* set */ select 1",
            "select set_config('a.b', $1, true), set_config($2, $3, true)",
        ] {
            let scan = scan(text.as_bytes());
            assert!(!scan.touches && !scan.binds, "{text}: {scan:?}");
        }
    }

    #[test]
    fn texts_that_come_again_are_known() {
        for text in ["select 1", "reset all", "", "a", "set a.b = $1", &"x".repeat(2_000)] {
            for _ in 0..2 {
                assert_eq!(scan_known(text.as_bytes()), scan(text.as_bytes()), "{text}");
            }
        }
        // There are more texts than places, so each one's place is another's at times.
        for number in 0..2_000 {
            let text = format!("select {number} from t where {}", ["a = 1", "set_config('a', 'b', false)"][number % 2]);
            assert_eq!(scan_known(text.as_bytes()), scan(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn what_may_leave_something_is_seen() {
        for text in [
            "SET search_path = a",
            "select 1; /* x */ set x = 1",
            "reset all",
            "select pg_advisory_lock(1)",
            "CREATE TEMP TABLE t (a int)",
            "create table pg_temp.x (); create temporary view v as select 1",
            "declare c cursor with hold for select 1",
            "listen a",
            "prepare p as select 1",
            "do $$ begin execute 'set x = 1'; end $$",
            "select set_config('search_path', 'a', false)",
            "load 'auto_explain'",
            "insert into t values ('a--b'); set search_path = evil",
            "select '/*'; select pg_advisory_lock(1)",
            "select $a$--$a$; set search_path = evil",
            "select \"--\" from t; set search_path = evil",
            "-- x\rset search_path = evil",
            "update pg_settings set setting = 'a' where name = 'search_path'",
            "UPDATE \"pg_catalog\".\"pg_settings\" SET setting = 'a'",
            "select U&\"set\\005fconfig\"('search_path', 'evil', false)",
            "select \"pg_catalog\".set_config('search_path', 'a', false)",
            "select \"pg_catalog\" /* a */ . /* b */ \"set_config\" ('search_path', 'a', false)",
            "select pg_catalog .set_config('search_path', 'a', false)",
            "select pg_catalog. set_config('search_path', 'a', false)",
            "select postgres.pg_catalog.SET_CONFIG -- a\n ('search_path', 'a', false)",
            "select set_config('search_path', 'a' /* ,true) */, false)",
            "select set_config('search_path', 'a' -- ,true)\n, false)",
            "select set_config('search_path', E'a\\',true)', false)",
            "select set_config('search_path', $$a,true)$$, false)",
            "select set_config('search_path', $b$a,true)$b$, false)",
            "select set_config('search_path', (array['a', 't', 'b'])[1], false)",
            "select set_config('search_path', (select \"x,true)\" from t), false)",
            "select query_to_xml($$select set_config('search_path', 'a', false)$$, true, true, '')",
            "select query_to_xml($a$set_config('search_path', 'a', false)$a$, true, true, '')",
            "select \"pg_catalog\".pg_advisory_lock(77)",
            "select pg_catalog .pg_try_advisory_lock(77)",
            "create table app.pg_temp.x (a int)",
            "create table t (a int)",
            "select pg_create_physical_replication_slot('a', true, true)",
            "select \"pg_catalog\".pg_create_logical_replication_slot('a', 'b', true)",
            "select 1 into t",
            "select a, 'insert' into t from u",
            "insert into t values (1); select 1 /* insert */ into t",
        ] {
            assert!(scan(text.as_bytes()).touches, "{text}");
        }
        for text in ["copy t from stdin", "select 1; COPY t (a) FROM /* x */ STDIN (format csv)"] {
            assert!(scan(text.as_bytes()).copies_in, "{text}");
        }
        assert!(!scan(b"copy t to stdout").copies_in && !scan(b"select stdin from t").copies_in);
        let one = |name: &str| BTreeSet::from([name.to_owned()]);
        assert_eq!(scan(b"set session App.tenant = 7").customs, one("app.tenant"));
        assert_eq!(scan(b"select set_config('app.user', 'x', false)").customs, one("app.user"));
        for text in [
            "set app . Tenant = '42'",
            "set session app.tenant = '42'",
            "SET \"app\".\"Tenant\" TO '42'",
            "set local \"app\"/* a */ .tenant = '42'",
            "reset app. tenant",
            "select \"pg_catalog\".set_config( 'App.tenant' , '42', false)",
            "select set_config('app.tenant'::text, '', false)",
        ] {
            let seen = scan(text.as_bytes());
            assert_eq!(seen.customs, one("app.tenant"), "{text}");
            assert!(!seen.binds, "{text}");
        }
        for text in [
            "set_config($1, $2, false)",
            "set_config('app'||'.tenant', '42', false)",
            "set_config('app' '.tenant', '42', false)",
            "set_config(E'app\\x2etenant', '42', false)",
            "set_config($$app.tenant$$, '42', false)",
            "set_config(variadic array['app.tenant', '42', 'f'])",
        ] {
            assert!(scan(format!("select {text}").as_bytes()).binds, "{text}");
        }
        for text in [
            "pg_replication_origin_session_setup('a')",
            "\"pg_catalog\".PG_BACKUP_START('a')",
            "public.dblink_connect('a', 'b')",
        ] {
            assert!(scan(format!("select {text}").as_bytes()).binds, "{text}");
        }
        for text in [
            "'set ' || name || ' = 7'",
            "format('set %I.%I = 7', 'app', name)",
            "format('SET app.%s = 7', name)",
            "'set session app.' || name || ' = 7'",
            "'set app.t' || number || ' = 7'",
            "concat('set \"app\".\"t', number, '\" = 7')",
        ] {
            assert!(scan(format!("do $$ begin execute {text}; end $$").as_bytes()).binds, "{text}");
            assert!(!scan(format!("select {text}").as_bytes()).binds, "{text}");
        }
        for text in [
            "set app.tenant = 7",
            "execute 'set app.tenant to ' || quote_literal(value)",
            "execute format('set search_path = %I', name)",
            "execute 'set local ' || name || ' = 7'",
            "execute 'reset ' || name",
            "execute format('set role %I', name)",
            "execute 'set session authorization ' || name",
            "set time zone 'UTC'",
            "update \"t\" set (a, b) = (1, 2)",
            "update \"t\" set a[1] = 2",
        ] {
            assert!(!scan(format!("do language plpgsql $$ begin {text}; end $$").as_bytes()).binds, "{text}");
        }
        assert!(!scan(b"insert into t values ('do it', 'set up')").binds);
        for code in ["'", "e'", "/* a */ E'", "U&'", "language plpgsql '"] {
            assert!(
                scan(format!("do {code}begin execute ''set '' || name || '' = 7''; end'").as_bytes()).binds,
                "{code}"
            );
        }
        assert!(scan(b"insert into t values ('--'); commit").commits && !scan(b"-- '\n select 1 -- set").touches);
        assert!(scan(b"commit").commits && !scan(b"select commit from t").commits);
        for text in
            ["deallocate all", "/* a */ DISCARD plans", "do $$ begin deallocate all; end $$", "do 'discard all'"]
        {
            assert!(scan(text.as_bytes()).takes_statements, "{text}");
        }
        for text in
            ["copy discard from stdin", "select deallocate from t -- discard", "comment on table t is 'a discard'"]
        {
            assert!(!scan(text.as_bytes()).takes_statements, "{text}");
        }
        for text in ["set local a = 1", "select set_config('a', 'b', true)", "set a = 1", "reset all"] {
            assert!(scan(text.as_bytes()).changes_settings(), "{text}");
        }
        for text in ["select 'now'::timestamptz", "select date 'today', now()", "select $$Yesterday$$::date"] {
            assert!(scan(text.as_bytes()).is_of_moment, "{text}");
        }
        assert!(scan(b"select now(), a from t where b = 'new'").is_plain());
        assert!(scan(b"close all; unlisten *; RESET ALL;").resets_all && scan(b"discard all").resets_all);
        assert!(!scan(b"reset allow; select 'all'").resets_all && !scan(b"discard plans").resets_all);
    }
}
