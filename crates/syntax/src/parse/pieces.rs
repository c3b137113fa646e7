//! A text taken apart into its statements.
//!
//! **Invariant:** the work is in proportion to the text, however many statements it has, and nobody waits for all of it: a window
//! of it is made tokens at once, and each statement's tokens count from the beginning of its own text.

use super::{length, tokenizer_error};
use sqlparser::tokenizer::{Location, TokenWithSpan};
use statement::bulk::Bulk;
use statement::error::SqlResult;
use statement::pulse;

/// Bytes that are made tokens at once, if statements are no longer: less than a millisecond's work.
pub(super) const WINDOW: usize = 1 << 14;
/// A window in which no statement ends is made so many times as long.
const GROWTH: usize = 8;
/// Bytes that are passed over at once on the way to a place.
const STEP: usize = 1 << 10;
/// Units of work of a statement and of a token of it that are parsed.
const STATEMENT: usize = 256;
const TOKEN: usize = 64;

/// One statement of a text, perhaps an empty one.
#[derive(Clone, Copy)]
pub(super) struct Piece<'p> {
    /// Text from the end of the last statement on, with the semicolon.
    pub(super) text: &'p str,
    pub(super) tokens: &'p [TokenWithSpan],
    pub(super) semicolon: Option<&'p TokenWithSpan>,
    /// Characters of the whole text that stand before it.
    pub(super) before: usize,
}

/// Place in a text, by the byte and as tokens have it.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) byte: usize,
    pub(super) location: Location,
}

impl Place {
    pub(super) const START: Place = Place { byte: 0, location: Location { line: 1, column: 1 } };

    /// The place of a location behind this one.
    pub(super) fn upto(self, text: &str, location: Location) -> Place {
        let is_behind = |at: Place| (location.line, location.column) <= (at.location.line, at.location.column);
        let mut begin = self;
        loop {
            let rest = &text[begin.byte..];
            let slice = &rest[..rest.floor_char_boundary(STEP)];
            let next = begin.behind(slice);
            if slice.is_empty() || is_behind(next) {
                break;
            }
            // Whoever looks next finds that the statement must end.
            let _ = pulse::walk(slice.len());
            begin = next;
        }
        #[cfg(test)]
        scanned(begin.byte - self.byte);
        let found = begin.until(text, is_behind);
        Place { byte: found.byte, location }
    }

    /// The place behind a text that begins here.
    pub(super) fn behind(self, text: &str) -> Place {
        let Location { line, column } = self.location;
        let location = match text.rfind('\n') {
            None => Location { line, column: column + text.chars().count() as u64 },
            Some(last) => Location {
                line: line + text.matches('\n').count() as u64,
                column: 1 + text[last + 1..].chars().count() as u64,
            },
        };
        Place { byte: self.byte + text.len(), location }
    }

    /// The place of a byte behind this one.
    pub(super) fn upto_byte(self, text: &str, byte: usize) -> Place {
        self.until(text, |at| byte <= at.byte)
    }

    fn until(self, text: &str, is_it: impl Fn(Place) -> bool) -> Place {
        let mut at = self;
        for c in text[self.byte..].chars() {
            if is_it(at) {
                break;
            }
            at.byte += c.len_utf8();
            at.location = match c {
                '\n' => Location { line: at.location.line + 1, column: 1 },
                _ => Location { column: at.location.column + 1, ..at.location },
            };
        }
        #[cfg(test)]
        scanned(at.byte - self.byte);
        at
    }

    /// The location of one that counts from here.
    pub(super) fn absolute(self, location: Location) -> Location {
        match location {
            Location { line: 0, .. } => location,
            Location { line: 1, column } => {
                Location { line: self.location.line, column: (column + self.location.column).saturating_sub(1) }
            }
            Location { line, column } => Location { line: (line + self.location.line).saturating_sub(1), column },
        }
    }

    /// A location as it counts from here.
    fn relative(self, location: Location) -> Location {
        match location {
            Location { line: 0, .. } => location,
            Location { line, column } if line == self.location.line => {
                Location { line: 1, column: (column + 1).saturating_sub(self.location.column) }
            }
            Location { line, column } => Location { line: (line + 1).saturating_sub(self.location.line), column },
        }
    }
}

