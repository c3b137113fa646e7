//! Generator of SELECT statements over the tables of `schema.sql`, by a seed.
//!
//! **Invariant:** the answer to a statement does not depend on its plan. No statement fails for some rows only
//! (divisors are never zero, sums never overflow), a LIMIT always follows an order by all columns, and sums of floats
//! are exact.

/// Endless sequence of statements.
pub struct Statements {
    state: u64,
    /// Number of names in this statement so far.
    names: usize,
}

/// Type of an expression; all integers are one, and so are all numerics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Type {
    Int,
    Number,
    Float,
    Text,
    Date,
    Moment,
    Bool,
}

use Type::{Bool, Date, Float, Int, Moment, Number, Text};

const TYPES: [Type; 7] = [Int, Number, Float, Text, Date, Moment, Bool];

const TABLES: [(&str, &[(&str, Type)]); 3] = [
    (
        "a",
        &[
            ("id", Int),
            ("i", Int),
            ("n", Number),
            ("f", Float),
            ("t", Text),
            ("d", Date),
            ("m", Moment),
            ("o", Bool),
            // Too large for arithmetic.
            ("big::numeric", Number),
        ],
    ),
    ("b", &[("id", Int), ("a_id", Int), ("i", Int), ("p", Number), ("t", Text), ("d", Date), ("o", Bool)]),
    ("c", &[("k", Int), ("s", Int), ("g", Float), ("n", Number), ("t", Text), ("m", Moment)]),
];

/// Columns that an expression may name: those of its own FROM, and those of the outer queries.
#[derive(Debug, Clone, Default)]
struct Scope {
    own: Vec<(String, Type)>,
    outer: Vec<(String, Type)>,
}

impl Scope {
    /// Returns the scope of a subquery.
    fn inner(&self) -> Scope {
        Scope { own: Vec::new(), outer: [&self.own[..], &self.outer].concat() }
    }
}

impl Iterator for Statements {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        self.names = 0;
        Some(match self.below(20) {
            0..7 => self.plain(2, &Scope::default(), None),
            7..12 => self.grouped(2, &Scope::default()),
            12..15 => self.sets(),
            15 => self.windows(),
            16 => self.values(),
            17 => self.with(),
            18 => self.failing(),
            _ => self.ordered(),
        })
    }
}

impl Statements {
    /// Starts the sequence of this seed.
    pub fn new(seed: u64) -> Statements {
        Statements { state: seed, names: 0 }
    }

    /// Returns a number below `count`, by SplitMix64.
    fn below(&mut self, count: usize) -> usize {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % count as u64) as usize
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    fn name(&mut self) -> String {
        self.names += 1;
        format!("t{}", self.names)
    }

    fn types(&mut self) -> Vec<Type> {
        (0..1 + self.below(3)).map(|_| self.one(&TYPES)).collect()
    }

    // Expressions.

    fn literal(&mut self, of: Type) -> String {
        match of {
            Int => self.one(&["0", "1", "2", "7", "-3", "10", "null::int", "3::bigint", "(-1)::smallint"]),
            Number => {
                self.one(&["0.0", "1.5", "-7.77", "10.00", "99.5", "null::numeric", "1e20", "0.001", "'NaN'::numeric"])
            }
            Float => self.one(&[
                "0.5::float8",
                "'-Infinity'::float8",
                "'NaN'::float8",
                "-0.25::real",
                "null::float8",
                "0::float8",
            ]),
            Text => self.one(&["'a'", "'A'", "''", "'é'", "'ab%'", "null::text", "'NULL'", "'zz'::varchar"]),
            Date => self.one(&[
                "date '2024-02-29'",
                "date '1999-12-31'",
                "null::date",
                "date '0044-03-15 BC'",
                "date '2100-02-28'",
            ]),
            Moment => self.one(&[
                "timestamp '2024-02-29 23:59:59.999999'",
                "timestamp '1970-01-01'",
                "null::timestamp",
                "timestamp '2000-06-15 06:07:08.9'",
            ]),
            Bool => self.one(&["true", "false", "null::boolean"]),
        }
        .to_owned()
    }

