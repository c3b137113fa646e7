//! Parser of regular expressions, whose result is a tree of branches and quantified atoms.

use super::{RegexOptions, invalid};
use statement::error::{SqlError, SqlResult};

/// Alternatives of an expression.
#[derive(Clone, Debug)]
pub(super) struct Expression(pub(super) Vec<Vec<QuantifiedAtom>>);

/// An atom with its quantifier.
#[derive(Clone, Debug)]
pub(super) struct QuantifiedAtom {
    pub(super) atom: Atom,
    pub(super) least: u32,
    /// Maximum number of repetitions, `None` for any number.
    pub(super) most: Option<u32>,
    /// True for a non-greedy quantifier, false for a greedy one, `None` without a preference.
    pub(super) shorter: Option<bool>,
}

#[derive(Clone, Debug)]
pub(super) enum Atom {
    Set(CharSet),
    Assertion(Assertion),
    /// Look-ahead (or look-behind, if not `ahead`), which requires that `inner` matches there, or does not.
    Look {
        ahead: bool,
        negated: bool,
        inner: Expression,
    },
    /// Parentheses, with their number if they capture.
    Group(Option<usize>, Expression),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Assertion {
    Start,
    End,
    LineStart,
    LineEnd,
    WordStart,
    WordEnd,
    WordEdge,
    NoWordEdge,
}

/// Set of characters: those in the ranges, or all others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct CharSet {
    pub(super) ranges: Vec<(char, char)>,
    pub(super) negated: bool,
}

impl CharSet {
    #[inline]
    pub(super) fn has(&self, c: char) -> bool {
        self.ranges.iter().any(|(low, high)| *low <= c && c <= *high) != self.negated
    }

    fn add(&mut self, low: char, high: char) {
        self.ranges.push((low, high));
    }

    /// Adds the other case of each letter.
    fn fold(&mut self) {
        for index in 0..self.ranges.len() {
            let (low, high) = self.ranges[index];
            for (first, last, to) in [('a', 'z', 'A'), ('A', 'Z', 'a')] {
                let (from, until) = (low.max(first), high.min(last));
                if from <= until {
                    let other = |c: char| char::from(c as u8 - first as u8 + to as u8);
                    self.ranges.push((other(from), other(until)));
                }
            }
        }
    }

    fn add_all(&mut self, other: &CharSet) {
        if !other.negated {
            self.ranges.extend(&other.ranges);
            return;
        }
        // Everything that the ranges of the other set leave out.
        let mut ranges = other.ranges.clone();
        ranges.sort_unstable();
        let mut next = Some('\0');
        for (low, high) in ranges {
            if let Some(from) = next
                && from < low
            {
                self.ranges.push((from, before(low)));
            }
            next = next.and_then(|from| if high < from { Some(from) } else { after(high) });
        }
        self.ranges.extend(next.map(|from| (from, char::MAX)));
    }
}

fn before(c: char) -> char {
    char::from_u32(u32::from(c).wrapping_sub(1)).unwrap_or('\u{D7FF}')
}

fn after(c: char) -> Option<char> {
    if c == '\u{D7FF}' { Some('\u{E000}') } else { char::from_u32(u32::from(c) + 1) }
}

/// Returns the class of this name, under `lc_ctype = C`.
fn class(name: &str) -> Option<CharSet> {
    let ranges: &[(char, char)] = match name {
        "alnum" => &[('0', '9'), ('A', 'Z'), ('a', 'z')],
        "alpha" => &[('A', 'Z'), ('a', 'z')],
        "ascii" => &[('\0', '\x7f')],
        "blank" => &[(' ', ' '), ('\t', '\t')],
        "cntrl" => &[('\0', '\x1f'), ('\x7f', '\x7f')],
        "digit" => &[('0', '9')],
        "graph" => &[('!', '~')],
        "lower" => &[('a', 'z')],
        "print" => &[(' ', '~')],
        "punct" => &[('!', '/'), (':', '@'), ('[', '`'), ('{', '~')],
        "space" => &[('\t', '\r'), (' ', ' ')],
        "upper" => &[('A', 'Z')],
        "xdigit" => &[('0', '9'), ('A', 'F'), ('a', 'f')],
        "word" => &[('0', '9'), ('A', 'Z'), ('_', '_'), ('a', 'z')],
        _ => return None,
    };
    Some(CharSet { ranges: ranges.to_vec(), negated: false })
}

