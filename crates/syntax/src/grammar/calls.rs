//! Calls of functions and aggregates, those with a syntax of their own among them.

use super::Parser;
use super::expr::special_call;
use crate::ast::{
    Argument, CastStyle, Constant, Expr, ExprKind, Frame, FrameBound, FrameExclusion, FrameUnit, FunctionCall, Name,
    ObjectName, Over, TypeName, WindowSpec,
};
use crate::lex::{Keyword, Lexeme, Span};
use statement::error::{SqlError, SqlResult, SqlState};

/// SQLSTATE `42P20`: a window that is not possible.
const WINDOWING_ERROR: SqlState = SqlState::WINDOWING_ERROR;

impl Parser<'_> {
    /// Parses a call of a function, from its parenthesis on, or the literal of a type with modifiers: `numeric(5, 2)
    /// '1'`.
    pub(super) fn call_or_literal(&mut self, name: ObjectName, from: Span) -> SqlResult<Expr> {
        let call = self.arguments(name)?;
        let may_be_type = !call.is_star && !call.is_distinct && !call.is_variadic && !call.arguments.is_empty();
        if !may_be_type || !Self::is_text(self.token.lexeme) {
            return self.behind_call(call, from);
        }
        let named = call.arguments.iter().find(|argument| argument.name.is_some());
        let wrong = match (named, call.order_by.first()) {
            (Some(argument), _) => Some(("type modifier cannot have parameter name", argument.value.span)),
            (None, Some(key)) => Some(("type modifier cannot have ORDER BY", key.value.span)),
            (None, None) => None,
        };
        if let Some((message, at)) = wrong {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message).at(at.position(self.text)));
        }
        let modifiers = call.arguments.into_iter().map(|argument| argument.value).collect();
        self.typed_literal(call.name, modifiers, from)
    }

    /// Parses a call of a function, from its parenthesis on: `func_application`.
    pub(super) fn arguments(&mut self, name: ObjectName) -> SqlResult<FunctionCall> {
        let mut call = FunctionCall {
            name,
            arguments: Vec::new(),
            is_star: false,
            is_distinct: false,
            is_variadic: false,
            order_by: Vec::new(),
            is_within_group: false,
            filter: None,
            over: None,
            is_special: false,
        };
        self.expect(Lexeme::LeftParen)?;
        match self.token.lexeme {
            Lexeme::RightParen => {
                self.next()?;
                return Ok(call);
            }
            Lexeme::Star => {
                self.next()?;
                self.expect(Lexeme::RightParen)?;
                call.is_star = true;
                return Ok(call);
            }
            Lexeme::Keyword(Keyword::All) => drop(self.next()?),
            Lexeme::Keyword(Keyword::Distinct) => {
                self.next()?;
                call.is_distinct = true;
            }
            _ => {}
        }
        loop {
            // `VARIADIC` marks the last argument: no other may follow.
            call.is_variadic = self.eat_word(Keyword::Variadic)?;
            let argument = self.argument()?;
            call.arguments.push(argument);
            if call.is_variadic || !self.eat(Lexeme::Comma)? {
                break;
            }
        }
        call.order_by = self.order_by()?;
        self.expect(Lexeme::RightParen)?;
        Ok(call)
    }

    fn argument(&mut self) -> SqlResult<Argument> {
        let is_named = Self::is_function_name(self.token.lexeme)
            && matches!(self.ahead(1)?, Lexeme::ColonEquals | Lexeme::EqualsGreater);
        let name = match is_named {
            true => {
                let token = self.next()?;
                let name = self.name_of(token)?;
                self.next()?;
                Some(name)
            }
            false => None,
        };
        Ok(Argument { name, value: self.expr()? })
    }

    /// Parses `WITHIN GROUP`, `FILTER` and `OVER` after a call.
    fn behind_call(&mut self, mut call: FunctionCall, from: Span) -> SqlResult<Expr> {
        if self.is_word(Keyword::Within) {
            let at = self.token.span;
            self.expect_words(&[Keyword::Within, Keyword::Group])?;
            self.expect(Lexeme::LeftParen)?;
            let order_by = self.order_by()?;
            if order_by.is_empty() {
                return Err(self.unexpected());
            }
            self.expect(Lexeme::RightParen)?;
            let conflict = [
                (!call.order_by.is_empty(), "cannot use multiple ORDER BY clauses with WITHIN GROUP"),
                (call.is_distinct, "cannot use DISTINCT with WITHIN GROUP"),
                (call.is_variadic, "cannot use VARIADIC with WITHIN GROUP"),
            ];
            if let Some((_, message)) = conflict.iter().find(|(is_there, _)| *is_there) {
                let error = SqlError::new(SqlState::SYNTAX_ERROR, *message);
                return Err(error.at(at.position(self.text)));
            }
            call.order_by = order_by;
            call.is_within_group = true;
        }
        if self.eat_word(Keyword::Filter)? {
            self.expect(Lexeme::LeftParen)?;
            self.expect_word(Keyword::Where)?;
            call.filter = Some(Box::new(self.expr()?));
            self.expect(Lexeme::RightParen)?;
        }
        if self.eat_word(Keyword::Over)? {
            call.over = Some(match self.is(Lexeme::LeftParen) {
                true => Over::Spec(self.window_spec()?),
                false => Over::Name(self.column_name()?),
            });
        }
        Ok(Expr { kind: ExprKind::Call(Box::new(call)), span: self.since(from) })
    }

    /// Parses a window in parentheses.
    pub(super) fn window_spec(&mut self) -> SqlResult<WindowSpec> {
        let from = self.expect(Lexeme::LeftParen)?.span;
        let is_clause = |lexeme: Lexeme| {
            let words = [Keyword::Partition, Keyword::Range, Keyword::Rows, Keyword::Groups];
            matches!(lexeme, Lexeme::Keyword(word) if words.contains(&word))
        };
        let base = match Self::is_column_name(self.token.lexeme) && !is_clause(self.token.lexeme) {
            true => Some(self.column_name()?),
            false => None,
        };
        let mut partition_by = Vec::new();
        if self.eat_word(Keyword::Partition)? {
            self.expect_word(Keyword::By)?;
            partition_by = self.exprs()?;
        }
        let order_by = self.order_by()?;
        let frame = self.frame()?;
        self.expect(Lexeme::RightParen)?;
        Ok(WindowSpec { base, partition_by, order_by, frame, span: self.since(from) })
    }

    fn frame(&mut self) -> SqlResult<Option<Frame>> {
        let from = self.token.span;
        let unit = match self.token.lexeme {
            Lexeme::Keyword(Keyword::Rows) => FrameUnit::Rows,
            Lexeme::Keyword(Keyword::Range) => FrameUnit::Range,
            Lexeme::Keyword(Keyword::Groups) => FrameUnit::Groups,
            _ => return Ok(None),
        };
        self.next()?;
        let (mut start_at, mut end_at) = (self.token.span, self.token.span);
        let (start, end) = match self.is_word(Keyword::Between) && !self.is_between_column()? {
            true => {
                self.next()?;
                // Words of that level cannot follow one another (`%nonassoc`).
                let words = [Keyword::Between, Keyword::In, Keyword::Like, Keyword::Ilike, Keyword::Similar];
                if words.iter().any(|word| self.is_word(*word)) {
                    return Err(self.unexpected());
                }
                start_at = self.token.span;
                let start = self.frame_bound()?;
                self.expect_word(Keyword::And)?;
                end_at = self.token.span;
                (start, Some(self.frame_bound()?))
            }
            false => (self.frame_bound()?, None),
        };
        self.check_frame(&start, end.as_ref(), [start_at, end_at])?;
        let exclusion = match self.eat_word(Keyword::Exclude)? {
            false => FrameExclusion::NoOthers,
            true => match self.next()?.lexeme {
                Lexeme::Keyword(Keyword::Current) => {
                    self.expect_word(Keyword::Row)?;
                    FrameExclusion::CurrentRow
                }
                Lexeme::Keyword(Keyword::Group) => FrameExclusion::Group,
                Lexeme::Keyword(Keyword::Ties) => FrameExclusion::Ties,
                Lexeme::Keyword(Keyword::No) => {
                    self.expect_word(Keyword::Others)?;
                    FrameExclusion::NoOthers
                }
                _ => return Err(self.unexpected()),
            },
        };
        Ok(Some(Frame { unit, start, end, exclusion, span: self.since(from) }))
    }

    /// Returns true if the word `BETWEEN`, at the current token, names a column: no bound begins after it.
    fn is_between_column(&mut self) -> SqlResult<bool> {
        Ok(matches!(self.ahead(1)?, Lexeme::Keyword(Keyword::And | Keyword::Or | Keyword::Is)))
    }

    /// Refuses bounds that can have no row between them, at the bound that is wrong.
    fn check_frame(&self, start: &FrameBound, end: Option<&FrameBound>, at: [Span; 2]) -> SqlResult<()> {
        use FrameBound::{CurrentRow, Following, Preceding, UnboundedFollowing, UnboundedPreceding};
        let (message, at) = match (start, end.unwrap_or(&CurrentRow)) {
            (UnboundedFollowing, _) => ("frame start cannot be UNBOUNDED FOLLOWING", at[0]),
            (_, UnboundedPreceding) => ("frame end cannot be UNBOUNDED PRECEDING", at[1]),
            (CurrentRow, Preceding(_)) => ("frame starting from current row cannot have preceding rows", at[1]),
            (Following(_), Preceding(_)) => ("frame starting from following row cannot have preceding rows", at[1]),
            (Following(_), CurrentRow) if end.is_none() => {
                ("frame starting from following row cannot end with current row", at[0])
            }
            (Following(_), CurrentRow) => ("frame starting from following row cannot have preceding rows", at[1]),
            _ => return Ok(()),
        };
        Err(SqlError::new(WINDOWING_ERROR, message).at(at.position(self.text)))
    }

    fn frame_bound(&mut self) -> SqlResult<FrameBound> {
        let follows = self.ahead(1)?;
        let is_word = |lexeme: Lexeme, word: Keyword| lexeme == Lexeme::Keyword(word);
        if self.is_word(Keyword::Unbounded)
            && (is_word(follows, Keyword::Preceding) || is_word(follows, Keyword::Following))
        {
            self.next()?;
            let is_preceding = self.is_word(Keyword::Preceding);
            self.next()?;
            return Ok(if is_preceding { FrameBound::UnboundedPreceding } else { FrameBound::UnboundedFollowing });
        }
        if self.is_word(Keyword::Current) && is_word(follows, Keyword::Row) {
            self.next()?;
            self.next()?;
            return Ok(FrameBound::CurrentRow);
        }
        let offset = Box::new(self.expr()?);
        if self.eat_word(Keyword::Preceding)? {
            return Ok(FrameBound::Preceding(offset));
        }
        self.expect_word(Keyword::Following)?;
        Ok(FrameBound::Following(offset))
    }

    /// Returns true if the call of this word has a syntax of its own.
    pub(super) fn has_special_call(&self, word: Keyword) -> bool {
        matches!(
            word,
            Keyword::Coalesce
                | Keyword::Greatest
                | Keyword::Least
                | Keyword::Nullif
                | Keyword::Grouping
                | Keyword::Extract
                | Keyword::Normalize
                | Keyword::Overlay
                | Keyword::Position
                | Keyword::Substring
                | Keyword::Treat
                | Keyword::Trim
                | Keyword::Xmlconcat
                | Keyword::Xmlelement
                | Keyword::Xmlexists
                | Keyword::Xmlforest
                | Keyword::Xmlparse
                | Keyword::Xmlpi
                | Keyword::Xmlroot
                | Keyword::Xmlserialize
        )
    }

    /// Parses a call with a syntax of its own: its word is the current token, and a parenthesis follows.
    pub(super) fn special(&mut self, word: Keyword) -> SqlResult<Expr> {
        let from = self.next()?.span;
        self.expect(Lexeme::LeftParen)?;
        let kind = match word {
            Keyword::Coalesce => ExprKind::Coalesce(self.exprs()?),
            Keyword::Greatest => ExprKind::Greatest(self.exprs()?),
            Keyword::Least => ExprKind::Least(self.exprs()?),
            Keyword::Grouping => ExprKind::Grouping(self.exprs()?),
            Keyword::Nullif => {
                let first = self.expr()?;
                self.expect(Lexeme::Comma)?;
                ExprKind::NullIf(Box::new([first, self.expr()?]))
            }
            Keyword::Extract => self.extract(from)?,
            Keyword::Normalize => {
                let mut arguments = vec![self.expr()?];
                if self.eat(Lexeme::Comma)? {
                    let form = self.token;
                    match form.lexeme {
                        Lexeme::Keyword(word @ (Keyword::Nfc | Keyword::Nfd | Keyword::Nfkc | Keyword::Nfkd)) => {
                            self.next()?;
                            arguments.push(text_constant(&word.word().to_uppercase(), form.span));
                        }
                        _ => return Err(self.unexpected()),
                    }
                }
                special_call("normalize", arguments, from)
            }
            Keyword::Overlay => self.overlay(from)?,
            Keyword::Position => {
                let wanted = self.restricted_expr()?;
                self.expect_word(Keyword::In)?;
                let text = self.restricted_expr()?;
                special_call("position", [text, wanted], from)
            }
            Keyword::Substring => self.substring(from)?,
            Keyword::Treat => {
                let value = self.expr()?;
                self.expect_word(Keyword::As)?;
                let to = self.type_name()?;
                // As in PostgreSQL, this calls a function with the name of the type.
                let last = to.name.parts.last().map_or_else(String::new, |name| name.text.to_string());
                special_call(&last, [value], from)
            }
            Keyword::Trim => self.trim(from)?,
            _ => {
                self.skip_parenthesised()?;
                let kind = ExprKind::Unsupported(word.word());
                return Ok(Expr { kind, span: self.since(from) });
            }
        };
        self.expect(Lexeme::RightParen)?;
        Ok(Expr { kind, span: self.since(from) })
    }

    /// Skips to after the parenthesis that closes the one that was taken.
    pub(super) fn skip_parenthesised(&mut self) -> SqlResult<()> {
        let mut depth = 1_usize;
        while 0 < depth {
            match self.token.lexeme {
                Lexeme::LeftParen => depth += 1,
                Lexeme::RightParen => depth -= 1,
                Lexeme::End | Lexeme::Broken | Lexeme::Semicolon => return Err(self.unexpected()),
                _ => {}
            }
            self.next()?;
        }
        Ok(())
    }

    fn extract(&mut self, from: Span) -> SqlResult<ExprKind> {
        let span = self.token.span;
        let field = match self.token.lexeme {
            lexeme if Self::is_text(lexeme) => self.text()?,
            Lexeme::Keyword(
                word @ (Keyword::Year
                | Keyword::Month
                | Keyword::Day
                | Keyword::Hour
                | Keyword::Minute
                | Keyword::Second),
            ) => {
                self.next()?;
                word.word().into()
            }
            Lexeme::Word | Lexeme::Quoted | Lexeme::UnicodeQuoted => {
                let token = self.next()?;
                self.name_of(token)?.text
            }
            _ => return Err(self.unexpected()),
        };
        self.expect_word(Keyword::From)?;
        let value = self.expr()?;
        Ok(special_call("extract", [text_constant(&field, span), value], from))
    }

    fn overlay(&mut self, from: Span) -> SqlResult<ExprKind> {
        let first = self.argument()?;
        if !self.is_word(Keyword::Placing) || first.name.is_some() {
            return self.plain_call("overlay", Some(first), from);
        }
        self.next()?;
        let mut arguments = vec![first.value, self.expr()?];
        self.expect_word(Keyword::From)?;
        arguments.push(self.expr()?);
        if self.eat_word(Keyword::For)? {
            arguments.push(self.expr()?);
        }
        Ok(special_call("overlay", arguments, from))
    }

    fn substring(&mut self, from: Span) -> SqlResult<ExprKind> {
        if self.is(Lexeme::RightParen) {
            return self.plain_call("substring", None, from);
        }
        let is_within = std::mem::replace(&mut self.in_substring, true);
        let first = self.argument();
        self.in_substring = is_within;
        let first = first?;
        if first.name.is_some() {
            return self.plain_call("substring", Some(first), from);
        }
        let mut arguments = vec![first.value];
        match self.token.lexeme {
            Lexeme::Keyword(Keyword::From) => {
                self.next()?;
                arguments.push(self.expr()?);
                if self.eat_word(Keyword::For)? {
                    arguments.push(self.expr()?);
                }
            }
            Lexeme::Keyword(Keyword::For) => {
                let at = self.next()?.span;
                let count = self.expr()?;
                if self.eat_word(Keyword::From)? {
                    arguments.push(self.expr()?);
                    arguments.push(count);
                } else {
                    // As in PostgreSQL, the first character is explicit, and the count is an integer.
                    let first = Expr { kind: ExprKind::Constant(Constant::Integer(1)), span: at };
                    let parts = ["pg_catalog", "int4"].map(|text| Name { text: text.into(), span: at }).into();
                    let to = TypeName {
                        name: ObjectName { parts },
                        is_builtin: true,
                        modifiers: Vec::new(),
                        fields: None,
                        dimensions: Vec::new(),
                        is_set: false,
                        is_of_column: false,
                        span: at,
                    };
                    let span = count.span;
                    let kind = ExprKind::Cast { value: Box::new(count), to, style: CastStyle::Function };
                    arguments.extend([first, Expr { kind, span }]);
                }
            }
            Lexeme::Keyword(Keyword::Similar) => {
                self.next()?;
                arguments.push(self.expr()?);
                self.expect_word(Keyword::Escape)?;
                arguments.push(self.expr()?);
            }
            _ => {
                let first = arguments.pop().map(|value| Argument { name: None, value });
                return self.plain_call("substring", first, from);
            }
        }
        Ok(special_call("substring", arguments, from))
    }

    /// Parses a call of a function whose word has a syntax of its own, up to the parenthesis that closes it.
    fn plain_call(&mut self, name: &str, first: Option<Argument>, span: Span) -> SqlResult<ExprKind> {
        let mut arguments: Vec<Argument> = first.into_iter().collect();
        while !arguments.is_empty() && self.eat(Lexeme::Comma)? {
            arguments.push(self.argument()?);
        }
        let name = ObjectName { parts: vec![Name { text: name.into(), span }] };
        Ok(ExprKind::Call(Box::new(FunctionCall {
            name,
            arguments,
            is_star: false,
            is_distinct: false,
            is_variadic: false,
            order_by: Vec::new(),
            is_within_group: false,
            filter: None,
            over: None,
            is_special: false,
        })))
    }

    fn trim(&mut self, from: Span) -> SqlResult<ExprKind> {
        let name = match self.token.lexeme {
            Lexeme::Keyword(Keyword::Leading) => "ltrim",
            Lexeme::Keyword(Keyword::Trailing) => "rtrim",
            _ => "btrim",
        };
        if matches!(self.token.lexeme, Lexeme::Keyword(Keyword::Leading | Keyword::Trailing | Keyword::Both)) {
            self.next()?;
        }
        let mut arguments = Vec::new();
        if self.eat_word(Keyword::From)? {
            arguments = self.exprs()?;
            return Ok(special_call(name, arguments, from));
        }
        let first = self.expr()?;
        if self.eat_word(Keyword::From)? {
            arguments.extend(self.exprs()?);
            arguments.push(first);
        } else {
            arguments.push(first);
            while self.eat(Lexeme::Comma)? {
                arguments.push(self.expr()?);
            }
        }
        Ok(special_call(name, arguments, from))
    }
}

fn text_constant(text: &str, span: Span) -> Expr {
    Expr { kind: ExprKind::Constant(Constant::Text(text.into())), span }
}