    fn column(&mut self, of: Type, scope: &Scope) -> Option<String> {
        let from = if self.chance(30) { &scope.outer } else { &scope.own };
        let fit: Vec<&String> = from.iter().filter(|(_, kind)| *kind == of).map(|(name, _)| name).collect();
        (!fit.is_empty()).then(|| self.one(&fit).clone())
    }

    fn leaf(&mut self, of: Type, scope: &Scope) -> String {
        if self.chance(80) {
            for _ in 0..2 {
                if let Some(name) = self.column(of, scope) {
                    return name;
                }
            }
        }
        self.literal(of)
    }

    /// Returns an expression of this type, at most so deep.
    fn expr(&mut self, of: Type, depth: usize, scope: &Scope) -> String {
        if depth == 0 || self.chance(35) {
            return self.leaf(of, scope);
        }
        let down = depth - 1;
        // Forms that every type has come first; the others depend on the type.
        match self.below(8) {
            0 => {
                let (when, one, two) =
                    (self.expr(Bool, down, scope), self.expr(of, down, scope), self.expr(of, down, scope));
                return if self.chance(70) {
                    format!("case when {when} then {one} else {two} end")
                } else {
                    format!("case when {when} then {one} end")
                };
            }
            1 => return format!("coalesce({}, {})", self.expr(of, down, scope), self.expr(of, down, scope)),
            2 => return format!("nullif({}, {})", self.expr(of, down, scope), self.leaf(of, scope)),
            3 if self.chance(40) => {
                let kind = self.one(&TYPES);
                let (case, when) = (self.expr(kind, 0, scope), self.literal(kind));
                return format!(
                    "case {case} when {when} then {} else {} end",
                    self.leaf(of, scope),
                    self.leaf(of, scope)
                );
            }
            4 if 1 < depth && self.chance(50) => return self.scalar(of, scope),
            5 if self.chance(40) && of != Bool => {
                let word = self.one(&["greatest", "least"]);
                return format!(
                    "{word}({}, {}, {})",
                    self.expr(of, down, scope),
                    self.leaf(of, scope),
                    self.literal(of)
                );
            }
            _ => {}
        }
        match of {
            Int => self.int(down, scope),
            Number => self.number(down, scope),
            Float => self.float(down, scope),
            Text => self.text(down, scope),
            Date => match self.below(4) {
                0 => format!("({} + {})", self.expr(Date, down, scope), self.small(scope)),
                1 => format!("({} - {})", self.expr(Date, down, scope), self.small(scope)),
                2 => format!("({})::date", self.expr(Moment, down, scope)),
                _ => self.leaf(Date, scope),
            },
            Moment => match self.below(5) {
                0 => format!("({})::timestamp", self.expr(Date, down, scope)),
                1 => {
                    let unit =
                        self.one(&["year", "quarter", "month", "week", "day", "hour", "minute", "second", "decade"]);
                    format!("date_trunc('{unit}', {})", self.expr(Moment, down, scope))
                }
                2 => {
                    let by = self.one(&["1 month", "1 day", "-1 year", "36 hours", "1 mon -1 day", "0.5 seconds"]);
                    format!("({} + interval '{by}')", self.expr(Moment, down, scope))
                }
                3 => format!("({} + time '12:30')", self.expr(Date, down, scope)),
                _ => self.leaf(Moment, scope),
            },
            Bool => self.condition(down, scope),
        }
    }

    /// Returns an integer small enough for arithmetic.
    fn small(&mut self, scope: &Scope) -> String {
        match self.column(Int, scope) {
            Some(column) if self.chance(70) => column,
            _ => self.one(&["1", "2", "-3", "30", "7"]).to_owned(),
        }
    }