/// Maximum nesting of parentheses.
const DEPTH_MAX: usize = 100;
/// Maximum number in braces.
const REPEAT_MAX: u32 = 255;

struct Parser<'a> {
    rest: &'a [char],
    options: RegexOptions,
    groups: usize,
    depth: usize,
}

/// Meaning of an escape.
enum Escape {
    Char(char),
    Set(CharSet),
    Assertion(Assertion),
}

/// Parses an expression. Returns its tree and the number of its capturing parentheses.
pub(super) fn parse(pattern: &str, mut options: RegexOptions) -> SqlResult<(Expression, usize)> {
    let chars: Vec<char> = pattern.chars().collect();
    let mut rest = &chars[..];
    if let Some(after) = rest.strip_prefix(&['*', '*', '*']) {
        rest = match after {
            ['=', after @ ..] => {
                options.literal = true;
                after
            }
            [':', after @ ..] => {
                options.literal = false;
                after
            }
            _ => return Err(invalid("invalid regexp (reg version 0.8)")),
        };
    }
    if !options.literal
        && let ['(', '?', first, ..] = rest
        && first.is_ascii_alphabetic()
    {
        let end = rest.iter().position(|c| *c == ')').ok_or_else(|| invalid("invalid embedded option"))?;
        for option in &rest[2..end] {
            set_option(&mut options, *option).map_err(|()| invalid("invalid embedded option"))??;
        }
        rest = &rest[end + 1..];
    }
    let mut parser = Parser { rest, options, groups: 0, depth: 0 };
    if options.literal {
        let one = |c: &char| QuantifiedAtom::once(parser.literal(*c));
        return Ok((Expression(vec![rest.iter().map(one).collect()]), 0));
    }
    let expression = parser.expression()?;
    if !parser.rest.is_empty() {
        return Err(invalid("parentheses () not balanced"));
    }
    Ok((expression, parser.groups))
}

/// Sets the option of a letter. An inner error stands for a feature of PostgreSQL that is missing here.
pub(crate) fn set_option(options: &mut RegexOptions, letter: char) -> Result<SqlResult<()>, ()> {
    match letter {
        'i' => options.ignore_case = true,
        'c' => options.ignore_case = false,
        'n' | 'm' => (options.lines_part, options.lines_anchor) = (true, true),
        's' => (options.lines_part, options.lines_anchor) = (false, false),
        'p' => (options.lines_part, options.lines_anchor) = (true, false),
        'w' => (options.lines_part, options.lines_anchor) = (false, true),
        'x' => options.expanded = true,
        't' => options.expanded = false,
        'q' => options.literal = true,
        'b' | 'e' => return Ok(Err(SqlError::unsupported("basic and extended regular expressions"))),
        _ => return Err(()),
    }
    Ok(Ok(()))
}

impl QuantifiedAtom {
    fn once(atom: Atom) -> QuantifiedAtom {
        QuantifiedAtom { atom, least: 1, most: Some(1), shorter: None }
    }
}

