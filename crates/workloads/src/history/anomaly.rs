//! Anomalies: cycles of dependencies by the kinds of their edges, and the levels that forbid them.
//!
//! **Invariant:** an anomaly is counted under the weakest level that forbids it: a cycle with one anti-dependency is a
//! G-single, and only an anti-dependency that closes no such cycle makes a G2.

use super::graph::{ALONE, Edge, EdgeKind, Graph, words};
use super::model::{Fate, History, ReadVersion};
use engine::Isolation;
use std::collections::BTreeMap;

/// Phenomenon that an isolation level forbids, by its name in Adya's thesis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Anomaly {
    /// Cycle of writes that replace each other: a dirty write.
    G0,
    /// Read of a version that was aborted, or undone.
    G1a,
    /// Read of a version that its own writer replaced.
    G1b,
    /// Cycle of writes and of reads of written versions.
    G1c,
    /// G-single of two writers of one row that both had read it: the first one's update is lost.
    LostUpdate,
    /// Cycle with one anti-dependency, in which nobody inserted a row that another transaction had deleted: read skew.
    GSingle,
    /// Cycle with several anti-dependencies, all on rows that were found: write skew.
    G2Item,
    /// Cycle with several anti-dependencies, one of them on rows that were not found.
    G2,
}

impl Anomaly {
    /// Every anomaly, the worst first.
    pub const ALL: [Anomaly; 8] = [
        Anomaly::G0,
        Anomaly::G1a,
        Anomaly::G1b,
        Anomaly::G1c,
        Anomaly::LostUpdate,
        Anomaly::GSingle,
        Anomaly::G2Item,
        Anomaly::G2,
    ];

    /// Returns the anomaly's name in the literature.
    pub fn name(self) -> &'static str {
        match self {
            Anomaly::G0 => "G0",
            Anomaly::G1a => "G1a",
            Anomaly::G1b => "G1b",
            Anomaly::G1c => "G1c",
            Anomaly::LostUpdate => "lost update",
            Anomaly::GSingle => "G-single",
            Anomaly::G2Item => "G2-item",
            Anomaly::G2 => "G2",
        }
    }
}

/// Returns the anomalies that a level must prevent.
pub fn forbidden(level: Isolation) -> &'static [Anomaly] {
    match level {
        Isolation::ReadCommitted => &Anomaly::ALL[..4],
        Isolation::RepeatableRead => &Anomaly::ALL[..6],
        Isolation::Serializable => &Anomaly::ALL,
    }
}

/// Returns the anomalies that a level allows and that a long enough run must therefore find. Otherwise the checker
/// overlooks them, or the level does more than it needs to.
pub fn expected(level: Isolation) -> &'static [Anomaly] {
    match level {
        Isolation::ReadCommitted => &Anomaly::ALL[4..],
        Isolation::RepeatableRead => &Anomaly::ALL[6..],
        Isolation::Serializable => &[],
    }
}

/// Instance of an anomaly, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Example {
    /// Number of transactions involved.
    pub length: usize,
    /// Description of the reads and writes involved.
    pub words: String,
}

/// Anomalies found in a history.
#[derive(Debug, Clone, Default)]
pub struct Findings {
    /// Number of times that each anomaly was found: counted in reads, in anti-dependencies that close a cycle alone, or
    /// in components of the graph that contain a cycle, depending on the anomaly.
    pub counts: BTreeMap<Anomaly, u64>,
    /// Shortest example of each anomaly.
    pub examples: BTreeMap<Anomaly, Example>,
}

impl Findings {
    /// Returns the number of times that the anomaly was found.
    pub fn count(&self, anomaly: Anomaly) -> u64 {
        self.counts.get(&anomaly).copied().unwrap_or(0)
    }

    /// Adds the findings of another history.
    pub fn add(&mut self, other: Findings) {
        for (anomaly, count) in other.counts {
            *self.counts.entry(anomaly).or_default() += count;
        }
        for (anomaly, example) in other.examples {
            self.keep_shortest(anomaly, example);
        }
    }

    fn found(&mut self, anomaly: Anomaly, length: usize, words: impl FnOnce() -> String) {
        *self.counts.entry(anomaly).or_default() += 1;
        if self.examples.get(&anomaly).is_none_or(|best| length < best.length) {
            self.examples.insert(anomaly, Example { length, words: words() });
        }
    }

    fn keep_shortest(&mut self, anomaly: Anomaly, example: Example) {
        let best = self.examples.entry(anomaly).or_insert_with(|| example.clone());
        if example.length < best.length {
            *best = example;
        }
    }
}

/// Maximum number of edges of one component from which cycles are looked for; the first ones are taken.
const STARTS_MAX: usize = 16;