    fn int(&mut self, down: usize, scope: &Scope) -> String {
        match self.below(10) {
            0..3 => {
                let sign = self.one(&["+", "-", "*"]);
                format!("({} {sign} {})", self.small(scope), self.small(scope))
            }
            3 => {
                let sign = self.one(&["/", "%"]);
                format!("({} {sign} nullif({}, 0))", self.small(scope), self.small(scope))
            }
            4 => format!("length({})", self.expr(Text, down, scope)),
            5 => format!("({} - {})", self.leaf(Date, scope), self.leaf(Date, scope)),
            6 => format!("(- {})", self.small(scope)),
            7 => format!("abs({})", self.small(scope)),
            8 => format!("({})::int", self.leaf(Bool, scope)),
            _ => format!("position({} in {})", self.leaf(Text, scope), self.expr(Text, down, scope)),
        }
    }

    fn number(&mut self, down: usize, scope: &Scope) -> String {
        match self.below(10) {
            0..3 => {
                let sign = self.one(&["+", "-", "*"]);
                format!("({} {sign} {})", self.expr(Number, down, scope), self.leaf(Number, scope))
            }
            3 => {
                let sign = self.one(&["/", "%"]);
                format!("({} {sign} nullif({}, 0))", self.expr(Number, down, scope), self.leaf(Number, scope))
            }
            4 => format!("round({}, {})", self.expr(Number, down, scope), self.one(&["0", "1", "2", "-1"])),
            5 => {
                let word = self.one(&["abs", "floor", "ceil", "trunc", "sign", "-"]);
                format!("{word}({})", self.expr(Number, down, scope))
            }
            6 => format!("({})::numeric", self.expr(Int, down, scope)),
            7 => {
                let field =
                    self.one(&["year", "month", "day", "dow", "doy", "isoyear", "week", "quarter", "epoch", "century"]);
                format!("extract({field} from {})", self.expr(Date, down, scope))
            }
            8 => {
                let field = self.one(&["year", "hour", "minute", "second", "milliseconds", "epoch"]);
                format!("extract({field} from {})", self.expr(Moment, down, scope))
            }
            _ => format!("({} + {})", self.small(scope), self.leaf(Number, scope)),
        }
    }

    fn float(&mut self, down: usize, scope: &Scope) -> String {
        match self.below(7) {
            0..2 => {
                let sign = self.one(&["+", "-", "*"]);
                format!("({} {sign} {})", self.expr(Float, down, scope), self.leaf(Float, scope))
            }
            2 => format!("({} / nullif({}, 0))", self.expr(Float, down, scope), self.leaf(Float, scope)),
            3 => {
                let word = self.one(&["abs", "floor", "ceil", "round", "trunc", "sign", "-"]);
                format!("{word}({})", self.expr(Float, down, scope))
            }
            4 => format!("({})::float8", self.expr(Int, down, scope)),
            5 => format!("({})::real", self.small(scope)),
            _ => format!("({} + {})", self.small(scope), self.leaf(Float, scope)),
        }
    }

    fn text(&mut self, down: usize, scope: &Scope) -> String {
        match self.below(12) {
            0..2 => format!("({} || {})", self.expr(Text, down, scope), self.leaf(Text, scope)),
            2 => {
                let word = self.one(&["upper", "lower", "trim", "ltrim", "reverse", "initcap", "md5"]);
                format!("{word}({})", self.expr(Text, down, scope))
            }
            3 => format!("substr({}, {}, 2)", self.expr(Text, down, scope), self.one(&["1", "2", "0", "-1"])),
            4 => format!("replace({}, 'a', {})", self.leaf(Text, scope), self.leaf(Text, scope)),
            5 => {
                let word = self.one(&["left", "right"]);
                format!("{word}({}, {})", self.expr(Text, down, scope), self.one(&["1", "-1", "3"]))
            }
            6 => {
                let kind = self.one(&TYPES);
                format!("({})::text", self.expr(kind, down, scope))
            }
            7 => format!("concat({}, {})", self.leaf(Int, scope), self.leaf(Text, scope)),
            8 => format!("lpad({}, 4, '*')", self.leaf(Text, scope)),
            9 => format!("({})::varchar(2)", self.leaf(Text, scope)),
            10 => format!("split_part({}, 'b', 1)", self.leaf(Text, scope)),
            _ => format!("({} || {})", self.leaf(Int, scope), self.leaf(Text, scope)),
        }
    }

