//! Operators of a plan for `EXPLAIN`, with their statistics.
//!
//! **Invariant:** a figure that was not measured is not shown.

/// Operator of a plan.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExplainNode {
    /// Label of an operator that is not a plain input of its parent: `SubPlan 1`, `CTE x`.
    pub label: Option<String>,
    /// Name of the operator: `Seq Scan`.
    pub name: String,
    /// Node type in JSON, if it differs from the name.
    pub kind: Option<&'static str>,
    /// Object of the operator: ` on orders o`. In JSON it is one of the facts.
    pub target: String,
    /// Further properties.
    pub facts: Vec<ExplainFact>,
    /// Upper bound of the number of rows, if it is known without counting.
    pub rows_max: Option<u64>,
    /// Statistics of execution, if it was instrumented.
    pub actual: Option<ActualCounts>,
    /// Inputs of the operator.
    pub inputs: Vec<ExplainNode>,
}

/// Property of an operator.
#[derive(Clone, Debug, PartialEq)]
pub struct ExplainFact {
    /// Name of the property.
    pub name: &'static str,
    /// Value of the property.
    pub value: FactValue,
    /// Conditions under which it is shown.
    pub told: FactVisibility,
}

/// Value of a property.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum FactValue {
    Text(String),
    List(Vec<String>),
    Count(u64),
    /// Time in milliseconds.
    Ms(f64),
    /// Named times in milliseconds.
    Times(Vec<(&'static str, f64)>),
}

/// Visibility of a property.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FactVisibility {
    /// Shown in every format.
    Always,
    /// Shown in JSON only; in text it follows the operator's name.
    InJson,
    /// Shown with VERBOSE.
    Verbose,
}

/// Statistics of an operator's execution.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ActualCounts {
    /// Total number of rows.
    pub rows: u64,
    /// Number of executions.
    pub loops: u64,
    /// Nanoseconds to the first row and to the end, inputs included, summed over all loops.
    pub times: Option<(u64, u64)>,
}

impl ExplainNode {
    /// Operator with nothing but a name.
    pub fn new(name: impl Into<String>) -> ExplainNode {
        ExplainNode { name: name.into(), ..ExplainNode::default() }
    }

    /// Adds inputs.
    #[must_use]
    pub fn over(mut self, inputs: impl IntoIterator<Item = ExplainNode>) -> ExplainNode {
        self.inputs.extend(inputs);
        self
    }

    /// Adds a property.
    #[must_use]
    pub fn fact(mut self, name: &'static str, value: FactValue) -> ExplainNode {
        self.facts.push(ExplainFact { name, value, told: FactVisibility::Always });
        self
    }

    /// Sets the node type in JSON.
    #[must_use]
    pub fn kind(self, kind: &'static str) -> ExplainNode {
        ExplainNode { kind: Some(kind), ..self }
    }

    /// Sets the object of the operator.
    #[must_use]
    pub fn target(self, target: String) -> ExplainNode {
        ExplainNode { target, ..self }
    }

    /// Adds a property that is shown in JSON only.
    #[must_use]
    pub fn in_json(mut self, name: &'static str, value: impl Into<String>) -> ExplainNode {
        self.facts.push(ExplainFact { name, value: FactValue::Text(value.into()), told: FactVisibility::InJson });
        self
    }
}
