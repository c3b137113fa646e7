//! Matching of all paths through an expression at once, character by character.
//!
//! **Invariant:** the time is at most proportional to the product of the lengths of text and program, whatever they are
//! (look-arounds apart).

use super::invalid;
use super::parse::{Assertion, Atom, CharSet, Expression, QuantifiedAtom};
use statement::error::SqlResult;
use statement::pulse;

#[derive(Debug)]
enum ProgramStep {
    Set(CharSet),
    Assertion(Assertion),
    Look {
        ahead: bool,
        negated: bool,
        inner: Program,
    },
    /// Continues on both paths. The second one begins at this step.
    Split(usize),
    Jump(usize),
    Match,
}

/// A compiled expression, or a part of one.
#[derive(Debug)]
pub(super) struct Program(Vec<ProgramStep>);

/// Units of work of one step.
const STEP: usize = 4;
/// Maximum number of steps of an expression.
const STEPS_MAX: usize = 50_000;

fn is_word(c: Option<&char>) -> bool {
    c.is_some_and(|c| c.is_ascii_alphanumeric() || *c == '_')
}

impl Assertion {
    fn holds(self, text: &[char], at: usize) -> bool {
        let before = at.checked_sub(1).and_then(|before| text.get(before));
        let after = text.get(at);
        match self {
            Assertion::Start => at == 0,
            Assertion::End => at == text.len(),
            Assertion::LineStart => before.is_none_or(|c| *c == '\n'),
            Assertion::LineEnd => after.is_none_or(|c| *c == '\n'),
            Assertion::WordStart => !is_word(before) && is_word(after),
            Assertion::WordEnd => is_word(before) && !is_word(after),
            Assertion::WordEdge => is_word(before) != is_word(after),
            Assertion::NoWordEdge => is_word(before) == is_word(after),
        }
    }
}

/// Steps that the paths have reached, each once.
struct ActiveSteps {
    steps: Vec<usize>,
    /// Last round in which each step was reached.
    reached: Vec<usize>,
    round: usize,
}

impl ActiveSteps {
    fn new(len: usize) -> ActiveSteps {
        ActiveSteps { steps: Vec::new(), reached: vec![0; len], round: 0 }
    }

    fn clear(&mut self) {
        self.steps.clear();
        self.round += 1;
    }
}

impl Program {
    /// Compiles an expression.
    pub(super) fn of(expression: &Expression) -> SqlResult<Program> {
        let mut program = Program(Vec::new());
        program.expression(expression)?;
        program.0.push(ProgramStep::Match);
        Ok(program)
    }

    /// Compiles a sequence of pieces.
    pub(super) fn of_pieces(pieces: &[QuantifiedAtom]) -> SqlResult<Program> {
        let mut program = Program(Vec::new());
        for piece in pieces {
            program.piece(piece)?;
        }
        program.0.push(ProgramStep::Match);
        Ok(program)
    }

    fn push(&mut self, step: ProgramStep) -> SqlResult<usize> {
        if self.0.len() >= STEPS_MAX {
            return Err(invalid("regular expression is too complex"));
        }
        self.0.push(step);
        Ok(self.0.len() - 1)
    }

    fn expression(&mut self, Expression(branches): &Expression) -> SqlResult<()> {
        let mut ends = Vec::new();
        for (index, branch) in branches.iter().enumerate() {
            let is_last = index + 1 == branches.len();
            let split = if is_last { None } else { Some(self.push(ProgramStep::Split(0))?) };
            for piece in branch {
                self.piece(piece)?;
            }
            if let Some(split) = split {
                ends.push(self.push(ProgramStep::Jump(0))?);
                self.0[split] = ProgramStep::Split(self.0.len());
            }
        }
        let end = self.0.len();
        ends.into_iter().for_each(|at| self.0[at] = ProgramStep::Jump(end));
        Ok(())
    }

    fn piece(&mut self, piece: &QuantifiedAtom) -> SqlResult<()> {
        for _ in 0..piece.least {
            self.atom(&piece.atom)?;
        }
        match piece.most {
            None => {
                let split = self.push(ProgramStep::Split(0))?;
                self.atom(&piece.atom)?;
                self.push(ProgramStep::Jump(split))?;
                self.0[split] = ProgramStep::Split(self.0.len());
            }
            Some(most) => {
                let mut splits = Vec::new();
                for _ in piece.least..most {
                    splits.push(self.push(ProgramStep::Split(0))?);
                    self.atom(&piece.atom)?;
                }
                let end = self.0.len();
                splits.into_iter().for_each(|at| self.0[at] = ProgramStep::Split(end));
            }
        }
        Ok(())
    }