    fn condition(&mut self, down: usize, scope: &Scope) -> String {
        let kind = self.one(&TYPES);
        match self.below(16) {
            0..4 => {
                let sign = self.one(&["=", "<>", "<", ">", "<=", ">="]);
                format!("({} {sign} {})", self.expr(kind, down, scope), self.leaf(kind, scope))
            }
            4..6 => {
                let word = self.one(&["and", "or"]);
                format!("({} {word} {})", self.expr(Bool, down, scope), self.expr(Bool, down, scope))
            }
            6 => format!("(not {})", self.expr(Bool, down, scope)),
            7 => {
                let not = self.one(&["", "not "]);
                format!("({} is {not}null)", self.expr(kind, down, scope))
            }
            8 => {
                let word =
                    self.one(&["is true", "is not true", "is false", "is not false", "is unknown", "is not unknown"]);
                format!("({} {word})", self.expr(Bool, down, scope))
            }
            9 => {
                let word = self.one(&["between", "not between", "between symmetric"]);
                let (one, two) = (self.leaf(kind, scope), self.leaf(kind, scope));
                format!("({} {word} {one} and {two})", self.expr(kind, down, scope))
            }
            10 => {
                let word = self.one(&["in", "not in"]);
                let list: Vec<String> = (0..1 + self.below(3)).map(|_| self.leaf(kind, scope)).collect();
                format!("({} {word} ({}))", self.expr(kind, down, scope), list.join(", "))
            }
            11 => {
                let word = self.one(&["is distinct from", "is not distinct from"]);
                format!("({} {word} {})", self.expr(kind, down, scope), self.leaf(kind, scope))
            }
            12 => {
                let word = self.one(&["like", "not like", "ilike"]);
                let pattern = self.one(&["'a%'", "'%'", "'_'", "'%\\%'", "'%b%'", "''", "null", "'É'"]);
                format!("({} {word} {pattern})", self.expr(Text, down, scope))
            }
            13 => {
                let other = self.one(&TYPES);
                let sign = self.one(&["=", "<", ">=", "<>"]);
                format!(
                    "(({}, {}) {sign} ({}, {}))",
                    self.leaf(kind, scope),
                    self.leaf(other, scope),
                    self.leaf(kind, scope),
                    self.leaf(other, scope)
                )
            }
            _ => self.subquery_condition(scope),
        }
    }

    fn subquery_condition(&mut self, scope: &Scope) -> String {
        let kind = self.one(&TYPES);
        let inner = scope.inner();
        match self.below(4) {
            0 => {
                let not = self.one(&["", "not "]);
                format!("({not}exists ({}))", self.plain(1, &inner, None))
            }
            1 | 2 => {
                let word = self.one(&["in", "not in"]);
                format!("({} {word} ({}))", self.leaf(kind, scope), self.plain(1, &inner, Some(&[kind])))
            }
            _ => {
                let word = self.one(&["= any", "<> all", "< any", ">= all", "> all", "<> any"]);
                format!("({} {word} ({}))", self.leaf(kind, scope), self.plain(1, &inner, Some(&[kind])))
            }
        }
    }

    /// Returns a subquery of one row.
    fn scalar(&mut self, of: Type, scope: &Scope) -> String {
        let (from, own) = self.table();
        let inner = Scope { own, ..scope.inner() };
        let filter = self.expr(Bool, 1, &inner);
        let found = self.aggregate(of, &Scope { own: inner.own, outer: Vec::new() });
        format!("(select {found} from {from} where {filter})")
    }

    // FROM.

    fn table(&mut self) -> (String, Vec<(String, Type)>) {
        let (table, columns) = TABLES[self.below(TABLES.len())];
        let name = self.name();
        let columns = columns.iter().map(|(column, kind)| (format!("{name}.{column}"), *kind)).collect();
        (format!("{table} {name}"), columns)
    }

