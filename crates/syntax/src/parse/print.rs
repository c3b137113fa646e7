//! Trees as text: the queries and expressions that definitions keep, in PostgreSQL's words.
//!
//! **Invariant:** what is printed is read as the same tree again, marks of [`super::rewrite`] included. A tree with a part that
//! no text of PostgreSQL's has is not printed at all.

/// The parts of a tree that only other dialects have, each of which must be absent.
macro_rules! absent {
    ($($is_there:expr => $what:expr),+ $(,)?) => { $(if $is_there { return refused($what); })+ };
}

mod exprs;

use super::rewrite::{EXCLUDES, JOIN_ALIAS, KEY_SHARE, NO_KEY_UPDATE, mark, marked};
use sqlparser::ast::{self, Expr, FunctionArguments, SelectItem, SetExpr, TableFactor};
use statement::error::{SqlError, SqlResult};
use std::fmt::Display;

/// The text of a query.
///
/// # Errors
/// `0A000`: it has a part that is not PostgreSQL's, named.
pub fn query(query: &ast::Query) -> SqlResult<String> {
    let mut printer = Printer(String::new());
    printer.query(query)?;
    Ok(printer.0)
}

/// The text of an expression.
///
/// # Errors
/// As [`query`].
pub fn expression(expr: &Expr) -> SqlResult<String> {
    let mut printer = Printer(String::new());
    printer.expr(expr)?;
    Ok(printer.0)
}

fn refused<T>(what: impl Display) -> SqlResult<T> {
    Err(SqlError::unsupported(format_args!("{what} in a definition")))
}

struct Printer(String);

impl Printer {
    fn put(&mut self, text: impl AsRef<str>) {
        self.0.push_str(text.as_ref());
    }

    /// Items with a comma between them.
    fn list<T>(&mut self, items: &[T], mut item: impl FnMut(&mut Printer, &T) -> SqlResult<()>) -> SqlResult<()> {
        for (at, one) in items.iter().enumerate() {
            if 0 < at {
                self.put(", ");
            }
            item(self, one)?;
        }
        Ok(())
    }

    fn exprs(&mut self, items: &[Expr]) -> SqlResult<()> {
        self.list(items, Printer::expr)
    }

    /// Items in parentheses.
    fn bracketed(&mut self, items: &[Expr]) -> SqlResult<()> {
        self.put("(");
        self.exprs(items)?;
        self.put(")");
        Ok(())
    }

    fn name(&mut self, name: &ast::ObjectName) -> SqlResult<()> {
        for (at, part) in name.0.iter().enumerate() {
            if 0 < at {
                self.put(".");
            }
            match part {
                ast::ObjectNamePart::Identifier(ident) => self.ident(ident)?,
                ast::ObjectNamePart::Function(_) => return refused(format_args!("the name {name}")),
            }
        }
        Ok(())
    }

    fn ident(&mut self, ident: &ast::Ident) -> SqlResult<()> {
        absent!(mark(ident).is_some() => "a mark");
        match ident.quote_style {
            // Not by the library, which takes two quotes in a row for one that is escaped.
            Some(_) => self.put(format!("\"{}\"", ident.value.replace('"', "\"\""))),
            None => self.put(&ident.value),
        }
        Ok(())
    }

    /// The name of a type, its words in lower case.
    fn kind(&mut self, data_type: &ast::DataType) {
        let text = data_type.to_string();
        self.put(if text.contains('"') { text } else { text.to_lowercase() });
    }

