//! Spec files of PostgreSQL's isolation suite: the grammar of its `specparse.y`, and the permutations that a file asks for.

use anyhow::{Context, bail, ensure};
use std::collections::{BTreeMap, BTreeSet};

/// Parsed spec file.
#[derive(Debug, Default)]
pub struct Spec {
    /// Statements of the control connection before each permutation, one text per message.
    pub setups: Vec<String>,
    pub teardown: Option<String>,
    pub sessions: Vec<SpecSession>,
    pub steps: Vec<SpecStep>,
    pub permutations: Vec<Vec<Turn>>,
    /// Steps that no permutation names, sorted; none where no permutation is named at all.
    pub unused: Vec<String>,
}

/// Session of a spec.
#[derive(Debug, Default)]
pub struct SpecSession {
    pub name: String,
    pub setup: Option<String>,
    pub teardown: Option<String>,
}

/// Step of a session.
#[derive(Debug)]
pub struct SpecStep {
    pub name: String,
    pub sql: String,
    /// Position of the step's session.
    pub session: usize,
}

/// Step at its place in a permutation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Position of the step.
    pub step: usize,
    pub blockers: Vec<Blocker>,
}

/// Condition that holds back the end of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Blocker {
    /// The step is shown as waiting once.
    Once,
    /// Another step that is under way.
    Step(usize),
    /// Notices of the step's session: it has not yet sent this many more.
    Notices { step: usize, count: usize },
}

#[derive(Debug, PartialEq, Eq)]
enum SpecToken {
    Word(String),
    Name(String),
    Sql(String),
    Number(usize),
    Mark(char),
}

const KEYWORDS: [&str; 6] = ["notices", "permutation", "session", "setup", "step", "teardown"];

/// Returns true for space within a line; a line's end is not one.
fn is_blank(letter: char) -> bool {
    matches!(letter, ' ' | '\t' | '\r' | '\u{c}')
}

fn tokens(text: &str) -> anyhow::Result<Vec<SpecToken>> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let line = || text[..text.len() - rest.len()].matches('\n').count() + 1;
        let used = match first {
            '\n' => 1,
            _ if is_blank(first) => 1,
            '#' => rest.find('\n').unwrap_or(rest.len()),
            // A block of SQL ends at the first closing brace.
            '{' => {
                let end = rest.find('}').with_context(|| format!("unterminated sql block at line {}", line()))?;
                found.push(SpecToken::Sql(rest[1..end].trim_matches(is_blank).to_owned()));
                end + 1
            }
            '"' => {
                let (name, used) = quoted(rest).with_context(|| format!("a quoted identifier at line {}", line()))?;
                found.push(SpecToken::Name(name));
                used
            }
            ',' | '(' | ')' | '*' => {
                found.push(SpecToken::Mark(first));
                1
            }
            '0'..='9' => {
                let end = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
                found.push(SpecToken::Number(rest[..end].parse()?));
                end
            }
            _ if first.is_ascii_alphabetic() || first == '_' || !first.is_ascii() => {
                let goes_on =
                    |letter: char| letter.is_ascii_alphanumeric() || "_$".contains(letter) || !letter.is_ascii();
                let end = rest.find(|letter| !goes_on(letter)).unwrap_or(rest.len());
                let word = rest[..end].to_owned();
                found.push(if KEYWORDS.contains(&&*word) { SpecToken::Word(word) } else { SpecToken::Name(word) });
                end
            }
            _ => bail!("syntax error at line {}: unexpected character \"{first}\"", line()),
        };
        rest = &rest[used..];
    }
    Ok(found)
}

/// Returns the identifier in double quotes at the beginning of the text, and the bytes it takes.
fn quoted(text: &str) -> Option<(String, usize)> {
    let mut name = String::new();
    let mut letters = text.char_indices().skip(1).peekable();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '\n' => return None,
            '"' if letters.peek().is_some_and(|(_, next)| *next == '"') => {
                letters.next();
                name.push('"');
            }
            '"' => return Some((name, at + 1)),
            _ => name.push(letter),
        }
    }
    None
}

struct Parser {
    tokens: std::iter::Peekable<std::vec::IntoIter<SpecToken>>,
}

