use super::*;
use crate::ast::{Expr, ExprKind, QueryBody, SqlBody, Statement};

/// Formats an expression with parentheses around the operands of each operator.
fn shown(expr: &Expr) -> String {
    match &expr.kind {
        ExprKind::Column(name) => name.to_string(),
        ExprKind::Infix { left, operator, right } => format!("({} {} {})", shown(left), operator.signs, shown(right)),
        ExprKind::Prefix { operator, operand } => format!("({}{})", operator.signs, shown(operand)),
        ExprKind::And(all) => format!("({})", all.iter().map(shown).collect::<Vec<_>>().join(" and ")),
        ExprKind::Or(all) => format!("({})", all.iter().map(shown).collect::<Vec<_>>().join(" or ")),
        ExprKind::Not(operand) => format!("(not {})", shown(operand)),
        ExprKind::Is { value, test, is_not, at: _ } => {
            format!("({} is {}{test:?})", shown(value), if *is_not { "not " } else { "" })
        }
        ExprKind::Between { value, low, high, .. } => {
            format!("({} between {} and {})", shown(value), shown(low), shown(high))
        }
        ExprKind::InList { value, list, .. } => {
            format!("({} in [{}])", shown(value), list.iter().map(shown).collect::<Vec<_>>().join(", "))
        }
        ExprKind::Like { value, pattern, .. } => format!("({} like {})", shown(value), shown(pattern)),
        ExprKind::Cast { value, to, .. } => format!("({}::{})", shown(value), to.name),
        ExprKind::Row { fields, .. } => format!("row({})", fields.iter().map(shown).collect::<Vec<_>>().join(", ")),
        ExprKind::Subquery(_) => "query".to_owned(),
        other => format!("{other:?}"),
    }
}

fn column(text: &str) -> Expr {
    let statements = parse(&format!("select {text}")).expect(text);
    let [Parsed { statement: Statement::Query(query), .. }] = &statements[..] else { panic!("{text} is one query") };
    let QueryBody::Select(select) = &query.body else { panic!("{text} is a SELECT") };
    select.list[0].value.clone()
}

#[test]
fn operators_bind_as_in_postgresql() {
    for (text, wanted) in [
        ("a + b * c - d", "((a + (b * c)) - d)"),
        ("a ^ b ^ c", "((a ^ b) ^ c)"),
        ("- a ^ b", "((-a) ^ b)"),
        ("- a::int", "(-(a::pg_catalog.int4))"),
        ("not a = b and c or d", "(((not (a = b)) and c) or d)"),
        ("a and b and (c and d) and e", "(a and b and (c and d) and e)"),
        ("(a or b) or c", "(a or b or c)"),
        ("a = b is null", "((a = b) is Null)"),
        ("a < b in (c)", "(a < (b in [c]))"),
        ("a in (b) in (c)", "((a in [b]) in [c])"),
        ("a in ((b, c), (d, e))", "(a in [row(b, c), row(d, e)])"),
        ("a in ((b, c))", "(a in [row(b, c)])"),
        ("a between b + c and d and e", "((a between (b + c) and d) and e)"),
        ("a || b || c + d", "((a || b) || (c + d))"),
        ("@ a + b", "(@(a + b))"),
        ("a = not b", "(a = (not b))"),
        ("a like b || c", "(a like (b || c))"),
        ("((select 1)) + a", "(query + a)"),
        ("((select 1) union select 2)", "query"),
        ("(((a)))", "a"),
        ("(a, b)", "row(a, b)"),
    ] {
        assert_eq!(shown(&column(text)), wanted, "{text}");
    }
}

#[test]
fn nodes_know_where_they_stand() {
    let text = "select (a + b) * f(c, 'é', d)::int4";
    let statements = parse(text).expect(text);
    let [Parsed { statement: Statement::Query(query), span, .. }] = &statements[..] else { panic!("one query") };
    assert_eq!(span.of(text), text);
    let QueryBody::Select(select) = &query.body else { panic!("a SELECT") };
    let ExprKind::Infix { left, operator, right } = &select.list[0].value.kind else { panic!("a product") };
    assert_eq!((left.span.of(text), operator.span.of(text)), ("a + b", "*"));
    assert_eq!(right.span.of(text), "f(c, 'é', d)::int4");
    let ExprKind::Cast { value, to, .. } = &right.kind else { panic!("a cast") };
    assert_eq!((value.span.of(text), to.span.of(text)), ("f(c, 'é', d)", "int4"));
}