    fn query(&mut self, query: &ast::Query) -> SqlResult<()> {
        statement::stack::check()?;
        let ast::Query {
            with,
            body,
            order_by,
            limit_clause,
            fetch,
            locks,
            for_clause,
            settings,
            format_clause,
            pipe_operators,
        } = query;
        absent!(
            for_clause.is_some() => "FOR XML, JSON or BROWSE",
            settings.is_some() || format_clause.is_some() => "SETTINGS or FORMAT",
            !pipe_operators.is_empty() => "an operator |>",
        );
        if let Some(ast::With { with_token: _, recursive, cte_tables }) = with {
            self.put(if *recursive { "WITH RECURSIVE " } else { "WITH " });
            self.list(cte_tables, Printer::with_query)?;
            self.put(" ");
        }
        self.set(body)?;
        if let Some(ast::OrderBy { kind, interpolate }) = order_by {
            let ast::OrderByKind::Expressions(keys) = kind else { return refused("ORDER BY ALL") };
            absent!(interpolate.is_some() => "INTERPOLATE");
            self.put(" ORDER BY ");
            self.list(keys, Printer::key)?;
        }
        match limit_clause {
            None => {}
            Some(ast::LimitClause::LimitOffset { limit, offset, limit_by }) => {
                absent!(!limit_by.is_empty() => "LIMIT BY");
                if let Some(limit) = limit {
                    self.put(" LIMIT ");
                    self.expr(limit)?;
                }
                if let Some(ast::Offset { value, rows }) = offset {
                    self.put(" OFFSET ");
                    self.expr(value)?;
                    self.put(match rows {
                        ast::OffsetRows::None => "",
                        ast::OffsetRows::Row | ast::OffsetRows::Rows => " ROWS",
                    });
                }
            }
            Some(ast::LimitClause::OffsetCommaLimit { .. }) => return refused("LIMIT with a comma"),
        }
        if let Some(ast::Fetch { with_ties, percent, quantity }) = fetch {
            absent!(*percent => "PERCENT");
            self.put(" FETCH FIRST ");
            if let Some(quantity) = quantity {
                self.expr(quantity)?;
                self.put(" ");
            }
            self.put(if *with_ties { "ROWS WITH TIES" } else { "ROWS ONLY" });
        }
        for lock in locks {
            self.lock(lock)?;
        }
        Ok(())
    }

    /// A clause of row locks. Strengths that the tree has no word for begin the name of what is locked, as marks.
    fn lock(&mut self, lock: &ast::LockClause) -> SqlResult<()> {
        let ast::LockClause { lock_type, of, nonblock } = lock;
        let mut parts = of.iter().flat_map(|name| &name.0).peekable();
        let own = match parts.peek() {
            Some(ast::ObjectNamePart::Identifier(first)) => mark(first),
            Some(ast::ObjectNamePart::Function(_)) | None => None,
        };
        if own.is_some() {
            parts.next();
        }
        self.put(match (lock_type, own) {
            (ast::LockType::Update, None) => " FOR UPDATE",
            (ast::LockType::Share, None) => " FOR SHARE",
            (ast::LockType::Update, Some(NO_KEY_UPDATE)) => " FOR NO KEY UPDATE",
            (ast::LockType::Share, Some(KEY_SHARE)) => " FOR KEY SHARE",
            (ast::LockType::Update | ast::LockType::Share, Some(other)) => {
                return refused(format_args!("the row lock {other}"));
            }
        });
        let name: Vec<ast::ObjectNamePart> = parts.cloned().collect();
        if !name.is_empty() {
            self.put(" OF ");
            self.name(&ast::ObjectName(name))?;
        }
        self.put(match nonblock {
            None => "",
            Some(ast::NonBlock::Nowait) => " NOWAIT",
            Some(ast::NonBlock::SkipLocked) => " SKIP LOCKED",
        });
        Ok(())
    }

    fn with_query(&mut self, with: &ast::Cte) -> SqlResult<()> {
        let ast::Cte { alias, query, from, materialized, closing_paren_token: _ } = with;
        absent!(from.is_some() => "FROM behind a query of WITH");
        self.alias_and_columns(alias)?;
        self.put(match materialized {
            None => " AS (",
            Some(ast::CteAsMaterialized::Materialized) => " AS MATERIALIZED (",
            Some(ast::CteAsMaterialized::NotMaterialized) => " AS NOT MATERIALIZED (",
        });
        self.query(query)?;
        self.put(")");
        Ok(())
    }

