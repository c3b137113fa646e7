//! Operators of a plan as `EXPLAIN` shows them, and what they did.
//!
//! **Invariant:** a figure that was not measured is not written.

/// One operator of a plan.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExplainNode {
    /// Where it stands, if it is no plain input of the one above: `SubPlan 1`, `CTE x`.
    pub label: Option<String>,
    /// `Seq Scan`.
    pub name: String,
    /// Its type in JSON, if it is another word.
    pub kind: Option<&'static str>,
    /// What it is done to: ` on orders o`. In JSON it is among the facts.
    pub target: String,
    /// What else there is to say.
    pub facts: Vec<ExplainFact>,
    /// How many rows it has at most, if that is known without counting.
    pub rows_max: Option<u64>,
    /// What it did, if it was watched.
    pub actual: Option<ActualCounts>,
    /// Its inputs.
    pub inputs: Vec<ExplainNode>,
}

/// Something to say about an operator.
#[derive(Clone, Debug, PartialEq)]
pub struct ExplainFact {
    /// What it is.
    pub name: &'static str,
    /// It.
    pub value: FactValue,
    /// Where it is told.
    pub told: FactVisibility,
}

/// A value.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum FactValue {
    Text(String),
    List(Vec<String>),
    Count(u64),
    /// Milliseconds.
    Ms(f64),
}

/// Where a fact is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FactVisibility {
    /// Always.
    Always,
    /// Only in JSON: in text it is behind the operator's name.
    InJson,
    /// If it is asked for by VERBOSE.
    Verbose,
}

/// What an operator did.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ActualCounts {
    /// Rows in all.
    pub rows: u64,
    /// How often it was begun.
    pub loops: u64,
    /// To the first row and to the end, its inputs included, in nanoseconds over all loops.
    pub times: Option<(u64, u64)>,
}

impl ExplainNode {
    /// An operator without anything else.
    pub fn new(name: impl Into<String>) -> ExplainNode {
        ExplainNode { name: name.into(), ..ExplainNode::default() }
    }

    /// Over these inputs.
    #[must_use]
    pub fn over(mut self, inputs: impl IntoIterator<Item = ExplainNode>) -> ExplainNode {
        self.inputs.extend(inputs);
        self
    }

    /// With this to say.
    #[must_use]
    pub fn fact(mut self, name: &'static str, value: FactValue) -> ExplainNode {
        self.facts.push(ExplainFact { name, value, told: FactVisibility::Always });
        self
    }

    /// Called so in JSON.
    #[must_use]
    pub fn kind(self, kind: &'static str) -> ExplainNode {
        ExplainNode { kind: Some(kind), ..self }
    }

    /// Done to this.
    #[must_use]
    pub fn target(self, target: String) -> ExplainNode {
        ExplainNode { target, ..self }
    }

    /// With this to say in JSON.
    #[must_use]
    pub fn in_json(mut self, name: &'static str, value: impl Into<String>) -> ExplainNode {
        self.facts.push(ExplainFact { name, value: FactValue::Text(value.into()), told: FactVisibility::InJson });
        self
    }
}