    /// Returns a table or a subquery for FROM. The subquery may use the tables before it if it is lateral.
    fn item(&mut self, depth: usize, before: Option<&Scope>) -> (String, Vec<(String, Type)>) {
        let lateral = before.is_some();
        if depth == 0 || !(lateral || self.chance(20)) {
            return self.table();
        }
        let types = self.types();
        let outer = before.map(Scope::inner).unwrap_or_default();
        let query = match self.below(4) {
            0 => self.union(&types, &outer),
            1 => format!("select distinct{}", &self.plain(depth - 1, &outer, Some(&types))["select".len()..]),
            _ => self.plain(depth - 1, &outer, Some(&types)),
        };
        let name = self.name();
        let names: Vec<String> = (1..=types.len()).map(|at| format!("c{at}")).collect();
        let columns = names.iter().zip(types).map(|(column, kind)| (format!("{name}.{column}"), kind)).collect();
        let word = if lateral { "lateral " } else { "" };
        (format!("{word}({query}) {name} ({})", names.join(", ")), columns)
    }

    fn from(&mut self, depth: usize, outer: &Scope) -> (String, Scope) {
        let (mut text, own) = self.item(depth, None);
        let mut scope = Scope { own, outer: outer.outer.clone() };
        for _ in 0..self.one(&[0, 0, 0, 1, 1, 1, 2]) {
            if depth == 2 && self.chance(12) {
                let (item, columns) = self.item(1, Some(&scope));
                text = format!("{text} {} {item} on true", self.one(&["join", "left join"]));
                scope.own.extend(columns);
                continue;
            }
            let (item, columns) = self.item(depth.saturating_sub(1), None);
            let equal = self.equality(&scope.own, &columns);
            scope.own.extend(columns);
            let kind =
                self.one(&["join", "join", "left join", "left join", "right join", "full join", "cross join", ","]);
            text = match (kind, equal) {
                ("cross join", _) => format!("{text} cross join {item}"),
                (",", _) => format!("{text}, {item}"),
                // PostgreSQL supports full joins only by equality.
                ("full join", None) => format!("{text} left join {item} on {}", self.inner_condition(&scope)),
                ("full join", Some(equal)) => format!("{text} full join {item} on {equal}"),
                (kind, Some(equal)) if self.chance(75) => match self.chance(30) {
                    true => format!("{text} {kind} {item} on {equal} and {}", self.inner_condition(&scope)),
                    false => format!("{text} {kind} {item} on {equal}"),
                },
                (kind, _) => format!("{text} {kind} {item} on {}", self.inner_condition(&scope)),
            };
            // A join after a comma binds tighter than the comma, so its condition could not name the tables before it.
            if text.contains(", ") && kind == "," {
                break;
            }
        }
        (text, scope)
    }

    /// Returns a join condition without subqueries or outer columns.
    fn inner_condition(&mut self, scope: &Scope) -> String {
        let kind = self.one(&TYPES);
        let own = Scope { own: scope.own.clone(), outer: Vec::new() };
        let sign = self.one(&["=", "<", "<>", ">="]);
        format!("({} {sign} {})", self.leaf(kind, &own), self.leaf(kind, &own))
    }

    /// Returns an equality of two columns of the same type.
    fn equality(&mut self, left: &[(String, Type)], right: &[(String, Type)]) -> Option<String> {
        let pairs = left.iter().flat_map(|one| right.iter().map(move |other| (one, other)));
        let fit: Vec<_> = pairs.filter(|((_, one), (_, other))| one == other).collect();
        if fit.is_empty() {
            return None;
        }
        let ((left, _), (right, _)) = self.one(&fit);
        Some(format!("{left} = {right}"))
    }

    // Queries.

    /// Returns a query with columns of these types, or of any.
    fn plain(&mut self, depth: usize, outer: &Scope, types: Option<&[Type]>) -> String {
        let types = types.map_or_else(|| self.types(), <[Type]>::to_vec);
        let (from, scope) = self.from(depth, outer);
        let columns: Vec<String> = types.iter().map(|kind| self.expr(*kind, depth, &scope)).collect();
        let filter = if self.chance(70) { self.filter(depth, &scope) } else { String::new() };
        format!("select {} from {from}{filter}", columns.join(", "))
    }

