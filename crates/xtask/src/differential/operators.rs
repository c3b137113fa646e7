//! Operators in a row without parentheses, so that their precedence counts.

use super::ast::Expr;
use super::exprs::{ExprScope, QueryGenerator, call};
use super::types::Ty;
use std::fmt::Write as _;

/// Operators of a type before an operand, and between two.
fn operators(ty: Ty) -> Option<(&'static [&'static str], &'static [&'static str])> {
    match ty {
        Ty::Int4 => Some((&["- ", "~ ", "@ ", "+ "], &["+", "-", "*", "/", "%", "&", "|", "#", "<<", ">>"])),
        Ty::Numeric => Some((&["- ", "@ "], &["+", "-", "*", "%"])),
        Ty::Float8 => Some((&["- ", "@ ", "|/ ", "||/ "], &["+", "-", "*", "/", "^"])),
        _ => None,
    }
}

/// Terms of a condition. `i` stands for an integer, `f` for a float, `t` for a text.
const TERMS: [&str; 16] = [
    "i + i < i",
    "not i = i",
    "i between i and i + i",
    "i is null",
    "i < i is true",
    "i = i is not null",
    "- f ^ f > f",
    "~ i + i < i",
    "@ i - i = i",
    "i in (i, - i)",
    "i & i + i = i",
    "t || t like t || '%'",
    "t || t ~ 'a'",
    "true = t ~~ 'a%'",
    "not t < t is not false",
    "i operator(pg_catalog.+) i * i < i",
];

impl QueryGenerator<'_> {
    /// Generates operators in a row, if the type has some.
    pub fn row_of_operators(&mut self, ty: Ty, scope: &ExprScope) -> Option<Expr> {
        let mut args = Vec::new();
        let mut text = "(".to_owned();
        if ty == Ty::Bool {
            for at in 0..=self.rng.below(2) {
                if 0 < at {
                    text.push_str(self.rng.word(&[" and ", " or ", " and not ", " or not "]));
                }
                for letter in self.rng.word(&TERMS).split_inclusive(|c: char| !c.is_ascii_alphabetic()) {
                    self.put_term(letter, &mut text, &mut args, scope);
                }
            }
        } else {
            let (before, between) = operators(ty)?;
            for at in 0..2 + self.rng.below(3) {
                if 0 < at {
                    let _ = write!(text, " {} ", self.rng.word(between));
                }
                if self.rng.chance(40) {
                    text.push_str(self.rng.word(before));
                }
                self.put(ty, &mut text, &mut args, scope);
            }
        }
        text.push(')');
        let mut made = call(&text, args, ty);
        // It is not determined which of two powers is the nearest.
        made.vague |= ty == Ty::Float8;
        Some(made)
    }

    /// Adds a word of a term, with the sign behind it.
    fn put_term(&mut self, word: &str, text: &mut String, args: &mut Vec<Expr>, scope: &ExprScope) {
        let name = word.trim_end_matches(|c: char| !c.is_ascii_alphabetic());
        let ty = match name {
            "i" => Ty::Int4,
            "f" => Ty::Float8,
            "t" => Ty::Text,
            _ => return text.push_str(word),
        };
        self.put(ty, text, args, scope);
        text.push_str(&word[name.len()..]);
    }

    fn put(&mut self, ty: Ty, text: &mut String, args: &mut Vec<Expr>, scope: &ExprScope) {
        let _ = write!(text, "${}", args.len());
        let leaf = if self.rng.chance(60) { self.leaf(ty, scope, true) } else { None };
        args.push(leaf.unwrap_or_else(|| self.literal(ty)));
    }
}