impl Parser {
    fn accept(&mut self, wanted: &SpecToken) -> bool {
        self.tokens.next_if_eq(wanted).is_some()
    }

    fn keyword(&mut self, word: &str) -> bool {
        self.accept(&SpecToken::Word(word.to_owned()))
    }

    fn name_if(&mut self) -> Option<String> {
        match self.tokens.next_if(|token| matches!(token, SpecToken::Name(_))) {
            Some(SpecToken::Name(name)) => Some(name),
            _ => None,
        }
    }

    fn name(&mut self) -> anyhow::Result<String> {
        let next = format!("{:?}", self.tokens.peek());
        self.name_if().with_context(|| format!("syntax error at {next}: expected a name"))
    }

    fn sql(&mut self) -> anyhow::Result<String> {
        match self.tokens.next() {
            Some(SpecToken::Sql(text)) => Ok(text),
            other => bail!("syntax error at {other:?}: expected an SQL block"),
        }
    }

    fn block_if(&mut self, word: &str) -> anyhow::Result<Option<String>> {
        if self.keyword(word) { self.sql().map(Some) } else { Ok(None) }
    }

    fn blockers(&mut self, steps: &BTreeMap<String, usize>) -> anyhow::Result<Vec<Blocker>> {
        let mut found = Vec::new();
        if !self.accept(&SpecToken::Mark('(')) {
            return Ok(found);
        }
        loop {
            if self.accept(&SpecToken::Mark('*')) {
                found.push(Blocker::Once);
            } else {
                let step = step_of(steps, &self.name()?)?;
                found.push(if self.keyword("notices") {
                    let Some(SpecToken::Number(count)) = self.tokens.next() else { bail!("notices without a number") };
                    Blocker::Notices { step, count }
                } else {
                    Blocker::Step(step)
                });
            }
            if self.accept(&SpecToken::Mark(')')) {
                return Ok(found);
            }
            ensure!(self.accept(&SpecToken::Mark(',')), "syntax error at {:?}: expected , or )", self.tokens.peek());
        }
    }
}

fn step_of(steps: &BTreeMap<String, usize>, name: &str) -> anyhow::Result<usize> {
    steps.get(name).copied().with_context(|| format!("undefined step \"{name}\" specified in permutation"))
}

/// Reads a spec file.
///
/// # Errors
/// If it has another grammar, or names a step that it does not have.
pub fn parse(text: &str) -> anyhow::Result<Spec> {
    let mut parser = Parser { tokens: tokens(text)?.into_iter().peekable() };
    let mut spec = Spec::default();
    while let Some(setup) = parser.block_if("setup")? {
        spec.setups.push(setup);
    }
    spec.teardown = parser.block_if("teardown")?;
    let mut steps = BTreeMap::new();
    while parser.keyword("session") {
        let name = parser.name()?;
        let setup = parser.block_if("setup")?;
        let session = spec.sessions.len();
        while parser.keyword("step") {
            let name = parser.name()?;
            ensure!(steps.insert(name.clone(), spec.steps.len()).is_none(), "duplicate step name: {name}");
            spec.steps.push(SpecStep { name, sql: parser.sql()?, session });
        }
        spec.sessions.push(SpecSession { name, setup, teardown: parser.block_if("teardown")? });
    }
    ensure!(!spec.sessions.is_empty(), "a spec needs a session");
    while parser.keyword("permutation") {
        let mut turns = Vec::new();
        while let Some(name) = parser.name_if() {
            let step = step_of(&steps, &name)?;
            turns.push(Turn { step, blockers: parser.blockers(&steps)? });
        }
        ensure!(!turns.is_empty(), "a permutation needs a step");
        spec.permutations.push(turns);
    }
    ensure!(parser.tokens.peek().is_none(), "syntax error at {:?}", parser.tokens.peek());
    if spec.permutations.is_empty() {
        // Without named permutations a spec asks for every interleaving of its sessions.
        let mut piles = vec![Vec::new(); spec.sessions.len()];
        for (at, step) in spec.steps.iter().enumerate() {
            piles[step.session].push(at);
        }
        interleave(&piles, &mut vec![0; piles.len()], &mut Vec::new(), &mut spec.permutations);
    } else {
        let used: BTreeSet<usize> = spec.permutations.iter().flatten().map(|turn| turn.step).collect();
        spec.unused = steps.into_iter().filter(|(_, at)| !used.contains(at)).map(|(name, _)| name).collect();
    }
    check_blockers(&spec)?;
    Ok(spec)
}