    fn filter(&mut self, depth: usize, scope: &Scope) -> String {
        let condition = if self.chance(15) { self.leaf(Bool, scope) } else { self.condition(depth.max(1) - 1, scope) };
        format!(" where {condition}")
    }

    fn aggregate(&mut self, of: Type, scope: &Scope) -> String {
        let kind = self.one(&TYPES);
        let distinct = self.one(&["", "", "", "distinct "]);
        let call = match (of, self.below(4)) {
            (Int, 0) => "count(*)".to_owned(),
            (Int, 1) => format!("count({distinct}{})", self.expr(kind, 1, scope)),
            (Int | Number, 2) => format!("sum({distinct}{})", self.expr(of, 1, scope)),
            (Number, 0) => format!("avg({})", self.expr(Int, 1, scope)),
            (Number, 1) => format!("avg({distinct}{})", self.expr(Number, 1, scope)),
            (Float, 0) => format!("sum({})", self.leaf(Float, scope)),
            (Float, 1) => format!("avg({})", self.leaf(Float, scope)),
            (Bool, _) => {
                let word = self.one(&["bool_and", "bool_or", "every"]);
                format!("{word}({})", self.expr(Bool, 1, scope))
            }
            (Text, 0) => {
                let column = self.leaf(Text, scope);
                format!("string_agg({column}, ',' order by {column})")
            }
            (of, _) => format!("{}({})", self.one(&["min", "max"]), self.expr(of, 1, scope)),
        };
        if self.chance(20) { format!("{call} filter (where {})", self.expr(Bool, 1, scope)) } else { call }
    }

    fn grouped(&mut self, depth: usize, outer: &Scope) -> String {
        let (from, scope) = self.from(depth, outer);
        let rows = Scope { own: scope.own.clone(), outer: Vec::new() };
        let keys: Vec<(String, Type)> = (0..self.below(3))
            .map(|_| {
                let kind = self.one(&TYPES);
                let key = if self.chance(70) { self.column(kind, &rows) } else { Some(self.expr(kind, 1, &rows)) };
                (key.filter(|key| rows.own.iter().any(|(column, _)| key.contains(column.as_str()))), kind)
            })
            .filter_map(|(key, kind)| Some((key?, kind)))
            .collect();
        let aggregates: Vec<(String, Type)> = (0..1 + self.below(2))
            .map(|_| {
                let kind = self.one(&TYPES);
                (self.aggregate(kind, &rows), kind)
            })
            .collect();
        // Columns of a group: its keys and aggregates.
        let group = Scope { own: [&keys[..], &aggregates].concat(), outer: Vec::new() };
        let mut columns: Vec<String> = keys.iter().chain(&aggregates).map(|(text, _)| text.clone()).collect();
        if self.chance(40) {
            let kind = aggregates[self.below(aggregates.len())].1;
            columns.push(self.over_group(kind, &group));
        }
        let mut text = format!("select {} from {from}", columns.join(", "));
        if self.chance(50) {
            text.push_str(&self.filter(depth, &scope));
        }
        if !keys.is_empty() {
            let keys: Vec<&str> = keys.iter().map(|(key, _)| key.as_str()).collect();
            text.push_str(&format!(" group by {}", keys.join(", ")));
        }
        if self.chance(40) {
            let kind = aggregates[self.below(aggregates.len())].1;
            let sign = self.one(&["=", "<>", "<", ">="]);
            let (one, two) = (self.over_group(kind, &group), self.over_group(kind, &group));
            text.push_str(&format!(" having ({one} {sign} {two}) is not false"));
        }
        text
    }

    fn over_group(&mut self, of: Type, group: &Scope) -> String {
        match (of, self.below(3)) {
            (Int | Number | Float, 0) => format!("({} + {})", self.leaf(of, group), self.leaf(of, group)),
            (_, 1) => format!("coalesce({}, {})", self.leaf(of, group), self.literal(of)),
            _ => self.leaf(of, group),
        }
    }

