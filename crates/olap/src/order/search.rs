//! Search for the cheapest order of joins: exhaustive for few relations, as in Selinger et al. (SIGMOD 1979) but bushy
//! (Moerkotte and Neumann, VLDB 2006, DPsub); greedy for many, by the next best join (Fegaras, DEXA 1998, GOO).

/// Set of relations, a bit each.
pub(super) type RelationSet = u32;

/// Most relations of one search.
pub(super) const RELATIONS_MAX: usize = RelationSet::BITS as usize;

/// Most relations of an exhaustive search: 9 have 19,683 ways to be split, 0.2 ms.
const ALL_ORDERS_MAX: usize = 9;

/// Most rows of a hashed side that is built once for all partitions. Above that both sides are distributed first.
pub(super) const BUILD_ROWS_MAX: f64 = 131_072.0;

/// Relation to be joined.
#[derive(Debug, Clone)]
pub(super) struct JoinRelation {
    /// Rows after its own conditions.
    pub rows: f64,
    /// True if it certainly has no more than one row, so that it multiplies no rows.
    pub is_one_row: bool,
    /// For a semi or anti join: the relations that must be joined before it, and the share of their rows that it keeps.
    pub decides: Option<(RelationSet, f64)>,
    /// Keys, each as the classes that form it, and the number of its values without conditions.
    pub keys: Vec<(Vec<usize>, f64)>,
}

/// Values that are equal in all joined rows.
#[derive(Debug, Clone, Default)]
pub(super) struct EquivalenceClass {
    /// Relations, and the number of distinct values of each.
    pub members: Vec<(usize, f64)>,
}

/// Relations to be joined, and their conditions.
#[derive(Debug, Clone, Default)]
pub(super) struct JoinProblem {
    pub relations: Vec<JoinRelation>,
    pub classes: Vec<EquivalenceClass>,
    /// Other conditions: the relations that they use, and their selectivities.
    pub conditions: Vec<(RelationSet, f64)>,
}

/// Order of joins.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum JoinOrder {
    Relation(usize),
    /// Join of a hashed side and a probe side, in this order.
    Join(Box<JoinOrder>, Box<JoinOrder>),
}

impl JoinOrder {
    pub(super) fn set(&self) -> RelationSet {
        match self {
            JoinOrder::Relation(at) => 1 << at,
            JoinOrder::Join(build, probe) => build.set() | probe.set(),
        }
    }
}

/// Best known plan for joining a set.
#[derive(Clone, Copy)]
struct BestJoin {
    cost: f64,
    rows: f64,
    /// Side that is hashed; empty for a single relation.
    build: RelationSet,
}

pub(super) fn relations_of(set: RelationSet) -> impl Iterator<Item = usize> {
    (0..RELATIONS_MAX).filter(move |at| set & (1 << at) != 0)
}

impl JoinProblem {
    /// Returns the best order; `None` if the relations are not connected.
    pub(super) fn search(&self) -> Option<JoinOrder> {
        let count = self.relations.len();
        if count <= ALL_ORDERS_MAX { self.search_all() } else { self.search_greedily() }
    }

    fn lone_decider(&self, set: RelationSet) -> Option<RelationSet> {
        if set.count_ones() != 1 {
            return None;
        }
        self.relations[set.trailing_zeros() as usize].decides.map(|(needs, _)| needs)
    }

    /// Returns true if the two sets may be joined now.
    fn may_join(&self, one: RelationSet, two: RelationSet) -> bool {
        match (self.lone_decider(one), self.lone_decider(two)) {
            (Some(_), Some(_)) => false,
            (Some(needs), None) => needs & !two == 0,
            (None, Some(needs)) => needs & !one == 0,
            (None, None) => {
                let connects = |class: &EquivalenceClass| {
                    let has = |set: RelationSet| class.members.iter().any(|(at, _)| set & (1 << at) != 0);
                    has(one) && has(two)
                };
                self.is_one_row(one) || self.is_one_row(two) || self.classes.iter().any(connects)
            }
        }
    }

    fn is_one_row(&self, set: RelationSet) -> bool {
        set.count_ones() == 1 && self.relations[set.trailing_zeros() as usize].is_one_row
    }

    /// Returns the estimated rows of the joined set.
    pub(super) fn rows(&self, set: RelationSet) -> f64 {
        let mut rows = 1.0;
        let mut joined: RelationSet = 0;
        for at in relations_of(set) {
            let relation = &self.relations[at];
            if let Some((_, kept)) = relation.decides {
                rows *= kept;
                continue;
            }
            rows *= relation.rows;
            rows /= self.combinations(joined, at);
            joined |= 1 << at;
        }
        for (looks_at, kept) in &self.conditions {
            if looks_at & !set == 0 && looks_at.count_ones() > 1 {
                rows *= kept;
            }
        }
        rows.max(1.0)
    }

