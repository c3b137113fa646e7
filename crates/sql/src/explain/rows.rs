//! The row path's operators, in PostgreSQL's names where one fits.
//!
//! **Invariant:** every operator of the plan is there, those of queries inside expressions included. When the statement must end,
//! the walk stops where it is, and whoever has begun it by [`pulse::preparing`] learns of it.

use crate::context::Env;
use crate::exec::Probe;
use crate::system::deparse::{DeparsedColumn, shown};
use catalog::{CatalogSnapshot, TableInfo};
use query::change::{Assignments, Change, Modify, NewValue};
use query::explain::{ActualCounts, ExplainFact, ExplainNode, FactValue, FactVisibility};
use query::plan::{
    Access, AggregateCall, Expr, JoinHashTable, JoinStep, Joins, KeyBound, KeyList, KeyValue, Over, Plan, RowSource,
    SetFunction, SetOperation, SortKey, WindowFunction,
};
use statement::pulse;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use types::Kind;

/// Makes nodes of plans.
pub(crate) struct Explainer<'e> {
    pub(crate) snapshot: &'e CatalogSnapshot,
    pub(crate) env: &'e Env,
    /// What the operators have done, if they were run.
    pub(crate) probe: Option<&'e Probe>,
    pub(crate) subplans: Cell<usize>,
    /// Columns of the shared queries that have been shown: each is shown where it is named first.
    pub(crate) shared: RefCell<HashMap<u64, Vec<DeparsedColumn>>>,
}

/// Work of making a node, in units of [`pulse::walk`].
const NODE: usize = 128;

/// A node, and the columns of its rows.
type ExplainedNode = (ExplainNode, Vec<DeparsedColumn>);