/// Checks that steps wait only for other sessions' steps of the same permutation.
fn check_blockers(spec: &Spec) -> anyhow::Result<()> {
    for turns in &spec.permutations {
        for turn in turns {
            for blocker in &turn.blockers {
                let (Blocker::Step(other) | Blocker::Notices { step: other, .. }) = blocker else { continue };
                let (step, other) = (&spec.steps[turn.step], &spec.steps[*other]);
                let is_here = turns.iter().any(|turn| spec.steps[turn.step].name == other.name);
                ensure!(is_here, "undefined blocking step \"{}\" of step \"{}\"", other.name, step.name);
                ensure!(step.session != other.session, "step \"{}\" cannot block on its own session", step.name);
            }
        }
    }
    Ok(())
}

/// Generates every order that keeps each session's own, the first sessions first.
fn interleave(piles: &[Vec<usize>], taken: &mut [usize], order: &mut Vec<Turn>, all: &mut Vec<Vec<Turn>>) {
    let mut is_end = true;
    for at in 0..piles.len() {
        if let Some(&step) = piles[at].get(taken[at]) {
            is_end = false;
            taken[at] += 1;
            order.push(Turn { step, blockers: Vec::new() });
            interleave(piles, taken, order, all);
            order.pop();
            taken[at] -= 1;
        }
    }
    if is_end {
        all.push(order.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::{Blocker, parse};

    #[test]
    fn a_spec_is_read() {
        let text = "# remark\nsetup { CREATE TABLE t (a int); }\nsetup\n{\n SELECT 1;\n}\nteardown { DROP TABLE t; }\n\
            session \"s 1\"\nsetup { BEGIN; }\nstep a1 { SELECT 1; }\nstep \"a\"\"2\" { COMMIT; }\n\
            session s2\nstep b1\t{ SELECT 2; }\nstep c {}\nteardown { ROLLBACK; }\n\
            permutation a1(*) b1 ( a1 , \"a\"\"2\" notices 2) \"a\"\"2\"\n";
        let spec = parse(text).expect("it is a spec");
        assert_eq!(spec.setups, ["CREATE TABLE t (a int);", "\n SELECT 1;\n"]);
        assert_eq!((spec.sessions[0].name.as_str(), spec.sessions[1].name.as_str()), ("s 1", "s2"));
        assert_eq!(spec.sessions[1].teardown.as_deref(), Some("ROLLBACK;"));
        assert_eq!(spec.unused, ["c"]);
        let turns = &spec.permutations[0];
        assert_eq!(turns[0].blockers, [Blocker::Once]);
        assert_eq!(turns[1].blockers, [Blocker::Step(0), Blocker::Notices { step: 1, count: 2 }]);
        assert_eq!(turns[2].step, 1);
    }

    #[test]
    fn without_permutations_all_are_played() {
        let text = "session a step a1 {x} step a2 {x} session b step b1 {x} step b2 {x}";
        let spec = parse(text).expect("it is a spec");
        let order = |at: usize| spec.permutations[at].iter().map(|turn| turn.step).collect::<Vec<_>>();
        assert_eq!(spec.permutations.len(), 6);
        assert_eq!((order(0), order(1), order(5)), (vec![0, 1, 2, 3], vec![0, 2, 1, 3], vec![2, 3, 0, 1]));
    }

    #[test]
    fn wrong_specs_are_refused() {
        for (text, why) in [
            ("session a step b {x} permutation c", "undefined step"),
            ("session a step b {x} session c step b {x}", "duplicate step"),
            ("session a step b {x} permutation b(b)", "its own session"),
            ("session a step b {x} session c step d {x} permutation b(d)", "undefined blocking step"),
            ("session a step b {x", "unterminated sql block at line 1"),
            ("session a step b ;", "unexpected character"),
            ("setup {x}", "needs a session"),
        ] {
            let error = parse(text).expect_err(text).to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
