//! Succession of primaries: decides which of the servers that say that they are the primary is the primary.
//!
//! A timeline begins with each promotion, so of one cluster the server on the latest timeline counts, and one on an
//! earlier timeline is *fenced*: it was left behind, and what it acknowledged would be lost. After a split brain the
//! later timeline may be the one that is given up. No server can know that, so an administrator accepts one: later
//! timelines that were seen are set aside, and a promotion after that counts again if it goes on from the accepted one.
//!
//! A number alone does not identify a timeline: a standby that has never heard of the timeline that was set aside takes
//! the same number when it is promoted. So a server's history, where it can be read, decides by the position at which
//! it left the accepted timeline.
//!
//! **Invariant:** of the servers that say that they are the primary, at most one is.

use std::collections::HashMap;
use std::sync::Arc;

/// Report of a server about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ServerReport {
    pub(crate) is_standby: bool,
    /// True if its configuration makes transactions read only.
    pub(crate) is_read_only: bool,
    /// Identifier of the cluster of which it has a copy.
    pub(crate) system: u64,
    /// Timeline that it writes; 0: none.
    pub(crate) timeline: u32,
    /// Position up to which it has written its log.
    pub(crate) position: u64,
    /// History of the timeline; `None` if it cannot be read.
    pub(crate) history: Option<TimelineHistory>,
}

/// Timelines that led to a server's own, each with the position in the log at which it was left; oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TimelineHistory(Arc<[(u32, u64)]>);

/// Parses a position in the log, such as `16/B374D848`.
pub(crate) fn position(text: &str) -> Option<u64> {
    let (high, low) = text.split_once('/')?;
    Some(u64::from(u32::from_str_radix(high, 16).ok()?) << 32 | u64::from(u32::from_str_radix(low, 16).ok()?))
}

impl TimelineHistory {
    /// Parses a history file.
    pub(crate) fn parse(text: &str) -> Option<TimelineHistory> {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        let of_line = |line: &str| {
            let mut words = line.split_whitespace();
            Some((words.next()?.parse().ok()?, position(words.next()?)?))
        };
        lines.map(of_line).collect::<Option<Vec<_>>>().map(|all| TimelineHistory(all.into()))
    }
}

/// Timeline, as far as it differs from others of its number.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Branch {
    timeline: u32,
    history: Option<TimelineHistory>,
}

/// Timelines of one cluster.
#[derive(Debug, Default)]
struct Cluster {
    /// Latest timeline that counts.
    latest: u32,
    /// Timelines that servers have reported as primaries.
    seen: Vec<Branch>,
    chosen: Option<AcceptedServer>,
}

/// Server that an administrator has accepted, in its state at that time.
#[derive(Debug)]
struct AcceptedServer {
    node: usize,
    name: Arc<str>,
    branch: Branch,
    position: u64,
    /// Timelines that were given up for it.
    set_aside: Vec<Branch>,
}

/// Maximum number of timelines of a cluster that are remembered. Each is a promotion.
const SEEN_MAX: usize = 256;

/// Verdict about a server that says that it is the primary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The server is the only primary.
    Primary,
    /// Another server has gone on, on this timeline.
    LeftBehind { latest: u32 },
    /// An administrator has accepted the server of this name, on this timeline, and the judged server does not continue
    /// that timeline.
    SetAside { for_whom: Arc<str>, timeline: u32 },
    /// The server of this number was there first.
    Second { first: usize },
}

/// All timelines that were seen, and the accepted servers, by cluster.
#[derive(Debug, Default)]
pub(crate) struct Succession(HashMap<u64, Cluster>);

impl Branch {
    fn of(said: &ServerReport) -> Branch {
        Branch { timeline: said.timeline, history: said.history.clone() }
    }

    /// Position at which another timeline has left this one, directly or on its way.
    fn left_by(&self, later: &Branch) -> Option<u64> {
        let TimelineHistory(path) = later.history.as_ref()?;
        let end = match &self.history {
            Some(TimelineHistory(own)) => path.strip_prefix(&**own)?.first(),
            // Only its number is known.
            None => path.iter().find(|(timeline, _)| *timeline == self.timeline),
        };
        end.filter(|(timeline, _)| *timeline == self.timeline).map(|&(_, end)| end)
    }

    /// True if both may be the same timeline.
    fn may_be(&self, other: &Branch) -> bool {
        let is_same = self.history.is_none() || other.history.is_none() || self.history == other.history;
        self.timeline == other.timeline && is_same
    }

    /// True if it is neither the other timeline nor one of its ancestors.
    fn is_beside(&self, other: &Branch) -> bool {
        !self.may_be(other) && self.left_by(other).is_none()
    }

    fn note(&self, among: &mut Vec<Branch>) {
        if !among.contains(self) {
            if SEEN_MAX <= among.len() {
                among.remove(0);
            }
            among.push(self.clone());
        }
    }
}