    fn union(&mut self, types: &[Type], outer: &Scope) -> String {
        let word = self.one(&["union", "union all", "intersect", "except", "intersect all", "except all"]);
        format!("{} {word} {}", self.plain(0, outer, Some(types)), self.plain(0, outer, Some(types)))
    }

    fn sets(&mut self) -> String {
        let types = self.types();
        let outer = Scope::default();
        let both = self.union(&types, &outer);
        if self.chance(50) {
            return both;
        }
        let word = self.one(&["union", "union all", "intersect", "except"]);
        format!("({both}) {word} {}", self.plain(1, &outer, Some(&types)))
    }

    /// Returns a query with an order by all columns, and a limit.
    fn ordered(&mut self) -> String {
        let (query, count) = match self.below(3) {
            0 => {
                let types = self.types();
                (self.union(&types, &Scope::default()), types.len())
            }
            _ => {
                let types = self.types();
                (self.plain(1, &Scope::default(), Some(&types)), types.len())
            }
        };
        let keys: Vec<String> = (1..=count)
            .map(|at| format!("{at}{}", self.one(&["", " desc", " nulls first", " desc nulls last", " asc"])))
            .collect();
        let limit = match self.below(4) {
            0 => String::new(),
            1 => format!(" limit {}", self.below(8)),
            2 => format!(" offset {}", self.below(8)),
            _ => format!(" limit {} offset {}", self.below(8), self.below(4)),
        };
        let query = if self.chance(20) { query.replacen("select", "select distinct", 1) } else { query };
        format!("{query} order by {}{limit}", keys.join(", "))
    }

    fn windows(&mut self) -> String {
        let (table, columns) = TABLES[self.below(2)];
        let column = |of: &mut Statements| columns[of.below(columns.len() - 1)];
        let calls: Vec<String> = (0..1 + self.below(2))
            .map(|_| {
                let (over, key, kind) = (column(self).0, column(self).0, column(self));
                let partition = if self.chance(50) { format!("partition by {over} ") } else { String::new() };
                let frame = self.one(&[
                    "",
                    "",
                    " rows between 1 preceding and 1 following",
                    " rows between unbounded preceding and current row",
                    " rows between current row and unbounded following",
                ]);
                match self.below(7) {
                    0 => format!("row_number() over ({partition}order by id)"),
                    1 => format!("rank() over ({partition}order by {key})"),
                    2 => format!("dense_rank() over ({partition}order by {key} desc)"),
                    3 => format!("{}({}) over ({partition}order by id)", self.one(&["lag", "lead"]), kind.0),
                    4 => format!("count({}) over ({partition}order by id{frame})", kind.0),
                    5 => format!("sum(i) over ({partition}order by id{frame})"),
                    _ => {
                        let word = self.one(&["first_value", "last_value", "max", "min"]);
                        let (value, _) = if kind.1 == Bool { ("id", Int) } else { kind };
                        format!("{word}({value}) over ({partition}order by id{frame})")
                    }
                }
            })
            .collect();
        format!("select id, {} from {table}", calls.join(", "))
    }

