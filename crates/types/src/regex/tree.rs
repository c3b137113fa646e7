//! Subexpressions: division of a match among the parts of its expression.
//!
//! **Invariant:** the division is that of PostgreSQL's `cdissect`. It depends on the tree that PostgreSQL's compiler
//! makes of an expression (adjacent simple atoms are one part; `x{m,n}` with a capture in it is `x{m-1,n-1}` and `x`),
//! so the same tree is made here.

use super::Span;
use super::parse::{Atom, Expression, QuantifiedAtom};
use super::program::Program;
use statement::error::{SqlError, SqlResult};

/// Part of an expression, with the program that matches it as a whole.
#[derive(Debug)]
pub(super) struct MatchTree {
    pub(super) program: usize,
    /// True if the part prefers the shortest match.
    pub(super) shorter: bool,
    shape: TreeShape,
}

#[derive(Debug)]
enum TreeShape {
    /// A part that captures nothing.
    Plain,
    Capture(usize, Box<MatchTree>),
    Concat(Box<MatchTree>, Box<MatchTree>),
    Alternatives(Vec<MatchTree>),
    /// Repetition, of none up to `most` matches.
    Repeat {
        inner: Box<MatchTree>,
        most: Option<u32>,
    },
}

impl Expression {
    fn captures(&self) -> bool {
        self.0.iter().flatten().any(QuantifiedAtom::captures)
    }

    /// Returns true if the expression prefers the shortest match, and `None` without a preference.
    fn shorter(&self) -> Option<bool> {
        match &self.0[..] {
            [branch] => shorter(branch),
            _ => Some(false),
        }
    }
}

impl QuantifiedAtom {
    fn captures(&self) -> bool {
        match &self.atom {
            Atom::Group(number, inner) => number.is_some() || inner.captures(),
            Atom::Set(_) | Atom::Assertion(_) | Atom::Look { .. } => false,
        }
    }

    fn shorter(&self) -> Option<bool> {
        self.shorter.or_else(|| match &self.atom {
            Atom::Group(_, inner) => inner.shorter(),
            Atom::Set(_) | Atom::Assertion(_) | Atom::Look { .. } => None,
        })
    }
}

/// Preferences of the quantifiers of a part: longest, shortest, or both within one of its parts.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct MatchPreference {
    longer: bool,
    shorter: bool,
    mixed: bool,
}

impl MatchPreference {
    fn and(self, other: MatchPreference) -> MatchPreference {
        let (longer, shorter) = (self.longer || other.longer, self.shorter || other.shorter);
        MatchPreference { longer, shorter, mixed: self.mixed || other.mixed || (longer && shorter) }
    }
}

impl QuantifiedAtom {
    /// Returns the preference of the quantifier itself.
    fn own_wish(&self) -> MatchPreference {
        MatchPreference { longer: self.shorter == Some(false), shorter: self.shorter == Some(true), mixed: false }
    }

    fn wishes(&self) -> MatchPreference {
        self.own_wish().and(self.atom.wishes())
    }

    /// Returns true if the quantifier changes nothing: once, with the preference of the atom, if either has one.
    fn is_vacuous(&self) -> bool {
        let inner = self.atom.wishes();
        (self.least, self.most) == (1, Some(1))
            && (self.shorter.is_none() || inner == MatchPreference::default() || inner == self.own_wish())
    }
}

impl Atom {
    fn wishes(&self) -> MatchPreference {
        let Atom::Group(_, Expression(branches)) = self else { return MatchPreference::default() };
        let all = branches.iter().map(|branch| {
            branch.iter().map(QuantifiedAtom::wishes).fold(MatchPreference::default(), MatchPreference::and)
        });
        match branches.len() {
            1 => all.fold(MatchPreference::default(), MatchPreference::and),
            _ => MatchPreference { longer: true, shorter: false, mixed: all.into_iter().any(|wishes| wishes.mixed) },
        }
    }
}

fn shorter(pieces: &[QuantifiedAtom]) -> Option<bool> {
    pieces.iter().find_map(QuantifiedAtom::shorter)
}

struct TreeBuilder<'p>(&'p mut Vec<Program>);