    fn set(&mut self, set: &SetExpr) -> SqlResult<()> {
        statement::stack::check()?;
        match set {
            SetExpr::Select(select) => self.select(select),
            SetExpr::Query(query) => self.subquery(query),
            SetExpr::SetOperation { left, op, set_quantifier, right } => {
                self.set(left)?;
                self.put(match op {
                    ast::SetOperator::Union => " UNION ",
                    ast::SetOperator::Except => " EXCEPT ",
                    ast::SetOperator::Intersect => " INTERSECT ",
                    ast::SetOperator::Minus => return refused("MINUS"),
                });
                self.put(match set_quantifier {
                    ast::SetQuantifier::All => "ALL ",
                    ast::SetQuantifier::Distinct => "DISTINCT ",
                    ast::SetQuantifier::None => "",
                    ast::SetQuantifier::ByName | ast::SetQuantifier::AllByName | ast::SetQuantifier::DistinctByName => {
                        return refused("BY NAME");
                    }
                });
                self.set(right)
            }
            SetExpr::Values(ast::Values { explicit_row, value_keyword, rows }) => {
                absent!(*explicit_row || *value_keyword => "VALUES ROW or VALUE");
                self.put("VALUES ");
                self.list(rows, |printer, row| printer.bracketed(&row.content))
            }
            SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_) => {
                refused("a statement that changes data")
            }
            SetExpr::Table(_) => refused("TABLE"),
        }
    }

    fn subquery(&mut self, query: &ast::Query) -> SqlResult<()> {
        self.put("(");
        self.query(query)?;
        self.put(")");
        Ok(())
    }

    fn select(&mut self, select: &ast::Select) -> SqlResult<()> {
        let ast::Select {
            select_token: _,
            optimizer_hints: _,
            distinct,
            select_modifiers,
            top,
            top_before_distinct: _,
            projection,
            exclude,
            into,
            from,
            lateral_views,
            prewhere,
            selection,
            connect_by,
            group_by,
            cluster_by,
            distribute_by,
            sort_by,
            having,
            named_window,
            qualify,
            window_before_qualify: _,
            value_table_mode,
            flavor,
        } = select;
        absent!(
            select_modifiers.is_some() || value_table_mode.is_some() => "an option of SELECT",
            *flavor != ast::SelectFlavor::Standard => "FROM before SELECT",
            top.is_some() => "TOP",
            exclude.is_some() => "EXCLUDE",
            into.is_some() => "SELECT INTO",
            !lateral_views.is_empty() => "LATERAL VIEW",
            prewhere.is_some() => "PREWHERE",
            !connect_by.is_empty() => "CONNECT BY",
            !cluster_by.is_empty() || !distribute_by.is_empty() || !sort_by.is_empty() => "an option of SELECT",
            qualify.is_some() => "QUALIFY",
        );
        self.put("SELECT");
        match distinct {
            None => {}
            Some(ast::Distinct::All) => self.put(" ALL"),
            Some(ast::Distinct::Distinct) => self.put(" DISTINCT"),
            Some(ast::Distinct::On(keys)) => {
                self.put(" DISTINCT ON ");
                self.bracketed(keys)?;
            }
        }
        if !projection.is_empty() {
            self.put(" ");
            self.list(projection, Printer::item)?;
        }
        if !from.is_empty() {
            self.put(" FROM ");
            self.list(from, Printer::source)?;
        }
        if let Some(condition) = selection {
            self.put(" WHERE ");
            self.expr(condition)?;
        }
        match group_by {
            ast::GroupByExpr::All(_) => return refused("GROUP BY ALL"),
            ast::GroupByExpr::Expressions(groups, modifiers) => {
                absent!(!modifiers.is_empty() => "WITH in GROUP BY");
                if !groups.is_empty() {
                    self.put(" GROUP BY ");
                    self.exprs(groups)?;
                }
            }
        }
        if let Some(condition) = having {
            self.put(" HAVING ");
            self.expr(condition)?;
        }
        if !named_window.is_empty() {
            self.put(" WINDOW ");
            self.list(named_window, |printer, ast::NamedWindowDefinition(name, definition)| {
                printer.ident(name)?;
                printer.put(" AS ");
                match definition {
                    ast::NamedWindowExpr::NamedWindow(other) => printer.ident(other),
                    ast::NamedWindowExpr::WindowSpec(spec) => printer.window(spec),
                }
            })?;
        }
        Ok(())
    }

    fn item(&mut self, item: &SelectItem) -> SqlResult<()> {
        let plain = |options: &ast::WildcardAdditionalOptions| {
            let ast::WildcardAdditionalOptions {
                wildcard_token: _,
                opt_ilike,
                opt_exclude,
                opt_except,
                opt_replace,
                opt_rename,
                opt_alias,
            } = options;
            absent!(
                opt_ilike.is_some() || opt_exclude.is_some() || opt_except.is_some() => "an option of *",
                opt_replace.is_some() || opt_rename.is_some() || opt_alias.is_some() => "an option of *",
            );
            Ok(())
        };
        match item {
            SelectItem::UnnamedExpr(expr) => self.expr(expr),
            SelectItem::ExprWithAlias { expr, alias } => {
                self.expr(expr)?;
                self.put(" AS ");
                self.ident(alias)
            }
            SelectItem::ExprWithAliases { .. } => refused("several names of an output column"),
            SelectItem::Wildcard(options) => {
                plain(options)?;
                self.put("*");
                Ok(())
            }
            SelectItem::QualifiedWildcard(of, options) => {
                plain(options)?;
                match of {
                    ast::SelectItemQualifiedWildcardKind::ObjectName(name) => self.name(name)?,
                    ast::SelectItemQualifiedWildcardKind::Expr(expr) => self.expr(expr)?,
                }
                self.put(".*");
                Ok(())
            }
        }
    }

    fn key(&mut self, key: &ast::OrderByExpr) -> SqlResult<()> {
        let ast::OrderByExpr { expr, options: ast::OrderByOptions { sort, nulls_first }, with_fill } = key;
        absent!(with_fill.is_some() => "WITH FILL");
        self.expr(expr)?;
        match sort {
            None => {}
            Some(ast::OrderBySort::Asc) => self.put(" ASC"),
            Some(ast::OrderBySort::Desc) => self.put(" DESC"),
            Some(ast::OrderBySort::Using(operator)) => self.put(format!(" USING {operator}")),
        }
        self.put(match nulls_first {
            None => "",
            Some(true) => " NULLS FIRST",
            Some(false) => " NULLS LAST",
        });
        Ok(())
    }

    fn source(&mut self, source: &ast::TableWithJoins) -> SqlResult<()> {
        use ast::JoinOperator as Join;
        let ast::TableWithJoins { relation, joins } = source;
        self.factor(relation)?;
        for ast::Join { relation, global, join_operator } in joins {
            absent!(*global => "GLOBAL JOIN");
            let (words, constraint) = match join_operator {
                Join::Join(constraint) | Join::Inner(constraint) => ("JOIN", constraint),
                Join::Left(constraint) | Join::LeftOuter(constraint) => ("LEFT JOIN", constraint),
                Join::Right(constraint) | Join::RightOuter(constraint) => ("RIGHT JOIN", constraint),
                Join::FullOuter(constraint) => ("FULL JOIN", constraint),
                Join::CrossJoin(constraint) => ("CROSS JOIN", constraint),
                Join::Semi(_)
                | Join::LeftSemi(_)
                | Join::RightSemi(_)
                | Join::Anti(_)
                | Join::LeftAnti(_)
                | Join::RightAnti(_)
                | Join::CrossApply
                | Join::OuterApply
                | Join::AsOf { .. }
                | Join::StraightJoin(_)
                | Join::ArrayJoin
                | Join::LeftArrayJoin
                | Join::InnerArrayJoin => return refused("a join of another dialect"),
            };
            self.put(if matches!(constraint, ast::JoinConstraint::Natural) { " NATURAL " } else { " " });
            self.put(words);
            self.put(" ");
            self.factor(relation)?;
            match constraint {
                ast::JoinConstraint::None | ast::JoinConstraint::Natural => {}
                ast::JoinConstraint::On(condition) => {
                    self.put(" ON ");
                    self.expr(condition)?;
                }
                ast::JoinConstraint::Using(names) => self.using(names)?,
            }
        }
        Ok(())
    }

    /// `USING (...)`, and the alias, which stands as one more column.
    fn using(&mut self, names: &[ast::ObjectName]) -> SqlResult<()> {
        let alias_of = |name: &ast::ObjectName| match &name.0[..] {
            [ast::ObjectNamePart::Identifier(is), ast::ObjectNamePart::Identifier(own)]
                if mark(is) == Some(JOIN_ALIAS) =>
            {
                Some(own.clone())
            }
            _ => None,
        };
        let columns: Vec<&ast::ObjectName> = names.iter().filter(|name| alias_of(name).is_none()).collect();
        self.put(" USING (");
        self.list(&columns, |printer, name| printer.name(name))?;
        self.put(")");
        if let Some(alias) = names.iter().find_map(alias_of) {
            self.put(" AS ");
            self.ident(&alias)?;
        }
        Ok(())
    }

    fn alias(&mut self, alias: Option<&ast::TableAlias>) -> SqlResult<()> {
        let Some(alias) = alias else { return Ok(()) };
        // Without the word, as it was written, if the name may stand so.
        self.put(if alias.explicit { " AS " } else { " " });
        self.alias_and_columns(alias)
    }

    fn alias_and_columns(&mut self, alias: &ast::TableAlias) -> SqlResult<()> {
        let ast::TableAlias { explicit: _, name, columns, at } = alias;
        absent!(at.is_some() => "AT behind an alias");
        self.ident(name)?;
        if !columns.is_empty() {
            self.put("(");
            self.list(columns, |printer, ast::TableAliasColumnDef { name, data_type }| {
                printer.ident(name)?;
                if let Some(data_type) = data_type {
                    printer.put(" ");
                    printer.kind(data_type);
                }
                Ok(())
            })?;
            self.put(")");
        }
        Ok(())
    }

    fn factor(&mut self, factor: &TableFactor) -> SqlResult<()> {
        let ordinality = |with_ordinality: bool| if with_ordinality { " WITH ORDINALITY" } else { "" };
        let lateral_word = |lateral: bool| if lateral { "LATERAL " } else { "" };
        match factor {
            TableFactor::Table {
                name,
                alias,
                args,
                with_hints,
                version,
                with_ordinality,
                partitions,
                json_path,
                sample,
                index_hints,
            } => {
                absent!(
                    sample.is_some() => "TABLESAMPLE",
                    !with_hints.is_empty() || !index_hints.is_empty() => "a hint",
                    version.is_some() || !partitions.is_empty() || json_path.is_some() => "a part of a table",
                );
                self.name(name)?;
                if let Some(ast::TableFunctionArgs { args, settings }) = args {
                    absent!(settings.is_some() => "SETTINGS");
                    self.put("(");
                    self.list(args, Printer::argument)?;
                    self.put(")");
                }
                self.put(ordinality(*with_ordinality));
                self.alias(alias.as_ref())
            }
            TableFactor::Derived { lateral, subquery, alias, sample } => {
                absent!(sample.is_some() => "TABLESAMPLE");
                self.put(lateral_word(*lateral));
                self.subquery(subquery)?;
                self.alias(alias.as_ref())
            }
            TableFactor::Function { lateral, name, args, with_ordinality, alias } => {
                self.put(lateral_word(*lateral));
                self.name(name)?;
                self.put("(");
                self.list(args, Printer::argument)?;
                self.put(")");
                self.put(ordinality(*with_ordinality));
                self.alias(alias.as_ref())
            }
            TableFactor::UNNEST { alias, array_exprs, with_offset, with_offset_alias, with_ordinality } => {
                absent!(*with_offset || with_offset_alias.is_some() => "WITH OFFSET");
                self.put("unnest");
                self.bracketed(array_exprs)?;
                self.put(ordinality(*with_ordinality));
                self.alias(alias.as_ref())
            }
            TableFactor::NestedJoin { table_with_joins, alias } => {
                self.put("(");
                self.source(table_with_joins)?;
                self.put(")");
                self.alias(alias.as_ref())
            }
            TableFactor::TableFunction { .. }
            | TableFactor::JsonTable { .. }
            | TableFactor::OpenJsonTable { .. }
            | TableFactor::Pivot { .. }
            | TableFactor::Unpivot { .. }
            | TableFactor::UnpivotExpr { .. }
            | TableFactor::MatchRecognize { .. }
            | TableFactor::XmlTable { .. }
            | TableFactor::SemanticView { .. } => refused(format_args!("{factor}")),
        }
    }

    fn argument(&mut self, argument: &ast::FunctionArg) -> SqlResult<()> {
        let value = match argument {
            ast::FunctionArg::Unnamed(value) => value,
            ast::FunctionArg::Named { name, arg, operator } => {
                self.ident(name)?;
                self.put(match operator {
                    ast::FunctionArgOperator::RightArrow => " => ",
                    ast::FunctionArgOperator::Assignment => " := ",
                    ast::FunctionArgOperator::Equals
                    | ast::FunctionArgOperator::Colon
                    | ast::FunctionArgOperator::Value
                    | ast::FunctionArgOperator::Space => return refused(format_args!("the argument {argument}")),
                });
                arg
            }
            ast::FunctionArg::ExprNamed { .. } => return refused(format_args!("the argument {argument}")),
        };
        match value {
            ast::FunctionArgExpr::Expr(expr) => self.expr(expr),
            ast::FunctionArgExpr::QualifiedWildcard(name) => {
                self.name(name)?;
                self.put(".*");
                Ok(())
            }
            ast::FunctionArgExpr::Wildcard => {
                self.put("*");
                Ok(())
            }
            ast::FunctionArgExpr::WildcardWithOptions(_) => refused(format_args!("the argument {argument}")),
        }
    }

    fn function(&mut self, function: &ast::Function) -> SqlResult<()> {
        let ast::Function { name, uses_odbc_syntax, parameters, args, within_group, filter, null_treatment, over } =
            function;
        absent!(
            *uses_odbc_syntax || *parameters != FunctionArguments::None => format_args!("the call {function}"),
            null_treatment.is_some() => "IGNORE NULLS or RESPECT NULLS",
        );
        self.name(name)?;
        match args {
            FunctionArguments::None => {}
            FunctionArguments::Subquery(query) => self.subquery(query)?,
            FunctionArguments::List(ast::FunctionArgumentList { duplicate_treatment, args, clauses }) => {
                self.put(match duplicate_treatment {
                    None => "(",
                    Some(ast::DuplicateTreatment::All) => "(ALL ",
                    Some(ast::DuplicateTreatment::Distinct) => "(DISTINCT ",
                });
                self.list(args, Printer::argument)?;
                for clause in clauses {
                    let ast::FunctionArgumentClause::OrderBy(keys) = clause else {
                        return refused(format_args!("the call {function}"));
                    };
                    self.put(" ORDER BY ");
                    self.list(keys, Printer::key)?;
                }
                self.put(")");
            }
        }
        if !within_group.is_empty() {
            self.put(" WITHIN GROUP (ORDER BY ");
            self.list(within_group, Printer::key)?;
            self.put(")");
        }
        if let Some(condition) = filter {
            self.put(" FILTER (WHERE ");
            self.expr(condition)?;
            self.put(")");
        }
        match over {
            None => Ok(()),
            Some(ast::WindowType::NamedWindow(name)) => {
                self.put(" OVER ");
                self.ident(name)
            }
            Some(ast::WindowType::WindowSpec(spec)) => {
                self.put(" OVER ");
                self.window(spec)
            }
        }
    }

    /// A window in its parentheses. `EXCLUDE` stands as what rows are parted by first.
    fn window(&mut self, spec: &ast::WindowSpec) -> SqlResult<()> {
        let ast::WindowSpec { window_name, partition_by, order_by, window_frame } = spec;
        let (exclude, partition) = match partition_by.split_first() {
            Some((first, rest)) => match marked(first) {
                Some(what) if EXCLUDES.contains(&what) => (Some(what), rest),
                Some(other) => return refused(format_args!("the window {other}")),
                None => (None, &partition_by[..]),
            },
            None => (None, &partition_by[..]),
        };
        let mut space = "";
        self.put("(");
        if let Some(name) = window_name {
            self.ident(name)?;
            space = " ";
        }
        if !partition.is_empty() {
            self.put(format!("{space}PARTITION BY "));
            self.exprs(partition)?;
            space = " ";
        }
        if !order_by.is_empty() {
            self.put(format!("{space}ORDER BY "));
            self.list(order_by, Printer::key)?;
            space = " ";
        }
        if let Some(ast::WindowFrame { units, start_bound, end_bound }) = window_frame {
            self.put(space);
            self.put(match units {
                ast::WindowFrameUnits::Rows => "ROWS ",
                ast::WindowFrameUnits::Range => "RANGE ",
                ast::WindowFrameUnits::Groups => "GROUPS ",
            });
            if let Some(end) = end_bound {
                self.put("BETWEEN ");
                self.bound(start_bound)?;
                self.put(" AND ");
                self.bound(end)?;
            } else {
                self.bound(start_bound)?;
            }
        }
        if let Some(what) = exclude {
            self.put(" ");
            self.put(what.to_uppercase());
        }
        self.put(")");
        Ok(())
    }

    fn bound(&mut self, bound: &ast::WindowFrameBound) -> SqlResult<()> {
        let (offset, direction) = match bound {
            ast::WindowFrameBound::CurrentRow => {
                self.put("CURRENT ROW");
                return Ok(());
            }
            ast::WindowFrameBound::Preceding(offset) => (offset, " PRECEDING"),
            ast::WindowFrameBound::Following(offset) => (offset, " FOLLOWING"),
        };
        match offset.as_deref() {
            None => self.put("UNBOUNDED"),
            // The library takes any text there for an interval.
            Some(Expr::Interval(ast::Interval {
                value,
                leading_field: None,
                leading_precision: None,
                last_field: None,
                fractional_seconds_precision: None,
            })) => self.expr(value)?,
            Some(offset) => self.expr(offset)?,
        }
        self.put(direction);
        Ok(())
    }
}