impl AcceptedServer {
    /// True if a server's timeline is the accepted one, or goes on from it.
    fn admits(&self, node: usize, branch: &Branch) -> bool {
        if branch.may_be(&self.branch) {
            return node == self.node;
        }
        if branch.history.is_none() {
            let is_new = self.set_aside.iter().all(|aside| aside.timeline < branch.timeline);
            return self.branch.timeline < branch.timeline && (is_new || node == self.node);
        }
        let is_set_aside = self.set_aside.iter().any(|aside| aside.may_be(branch) || aside.left_by(branch).is_some());
        // The server has everything that the accepted server had.
        !is_set_aside && self.branch.left_by(branch).is_some_and(|end| self.position <= end)
    }
}

impl Succession {
    /// Judges a server that says that it is the primary, beside the current primaries.
    pub(crate) fn judge<'s>(
        &mut self,
        node: usize,
        said: &ServerReport,
        primaries: impl Iterator<Item = (usize, &'s ServerReport)>,
    ) -> Verdict {
        let cluster = self.0.entry(said.system).or_default();
        let branch = Branch::of(said);
        branch.note(&mut cluster.seen);
        if let Some(chosen) = &mut cluster.chosen
            && !chosen.admits(node, &branch)
        {
            if branch.is_beside(&chosen.branch) {
                branch.note(&mut chosen.set_aside);
            }
            return Verdict::SetAside { for_whom: Arc::clone(&chosen.name), timeline: chosen.branch.timeline };
        }
        cluster.latest = cluster.latest.max(said.timeline);
        if said.timeline < cluster.latest {
            return Verdict::LeftBehind { latest: cluster.latest };
        }
        // The server that was there first is the primary, unless this one has gone on from it.
        let is_earlier = |other: &ServerReport| other.system == said.system && other.timeline < said.timeline;
        let mut rivals = primaries.filter(|&(number, other)| number != node && !is_earlier(other));
        rivals.next().map_or(Verdict::Primary, |(first, _)| Verdict::Second { first })
    }