    /// Returns the factor between the combinations and the joined rows, when a relation is joined by all classes that
    /// it shares.
    fn combinations(&self, joined: RelationSet, at: usize) -> f64 {
        let in_set = |class: &EquivalenceClass, set: RelationSet| {
            class.members.iter().any(|(member, _)| set & (1 << member) != 0)
        };
        let mut shared: Vec<usize> = (0..self.classes.len())
            .filter(|class| in_set(&self.classes[*class], joined) && in_set(&self.classes[*class], 1 << at))
            .collect();
        let mut fewer = 1.0;
        // A key of one side matches once, so it divides the combinations by the number of its values.
        for side in std::iter::once(at).chain(relations_of(joined)) {
            for (key, values) in &self.relations[side].keys {
                if !key.is_empty() && key.iter().all(|class| shared.contains(class)) {
                    fewer *= values;
                    shared.retain(|class| !key.contains(class));
                }
            }
        }
        for class in shared {
            let members = &self.classes[class].members;
            let values = |set: RelationSet| {
                let of = members.iter().filter(|(member, _)| set & (1 << member) != 0);
                of.map(|(_, values)| *values).fold(f64::INFINITY, f64::min)
            };
            fewer *= values(joined).max(values(1 << at)).max(1.0);
        }
        fewer
    }

    fn join(
        &self,
        (one, first): (RelationSet, &BestJoin),
        (two, second): (RelationSet, &BestJoin),
        rows: f64,
    ) -> BestJoin {
        let (build, small, large) =
            if first.rows <= second.rows { (one, first.rows, second.rows) } else { (two, second.rows, first.rows) };
        // Hashing a row costs more than a lookup, and distributing both sides as much as a lookup.
        let distributed = if small <= BUILD_ROWS_MAX { 0.0 } else { small + large };
        BestJoin { cost: first.cost + second.cost + 1.5 * small + large + distributed + rows, rows, build }
    }

    fn relation(&self, at: usize) -> BestJoin {
        BestJoin { cost: 0.0, rows: self.relations[at].rows, build: 0 }
    }

    fn search_all(&self) -> Option<JoinOrder> {
        let count = self.relations.len();
        let all: RelationSet = (1 << count) - 1;
        let mut best: Vec<Option<BestJoin>> = vec![None; 1 << count];
        for at in 0..count {
            best[1 << at] = Some(self.relation(at));
        }
        for set in 1..=all {
            if set.count_ones() < 2 {
                continue;
            }
            let lowest = set & set.wrapping_neg();
            let mut rows = None;
            let mut part = (set - 1) & set;
            while part != 0 {
                let other = set ^ part;
                if part & lowest != 0
                    && let (Some(one), Some(two)) = (best[part as usize], best[other as usize])
                    && self.may_join(part, other)
                {
                    let rows = *rows.get_or_insert_with(|| self.rows(set));
                    let way = self.join((part, &one), (other, &two), rows);
                    if best[set as usize].is_none_or(|best| way.cost < best.cost) {
                        best[set as usize] = Some(way);
                    }
                }
                part = (part - 1) & set;
            }
        }
        tree(all, &best)
    }

    fn search_greedily(&self) -> Option<JoinOrder> {
        let mut parts: Vec<(JoinOrder, BestJoin)> =
            (0..self.relations.len()).map(|at| (JoinOrder::Relation(at), self.relation(at))).collect();
        while 1 < parts.len() {
            let mut best: Option<(usize, usize, BestJoin)> = None;
            for one in 0..parts.len() {
                for two in one + 1..parts.len() {
                    let (a, b) = (parts[one].0.set(), parts[two].0.set());
                    if self.may_join(a, b) {
                        let way = self.join((a, &parts[one].1), (b, &parts[two].1), self.rows(a | b));
                        if best.as_ref().is_none_or(|(_, _, best)| way.rows < best.rows) {
                            best = Some((one, two, way));
                        }
                    }
                }
            }
            let (one, two, way) = best?;
            let (second, first) = (parts.remove(two).0, parts.remove(one).0);
            let (build, probe) = if first.set() == way.build { (first, second) } else { (second, first) };
            parts.push((JoinOrder::Join(Box::new(build), Box::new(probe)), way));
        }
        parts.pop().map(|(tree, _)| tree)
    }
}