/// Gives each statement of a text to `take`, until one is refused.
///
/// # Errors
/// `42601` for what is no token, with its position; those of [`pulse::tick`] and of `take`.
pub(super) fn of(text: &str, window: usize, mut take: impl FnMut(Piece<'_>) -> SqlResult<()>) -> SqlResult<()> {
    let (mut at, mut before, mut wanted) = (0, 0, window);
    loop {
        let rest = &text[at..];
        let least = rest.ceil_char_boundary(wanted.min(rest.len()));
        let end = rest[least..].find(';').map_or(rest.len(), |semicolon| least + semicolon + 1);
        let part = &rest[..end];
        let is_last = end == rest.len();
        #[cfg(test)]
        scanned(part.len());
        // What stands before an error are tokens all the same.
        let (tokens, outcome) = super::lexer::tokens(part)?;
        let mut tokens = Bulk::from(tokens);
        let (mut from, mut start) = (0, Place::START);
        loop {
            let semicolon = from + length(&tokens[from..]);
            if semicolon == tokens.len() {
                break;
            }
            let end = start.upto(part, tokens[semicolon].span.end);
            relocate(&mut tokens[from..=semicolon], start);
            let own = &part[start.byte..end.byte];
            pulse::tick(STATEMENT + (semicolon - from) * TOKEN)?;
            let piece =
                Piece { text: own, tokens: &tokens[from..semicolon], semicolon: Some(&tokens[semicolon]), before };
            take(piece)?;
            before += own.chars().count();
            (from, start) = (semicolon + 1, end);
        }
        if is_last {
            let own = &part[start.byte..];
            if let Err(error) = outcome {
                let place = start.relative(error.location);
                return Err(tokenizer_error(own, &error.message, place).moved(before));
            }
            relocate(&mut tokens[from..], start);
            if from < tokens.len() {
                pulse::tick(STATEMENT + (tokens.len() - from) * TOKEN)?;
                take(Piece { text: own, tokens: &tokens[from..], semicolon: None, before })?;
            }
            return Ok(());
        }
        // What has not ended begins again.
        wanted = if start.byte == 0 { end * GROWTH } else { window };
        at += start.byte;
    }
}

fn relocate(tokens: &mut [TokenWithSpan], start: Place) {
    if start.byte == 0 {
        return;
    }
    for token in tokens {
        // Whoever looks next finds that the statement must end.
        let _ = pulse::walk(pulse::ITEM);
        token.span.start = start.relative(token.span.start);
        token.span.end = start.relative(token.span.end);
    }
}

#[cfg(test)]
thread_local! {
    static SCANNED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Counts bytes that are looked at.
#[cfg(test)]
pub(super) fn scanned(bytes: usize) {
    SCANNED.set(SCANNED.get() + bytes);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::{parse, texts};
    use statement::error::Cancellation;
    use statement::error::SqlError;
    use statement::pulse::Watch;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    fn work(text: &str) -> (usize, usize) {
        SCANNED.set(0);
        (texts(text).expect("statements").len(), SCANNED.get())
    }

    /// Goal: a text is taken apart in linear time. Method: the bytes that are looked at, for each statement.
    #[test]
    fn many_statements_take_linear_work() {
        for (one, times) in [
            ("select 1;", 300_000),
            ("insert into t values (1, 'a;b')\n;\n", 30_000),
            ("/*+ x */ select 'é' -- ;\n;", 30_000),
        ] {
            let (few, less) = work(&one.repeat(10_000));
            let (many, more) = work(&one.repeat(times));
            assert_eq!((few, many), (10_000, times));
            let (less, more) = (less as f64 / few as f64, more as f64 / many as f64);
            assert!(more < less * 1.1, "{one}: {less} bytes each became {more}");
            assert!(more < 40.0 * one.len() as f64, "{one}: {more} bytes each");
        }
        let long = format!("select '{}';", "x".repeat(10 * WINDOW));
        let (_, bytes) = work(&long.repeat(20));
        assert!(bytes < 20 * 40 * long.len());
    }

    struct Stop(AtomicUsize);

    impl Watch for Stop {
        fn look(&self) -> SqlResult<()> {
            match self.0.fetch_sub(1, Relaxed) {
                0 => Err(SqlError::cancelled(Cancellation::UserRequest)),
                _ => Ok(()),
            }
        }
    }

    /// Goal: a cancel ends it in the middle. Method: a watch that says so at its third look; the bytes looked at until then.
    #[test]
    fn many_statements_are_cancelled() {
        let text = "select 1;".repeat(300_000);
        SCANNED.set(0);
        let ended = pulse::during(Arc::new(Stop(AtomicUsize::new(2))), || texts(&text));
        assert_eq!(ended.unwrap_err().message(), "canceling statement due to user request");
        assert!(SCANNED.get() < 40 * 4 * WINDOW, "{} bytes", SCANNED.get());
    }

    /// Goal: windows change nothing. Method: windows of all sizes against one of the whole.
    #[test]
    fn statements_are_found_wherever_a_window_ends() {
        let text = "select 1;; select 'a;b', $$;$$, $x$ ; $x$ -- c;d\n; /* ; */ select \"q;\";\n\
            create rule r as on insert to t do (select 1; select 2); select 'é;' ; select e'\\';' ;\n select 3 /*k='v'*/";
        let of = |text: &str, window: usize| {
            let mut found = Vec::new();
            super::of(text, window, |piece| {
                let tokens: Vec<String> =
                    piece.tokens.iter().map(|token| format!("{} {:?}", token.token, token.span)).collect();
                found.push((piece.text.to_owned(), tokens, piece.before));
                Ok(())
            })
            .map(|()| found)
        };
        let whole = of(text, usize::MAX / 16).expect("tokens");
        assert_eq!(whole.iter().map(|(text, ..)| &**text).collect::<String>(), text);
        for (own, _, before) in &whole {
            assert!(text.chars().skip(*before).collect::<String>().starts_with(own));
        }
        for window in 0..text.len() + 2 {
            assert_eq!(of(text, window).expect("tokens"), whole, "a window of {window}");
        }
        for bad in ["select 1; select 'x", "select 1;\n select 'é'; select $a$ ; ", "select 1; /* ; select 2;"] {
            let whole = of(bad, usize::MAX / 16).unwrap_err();
            for window in 0..bad.len() + 2 {
                assert_eq!(of(bad, window).unwrap_err(), whole, "{bad}: a window of {window}");
            }
        }
    }

    #[test]
    fn errors_count_from_the_begin_of_the_whole_text() {
        let text = format!("{}\nselect 'é', from", "select 'é';\n".repeat(5_000));
        assert_eq!(parse(&text).unwrap_err().position(), Some(5_000 * 12 + 1 + 13));
        let text = format!("{}\nselect 'é", "select 'é';\n".repeat(5_000));
        assert_eq!(parse(&text).unwrap_err().position(), Some(5_000 * 12 + 1 + 8));
        let parts = texts("select 'é'; /* c */ select 2 ; nonsense_of_postgresql").unwrap_err();
        assert_eq!(parts.position(), Some(32));
        let parts = texts("select 'é'; /* c */ select 2 ;").unwrap();
        assert_eq!(parts.iter().map(|part| part.before).collect::<Vec<_>>(), [0, 20]);
    }
}
