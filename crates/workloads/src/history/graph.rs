//! Dependencies between transactions: Adya's direct serialization graph.
//!
//! **Invariant:** an edge says that its first transaction comes before its second in every serial order that explains
//! the history; so a history is serializable if the graph has no cycle.

use super::model::{Fate, History, Predicate, Read, ReadVersion, TxnIndex};
use std::fmt::Write as _;

/// Reason why one transaction comes before another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EdgeKind {
    /// The second replaced a version of the first.
    WriteWrite,
    /// The second inserted a key that the first had deleted. To PostgreSQL and to the engine these are two rows: the
    /// snapshot of the second may still have the old one beside its own, so this edge makes no lost update.
    Reuse,
    /// The second read a version that the first wrote, or found a row missing because of the first.
    WriteRead,
    /// The second replaced a version that the first read.
    ReadWrite,
    /// The second made a row fulfil a predicate that the first had looked for without finding the row.
    PredicateReadWrite,
}

impl EdgeKind {
    /// True if the edge is an anti-dependency.
    pub fn is_anti(self) -> bool {
        matches!(self, EdgeKind::ReadWrite | EdgeKind::PredicateReadWrite)
    }

    /// True if the second wrote after the first, and knew it.
    pub fn is_write(self) -> bool {
        matches!(self, EdgeKind::WriteWrite | EdgeKind::Reuse)
    }
}

/// Dependency between two transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Edge {
    /// Transaction that comes first.
    pub from: TxnIndex,
    /// Transaction that comes second.
    pub to: TxnIndex,
    /// Reason of the dependency.
    pub kind: EdgeKind,
    /// Key of the version concerned.
    pub key: usize,
    /// Predicate that the reader had looked for, if it did not find the row.
    pub missed: Option<Predicate>,
}

/// Graph of a history's committed transactions.
pub(super) struct Graph {
    /// Edges of each transaction to others, several between two if there are several reasons.
    pub(super) edges: Vec<Vec<Edge>>,
    /// Position of each transaction in the order of commits. A reader has the position of the last transaction whose
    /// writes it read.
    ranks: Vec<usize>,
    /// True if only anti-dependencies lead back in that order, so that a search for a path to a transaction need not
    /// look behind it.
    forward: bool,
}

impl Graph {
    pub(super) fn new(history: &History) -> Graph {
        let count = history.txns.len();
        let mut graph = Graph { edges: vec![Vec::new(); count], ranks: vec![0; count], forward: true };
        for (key, versions) in history.keys.iter().enumerate() {
            versions.iter().filter_map(|version| version.writer).for_each(|writer| graph.ranks[writer] = writer);
            for pair in versions.windows(2) {
                if let (Some(from), Some(to)) = (pair[0].writer, pair[1].writer) {
                    let kind = if pair[0].content.is_some() { EdgeKind::WriteWrite } else { EdgeKind::Reuse };
                    graph.add(Edge { from, to, kind, key, missed: None });
                }
            }
        }
        let is_writer: Vec<bool> = graph.ranks.iter().enumerate().map(|(at, rank)| at == *rank).collect();
        for (reader, txn) in history.txns.iter().enumerate() {
            if txn.fate == Fate::Committed {
                txn.reads.iter().for_each(|read| graph.add_read(history, reader, read));
            }
        }
        let is_read = |edge: &&Edge| edge.kind == EdgeKind::WriteRead;
        for edge in graph.edges.iter().flatten().filter(is_read).filter(|edge| !is_writer[edge.to]) {
            graph.ranks[edge.to] = graph.ranks[edge.to].max(edge.from);
        }
        let mut dependencies = graph.edges.iter().flatten().filter(|edge| !edge.kind.is_anti());
        graph.forward = dependencies.all(|edge| graph.ranks[edge.from] <= graph.ranks[edge.to]);
        graph
    }

    /// Returns true if a path over dependencies that are no anti-dependencies may lead through `between` to `to`.
    pub(super) fn may_lead(&self, between: TxnIndex, to: TxnIndex) -> bool {
        !self.forward || self.ranks[between] <= self.ranks[to]
    }

    fn add_read(&mut self, history: &History, reader: TxnIndex, read: &Read) {
        let ReadVersion::At(at) = read.seen else { return };
        let Read { key, missed, .. } = *read;
        let versions = &history.keys[key];
        let (before, after, kind) = match missed {
            None => (Some(at), Some(at + 1), EdgeKind::ReadWrite),
            Some(predicate) => {
                // The decisive transactions are the one that made the key miss the predicate, and the first that made
                // it fulfil the predicate again.
                let holds = |version: usize| predicate.holds(key, versions[version].content);
                let before = (1..=at).rev().find(|version| holds(*version) != holds(version - 1));
                let after = (at + 1..versions.len()).find(|version| holds(*version));
                (before, after, EdgeKind::PredicateReadWrite)
            }
        };
        if let Some(from) = before.and_then(|before| versions[before].writer) {
            self.add(Edge { from, to: reader, kind: EdgeKind::WriteRead, key, missed });
        }
        if let Some(to) = after.and_then(|after| versions.get(after)?.writer) {
            self.add(Edge { from: reader, to, kind, key, missed });
        }
    }