/// Looks for every anomaly.
pub fn check(history: &History) -> Findings {
    let mut findings = Findings::default();
    check_reads(history, &mut findings);
    let graph = Graph::new(history);
    let is_write = |edge: &Edge| edge.kind.is_write();
    let is_dependency = |edge: &Edge| !edge.kind.is_anti();
    check_circles(history, &graph, is_write, is_write, Anomaly::G0, &mut findings);
    let is_read = |edge: &Edge| edge.kind == EdgeKind::WriteRead;
    check_circles(history, &graph, is_dependency, is_read, Anomaly::G1c, &mut findings);
    let single = check_singles(history, &graph, &mut findings);
    let is_item = |edge: &Edge| edge.kind == EdgeKind::ReadWrite && !single.contains(&(edge.from, edge.to));
    let has_items = |edge: &Edge| edge.kind != EdgeKind::PredicateReadWrite;
    check_circles(history, &graph, has_items, is_item, Anomaly::G2Item, &mut findings);
    let is_predicate =
        |edge: &Edge| edge.kind == EdgeKind::PredicateReadWrite && !single.contains(&(edge.from, edge.to));
    check_circles(history, &graph, |_| true, is_predicate, Anomaly::G2, &mut findings);
    findings
}

fn check_reads(history: &History, findings: &mut Findings) {
    for txn in history.txns.iter().filter(|txn| txn.fate == Fate::Committed) {
        for read in &txn.reads {
            let (anomaly, writer, what) = match read.seen {
                ReadVersion::At(_) => continue,
                ReadVersion::Intermediate(writer) => (Anomaly::G1b, writer, "replaced itself"),
                ReadVersion::Undone(writer) => (Anomaly::G1a, writer, "undid"),
            };
            let writer = &history.txns[writer].name;
            findings.found(anomaly, 1, || {
                format!("{} read key {} in a version that {writer} {what}\n", txn.name, read.key)
            });
        }
    }
}

/// Counts the components over the edges that `keep` keeps, with the shortest cycle of each that has a `start`.
fn check_circles(
    history: &History,
    graph: &Graph,
    keep: impl Fn(&Edge) -> bool,
    start: impl Fn(&Edge) -> bool,
    anomaly: Anomaly,
    findings: &mut Findings,
) {
    let components = graph.components(&keep);
    let inside = |edge: &Edge| components[edge.from] != ALONE && components[edge.from] == components[edge.to];
    let mut shortest: BTreeMap<usize, (usize, Option<Vec<Edge>>)> = BTreeMap::new();
    for edge in graph.edges.iter().flatten().filter(|edge| start(edge) && inside(edge)) {
        let (starts, best) = shortest.entry(components[edge.from]).or_default();
        *starts += 1;
        if STARTS_MAX < *starts {
            continue;
        }
        let back = graph.way(edge.to, edge.from, |other| keep(other) && inside(other));
        let mut circle = vec![*edge];
        circle.extend(back.expect("both ends of an edge inside a component reach each other"));
        if best.as_ref().is_none_or(|best| circle.len() < best.len()) {
            *best = Some(circle);
        }
    }
    for circle in shortest.into_values().filter_map(|(_, circle)| circle) {
        findings.found(anomaly, circle.len(), || words(history, &circle));
    }
}

/// Finds the anti-dependencies that close a cycle alone, and returns the pairs that have one.
fn check_singles(
    history: &History,
    graph: &Graph,
    findings: &mut Findings,
) -> std::collections::HashSet<(usize, usize)> {
    let components = graph.components(|_| true);
    let mut pairs = std::collections::HashSet::new();
    for edge in graph.edges.iter().flatten().filter(|edge| edge.kind.is_anti()) {
        let together = components[edge.from] != ALONE && components[edge.from] == components[edge.to];
        if !together || !graph.may_lead(edge.to, edge.from) {
            continue;
        }
        let keep = |other: &Edge| {
            matches!(other.kind, EdgeKind::WriteWrite | EdgeKind::WriteRead)
                && components[other.to] == components[edge.from]
                && graph.may_lead(other.to, edge.from)
        };
        let Some(back) = graph.way(edge.to, edge.from, keep) else { continue };
        pairs.insert((edge.from, edge.to));
        let is_loss = |back: &Edge| back.kind == EdgeKind::WriteWrite && back.key == edge.key && back.to == edge.from;
        let lost = edge.kind == EdgeKind::ReadWrite && graph.edges[edge.to].iter().any(is_loss);
        let anomaly = if lost { Anomaly::LostUpdate } else { Anomaly::GSingle };
        let circle = [&[*edge][..], &back].concat();
        findings.found(anomaly, circle.len(), || words(history, &circle));
    }
    pairs
}