impl TreeBuilder<'_> {
    fn node(&mut self, program: Program, shorter: Option<bool>, shape: TreeShape) -> MatchTree {
        self.0.push(program);
        MatchTree { program: self.0.len() - 1, shorter: shorter == Some(true), shape }
    }

    fn expression(&mut self, expression: &Expression) -> SqlResult<MatchTree> {
        let shape = match &expression.0[..] {
            _ if !expression.captures() => TreeShape::Plain,
            [branch] => return self.branch(branch),
            branches => {
                TreeShape::Alternatives(branches.iter().map(|branch| self.branch(branch)).collect::<SqlResult<_>>()?)
            }
        };
        Ok(self.node(Program::of(expression)?, expression.shorter(), shape))
    }

    fn branch(&mut self, pieces: &[QuantifiedAtom]) -> SqlResult<MatchTree> {
        if !pieces.iter().any(QuantifiedAtom::captures) {
            return Ok(self.node(Program::of_pieces(pieces)?, shorter(pieces), TreeShape::Plain));
        }
        // Simple atoms of one preference are one part.
        let mut wish = None;
        let simple = pieces.iter().position(|piece| {
            let own = piece.shorter();
            let clashes = wish.is_some() && own.is_some() && own != wish;
            wish = wish.or(own);
            clashes || piece.captures() || piece.wishes().mixed
        });
        let simple = simple.unwrap_or(0);
        let whole = Program::of_pieces(pieces)?;
        let (first, rest) = if simple > 0 {
            let (first, rest) = pieces.split_at(simple);
            (self.node(Program::of_pieces(first)?, shorter(first), TreeShape::Plain), rest)
        } else {
            let Some((first, rest)) = pieces.split_first() else {
                return Ok(self.node(whole, None, TreeShape::Plain));
            };
            let first = self.piece(first)?;
            if rest.is_empty() {
                return Ok(first);
            }
            (first, rest)
        };
        let rest = self.branch(rest)?;
        Ok(self.node(whole, shorter(pieces), TreeShape::Concat(Box::new(first), Box::new(rest))))
    }

    fn atom(&mut self, atom: &Atom) -> SqlResult<MatchTree> {
        match atom {
            Atom::Group(None, inner) => self.expression(inner),
            Atom::Group(Some(number), inner) => {
                let tree = self.expression(inner)?;
                Ok(self.node(Program::of(inner)?, inner.shorter(), TreeShape::Capture(*number, Box::new(tree))))
            }
            simple => {
                let piece = QuantifiedAtom { atom: simple.clone(), least: 1, most: Some(1), shorter: None };
                Ok(self.node(Program::of_pieces(&[piece])?, None, TreeShape::Plain))
            }
        }
    }

    fn piece(&mut self, piece: &QuantifiedAtom) -> SqlResult<MatchTree> {
        let whole = Program::of_pieces(std::slice::from_ref(piece))?;
        if !piece.captures() || piece.most == Some(0) {
            return Ok(self.node(whole, piece.shorter(), TreeShape::Plain));
        }
        if piece.is_vacuous() {
            return self.atom(&piece.atom);
        }
        let inner = self.atom(&piece.atom)?;
        let shape = if piece.least > 0 {
            let most = piece.most.map(|most| most - 1);
            let before = QuantifiedAtom { least: piece.least - 1, most, ..piece.clone() };
            let program = Program::of_pieces(&[before])?;
            let before = self.node(program, piece.shorter(), TreeShape::Plain);
            TreeShape::Concat(Box::new(before), Box::new(inner))
        } else {
            TreeShape::Repeat { inner: Box::new(inner), most: piece.most }
        };
        Ok(self.node(whole, piece.shorter(), shape))
    }
}

impl MatchTree {
    /// Builds the tree of an expression, and adds its programs to `programs`.
    pub(super) fn of(expression: &Expression, programs: &mut Vec<Program>) -> SqlResult<MatchTree> {
        TreeBuilder(programs).expression(expression)
    }

    fn clear(&self, spans: &mut [Option<Span>]) {
        match &self.shape {
            TreeShape::Plain => {}
            TreeShape::Capture(number, inner) => {
                spans[*number] = None;
                inner.clear(spans);
            }
            TreeShape::Concat(first, rest) => {
                first.clear(spans);
                rest.clear(spans);
            }
            TreeShape::Alternatives(all) => all.iter().for_each(|one| one.clear(spans)),
            TreeShape::Repeat { inner, .. } => inner.clear(spans),
        }
    }

    /// Divides a part of the text that the tree's program matches. Returns false if it cannot be divided so.
    pub(super) fn dissect(
        &self,
        programs: &[Program],
        text: &[char],
        (begin, end): Span,
        spans: &mut [Option<Span>],
    ) -> SqlResult<bool> {
        Ok(match &self.shape {
            TreeShape::Plain => true,
            TreeShape::Capture(number, inner) => {
                let fits = inner.dissect(programs, text, (begin, end), spans)?;
                if fits {
                    spans[*number] = Some((begin, end));
                }
                fits
            }
            TreeShape::Concat(first, rest) => {
                let mut middles = programs[first.program].ends(text, begin, end)?;
                if !first.shorter {
                    middles.reverse();
                }
                for middle in middles {
                    if !programs[rest.program].fits(text, middle, end)? {
                        continue;
                    }
                    if first.dissect(programs, text, (begin, middle), spans)?
                        && rest.dissect(programs, text, (middle, end), spans)?
                    {
                        return Ok(true);
                    }
                    first.clear(spans);
                    rest.clear(spans);
                }
                false
            }
            TreeShape::Alternatives(all) => {
                for one in all {
                    if programs[one.program].fits(text, begin, end)?
                        && one.dissect(programs, text, (begin, end), spans)?
                    {
                        return Ok(true);
                    }
                }
                false
            }
            TreeShape::Repeat { inner, most } => {
                if begin == end {
                    // One empty match is preferred to none, unless the match is to be as short as possible.
                    if !inner.shorter && programs[inner.program].fits(text, begin, begin)? {
                        inner.dissect(programs, text, (begin, end), spans)?;
                    }
                    return Ok(true);
                }
                MatchTree::repeat(inner, *most, programs, text, (begin, end), spans)?
            }
        })
    }

    /// Divides a part that is not empty into matches of `inner`, none of them empty, each as long,
    /// or as short, as possible.
    fn repeat(
        inner: &MatchTree,
        most: Option<u32>,
        programs: &[Program],
        text: &[char],
        (begin, end): Span,
        spans: &mut [Option<Span>],
    ) -> SqlResult<bool> {
        let most = most.map_or(usize::MAX, |most| most as usize).min(end - begin).max(1);
        // The ends that are still to be tried, for each match so far.
        let choices = |from: usize| {
            let mut ends = programs[inner.program].ends(text, from, end)?;
            ends.retain(|end| *end != from);
            // The end that is tried first stands last.
            if inner.shorter {
                ends.reverse();
            }
            Ok::<_, SqlError>(ends)
        };
        let mut open = vec![(begin, choices(begin)?)];
        while let Some((from, left)) = open.last_mut() {
            let from = *from;
            let Some(to) = left.pop() else {
                open.pop();
                continue;
            };
            if to != end {
                if open.len() < most {
                    open.push((to, choices(to)?));
                }
                continue;
            }
            inner.clear(spans);
            if inner.dissect(programs, text, (from, to), spans)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