impl Explainer<'_> {
    /// The operators of a query.
    pub(crate) fn query(&self, plan: &Plan) -> ExplainNode {
        self.plan(plan).0
    }

    /// The operators of a change.
    pub(crate) fn modify(&self, modify: &Modify) -> ExplainNode {
        let Modify { change, returning, with } = modify;
        let operation = match change {
            Change::Insert { .. } => "Insert",
            Change::Update { .. } => "Update",
            Change::Delete { .. } => "Delete",
        };
        let table = change.table();
        let mut node = ExplainNode::new(operation)
            .kind("ModifyTable")
            .target(format!(" on {}", table.name))
            .in_json("Operation", operation)
            .in_json("Relation Name", &table.name);
        node.actual = self.probe.map(|probe| probe.of_modify(modify));
        let assigned = |node: &mut ExplainNode, assignments: &Assignments| {
            for value in &assignments.values {
                match value {
                    NewValue::One(value) => self.subplans(node, value),
                    NewValue::Row { plan, width: _ } => node.inputs.push(self.subplan(plan)),
                }
            }
        };
        // Subplans are numbered as they are met, so the input comes before the expressions over it.
        match change {
            Change::Insert { input, conflict, .. } => {
                node.inputs.push(self.plan(input).0);
                if let Some(conflict) = conflict {
                    let resolution = if conflict.update.is_some() { "UPDATE" } else { "NOTHING" };
                    node = node.fact("Conflict Resolution", FactValue::Text(resolution.to_owned()));
                    let arbiters = conflict.arbiters.iter().filter_map(|at| table.indexes.get(*at));
                    let arbiters: Vec<String> = arbiters.map(|index| index.name.clone()).collect();
                    node = node.fact("Conflict Arbiter Indexes", FactValue::List(arbiters));
                    if let Some(update) = &conflict.update {
                        assigned(&mut node, &update.assignments);
                        update.condition.iter().for_each(|condition| self.subplans(&mut node, condition));
                    }
                }
            }
            Change::Update { target, assignments, .. } => {
                node.inputs.push(self.plan(&target.input).0);
                assigned(&mut node, assignments);
            }
            Change::Delete { target, .. } => node.inputs.push(self.plan(&target.input).0),
        }
        returning.iter().flatten().for_each(|value| self.subplans(&mut node, value));
        node.inputs.extend(with.iter().map(|with| labelled(self.modify(with), "CTE")));
        node
    }

    fn plan(&self, plan: &Plan) -> ExplainedNode {
        if pulse::walk(NODE).is_err() {
            return (ExplainNode::default(), Vec::new());
        }
        let (mut node, columns) = match plan {
            Plan::Unit => (ExplainNode::new("Result"), Vec::new()),
            Plan::Values(rows) => {
                let mut node = ExplainNode::new("Values Scan").target(" on \"*VALUES*\"".to_owned());
                rows.iter().flatten().for_each(|value| self.subplans(&mut node, value));
                let width = rows.first().map_or(0, Vec::len);
                (node, (1..=width).map(|at| plain(format!("column{at}"))).collect())
            }
            Plan::Joins(joins) => self.joins(joins),
            // None is left in a plan of the row executor.
            Plan::From(_) => (ExplainNode::new("From"), Vec::new()),
            Plan::Filter { input, condition } => {
                let (mut node, columns) = self.plan(input);
                let before = node.actual.take();
                self.condition(&mut node, "Filter", condition, &columns);
                if let Some(probe) = self.probe {
                    let after = probe.of_plan(plan);
                    if let Some(before) = before.filter(|before| after.rows < before.rows) {
                        node = node.fact("Rows Removed by Filter", FactValue::Count(before.rows - after.rows));
                    }
                }
                (node, columns)
            }
            Plan::Project { input, columns } => {
                let (mut node, inner) = self.plan(input);
                columns.iter().for_each(|column| self.subplans(&mut node, column));
                let mut columns: Vec<DeparsedColumn> =
                    columns.iter().map(|column| self.shown(column, &inner)).collect();
                let told: Vec<String> = columns.iter().map(|column| column.text.clone()).collect();
                node.facts.retain(|fact| fact.name != "Output");
                node.facts.insert(
                    0,
                    ExplainFact { name: "Output", value: FactValue::List(told), told: FactVisibility::Verbose },
                );
                columns.iter_mut().for_each(|column| {
                    if column.is_compound {
                        column.text = format!("({})", column.text);
                        column.is_compound = false;
                    }
                });
                // The one row of nothing is watched as what is made of it.
                (node, columns)
            }
            Plan::Aggregate { input, groups, sets, calls } => self.aggregate(input, groups, sets.is_some(), calls),
            Plan::Windows { input, calls } => {
                let (inner, mut columns) = self.plan(input);
                let mut node = ExplainNode::new("WindowAgg").over([inner]);
                for call in calls {
                    let name = match &call.function {
                        WindowFunction::Aggregate(call) => call.aggregate.name.to_owned(),
                        other => format!("{other:?}").split(['(', ' ', '{']).next().unwrap_or_default().to_lowercase(),
                    };
                    columns.push(plain(format!("{name}(...) OVER (...)")));
                    let order = call.order.iter().map(|key| &key.value);
                    let parts = call.arguments.iter().chain(call.partition.iter().map(|(value, _)| value)).chain(order);
                    parts.for_each(|part| self.subplans(&mut node, part));
                }
                (node, columns)
            }
            Plan::Sets { input, calls } => {
                let (inner, mut columns) = self.plan(input);
                columns.extend(calls.iter().map(|call| plain(set_name(&call.function).to_owned())));
                (ExplainNode::new("ProjectSet").over([inner]), columns)
            }
            // An index gives it.
            Plan::Sort { input, keys } => {
                let (inner, columns) = self.plan(input);
                let mut node = ExplainNode::new("Sort").over([inner]);
                node = node.fact("Sort Key", FactValue::List(self.keys(keys, &columns)));
                keys.iter().for_each(|key| self.subplans(&mut node, &key.value));
                (node, columns)
            }
            Plan::Distinct { input, kinds } => {
                let (inner, columns) = self.plan(input);
                let keys = columns.iter().take(kinds.len()).map(|column| column.text.clone()).collect();
                let node = ExplainNode::new("HashAggregate").kind("Aggregate").in_json("Strategy", "Hashed");
                (node.fact("Group Key", FactValue::List(keys)).over([inner]), columns)
            }
            Plan::DistinctOn { input, values: _ } => {
                let (inner, columns) = self.plan(input);
                (ExplainNode::new("Unique").over([inner]), columns)
            }
            Plan::Limit { input, .. } | Plan::Ties { input, .. } => {
                let (inner, columns) = self.plan(input);
                (ExplainNode::new("Limit").over([inner]), columns)
            }
            Plan::Set { operation, all, kinds: _, left, right } => {
                let ((left, columns), (right, _)) = (self.plan(left), self.plan(right));
                let node = match (operation, all) {
                    (SetOperation::Union, true) => ExplainNode::new("Append").over([left, right]),
                    (SetOperation::Union, false) => {
                        let keys = columns.iter().map(|column| column.text.clone()).collect();
                        let node = ExplainNode::new("HashAggregate").kind("Aggregate").in_json("Strategy", "Hashed");
                        node.fact("Group Key", FactValue::List(keys))
                            .over([ExplainNode::new("Append").over([left, right])])
                    }
                    (operation, all) => {
                        let command = if *operation == SetOperation::Intersect { "Intersect" } else { "Except" };
                        let command = format!("{command}{}", if *all { " All" } else { "" });
                        let node = ExplainNode::new(format!("HashSetOp {command}")).kind("SetOp");
                        node.in_json("Strategy", "Hashed").in_json("Command", command).over([left, right])
                    }
                };
                (node, columns)
            }
            Plan::Lock { input, locks: _, joins: _, condition: _ } => {
                let (inner, columns) = self.plan(input);
                (ExplainNode::new("LockRows").over([inner]), columns)
            }
            Plan::System(table) => {
                let node = ExplainNode::new("Function Scan").target(format!(" on {}", table.name));
                let columns = table.columns.iter().map(|column| plain(column.name.clone())).collect();
                (node.in_json("Function Name", &table.name), columns)
            }
            Plan::Routine(call) => {
                let Expr::Routine(call) = &**call else { return (ExplainNode::new("Function Scan"), Vec::new()) };
                let name = &call.routine.name;
                let node = ExplainNode::new("Function Scan").target(format!(" on {name}"));
                let columns = call.routine.outputs().map(|output| plain(output.name.clone().unwrap_or_default()));
                (node.in_json("Function Name", name), columns.collect())
            }
            Plan::Shared { id, plan: shared } => {
                let known = self.shared.borrow().get(id).cloned();
                match known {
                    Some(columns) => (ExplainNode::new("CTE Scan"), columns),
                    None => {
                        let (inner, columns) = self.plan(shared);
                        self.shared.borrow_mut().insert(*id, columns.clone());
                        (ExplainNode::new("CTE Scan").over([inner]), columns)
                    }
                }
            }
            Plan::Recursive(recursive) => {
                let ((first, columns), (step, _)) = (self.plan(&recursive.first), self.plan(&recursive.step));
                (ExplainNode::new("CTE Scan").over([ExplainNode::new("Recursive Union").over([first, step])]), columns)
            }
            Plan::Working(_) => (ExplainNode::new("WorkTable Scan"), Vec::new()),
            Plan::Modified(modify) => {
                let columns = modify.returning.iter().flatten().enumerate();
                let columns = columns.map(|(at, _)| plain(format!("column{}", at + 1))).collect();
                (ExplainNode::new("CTE Scan"), columns)
            }
            Plan::Modifying { modifies, input } => {
                let (mut node, columns) = self.plan(input);
                node.inputs.extend(modifies.iter().map(|modify| labelled(self.modify(modify), "CTE")));
                (node, columns)
            }
        };
        match plan {
            // It has no node of its own, but for the one row without a source.
            Plan::Project { input, .. } if !matches!(**input, Plan::Unit) => {}
            _ => node.actual = self.probe.map(|probe| probe.of_plan(plan)),
        }
        (node, columns)
    }

    fn aggregate(
        &self,
        input: &Plan,
        groups: &[(Expr, Kind)],
        has_sets: bool,
        calls: &[AggregateCall],
    ) -> ExplainedNode {
        let (inner, columns) = self.plan(input);
        let mut keys: Vec<DeparsedColumn> = groups.iter().map(|(group, _)| self.shown(group, &columns)).collect();
        let told = FactValue::List(keys.iter().map(|key| key.text.clone()).collect());
        let (name, strategy) = match (groups.is_empty(), has_sets) {
            (_, true) => ("MixedAggregate", "Mixed"),
            (true, _) => ("Aggregate", "Plain"),
            (false, _) => ("HashAggregate", "Hashed"),
        };
        let mut node = ExplainNode::new(name).kind("Aggregate").in_json("Strategy", strategy).over([inner]);
        if !groups.is_empty() {
            node = node.fact("Group Key", told);
        }
        groups.iter().for_each(|(group, _)| self.subplans(&mut node, group));
        for call in calls {
            let order = call.order.iter().filter(|_| !call.orders_arguments).map(|key| &key.value);
            call.arguments.iter().chain(order).chain(&call.filter).for_each(|part| self.subplans(&mut node, part));
            let arguments: Vec<String> =
                call.arguments.iter().map(|argument| self.shown(argument, &columns).text).collect();
            let arguments = match &arguments[..] {
                [] => "*".to_owned(),
                some => format!("{}{}", if call.is_distinct { "DISTINCT " } else { "" }, some.join(", ")),
            };
            keys.push(plain(format!("{}({arguments})", call.aggregate.name)));
        }
        (node, keys)
    }

    fn joins(&self, joins: &Joins) -> ExplainedNode {
        let mut columns = vec![DeparsedColumn::default(); joins.width];
        let is_qualified = 1 < joins.steps.len();
        self.name(&joins.steps, is_qualified, &mut columns);
        let mut node = self.steps(&joins.steps, &mut columns).unwrap_or_else(|| ExplainNode::new("Result"));
        if let Some(when) = &joins.when {
            node = ExplainNode::new("Result").over([node]);
            self.condition(&mut node, "One-Time Filter", when, &columns);
        }
        (node, columns)
    }

    /// The names of tables' columns.
    fn name(&self, steps: &[JoinStep], is_qualified: bool, columns: &mut [DeparsedColumn]) {
        for step in steps {
            match &step.source {
                RowSource::Table { table, .. } => {
                    for (place, column) in columns[step.first..].iter_mut().zip(&table.columns) {
                        let name = crate::system::quoted(&column.name);
                        let text = if is_qualified { format!("{}.{name}", table.name) } else { name };
                        *place = DeparsedColumn { text, kind: Some(column.kind.kind), is_compound: false };
                    }
                }
                RowSource::Group(steps) => self.name(steps, true, columns),
                RowSource::Full(full) => {
                    self.name(&full.left.steps, true, columns);
                    self.name(&full.right.steps, true, columns);
                }
                RowSource::Query { .. } | RowSource::Functions { .. } => {}
            }
        }
    }

    /// Each source is joined to those before it.
    fn steps(&self, steps: &[JoinStep], columns: &mut Vec<DeparsedColumn>) -> Option<ExplainNode> {
        let (first, rest) = steps.split_first()?;
        let mut node = self.source(first, columns);
        for (name, condition) in [("Filter", &first.on), ("Filter", &first.filter)] {
            condition.iter().for_each(|condition| self.condition(&mut node, name, condition, columns));
        }
        if let (Some(probe), Some(actual)) = (self.probe, &mut node.actual) {
            let removed = actual.rows.saturating_sub(probe.of_join(first));
            actual.rows = probe.of_join(first);
            if 0 < removed {
                node = node.fact("Rows Removed by Filter", FactValue::Count(removed / first_loops(probe, first)));
            }
        }
        for step in rest {
            node = self.joined(node, step, columns);
        }
        Some(node)
    }

    fn joined(&self, before: ExplainNode, step: &JoinStep, columns: &mut Vec<DeparsedColumn>) -> ExplainNode {
        let mut source = self.source(step, columns);
        let (word, kind) = if step.is_outer { (" Left", "Left") } else { ("", "Inner") };
        let nested = || ExplainNode::new(format!("Nested Loop{word}{}", if step.is_outer { " Join" } else { "" }));
        let mut node = match &step.kept {
            None => nested().kind("Nested Loop"),
            Some(JoinHashTable { keys, condition, .. }) => {
                condition.iter().for_each(|condition| self.condition(&mut source, "Filter", condition, columns));
                if keys.is_empty() {
                    source = ExplainNode::new("Materialize").over([source]);
                    nested().kind("Nested Loop")
                } else {
                    source = ExplainNode::new("Hash").over([source]);
                    let conditions = keys.iter().map(|key| {
                        let (before, own) = (self.shown(&key.before, columns), self.shown(&key.own, columns));
                        format!("({} = {})", wrapped(before), wrapped(own))
                    });
                    let conditions = conditions.collect::<Vec<_>>().join(" AND ");
                    let conditions = if 1 < keys.len() { format!("({conditions})") } else { conditions };
                    let node = ExplainNode::new(format!("Hash{word} Join")).kind("Hash Join");
                    node.fact("Hash Cond", FactValue::Text(conditions))
                }
            }
        };
        node = node.in_json("Join Type", kind).over([before, source]);
        let is_hashed = step.kept.as_ref().is_some_and(|kept| !kept.keys.is_empty());
        if let Some(on) = step.on.as_ref().filter(|_| !is_hashed) {
            self.condition(&mut node, "Join Filter", on, columns);
        }
        if let Some(filter) = &step.filter {
            self.condition(&mut node, "Filter", filter, columns);
        }
        // Its time is part of the whole's, which the first join tells.
        node.actual = self.probe.map(|probe| ActualCounts { rows: probe.of_join(step), loops: 1, times: None });
        node
    }

    fn source(&self, step: &JoinStep, columns: &mut Vec<DeparsedColumn>) -> ExplainNode {
        let mut node = match &step.source {
            RowSource::Table { table, access, columns: _ } => self.table(table, access, columns),
            RowSource::Query { plan, is_lateral: _ } => {
                let (node, inner) = self.plan(plan);
                columns[step.first..].iter_mut().zip(inner).for_each(|(place, column)| *place = column);
                ExplainNode { actual: None, ..node }
            }
            RowSource::Functions { calls, is_numbered: _ } => {
                let names: Vec<&str> = calls.iter().map(|call| set_name(&call.function)).collect();
                for (place, name) in columns[step.first..].iter_mut().zip(&names) {
                    *place = plain((*name).to_owned());
                }
                let names = names.join(", ");
                let mut node = ExplainNode::new("Function Scan").target(format!(" on {names}"));
                calls.iter().flat_map(|call| &call.arguments).for_each(|part| self.subplans(&mut node, part));
                node.in_json("Function Name", names)
            }
            RowSource::Group(steps) => self.steps(steps, columns).unwrap_or_else(|| ExplainNode::new("Result")),
            RowSource::Full(full) => {
                let left = self.steps(&full.left.steps, columns);
                let right = self.steps(&full.right.steps, columns);
                let right = right.map(|right| ExplainNode::new("Hash").over([right]));
                let node = ExplainNode::new("Hash Full Join").kind("Hash Join").in_json("Join Type", "Full");
                node.over(left.into_iter().chain(right))
            }
        };
        node.actual = self.probe.map(|probe| probe.of_step(step));
        node
    }

    fn table(&self, table: &TableInfo, access: &Access, columns: &[DeparsedColumn]) -> ExplainNode {
        let index = |at: usize| table.indexes.get(at).map_or("", |index| &index.name);
        let scan = |at: usize, word: &str| {
            let node = ExplainNode::new(format!("Index Scan{word}")).kind("Index Scan");
            let node = node.target(format!(" using {} on {}", index(at), table.name));
            node.in_json("Index Name", index(at)).in_json("Relation Name", &table.name)
        };
        let column = |index: usize, at: usize| {
            let place = table.indexes.get(index).and_then(|index| index.columns.get(at));
            place.and_then(|at| table.columns.get(*at)).map_or("", |column| column.name.as_str())
        };
        let compared = |name: &str, word: &str, sought: &KeyValue| {
            let KeyValue { value, kind } = sought;
            format!("({} {word} {})", crate::system::quoted(name), wrapped(self.shown_as(value, columns, *kind)))
        };
        let equal = |index: usize, prefix: &[KeyValue]| -> Vec<String> {
            let pairs = prefix.iter().enumerate();
            pairs.map(|(at, value)| compared(column(index, at), "=", value)).collect()
        };
        // As PostgreSQL writes it: each condition in parentheses, and several in one more pair.
        let with = |node: ExplainNode, conditions: Vec<String>| match &conditions[..] {
            [] => node,
            [one] => node.fact("Index Cond", FactValue::Text(one.clone())),
            some => node.fact("Index Cond", FactValue::Text(format!("({})", some.join(" AND ")))),
        };
        let mut node = match access {
            Access::All => {
                let node = ExplainNode::new("Seq Scan").target(format!(" on {}", table.name));
                ExplainNode { rows_max: Some(table.table.rows_bound()), ..node.in_json("Relation Name", &table.name) }
            }
            Access::Key { index, values, decides: _ } => with(scan(*index, ""), equal(*index, values)),
            Access::Index { index, prefix, lower, upper, backward } => {
                let mut conditions = equal(*index, prefix);
                let next = column(*index, prefix.len());
                let mut bound = |limit: &Option<Box<KeyBound>>, words: [&str; 2]| {
                    if let Some(KeyBound { value, inclusive }) = limit.as_deref() {
                        conditions.push(compared(next, words[usize::from(*inclusive)], value));
                    }
                };
                bound(lower, [">", ">="]);
                bound(upper, ["<", "<="]);
                with(scan(*index, if *backward { " Backward" } else { "" }), conditions)
            }
            Access::AnyOf { index, prefix, list } => {
                let mut conditions = equal(*index, prefix);
                let name = column(*index, prefix.len());
                let list = match list {
                    KeyList::Array { array, kind: _ } => self.shown(array, columns).text,
                    KeyList::Values(values) => {
                        let one = |sought: &KeyValue| self.shown_as(&sought.value, columns, sought.kind).text;
                        let values: Vec<String> = values.iter().map(one).collect();
                        format!("ARRAY[{}]", values.join(", "))
                    }
                };
                conditions.push(format!("({} = ANY ({list}))", crate::system::quoted(name)));
                with(scan(*index, ""), conditions)
            }
        };
        // The values that the index is searched for may come from queries.
        if let Access::Key { values, .. }
        | Access::Index { prefix: values, .. }
        | Access::AnyOf { prefix: values, .. } = access
        {
            values.iter().for_each(|sought| self.subplans(&mut node, &sought.value));
        }
        node
    }

    /// A condition, and the queries in it.
    fn condition(&self, node: &mut ExplainNode, name: &'static str, condition: &Expr, columns: &[DeparsedColumn]) {
        let text = wrapped(self.shown_as(condition, columns, Kind::Bool));
        node.facts.push(ExplainFact { name, value: FactValue::Text(text), told: FactVisibility::Always });
        self.subplans(node, condition);
    }

    fn keys(&self, keys: &[SortKey], columns: &[DeparsedColumn]) -> Vec<String> {
        let one = |key: &SortKey| {
            let text = wrapped(self.shown_as(&key.value, columns, key.kind));
            let nulls = match (key.descending, key.nulls_first) {
                (false, true) => " NULLS FIRST",
                (true, false) => " NULLS LAST",
                _ => "",
            };
            format!("{text}{}{nulls}", if key.descending { " DESC" } else { "" })
        };
        keys.iter().map(one).collect()
    }

    fn shown(&self, expr: &Expr, columns: &[DeparsedColumn]) -> DeparsedColumn {
        self.shown_as(expr, columns, Kind::Unknown)
    }

    fn shown_as(&self, expr: &Expr, columns: &[DeparsedColumn], kind: Kind) -> DeparsedColumn {
        let shown = shown(self.snapshot, self.env, columns, expr, kind).unwrap_or_else(|| plain("...".to_owned()));
        // It is copied a few times on its way to the client.
        let _ = pulse::walk(shown.text.len());
        shown
    }

    /// The plans of the queries in an expression become inputs.
    fn subplans(&self, node: &mut ExplainNode, expr: &Expr) {
        match expr {
            Expr::Scalar(plan) | Expr::Exists(plan) | Expr::ArrayQuery(plan) => node.inputs.push(self.subplan(plan)),
            Expr::InQuery { query: plan, .. } | Expr::Quantified { over: Over::Query(plan), .. } => {
                node.inputs.push(self.subplan(plan));
            }
            _ => {}
        }
        expr.parts().into_iter().for_each(|part| self.subplans(node, part));
    }

    fn subplan(&self, plan: &Plan) -> ExplainNode {
        self.subplans.set(self.subplans.get() + 1);
        // One that depends on nothing is made once.
        let (word, plan) = match plan {
            Plan::Shared { plan, id: _ } => ("InitPlan", &**plan),
            plan => ("SubPlan", plan),
        };
        labelled(self.plan(plan).0, &format!("{word} {}", self.subplans.get()))
    }
}

fn first_loops(probe: &Probe, step: &JoinStep) -> u64 {
    probe.of_step(step).loops.max(1)
}

fn labelled(node: ExplainNode, label: &str) -> ExplainNode {
    ExplainNode { label: Some(label.to_owned()), ..node }
}

fn plain(text: String) -> DeparsedColumn {
    DeparsedColumn { text, kind: None, is_compound: false }
}

fn wrapped(shown: DeparsedColumn) -> String {
    if shown.is_compound { format!("({})", shown.text) } else { shown.text }
}

fn set_name(function: &SetFunction) -> &'static str {
    match function {
        SetFunction::Series { .. } => "generate_series",
        SetFunction::Unnest => "unnest",
        SetFunction::Subscripts { .. } => "generate_subscripts",
        SetFunction::StringToTable => "string_to_table",
        SetFunction::One | SetFunction::Routine => "function",
    }
}