impl Parser<'_> {
    fn literal(&self, c: char) -> Atom {
        let mut set = CharSet { ranges: vec![(c, c)], negated: false };
        if self.options.ignore_case {
            set.fold();
        }
        Atom::Set(set)
    }

    fn eat(&mut self, c: char) -> bool {
        match self.rest {
            [first, after @ ..] if *first == c => {
                self.rest = after;
                true
            }
            _ => false,
        }
    }

    fn next(&mut self) -> Option<char> {
        let (first, after) = self.rest.split_first()?;
        self.rest = after;
        Some(*first)
    }

    /// Skips comments, and in expanded syntax blanks.
    fn skip(&mut self) {
        loop {
            match self.rest {
                ['(', '?', '#', after @ ..] => {
                    let end = after.iter().position(|c| *c == ')').map_or(after.len(), |end| end + 1);
                    self.rest = &after[end..];
                }
                [blank, after @ ..] if self.options.expanded && class("space").is_some_and(|set| set.has(*blank)) => {
                    self.rest = after;
                }
                ['#', after @ ..] if self.options.expanded => {
                    let end = after.iter().position(|c| *c == '\n').unwrap_or(after.len());
                    self.rest = &after[end..];
                }
                _ => return,
            }
        }
    }

    fn expression(&mut self) -> SqlResult<Expression> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(invalid("regular expression is too complex"));
        }
        let mut branches = Vec::new();
        loop {
            branches.push(self.branch()?);
            if !self.eat('|') {
                break;
            }
        }
        self.depth -= 1;
        Ok(Expression(branches))
    }

    fn branch(&mut self) -> SqlResult<Vec<QuantifiedAtom>> {
        let mut pieces = Vec::new();
        loop {
            self.skip();
            match self.rest.first() {
                None | Some('|') => return Ok(pieces),
                Some(')') if self.depth > 1 => return Ok(pieces),
                Some(')') => return Err(invalid("parentheses () not balanced")),
                Some(_) => {
                    let atom = self.atom()?;
                    pieces.push(self.quantified(atom)?);
                }
            }
        }
    }

    fn atom(&mut self) -> SqlResult<Atom> {
        let c = self.next().ok_or_else(|| invalid("quantifier operand invalid"))?;
        Ok(match c {
            '^' if self.options.lines_anchor => Atom::Assertion(Assertion::LineStart),
            '^' => Atom::Assertion(Assertion::Start),
            '$' if self.options.lines_anchor => Atom::Assertion(Assertion::LineEnd),
            '$' => Atom::Assertion(Assertion::End),
            '.' => {
                let ranges = if self.options.lines_part { vec![('\n', '\n')] } else { Vec::new() };
                Atom::Set(CharSet { ranges, negated: true })
            }
            '*' | '+' | '?' => return Err(invalid("quantifier operand invalid")),
            '{' if self.rest.first().is_some_and(char::is_ascii_digit) => {
                return Err(invalid("quantifier operand invalid"));
            }
            '(' => return self.parenthesis(),
            '[' => return self.bracket(),
            '\\' => match self.escape()? {
                Escape::Char(c) => self.literal(c),
                Escape::Set(set) => Atom::Set(set),
                Escape::Assertion(assertion) => Atom::Assertion(assertion),
            },
            c => self.literal(c),
        })
    }

    fn parenthesis(&mut self) -> SqlResult<Atom> {
        let look = |ahead, negated| Some((ahead, negated));
        let (look, skipped, captures) = match self.rest {
            ['?', ':', ..] => (None, 2, false),
            ['?', '=', ..] => (look(true, false), 2, false),
            ['?', '!', ..] => (look(true, true), 2, false),
            ['?', '<', '=', ..] => (look(false, false), 3, false),
            ['?', '<', '!', ..] => (look(false, true), 3, false),
            ['?', ..] => return Err(invalid("quantifier operand invalid")),
            // Within a look-around, nothing captures.
            _ => (None, 0, true),
        };
        self.rest = &self.rest[skipped..];
        let number = captures.then(|| {
            self.groups += 1;
            self.groups
        });
        let before = self.groups;
        let inner = self.expression()?;
        if !self.eat(')') {
            return Err(invalid("parentheses () not balanced"));
        }
        if let Some((ahead, negated)) = look {
            self.groups = before;
            return Ok(Atom::Look { ahead, negated, inner });
        }
        Ok(Atom::Group(number, inner))
    }

    fn number(&mut self) -> Option<u32> {
        let len = self.rest.iter().position(|c| !c.is_ascii_digit()).unwrap_or(self.rest.len());
        let (digits, after) = self.rest.split_at(len);
        self.rest = after;
        if digits.is_empty() {
            return None;
        }
        Some(digits.iter().fold(0_u32, |all, c| all.saturating_mul(10).saturating_add(c.to_digit(10).unwrap_or(0))))
    }

    fn quantified(&mut self, atom: Atom) -> SqlResult<QuantifiedAtom> {
        self.skip();
        let is_constraint = matches!(atom, Atom::Assertion(_) | Atom::Look { .. });
        let (least, most, mut shorter) = match self.rest {
            ['*', ..] => (0, None, Some(false)),
            ['+', ..] => (1, None, Some(false)),
            ['?', ..] => (0, Some(1), Some(false)),
            ['{', digit, ..] if digit.is_ascii_digit() => {
                self.rest = &self.rest[1..];
                let bad = || invalid("invalid repetition count(s)");
                let least = self.number().ok_or_else(bad)?;
                let (most, shorter) = if self.eat(',') { (self.number(), Some(false)) } else { (Some(least), None) };
                if least > REPEAT_MAX || most.is_some_and(|most| most > REPEAT_MAX || most < least) {
                    return Err(bad());
                }
                if self.rest.first() != Some(&'}') {
                    return Err(if self.rest.is_empty() { invalid("braces {} not balanced") } else { bad() });
                }
                (least, most, shorter)
            }
            _ => return Ok(QuantifiedAtom::once(atom)),
        };
        if is_constraint {
            return Err(invalid("quantifier operand invalid"));
        }
        self.rest = &self.rest[1..];
        if self.eat('?') {
            shorter = shorter.map(|_| true);
        }
        self.skip();
        if matches!(self.rest.first(), Some('*' | '+' | '?')) {
            return Err(invalid("quantifier operand invalid"));
        }
        Ok(QuantifiedAtom { atom, least, most, shorter })
    }

    /// Reads a number of at most so many digits in a base.
    fn code(&mut self, base: u32, most: usize) -> Option<u32> {
        let len = self.rest.iter().take(most).position(|c| !c.is_digit(base)).unwrap_or(self.rest.len().min(most));
        let (digits, after) = self.rest.split_at(len);
        self.rest = after;
        if digits.is_empty() {
            return None;
        }
        Some(digits.iter().fold(0_u32, |all, c| all.saturating_mul(base).saturating_add(c.to_digit(base).unwrap_or(0))))
    }

    /// Reads the escape after a backslash.
    fn escape(&mut self) -> SqlResult<Escape> {
        let bad = || invalid("invalid escape \\ sequence");
        let c = self.next().ok_or_else(bad)?;
        if !c.is_ascii_alphanumeric() {
            return Ok(Escape::Char(c));
        }
        let of_code = |code: Option<u32>| code.and_then(char::from_u32).map(Escape::Char).ok_or_else(bad);
        let set = |name: &str, negated| {
            let mut set = class(name).unwrap_or_default();
            set.negated = negated;
            Ok(Escape::Set(set))
        };
        match c {
            'a' => Ok(Escape::Char('\x07')),
            'b' => Ok(Escape::Char('\x08')),
            'B' => Ok(Escape::Char('\\')),
            'c' => {
                let control = self.next().ok_or_else(bad)?;
                of_code(Some(u32::from(control) & 0x1f))
            }
            'e' => Ok(Escape::Char('\x1b')),
            'f' => Ok(Escape::Char('\x0c')),
            'n' => Ok(Escape::Char('\n')),
            'r' => Ok(Escape::Char('\r')),
            't' => Ok(Escape::Char('\t')),
            'v' => Ok(Escape::Char('\x0b')),
            'u' | 'U' => {
                let digits = if c == 'u' { 4 } else { 8 };
                let had = self.rest.len();
                let code = self.code(16, digits);
                if had - self.rest.len() != digits {
                    return Err(bad());
                }
                of_code(code)
            }
            'x' => of_code(self.code(16, 255)),
            'd' => set("digit", false),
            's' => set("space", false),
            'w' => set("word", false),
            'D' => set("digit", true),
            'S' => set("space", true),
            'W' => set("word", true),
            'A' => Ok(Escape::Assertion(Assertion::Start)),
            'Z' => Ok(Escape::Assertion(Assertion::End)),
            'm' => Ok(Escape::Assertion(Assertion::WordStart)),
            'M' => Ok(Escape::Assertion(Assertion::WordEnd)),
            'y' => Ok(Escape::Assertion(Assertion::WordEdge)),
            'Y' => Ok(Escape::Assertion(Assertion::NoWordEdge)),
            '0' => {
                let code = self.code(8, 2).unwrap_or(0);
                of_code(Some(code))
            }
            // As in PostgreSQL, a number of one digit, or not above that of the groups, is a back
            // reference. Others are octal codes.
            '1'..='9' => {
                let len = 1 + self.rest.iter().position(|c| !c.is_ascii_digit()).unwrap_or(self.rest.len());
                let number = std::iter::once(c).chain(self.rest.iter().copied()).take(len);
                let number =
                    number.fold(0_usize, |all, c| all.saturating_mul(10) + c.to_digit(10).unwrap_or(0) as usize);
                if len == 1 || number <= self.groups {
                    return Err(SqlError::unsupported("a back reference in a regular expression"));
                }
                let high = c.to_digit(8).ok_or_else(bad)?;
                let had = self.rest.len();
                let low = self.code(8, 2).unwrap_or(0);
                of_code(Some((high << (3 * (had - self.rest.len()))) | low))
            }
            _ => Err(bad()),
        }
    }

    /// Reads the name in `[.x.]`, `[=x=]` or `[:x:]`.
    fn special(&mut self, mark: char) -> SqlResult<String> {
        self.rest = &self.rest[2..];
        let end = self.rest.windows(2).position(|two| two == [mark, ']']);
        let end = end.ok_or_else(|| invalid("brackets [] not balanced"))?;
        let name = self.rest[..end].iter().collect();
        self.rest = &self.rest[end + 2..];
        Ok(name)
    }

    fn bracket(&mut self) -> SqlResult<Atom> {
        for (written, assertion) in [("[:<:]]", Assertion::WordStart), ("[:>:]]", Assertion::WordEnd)] {
            let written: Vec<char> = written.chars().collect();
            if let Some(after) = self.rest.strip_prefix(&written[..]) {
                self.rest = after;
                return Ok(Atom::Assertion(assertion));
            }
        }
        let mut set = CharSet { negated: self.eat('^'), ..CharSet::default() };
        let unbalanced = || invalid("brackets [] not balanced");
        let mut is_first = true;
        loop {
            // A closing bracket at the start of the set stands for itself.
            if !is_first && self.eat(']') {
                break;
            }
            let is_start = std::mem::take(&mut is_first);
            let Some(low) = self.element(&mut set, is_start)? else { continue };
            let is_range = matches!(self.rest, ['-', after, ..] if *after != ']');
            let high = if is_range {
                self.rest = &self.rest[1..];
                self.element(&mut set, false)?.ok_or_else(|| invalid("invalid character range"))?
            } else {
                low
            };
            if high < low {
                return Err(invalid("invalid character range"));
            }
            set.add(low, high);
            if self.rest.is_empty() {
                return Err(unbalanced());
            }
        }
        if self.options.ignore_case {
            set.fold();
        }
        if set.negated && self.options.lines_part {
            set.add('\n', '\n');
        }
        Ok(Atom::Set(set))
    }

    /// Reads a character of a set. Returns `None` for a whole class, which is added to the set.
    fn element(&mut self, set: &mut CharSet, is_first: bool) -> SqlResult<Option<char>> {
        let unbalanced = || invalid("brackets [] not balanced");
        match self.rest {
            [] => Err(unbalanced()),
            ['[', ':', ..] => {
                let found = class(&self.special(':')?).ok_or_else(|| invalid("invalid character class"))?;
                set.add_all(&found);
                Ok(None)
            }
            ['[', mark @ ('.' | '='), ..] => {
                let mark = *mark;
                let name = self.special(mark)?;
                let mut chars = name.chars();
                match (chars.next(), chars.next()) {
                    (Some(c), None) => Ok(Some(c)),
                    _ => Err(invalid("invalid collating element")),
                }
            }
            ['\\', ..] => {
                self.rest = &self.rest[1..];
                match self.escape()? {
                    Escape::Char(c) => Ok(Some(c)),
                    Escape::Set(found) => {
                        set.add_all(&found);
                        Ok(None)
                    }
                    Escape::Assertion(_) => Err(invalid("invalid escape \\ sequence")),
                }
            }
            // A hyphen stands for itself only at the start and the end.
            ['-', after, ..] if !is_first && *after != ']' => Err(invalid("invalid character range")),
            [c, ..] => {
                let c = *c;
                self.rest = &self.rest[1..];
                Ok(Some(c))
            }
        }
    }
}