    /// Accepts a server with this report, for an administrator. Returns the latest timeline of all.
    pub(crate) fn accept(&mut self, node: usize, name: &Arc<str>, said: &ServerReport) -> u32 {
        let cluster = self.0.entry(said.system).or_default();
        let branch = Branch::of(said);
        let latest = cluster.seen.iter().map(|seen| seen.timeline).max().unwrap_or(0);
        // The ancestors of its timeline were left behind in any case.
        let set_aside = cluster.seen.iter().filter(|seen| seen.is_beside(&branch)).cloned().collect();
        cluster.latest = said.timeline;
        cluster.chosen =
            Some(AcceptedServer { node, name: Arc::clone(name), branch, position: said.position, set_aside });
        latest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: usize = 0;
    const B: usize = 1;
    const C: usize = 2;

    /// Report from a timeline, with this position and history; without a history, it cannot be read.
    fn on(timeline: u32, position: u64, history: Option<&str>) -> ServerReport {
        let history = history.map(|text| TimelineHistory::parse(text).expect("a history"));
        ServerReport { system: 7, timeline, position, history, ..ServerReport::default() }
    }

    fn alone(succession: &mut Succession, node: usize, said: &ServerReport) -> Verdict {
        succession.judge(node, said, std::iter::empty())
    }

    fn set_aside(timeline: u32) -> Verdict {
        Verdict::SetAside { for_whom: "a".into(), timeline }
    }

    #[test]
    fn histories_are_read() {
        let text = "1\t0/3000060\tno recovery target specified\n\n# ours\n2\t16/B374D848\tbefore 2000-01-01\n";
        let read = TimelineHistory::parse(text).expect("a history");
        assert_eq!(*read.0, [(1, 0x0300_0060), (2, 0x16_b374_d848)]);
        assert_eq!(TimelineHistory::parse(""), Some(TimelineHistory::default()));
        for wrong in ["x\t0/1", "1", "1\t3000060", "1\t0/x", "1\t1/100000000"] {
            assert_eq!(TimelineHistory::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn the_latest_timeline_counts() {
        let mut succession = Succession::default();
        let (three, four) = (on(3, 90, None), on(4, 95, None));
        assert_eq!(alone(&mut succession, A, &three), Verdict::Primary);
        // Of two servers on one timeline, or of two clusters, the first counts.
        assert_eq!(succession.judge(B, &three, [(A, &three)].into_iter()), Verdict::Second { first: A });
        let other = ServerReport { system: 8, ..three.clone() };
        assert_eq!(succession.judge(B, &other, [(A, &three)].into_iter()), Verdict::Second { first: A });
        assert_eq!(succession.judge(B, &four, [(A, &three)].into_iter()), Verdict::Primary);
        // The verdict stays to the end, though the later server has gone.
        assert_eq!(alone(&mut succession, A, &three), Verdict::LeftBehind { latest: 4 });
        assert_eq!(alone(&mut succession, B, &four), Verdict::Primary);
        assert_eq!(alone(&mut succession, B, &other), Verdict::Primary);
    }

    /// Where no history can be read, numbers decide.
    #[test]
    fn an_accepted_server_is_the_primary_up_to_a_later_timeline() {
        let mut succession = Succession::default();
        let (three, four) = (on(3, 90, None), on(4, 95, None));
        alone(&mut succession, B, &four);
        assert_eq!(alone(&mut succession, A, &three), Verdict::LeftBehind { latest: 4 });
        assert_eq!(succession.accept(A, &"a".into(), &three), 4);
        assert_eq!(alone(&mut succession, A, &three), Verdict::Primary);
        // The other one comes back. A second server of the same timeline is not the one that was accepted.
        assert_eq!(alone(&mut succession, B, &four), set_aside(3));
        assert_eq!(alone(&mut succession, C, &three), set_aside(3));
        assert_eq!(alone(&mut succession, A, &three), Verdict::Primary);
        // The accepted server is promoted itself, or another one to a later timeline than any that was seen.
        assert_eq!(alone(&mut succession, A, &on(4, 99, None)), Verdict::Primary);
        assert_eq!(alone(&mut succession, C, &on(5, 99, None)), Verdict::Primary);
        assert_eq!(alone(&mut succession, A, &three), Verdict::LeftBehind { latest: 5 });
        assert_eq!(alone(&mut succession, B, &four), set_aside(3));
    }

    /// The accepted server is on timeline 3 at 100; 4 was seen, which had left 3 at 90.
    #[test]
    fn a_promotion_counts_if_it_goes_on_from_what_was_accepted() {
        let before = "1 0/20\n2 0/50\n";
        let with = |more: &str| format!("{before}{more}");
        let (three, four) = (on(3, 0x100, Some(before)), on(4, 0x130, Some(&with("3 0/90"))));
        let begin = || {
            let mut succession = Succession::default();
            alone(&mut succession, B, &four);
            succession.accept(A, &"a".into(), &three);
            succession
        };
        // Not even 4 goes on from it, if the accepted server has written nothing since.
        let mut succession = Succession::default();
        alone(&mut succession, B, &four);
        succession.accept(A, &"a".into(), &on(3, 0x90, Some(before)));
        assert_eq!(alone(&mut succession, B, &four), set_aside(3));
        assert_eq!(alone(&mut succession, B, &on(5, 0x140, Some(&with("3 0/90\n4 0/135")))), set_aside(3));
        assert_eq!(alone(&mut succession, C, &on(5, 0x140, Some(&with("3 0/90")))), Verdict::Primary);
        // A second server on the accepted timeline changes nothing for those that go on from it.
        let mut succession = begin();
        assert_eq!(alone(&mut succession, C, &three), set_aside(3));
        assert_eq!(alone(&mut succession, C, &on(5, 0x140, Some(&with("3 0/100")))), Verdict::Primary);
        // A child of 4, of any number, lacks data of the accepted one.
        let mut succession = begin();
        let five = on(5, 0x140, Some(&with("3 0/90\n4 0/135")));
        assert_eq!(alone(&mut succession, B, &five), set_aside(3));
        assert_eq!(alone(&mut succession, A, &three), Verdict::Primary);
        // A standby of the accepted one takes the number that was set aside, and is not the server that had it.
        let other_four = on(4, 0x110, Some(&with("3 0/105")));
        assert_eq!(alone(&mut succession, C, &other_four), Verdict::Primary);
        assert_eq!(alone(&mut succession, A, &three), Verdict::LeftBehind { latest: 4 });
        assert_eq!(alone(&mut succession, B, &four), set_aside(3));
        // A child of that one goes on as well.
        let six = on(6, 0x120, Some(&with("3 0/105\n4 0/118")));
        assert_eq!(alone(&mut succession, A, &six), Verdict::Primary);
        assert_eq!(alone(&mut succession, C, &other_four), Verdict::LeftBehind { latest: 6 });
        // A child of 3 that lacks some of the data is for the administrator to judge, and so is another timeline 3.
        let mut succession = begin();
        for short in [with("3 0/fc"), "1 0/20\n2 0/40\n3 0/200".to_owned(), "3 0/200".to_owned(), String::new()] {
            assert_eq!(alone(&mut succession, C, &on(5, 0x200, Some(&short))), set_aside(3), "{short}");
        }
        // The administrator changes the decision.
        assert_eq!(succession.accept(B, &"b".into(), &four), 5);
        assert_eq!(alone(&mut succession, B, &four), Verdict::Primary);
        let verdict = alone(&mut succession, A, &three);
        assert_eq!(verdict, Verdict::SetAside { for_whom: "b".into(), timeline: 4 });
        assert_eq!(alone(&mut succession, B, &five), Verdict::Primary);
    }
}