    fn atom(&mut self, atom: &Atom) -> SqlResult<()> {
        match atom {
            Atom::Set(set) => self.push(ProgramStep::Set(set.clone())).map(drop),
            Atom::Assertion(assertion) => self.push(ProgramStep::Assertion(*assertion)).map(drop),
            Atom::Look { ahead, negated, inner } => {
                let inner = Program::of(inner)?;
                self.push(ProgramStep::Look { ahead: *ahead, negated: *negated, inner }).map(drop)
            }
            Atom::Group(_, inner) => self.expression(inner),
        }
    }

    /// Adds a step and all steps that it leads to without a character. Returns true if the end is among them.
    fn add(
        &self,
        ways: &mut ActiveSteps,
        stack: &mut Vec<usize>,
        first: usize,
        text: &[char],
        at: usize,
    ) -> SqlResult<bool> {
        let mut is_end = false;
        stack.push(first);
        while let Some(step) = stack.pop() {
            pulse::tick(STEP)?;
            if std::mem::replace(&mut ways.reached[step], ways.round) == ways.round {
                continue;
            }
            match &self.0[step] {
                ProgramStep::Set(_) => ways.steps.push(step),
                ProgramStep::Match => is_end = true,
                ProgramStep::Jump(to) => stack.push(*to),
                ProgramStep::Split(to) => stack.extend([*to, step + 1]),
                ProgramStep::Assertion(assertion) if assertion.holds(text, at) => stack.push(step + 1),
                ProgramStep::Assertion(_) => {}
                ProgramStep::Look { ahead, negated, inner } => {
                    let holds = if *ahead {
                        inner.end(text, at, text.len(), true)?.is_some()
                    } else {
                        inner.ends_at(text, at)?
                    };
                    if holds != *negated {
                        stack.push(step + 1);
                    }
                }
            }
        }
        Ok(is_end)
    }

    /// Runs from `begin` on, at most to `limit`. Reports the ends of matches in order, until `told` has enough. With
    /// `anywhere`, a match may begin later, too.
    fn run(
        &self,
        text: &[char],
        begin: usize,
        limit: usize,
        anywhere: bool,
        mut told: impl FnMut(usize) -> bool,
    ) -> SqlResult<()> {
        // Clearing the memory of the paths takes time.
        pulse::tick(self.0.len())?;
        let mut now = ActiveSteps::new(self.0.len());
        let mut next = ActiveSteps::new(self.0.len());
        let mut stack = Vec::new();
        now.clear();
        let mut is_end = self.add(&mut now, &mut stack, 0, text, begin)?;
        for at in begin..=limit {
            if is_end && told(at) {
                return Ok(());
            }
            if at == limit || (now.steps.is_empty() && !anywhere) {
                return Ok(());
            }
            pulse::tick(STEP * (1 + now.steps.len()))?;
            next.clear();
            is_end = false;
            for step in &now.steps {
                if let ProgramStep::Set(set) = &self.0[*step]
                    && set.has(text[at])
                {
                    is_end |= self.add(&mut next, &mut stack, step + 1, text, at + 1)?;
                }
            }
            if anywhere {
                is_end |= self.add(&mut next, &mut stack, 0, text, at + 1)?;
            }
            std::mem::swap(&mut now, &mut next);
        }
        Ok(())
    }

    /// Returns true if the expression matches from this character on or later.
    pub(super) fn is_anywhere(&self, text: &[char], from: usize) -> SqlResult<bool> {
        let mut found = false;
        self.run(text, from, text.len(), true, |_| {
            found = true;
            true
        })?;
        Ok(found)
    }

    /// Returns the last end of a match that begins here, or the first.
    pub(super) fn end(&self, text: &[char], begin: usize, limit: usize, first: bool) -> SqlResult<Option<usize>> {
        let mut end = None;
        self.run(text, begin, limit, false, |at| {
            end = Some(at);
            first
        })?;
        Ok(end)
    }

    /// Returns all ends of matches that begin here.
    pub(super) fn ends(&self, text: &[char], begin: usize, limit: usize) -> SqlResult<Vec<usize>> {
        let mut ends = Vec::new();
        self.run(text, begin, limit, false, |at| {
            ends.push(at);
            false
        })?;
        Ok(ends)
    }

    /// Returns true if exactly this part matches.
    pub(super) fn fits(&self, text: &[char], begin: usize, end: usize) -> SqlResult<bool> {
        Ok(self.end(text, begin, end, false)? == Some(end))
    }

    /// Returns true if a match ends here, wherever it begins.
    fn ends_at(&self, text: &[char], end: usize) -> SqlResult<bool> {
        for begin in 0..=end {
            if self.fits(text, begin, end)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
