//! DataFusion's operators as nodes of `EXPLAIN`.
//!
//! **Invariant:** all operators are shown, except those inserted for the scheduler.

use crate::barriers::SealedExec;
use crate::functions::defined::readable;
use crate::safepoint::SafepointExec;
use datafusion::physical_plan::{ExecutionPlan, displayable};
use query::explain::{ActualCounts, ExplainNode, FactValue};

/// Returns the operators of a plan; with `was_run`, with their figures.
pub(crate) fn node(plan: &dyn ExecutionPlan, was_run: bool) -> ExplainNode {
    if plan.downcast_ref::<SafepointExec>().is_some()
        && let [input] = &plan.children()[..]
    {
        return node(&***input, was_run);
    }
    if let Some(sealed) = plan.downcast_ref::<SealedExec>() {
        return node(&**sealed.input(), was_run);
    }
    let line = readable(&displayable(plan).one_line().to_string());
    let line = line.trim();
    let name = plan.name();
    let target = line.strip_prefix(name).unwrap_or_default().to_owned();
    let mut made = ExplainNode::new(name)
        .target(target.clone())
        .over(plan.children().into_iter().map(|one| node(&**one, was_run)));
    if !target.is_empty() {
        made = made.in_json("Details", target.trim_start_matches([':', ' ']));
    }
    if let Some(metrics) = plan.metrics().filter(|_| was_run) {
        if let Some(rows) = metrics.output_rows() {
            made.actual = Some(ActualCounts { rows: rows as u64, loops: 1, times: None });
        }
        if let Some(ns) = metrics.elapsed_compute().filter(|ns| 0 < *ns) {
            // Total of all tasks.
            made = made.fact("Processor Time", FactValue::Ms(ns as f64 / 1e6));
        }
    }
    made
}