    fn add(&mut self, edge: Edge) {
        let edges = &mut self.edges[edge.from];
        let same = |other: &Edge| (other.to, other.kind, other.key) == (edge.to, edge.kind, edge.key);
        if edge.from != edge.to && !edges.iter().any(same) {
            edges.push(edge);
        }
    }

    /// Returns the strongly connected component of each transaction, over the edges that `keep` keeps, and [`ALONE`]
    /// for a transaction alone in its component. Tarjan (1972), without recursion.
    pub(super) fn components(&self, keep: impl Fn(&Edge) -> bool) -> Vec<usize> {
        const NEW: usize = usize::MAX;
        let count = self.edges.len();
        let (mut index, mut low, mut on_stack) = (vec![NEW; count], vec![0; count], vec![false; count]);
        let mut component = vec![ALONE; count];
        let (mut stack, mut next) = (Vec::new(), 0);
        for root in 0..count {
            if index[root] != NEW {
                continue;
            }
            // The explicit path takes the place of the recursion's stack: a node, and its next edge to follow.
            let mut path = vec![(root, 0)];
            while let Some((node, edge)) = path.last_mut() {
                let node = *node;
                if *edge == 0 {
                    (index[node], low[node], on_stack[node]) = (next, next, true);
                    next += 1;
                    stack.push(node);
                }
                let Some(followed) = self.edges[node].get(*edge) else {
                    path.pop();
                    if let Some((parent, _)) = path.last() {
                        low[*parent] = low[*parent].min(low[node]);
                    }
                    if low[node] == index[node] {
                        // The node is the root of a component: its members are above it on the stack.
                        let alone = stack.last() == Some(&node);
                        loop {
                            let member = stack.pop().expect("the root of a component is on the stack");
                            on_stack[member] = false;
                            component[member] = if alone { ALONE } else { node };
                            if member == node {
                                break;
                            }
                        }
                    }
                    continue;
                };
                *edge += 1;
                if keep(followed) && index[followed.to] == NEW {
                    path.push((followed.to, 0));
                } else if keep(followed) && on_stack[followed.to] {
                    low[node] = low[node].min(index[followed.to]);
                }
            }
        }
        component
    }

    /// Returns the shortest path from one transaction to another over the edges that `keep` keeps.
    pub(super) fn way(&self, from: TxnIndex, to: TxnIndex, keep: impl Fn(&Edge) -> bool) -> Option<Vec<Edge>> {
        let mut came: std::collections::HashMap<TxnIndex, Option<Edge>> = [(from, None)].into();
        let mut queue = std::collections::VecDeque::from([from]);
        while let Some(node) = queue.pop_front() {
            if node == to {
                let mut way = Vec::new();
                let mut at = to;
                while let Some(edge) = came[&at] {
                    way.push(edge);
                    at = edge.from;
                }
                way.reverse();
                return Some(way);
            }
            for edge in self.edges[node].iter().filter(|edge| keep(edge)) {
                if let std::collections::hash_map::Entry::Vacant(vacant) = came.entry(edge.to) {
                    vacant.insert(Some(*edge));
                    queue.push_back(edge.to);
                }
            }
        }
        None
    }
}

/// Component of a transaction that is in no cycle.
pub(super) const ALONE: usize = usize::MAX;

/// Describes a cycle in words, one line for each edge.
pub(super) fn words(history: &History, cycle: &[Edge]) -> String {
    let name = |txn: TxnIndex| &history.txns[txn].name;
    let mut words = String::new();
    for edge in cycle {
        let (from, to, key) = (name(edge.from), name(edge.to), edge.key);
        let _ = match (edge.kind, edge.missed) {
            (EdgeKind::WriteWrite, _) => writeln!(words, "{from} wrote key {key}, and {to} replaced that"),
            (EdgeKind::Reuse, _) => writeln!(words, "{from} deleted key {key}, and {to} inserted it again"),
            (EdgeKind::WriteRead, None) => writeln!(words, "{from} wrote key {key}, and {to} read that"),
            (EdgeKind::WriteRead, Some(predicate)) => {
                writeln!(words, "{from} took key {key} from {predicate}, and {to} did not find it there")
            }
            (_, None) => writeln!(words, "{from} read key {key} in a version that {to} replaced"),
            (_, Some(predicate)) => {
                writeln!(words, "{from} looked for {predicate} and did not find key {key}, which {to} put there")
            }
        };
    }
    words
}