#[test]
fn statements_are_cut_at_semicolons() {
    let text = "; select 1;; insert into t values (1) ; ";
    let statements = parse(text).expect(text);
    let found: Vec<&str> = statements.iter().map(|parsed| parsed.span.of(parsed.extent.of(text))).collect();
    assert_eq!(found, ["select 1", "insert into t values (1)"]);
    assert_eq!(parse(" ; -- nothing").expect("no statement").len(), 0);
    // Comments belong to the statement next to them, and blanks before the first one stay.
    let text = " /*+ hint */ select 1; select 2 /* tag */ ; ";
    let statements = parse(text).expect(text);
    let extents: Vec<&str> = statements.iter().map(|parsed| parsed.extent.of(text)).collect();
    assert_eq!(extents, [" /*+ hint */ select 1", "select 2 /* tag */"]);
}

#[test]
fn bodies_keep_their_semicolons() {
    let text = "create procedure p(a int) begin atomic select 1; ; insert into t select case when true then 1 end; end;
        create function f(in a int, b text = 'x') returns int strict return a + 1; select 2";
    let statements = parse(text).expect(text);
    let [procedure, function, _] = &statements[..] else { panic!("three statements") };
    let Statement::CreateRoutine(created) = &procedure.statement else { panic!("a procedure") };
    let Some(SqlBody::Atomic { statements, extent }) = &created.body else { panic!("a body of statements") };
    let own = procedure.extent.of(text);
    let found: Vec<&str> = statements.iter().map(|one| one.span.of(own)).collect();
    assert_eq!(found, ["select 1", "insert into t select case when true then 1 end"]);
    assert_eq!(extent.of(own), "select 1; ; insert into t select case when true then 1 end;");
    let Statement::CreateRoutine(created) = &function.statement else { panic!("a function") };
    let Some(SqlBody::Return(value)) = &created.body else { panic!("a body of one expression") };
    let own = function.extent.of(text);
    let defaults = created.parameters.iter().map(|one| one.default.as_ref().map(|kept| kept.extent.of(own)));
    assert_eq!(value.extent.of(own), "a + 1");
    assert_eq!(defaults.collect::<Vec<_>>(), [None, Some("'x'")]);
}

/// Goal: a text of many statements or many items takes linear time. Method: so many that quadratic time would be
/// minutes.
#[test]
fn long_texts_take_linear_time() {
    for one in ["inet '1.1.1.1'", "1 isnull", "-1", "'a'::text collate \"C\"", "current_schema", "(select 1)"] {
        let text = format!("select 1 in ({})", vec![one; 100_000].join(", "));
        assert_eq!(parse(&text).expect(one).len(), 1);
    }
    assert_eq!(parse(&"select -1;".repeat(100_000)).expect("many statements").len(), 100_000);
}

/// Goal: no depth ends the process; excessive depth is 54001. Method: each construct nested far beyond the room of any
/// stack.
#[test]
fn depths_are_bounded() {
    for (open, inner, close) in [
        ("(", "1", ")"),
        ("- ", "1", ""),
        ("not ", "true", ""),
        ("f(", "1", ")"),
        ("case when ", "true", " then 1 end"),
        ("array[", "1", "]"),
        ("(select ", "1", ")"),
        ("a[", "1", "]"),
        ("1 + ", "1", ""),
    ] {
        let count = 200_000;
        let text = format!("select {}{inner}{}", open.repeat(count), close.repeat(count));
        let parsed = stack::bounded(|| parse(&text).map(drop)).map(drop);
        let error = parsed.expect_err("it is too deep");
        assert_eq!(error.state(), statement::SqlState::STATEMENT_TOO_COMPLEX, "{open}");
    }
    let nested = |depth: usize| format!("select {}1{}", "(".repeat(depth), ")".repeat(depth));
    let chain = |length: usize| format!("select {}1", "1+".repeat(length));
    for text in [chain(20_000), nested(5_000)] {
        assert_eq!(parse(&text).expect_err("not on this stack").state(), statement::SqlState::STATEMENT_TOO_COMPLEX);
        let (count, is_large) = stack::bounded(|| parse(&text).map(|all| all.len())).expect("on a large one");
        assert_eq!((count, is_large), (1, true));
    }
    // A chain of conditions adds no depth.
    let text = format!("select 1 where a{}", " and b".repeat(100_000));
    stack::bounded(|| parse(&text).map(drop)).expect("it is wide, not deep");
}
