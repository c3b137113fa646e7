//! Aggregates, and windows with their frames.

use super::ast::{Expr, ExprNode};
use super::catalog::{CallableKind, WantedType};
use super::exprs::{ExprScope, QueryGenerator};
use super::queries::DIRECTIONS;
use super::types::{ELEMENTS, Ty};

/// Types of keys over which a frame counts by value, and the distances that it counts by.
const STEPS: [(Ty, &[&str]); 11] = [
    (Ty::Int2, &["1", "3", "0"]),
    (Ty::Int4, &["1", "3", "10", "0"]),
    (Ty::Int8, &["1", "8", "0"]),
    (Ty::Numeric, &["0.5", "2", "100"]),
    (Ty::Float8, &["0.5", "2", "10"]),
    (Ty::Float4, &["0.5::double precision", "2"]),
    (Ty::Date, &["interval '1 day'", "interval '1 month'", "interval '40 days 12 hours'"]),
    (Ty::Timestamp, &["interval '1 day'", "interval '3 months'", "interval '90 minutes'"]),
    (Ty::Timestamptz, &["interval '1 day'", "interval '1 year'", "interval '90 minutes'"]),
    (Ty::Time, &["interval '90 minutes'", "interval '6 hours'"]),
    (Ty::Interval, &["interval '1 day'", "interval '1 month'"]),
];

/// Rows that a frame leaves out.
const EXCLUDES: [&str; 6] = ["", "", " exclude current row", " exclude group", " exclude ties", " exclude no others"];