fn tree(set: RelationSet, best: &[Option<BestJoin>]) -> Option<JoinOrder> {
    let way = best.get(set as usize).copied().flatten()?;
    if way.build == 0 {
        return Some(JoinOrder::Relation(set.trailing_zeros() as usize));
    }
    let (build, probe) = (tree(way.build, best)?, tree(set ^ way.build, best)?);
    Some(JoinOrder::Join(Box::new(build), Box::new(probe)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn relation(rows: f64, key: Option<(usize, f64)>) -> JoinRelation {
        JoinRelation {
            rows,
            is_one_row: false,
            decides: None,
            keys: key.into_iter().map(|(class, values)| (vec![class], values)).collect(),
        }
    }

    fn class(members: &[(usize, f64)]) -> EquivalenceClass {
        EquivalenceClass { members: members.to_vec() }
    }

    /// Returns a chain: a dimension of 5 rows out of 25, 10,000 suppliers, 6 million lines, 1.5 million orders.
    fn chain() -> JoinProblem {
        JoinProblem {
            relations: vec![
                relation(6e6, None),
                relation(1.5e6, Some((0, 1.5e6))),
                relation(1e4, Some((1, 1e4))),
                relation(5.0, Some((2, 25.0))),
            ],
            classes: vec![
                class(&[(0, 1.5e6), (1, 1.5e6)]),
                class(&[(0, 1e4), (2, 1e4)]),
                class(&[(2, 25.0), (3, 25.0)]),
            ],
            conditions: Vec::new(),
        }
    }

    #[test]
    fn a_key_is_found_once() {
        let chain = chain();
        assert_eq!(chain.rows(0b0011), 6e6);
        assert_eq!(chain.rows(0b1100), 2_000.0);
        assert_eq!(chain.rows(0b1111), 1.2e6);
    }

    #[test]
    fn what_makes_few_rows_comes_first_and_is_hashed() {
        let Some(JoinOrder::Join(build, _)) = chain().search() else { panic!("they hang together") };
        let expected = JoinOrder::Join(
            Box::new(JoinOrder::Join(Box::new(JoinOrder::Relation(3)), Box::new(JoinOrder::Relation(2)))),
            Box::new(JoinOrder::Relation(0)),
        );
        assert!(*build == expected || build.set() == 0b0010, "{build:?}");
        let all = chain().search_all().map(|tree| tree.set());
        assert_eq!(all, chain().search_greedily().map(|tree| tree.set()));
    }

    #[test]
    fn who_decides_is_asked_where_it_helps_most() {
        let mut joining = chain();
        joining.relations.push(JoinRelation { decides: Some((0b0010, 1e-4)), ..relation(100.0, None) });
        let tree = joining.search().expect("they hang together");
        fn joined_first(tree: &JoinOrder, set: RelationSet) -> bool {
            match tree {
                JoinOrder::Relation(_) => false,
                JoinOrder::Join(one, two) => tree.set() == set || joined_first(one, set) || joined_first(two, set),
            }
        }
        assert!(joined_first(&tree, 0b1_0010), "{tree:?}");
        assert!(joining.search_greedily().is_some());
    }

    #[test]
    fn who_decides_is_not_asked_without_those_it_needs() {
        let mut joining = chain();
        joining.relations.push(JoinRelation { decides: Some((0b1011, 0.5)), ..relation(1.0, None) });
        let tree = joining.search().expect("they hang together");
        fn side_of_decider(tree: &JoinOrder) -> Option<RelationSet> {
            let JoinOrder::Join(one, two) = tree else { return None };
            match (&**one, &**two) {
                (JoinOrder::Relation(4), other) | (other, JoinOrder::Relation(4)) => Some(other.set()),
                (one, two) => side_of_decider(one).or_else(|| side_of_decider(two)),
            }
        }
        let with = side_of_decider(&tree).expect("it is asked");
        assert_eq!(with & 0b1011, 0b1011);
    }

    #[test]
    fn one_row_goes_with_everything() {
        let mut joining = chain();
        joining.relations.push(relation(1.0, None));
        assert_eq!(joining.search(), None, "about one row may be many");
        joining.relations[4].is_one_row = true;
        assert_eq!(joining.search().map(|tree| tree.set()), Some(0b1_1111));
    }

    #[test]
    fn what_does_not_hang_together_has_no_order() {
        let mut joining = chain();
        joining.classes.pop();
        assert_eq!(joining.search(), None);
        assert_eq!(joining.search_greedily(), None);
    }
}