    /// Returns a statement that fails, whatever row is met first, or is refused.
    fn failing(&mut self) -> String {
        let text = self.one(&[
            "select i / (i - i) from a",
            "select n / (n - n) from b join a on a.id = b.a_id where n is not null",
            "select f / (id - id) from a",
            "select i % 0 from b",
            "select big + big from a where id = 1",
            "select big::int from a where id < 4",
            "select -big from a where id = 2",
            "select abs(big) from a where id = 2",
            "select 2147483647 + i from a where i > 0",
            "select i::smallint * 32767::smallint from a where i = 7",
            "select f::int from a where id = 3",
            "select n::int from a where id = 1",
            "select 'NaN'::numeric::int from b",
            "select t::int from a where t = 'ab%'",
            "select t::date from a where t = 'a'",
            "select t::boolean from a where t = ' x '",
            "select (id || '-02-30')::date from a where id = 2",
            "select f * 1e308::float8 from a where id = 6",
            "select sqrt(n) from a where n < 0",
            "select ln(n) from a where n = 0",
            "select power(0, n) from a where n < 0",
            "select substr(t, 1, -1) from a where t is not null",
            "select n::numeric(3, 1) from a where n = 1000000",
            "select 'x'::char(1)::int from a",
            "select d + big::int from a where id = 1",
            "select d + 2147483647 from a where id = 1",
            "select id from a where i = t",
            "select nothing from a",
            "select t1.nothing from a t1",
            "select a.id from a t1",
            "select id from a, b",
            "select sum(i), t from a",
            "select sum(i) from a group by t having o",
            "select id from a where sum(i) = 1",
            "select sum(count(*)) from a",
            "select id from a group by id, sum(i)",
            "select count(*) over () from a where row_number() over () = 1",
            "select 1 union select 'x'",
            "select i from a union select t from a",
            "select i, t from a union select i from a",
            "select case when o then i else t end from a",
            "select coalesce(i, t) from a",
            "select id from a where i",
            "select id from a where i in (select id, i from b)",
            "select (select id from b) from a",
            "select (select id, i from b limit 1) from a",
            "select id from a order by 5",
            "select distinct i from a order by id",
            "select i from a union select i from b order by id",
            "select id from a limit -1",
            "select id from a offset -1",
            "select upper(i) from a",
            "select sum(t) from a",
            "select avg(o) from a",
            "select max(o) from a",
            "select * from a join b using (nothing)",
            "select * from a join b using (id) where i = 1",
            "select * from nowhere",
            "select t.id from a t join b t on true",
            "select extract(hour from d) from a",
            "select extract(nonsense from d) from a",
            "select date_trunc('nothing', m) from a",
            "select date_part(t, m) from a where t = 'A' and m is not null",
            "select row(1, 2) = row(1, 2, 3)",
            "select a.id from a full join b on a.i < b.i",
            "values (1, 2), (3)",
            "values (1), ('x')",
            "select d - m + 1 from a",
            "select -t from a",
            "select not i from a",
            "select o + 1 from a",
            "select i and o from a",
            "select t like 1 from a",
            "select t like 'a\\' from a where t = 'a'",
            "select t ~ '(' from a where t is not null",
            "select repeat(t) from a",
            "select string_agg(t) from a",
            "select count(distinct i, t) from a",
            "select i from a group by 2",
            "select id from a where exists (select 1 from b where b.nothing = 1)",
            "select lag(i) from a",
            "select sum(i) filter (where i) from a",
            "select interval '1 nothing'",
            "select date '2024-13-01'",
            "select timestamp '2024-02-30 00:00'",
            "select numeric '1.2.3'",
            "select 1::nothing",
        ]);
        text.to_owned()
    }

    fn values(&mut self) -> String {
        let types = self.types();
        let rows: Vec<String> = (0..1 + self.below(3))
            .map(|_| {
                let row: Vec<String> = types.iter().map(|kind| self.expr(*kind, 1, &Scope::default())).collect();
                format!("({})", row.join(", "))
            })
            .collect();
        format!("values {}", rows.join(", "))
    }

    fn with(&mut self) -> String {
        let types = self.types();
        let query = self.plain(1, &Scope::default(), Some(&types));
        let names: Vec<String> = (1..=types.len()).map(|at| format!("c{at}")).collect();
        let own = |alias: &str| {
            names.iter().zip(&types).map(|(name, kind)| (format!("{alias}.{name}"), *kind)).collect::<Vec<_>>()
        };
        let scope = Scope { own: [own("x"), own("y")].concat(), outer: Vec::new() };
        let (kind, sign) = (self.one(&types), self.one(&["=", "<", "<>"]));
        let outer = self.expr(kind, 1, &scope);
        let equal = format!("x.c1 {sign} y.c{}", 1 + types.iter().position(|one| *one == types[0]).unwrap_or(0));
        let materialized = self.one(&["", "materialized ", "not materialized "]);
        format!(
            "with w ({}) as {materialized}({query}) select x.*, {outer} from w x left join w y on {equal}",
            names.join(", ")
        )
    }
}