impl QueryGenerator<'_> {
    /// Generates an aggregate that returns the type, or any type.
    pub fn aggregate(&mut self, ty: Option<Ty>, depth: usize, scope: &ExprScope, exact: bool) -> Option<Expr> {
        let catalog = self.catalog;
        for _ in 0..30 {
            let at = self.rng.below(catalog.all.len());
            let callable = &catalog.all[at];
            let is_aggregate = matches!(callable.kind, CallableKind::Aggregate | CallableKind::OrderedSet);
            if !is_aggregate || exact && callable.vague {
                continue;
            }
            let element = match (callable.returns, ty) {
                (WantedType::Exact(returned), Some(ty)) if returned == ty => *self.rng.pick(&ELEMENTS),
                (WantedType::Element, Some(ty)) if ELEMENTS.contains(&ty) => ty,
                (WantedType::Array, Some(ty)) if ty.element().is_some() => ty.element().expect("it is an array"),
                (_, None) => *self.rng.pick(&ELEMENTS),
                (
                    WantedType::Exact(_) | WantedType::Element | WantedType::Array | WantedType::Any | WantedType::Word,
                    Some(_),
                ) => continue,
            };
            let made = self.aggregate_call(at, element, depth, scope);
            if !(exact && made.vague) {
                return Some(made);
            }
        }
        None
    }

    /// Generates a call of this aggregate, with DISTINCT, ORDER BY and FILTER.
    pub fn aggregate_call(&mut self, at: usize, element: Ty, depth: usize, scope: &ExprScope) -> Expr {
        let callable = &self.catalog.all[at];
        // Aggregates of expressions over columns of enclosing queries alone would belong to those.
        let scope = &ExprScope { outer: Vec::new(), plain: true, ..scope.clone() };
        let mut made = self.call(at, element, depth, scope);
        let ExprNode::Call { template, args } = &mut made.node else { return made };
        for arg in args.iter_mut() {
            if !arg.has_column()
                && arg.ty != Ty::Text
                && callable.kind == CallableKind::Aggregate
                && let Some(leaf) = self.leaf(arg.ty, scope, true)
            {
                *arg = leaf;
            }
        }
        let sums_floats = callable.vague
            || matches!(
                callable.signature.as_str(),
                "sum(real)" | "avg(real)" | "sum(double precision)" | "avg(double precision)"
            );
        let is_tame = args.iter().all(|arg| !arg.ty.is_float() || matches!(&arg.node, ExprNode::Column(name) if !name.ends_with(".wf")) || matches!(&arg.node, ExprNode::Call { template, .. } if ["($0 * $1)", "($0 + $1)", "($0 - $1)"].contains(&template.as_str())));
        let in_any_order =
            made.ty.element().is_none() && !matches!(made.ty, Ty::Text | Ty::Bytea | Ty::Json | Ty::Varchar);
        let is_extreme = callable.signature.starts_with("min(") || callable.signature.starts_with("max(");
        made.vague |= sums_floats && !is_tame || callable.vague;
        made.vague |= (is_extreme || callable.kind == CallableKind::OrderedSet) && !made.ty.is_clean();
        // A sum of intervals or of arrays prints by its parts; it is not determined which '30 days' is the largest.
        if callable.kind == CallableKind::Aggregate && template.ends_with(')') && !args.is_empty() {
            let is_joined = args.len() == 2 && callable.signature.starts_with("string_agg") && !args[1].has_column();
            let distinct = self.rng.chance(15)
                && made.ty != Ty::Json
                // It is not determined which of '1 mon' and '30 days' counts, and a quotient of them is not the same.
                && callable.signature != "avg(interval)"
                && args[0].ty.is_ordered()
                && (args.len() == 1 || in_any_order || is_joined);
            let open = template.find('(').expect("it is a call") + 1;
            if distinct && (args.len() == 1 || is_joined) {
                template.insert_str(open, "distinct ");
                made.vague |= !args[0].ty.is_clean();
                if !in_any_order {
                    let order = format!(" order by $0{}", self.rng.pick(&DIRECTIONS));
                    template.insert_str(template.len() - 1, &order);
                }
            } else if !in_any_order && !is_extreme || self.rng.chance(5) {
                let mut order = Vec::new();
                for key in scope.unique.iter().flatten().take(6) {
                    order.push(format!("${}", args.len()));
                    args.push(key.clone());
                }
                if order.is_empty() {
                    // The arguments are used themselves: a copy would get other constants when the call is varied.
                    let places = (0..args.len()).filter(|at| args[*at].ty.is_ordered());
                    order.extend(places.map(|at| format!("${at}")));
                    made.vague |= args.iter().any(|arg| !arg.ty.is_clean());
                }
                if !order.is_empty() {
                    let direction = *self.rng.pick(&DIRECTIONS);
                    template.insert_str(template.len() - 1, &format!(" order by {}{direction}", order.join(", ")));
                }
            }
        }
        if self.rng.chance(20) && args.len() < 9 {
            let condition = self.condition(1, scope);
            template.push_str(&format!(" filter (where ${})", args.len()));
            args.push(condition);
        }
        made
    }

    /// Generates a window function or an aggregate over a window, whose order is total.
    pub fn window(&mut self, depth: usize, scope: &ExprScope) -> Option<Expr> {
        if self.rng.chance(35) {
            return self.window_of_peers(depth, scope);
        }
        let catalog = self.catalog;
        let unique = scope.unique.clone()?;
        let plain = ExprScope { plain: true, ..scope.clone() };
        for _ in 0..60 {
            let at = self.rng.below(catalog.all.len());
            let callable = &catalog.all[at];
            if !matches!(callable.kind, CallableKind::Window | CallableKind::Aggregate)
                || callable.kind == CallableKind::Aggregate && !self.rng.chance(25)
            {
                continue;
            }
            let element = *self.rng.pick(&ELEMENTS);
            let mut made = self.call(at, element, depth.min(1), &plain);
            let partition = *self.rng.pick(&[Ty::Int4, Ty::Bool, Ty::Text, Ty::Date]);
            let partition = if self.rng.chance(60) { self.leaf(partition, &plain, true) } else { None };
            let key = *self.rng.pick(&[Ty::Int4, Ty::Text, Ty::Numeric, Ty::Date, Ty::Interval, Ty::Float8]);
            let key = self.leaf(key, &plain, true);
            let filter =
                (callable.kind == CallableKind::Aggregate && self.rng.chance(20)).then(|| self.condition(1, &plain));
            let ExprNode::Call { template, args } = &mut made.node else { continue };
            if let Some(filter) = filter {
                template.push_str(&format!(" filter (where ${})", args.len()));
                args.push(filter);
            }
            let mut over = String::new();
            if let Some(partition) = partition {
                over.push_str(&format!("partition by ${}", args.len()));
                args.push(partition);
            }
            // The unique key comes last and makes the order total, so that the rows before a row are determined.
            let mut word = " order by ";
            for key in key.into_iter().chain(unique.clone()).take(5) {
                over.push_str(&format!("{word}${}{}", args.len(), *self.rng.pick(&DIRECTIONS)));
                args.push(key);
                word = ", ";
            }
            // A template has the places `$0` to `$9` only.
            if args.len() > 9 {
                continue;
            }
            let frame = if self.rng.chance(40) { String::new() } else { self.frame("rows", &["0", "1", "2", "3"]) };
            template.push_str(&format!(" over ({}{frame})", over.trim_start()));
            made.vague |=
                callable.kind == CallableKind::Aggregate && !made.ty.is_clean() && !matches!(made.ty, Ty::Numeric);
            return Some(made);
        }
        None
    }

    /// Generates an aggregate over a frame that peers or distances bound. The result depends on no order among peers.
    fn window_of_peers(&mut self, depth: usize, scope: &ExprScope) -> Option<Expr> {
        let catalog = self.catalog;
        let plain = ExprScope { plain: true, ..scope.clone() };
        let (ty, steps) = *self.rng.pick(&STEPS);
        let key = self.leaf(ty, &plain, true)?;
        for _ in 0..60 {
            let at = self.rng.below(catalog.all.len());
            let callable = &catalog.all[at];
            // Results that show the order of their inputs are left out: arrays, JSON, concatenated texts, and sums of
            // floating-point numbers.
            let in_any_order = match callable.returns {
                WantedType::Exact(ty) => ty.element().is_none() && ty != Ty::Json && !ty.is_float(),
                WantedType::Element => true,
                WantedType::Array | WantedType::Any | WantedType::Word => false,
            };
            if callable.kind != CallableKind::Aggregate || !in_any_order || callable.signature.starts_with("string_agg")
            {
                continue;
            }
            let element = *self.rng.pick(&ELEMENTS);
            let mut made = self.call(at, element, depth.min(1), &plain);
            let filter = self.rng.chance(25).then(|| self.condition(1, &plain));
            let partition = if self.rng.chance(40) { self.leaf(Ty::Bool, &plain, true) } else { None };
            let direction = *self.rng.pick(&DIRECTIONS);
            let frame = match self.rng.below(10) {
                0..6 => self.frame("range", steps),
                _ => self.frame("groups", &["0", "1", "2"]),
            };
            let ExprNode::Call { template, args } = &mut made.node else { continue };
            if 7 < args.len() {
                continue;
            }
            let mut put = |before: &str, expr: Expr, behind: &str| {
                template.push_str(&format!("{before}${}{behind}", args.len()));
                args.push(expr);
            };
            if let Some(filter) = filter {
                put(" filter (where ", filter, ")");
            }
            match partition {
                Some(partition) => put(" over (partition by ", partition, " order by "),
                None => template.push_str(" over (order by "),
            }
            template.push_str(&format!("${}{direction}{frame})", args.len()));
            args.push(key);
            made.vague |= !made.ty.is_clean() && made.ty != Ty::Numeric;
            return Some(made);
        }
        None
    }

    /// Generates a frame: it begins and ends somewhere, and may leave rows out.
    fn frame(&mut self, unit: &str, steps: &'static [&'static str]) -> String {
        let mut bound = |least: usize, most: usize| {
            let at = least + self.rng.below(most - least + 1);
            let step = self.rng.word(steps);
            let text = match at {
                0 => "unbounded preceding".to_owned(),
                1 => format!("{step} preceding"),
                2 => "current row".to_owned(),
                3 => format!("{step} following"),
                _ => "unbounded following".to_owned(),
            };
            (at, text)
        };
        let (start, from) = bound(0, 3);
        let (_, to) = bound(start.max(1), 4);
        let exclude = *self.rng.pick(&EXCLUDES);
        format!(" {unit} between {from} and {to}{exclude}")
    }
}
