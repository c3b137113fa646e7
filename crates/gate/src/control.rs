//! The controller: finds the lowest limit that costs almost nothing, and keeps it (section 4.3 of the paper).
//!
//! It starts at the limit that the models propose, observes, and moves. The paper leaves these questions open; the
//! answers here are:
//!
//! - *Length of an observation.* A hundred transactions prove nothing when C² is 15. An observation is over when it is
//!   as precise as the thresholds require, by its own spread; so it takes as long as necessary.
//! - *The next limit.* A curve through the observed points proposes: first the best limit, as losses are counted from
//!   there, then the lowest that is good enough. Observations decide: a limit is chosen when it was observed to keep
//!   the thresholds and one directly below it was observed not to.
//! - *Representative observations.* When transactions wait nearly always, throughput depends on the limit. When the
//!   limit binds seldom, throughput says nothing, but throughput at each number of active transactions does (it is the
//!   same curve), and the mean response is judged by the model of section 4.2, at the measured load and C².
//! - *Restarts.* The search starts again when an observation at the chosen limit no longer agrees with the earlier
//!   ones.
//! - *A host with other loads.* An observation that is less precise than the loss a limit may cost moves nothing. From
//!   then on, and whenever a limit that was held no longer performs as it did, limits are compared in alternating
//!   phases, so that both see the same host: a search by ratios. It begins with no limit, or compares the limit that is
//!   held with none. A comparison that does not distinguish its limits moves nothing, either: the limit held is one
//!   that was observed to keep the thresholds, never one that was only tried. The next search waits so long that all
//!   searches together cost a hundredth at most.
//!
//! **Invariant:** a decision follows from the observations since the load last changed, and each is in the log with its
//! reason.

mod curve;
mod forecast;
mod journal;
mod pairs;
mod search;

pub use curve::Curve;
pub use forecast::{Forecast, LimitForecast};
pub use journal::{Move, Reason};

use crate::gate::{Gate, Moments, Observation};
use crate::model::{Network, Response};
use crate::settings::ClassId;
use crate::time::Time;
use curve::Point;
use pairs::{PHASE_COMPLETIONS, PairedComparison};
use search::{LimitRange, Search, TriedLimit};
use std::collections::VecDeque;
use std::time::Duration;

/// Goal of the controller, and the losses that it accepts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Goal {
    /// The lowest limit that keeps both thresholds.
    Lowest {
        /// Largest loss of throughput, as a share of the best.
        loss_max: f64,
        /// Largest increase of the mean response, as a share of the best.
        increase_max: f64,
    },
    /// The limit at which this class responds soonest.
    BestFor(ClassId),
}

/// Settings of a controller.
#[derive(Clone, Debug, PartialEq)]
pub struct ControlSettings {
    /// Goal of the search.
    pub goal: Goal,
    /// Lowest limit that the controller tries.
    pub mpl_min: u32,
    /// Highest limit that the controller tries.
    pub mpl_max: u32,
    /// Database as a network of stations, if it is known: the search starts from it. Without it, as many balanced
    /// stations as there are processors and disks, two at least.
    pub model: Option<Network>,
    /// Shortest observation.
    pub observation_min: Duration,
    /// Longest observation, however imprecise it is; pauses of the load do not count.
    pub observation_max: Duration,
}

impl Goal {
    /// Returns the loss of throughput that counts. In a closed system with clients that do not think, responses grow as
    /// throughput falls: the stricter threshold counts.
    fn loss(&self) -> f64 {
        match self {
            Goal::Lowest { loss_max, increase_max } => loss_max.min(1.0 - 1.0 / (1.0 + increase_max)) * USED,
            Goal::BestFor(_) => RESPONSE_PRECISION,
        }
    }

    fn is_lowest(&self) -> bool {
        matches!(self, Goal::Lowest { .. })
    }
}

impl Default for ControlSettings {
    fn default() -> ControlSettings {
        ControlSettings {
            goal: Goal::Lowest { loss_max: 0.05, increase_max: 0.05 },
            mpl_min: 1,
            mpl_max: 200,
            model: None,
            observation_min: Duration::from_secs(1),
            observation_max: Duration::from_secs(20),
        }
    }
}

/// Completions that an observation needs before anything is concluded from it.
pub const COMPLETIONS_MIN: u64 = 400;
/// Share of the thresholds that is used: the rest is for the error of an observation.
const USED: f64 = 0.9;
/// Precision required of an observation, over the allowed loss.
const PRECISION: f64 = 0.08;
/// Part of the loss beyond which the uncertainty of an observation makes it inconclusive by itself.
const CERTAIN: f64 = 0.5;
/// Number of half widths of its interval by which a limit may fall short before more precision is unnecessary.
const SURELY: f64 = 3.0;
/// C² from which on a load counts as varied: the effect of short transactions, which finish first after each change of
/// the limit, then outweighs the host's changes between two phases, and limits are observed for longer instead of
/// compared in turn.
const VARIED: f64 = 4.0;
/// Factor over the interval that C² alone explains, up to which an interval is ascribed to the load itself.
const OWN: f64 = 1.5;
/// Precision required of an observation of a varied load, over the allowed loss.
const PRECISION_VARIED: f64 = 0.25;
/// Precision required of a class's mean response.
const RESPONSE_PRECISION: f64 = 0.1;
/// Multiple of the shortest observation after which an observation is checked for whether it can become precise enough.
const HOPE: u32 = 3;
/// Largest C² that prolongs an observation.
const C2_MAX: f64 = 20.0;
/// Completions needed of a phase that has taken as long as an observation may.
const PHASE_COMPLETIONS_MIN: u64 = 50;
/// Waits before the next search by ratios: the first one, the one after a search that ended where it began, and the
/// longest.
const REST: [Duration; 3] = [Duration::from_secs(60), Duration::from_secs(4 * 60), Duration::from_secs(16 * 60)];
/// Share of the throughput over time that searches by ratios may cost.
const COST: f64 = 0.01;
/// Part of the longest observation after which a search begins no comparison: the limit known by then is held.
const SEARCH_MAX: f64 = 0.25;
/// Number of moves that the log keeps.
const MOVES_KEPT: usize = 256;

/// Phase of the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The controller tries limits.
    Searching,
    /// The controller has found a limit, and checks whether it stays good.
    Holding,
}

/// Times at which the next search by ratios may begin.
#[derive(Clone, Copy, Debug)]
struct RestTimes {
    /// Time if the limit no longer performs as it did.
    changed: Time,
    /// Time if nothing has changed: an observation of one limit does not tell the present throughput of others, and now
    /// and then a comparison is wrong.
    same: Time,
    /// Length of this rest, the part for the cost left out.
    length: Duration,
}

/// Controller of the multiprogramming limit.
#[derive(Clone, Debug)]
pub struct Controller {
    settings: ControlSettings,
    /// Model of the database, as far as it was learned. It gives the start of the search, and forecasts; it does not
    /// guide the search: a device that serves several transactions at a time looks like a slow one from the outside
    /// while few are inside, and a search that believed it would never try more.
    learned: Option<Network>,
    phase: Phase,
    /// Observations at the limits tried since the load last changed.
    tried: Vec<TriedLimit>,
    /// True if the search compares limits in turn, so that the limits tried are known by ratios.
    in_turn: bool,
    /// Comparison under way.
    comparing: Option<PairedComparison>,
    /// True if the held limit was found by ratios: its next observation tells its throughput.
    is_new: bool,
    /// Limit that was held when the search began.
    held: Option<u32>,
    /// Times at which the next search by ratios may begin, after one.
    rest: Option<RestTimes>,
    /// True if the search by ratios has compared the held limit with no limit.
    guarded: bool,
    /// Time at which the search by ratios began, and the seconds of throughput that its comparisons have cost.
    began: Time,
    cost: f64,
    /// Curve of the load before: its shape is the best guess for the next one's.
    before: Option<Curve>,
    moves: VecDeque<Move>,
    observations: u64,
    /// Work of the transactions of the last observation, and of all phases of the comparison under way. (Short
    /// transactions finish first in each phase: a phase alone would suggest that all are short.)
    work: Moments,
    /// Throughput of the last observation, in transactions per second.
    rate: f64,
    /// Number of completions at which the present observation is looked at next.
    next_look: u64,
    has_begun: bool,
}

impl Controller {
    /// Creates a controller without observations.
    pub fn new(settings: ControlSettings) -> Controller {
        let (phase, tried, moves) = (Phase::Searching, Vec::new(), VecDeque::new());
        Controller {
            settings,
            learned: None,
            phase,
            tried,
            in_turn: false,
            comparing: None,
            is_new: false,
            held: None,
            rest: None,
            guarded: false,
            began: Time::ZERO,
            cost: 0.0,
            before: None,
            work: Moments::default(),
            rate: 0.0,
            moves,
            observations: 0,
            next_look: COMPLETIONS_MIN,
            has_begun: false,
        }
    }

    /// Returns the settings of the controller.
    pub fn settings(&self) -> &ControlSettings {
        &self.settings
    }

    /// Sets the model of the database, as learned by now. A model in [`ControlSettings::model`] takes precedence.
    pub fn know_model(&mut self, model: Network) {
        self.learned = Some(model);
    }

    fn model(&self) -> Option<&Network> {
        self.settings.model.as_ref().or(self.learned.as_ref())
    }

    /// Returns the phase of the controller.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Returns the number of observations used.
    pub fn observations(&self) -> u64 {
        self.observations
    }

    /// Returns the moves with their reasons, the latest last.
    pub fn moves(&self) -> impl Iterator<Item = &Move> {
        self.moves.iter()
    }

    /// Returns throughput against the limit, as far as it is known.
    pub fn curve(&self) -> Option<Curve> {
        Curve::through(&self.with_guesses(self.points()))
    }

    /// Returns the limit that the model proposes, before any observation.
    pub fn start(&self, processors: u32) -> u32 {
        let keep = match self.settings.goal {
            Goal::Lowest { loss_max, .. } => 1.0 - loss_max * USED,
            Goal::BestFor(_) => 0.8,
        };
        let network = match self.model() {
            Some(network) => Ok(network.clone()),
            // This many processors are one station, and there is a log or a disk.
            None => Network::balanced(2),
        };
        let least = network.and_then(|network| network.least_mpl(keep)).unwrap_or(20);
        let least = u32::try_from(least).unwrap_or(u32::MAX);
        self.clamp(least.max(processors))
    }

    fn clamp(&self, mpl: u32) -> u32 {
        mpl.clamp(self.settings.mpl_min, self.settings.mpl_max.max(self.settings.mpl_min))
    }

    /// Looks at the gate, and moves its limit if the observation calls for it. To be called now and then, some hundred
    /// times in an observation; it costs nothing until one is over. Returns true if one was.
    pub fn look(&mut self, now: Time, gate: &mut Gate) -> bool {
        let Some(seen) = self.observed(now, gate) else { return false };
        let mpl = self.decide(now, &seen, gate.settings().processors);
        self.steer(now, gate, mpl);
        true
    }

    /// Returns the gate's observation, if one is over: the first part of [`Controller::look`], for callers that must
    /// not hold up the gate during the rest of the computation.
    pub fn observed(&mut self, now: Time, gate: &mut Gate) -> Option<Observation> {
        if !self.has_begun {
            // An empty system fills first.
            self.has_begun = true;
            gate.observe_anew(now, 2 * gate.mpl());
            return None;
        }
        if gate.observed() < self.next_look {
            return None;
        }
        // Looking all the time and stopping when the observation seems precise would stop when it only seems so.
        self.next_look = gate.observed() + gate.observed() / 4;
        let seen = gate.observation();
        if !self.is_enough(&seen, gate.settings().processors) {
            return None;
        }
        self.next_look = match self.comparing {
            Some(_) => PHASE_COMPLETIONS,
            None => COMPLETIONS_MIN,
        };
        Some(seen)
    }

    /// Returns the limit that follows from an observation. Models may take seconds.
    pub fn decide(&mut self, now: Time, seen: &Observation, processors: u32) -> u32 {
        let mut noted = journal::ObservationSummary::from(seen);
        (self.work, self.rate) = (self.work_with(seen), seen.throughput.mean);
        if let Some(pairs) = &mut self.comparing {
            if seen.stands_for(processors).is_none() && !pairs.is_filled(seen.mpl, seen.crowd()) {
                // The load pauses, or begins; or the limit no longer holds anything back, and there is nothing to
                // compare: then the limit is the one from before, and not the one that was to be tried.
                if pairs.skip() {
                    self.next_look = PHASE_COMPLETIONS;
                    return pairs.limit();
                }
                let known = pairs.known();
                self.tried.clear();
                (self.comparing, self.in_turn, self.rest, self.next_look) = (None, false, None, COMPLETIONS_MIN);
                self.note(Move { at: now, from: seen.mpl, to: known, reason: Reason::NotBound, seen: noted });
                return known;
            }
            let loss = self.settings.goal.loss();
            let Some(compared) = pairs.add(seen.throughput.mean, seen.worked.as_secs_f64(), loss) else {
                self.next_look = PHASE_COMPLETIONS;
                return pairs.limit();
            };
            noted.throughput.half_width = compared.half_width;
            self.cost += compared.cost;
            if self.held == Some(compared.known) && compared.known < compared.other {
                // A check that the limit is still good is short, and leaves time for another comparison.
                self.began = now;
            }
            if !compared.is_known {
                self.comparing = None;
                let unsure = Reason::Unsure { half_width: compared.half_width, wanted: loss };
                // Where a limit seems to cost more than it may, no limit is the safe side of the doubt.
                let costs = compared.known < compared.other && 1.0 < compared.ratio * (1.0 - loss);
                let mpl = if costs { compared.other } else { self.lowest_known(compared.known) };
                if costs {
                    // The values of the other limits were measured against one that counts no more; the next
                    // observation tells the throughput of this one.
                    let known = self.tried.iter().find(|tried| tried.mpl == compared.known);
                    self.tried = known.map(|known| known.clone().into_unit(mpl)).into_iter().collect();
                }
                self.hold(now, mpl);
                self.next_look = COMPLETIONS_MIN;
                self.note(Move { at: now, from: seen.mpl, to: mpl, reason: unsure, seen: noted });
                return mpl;
            }
            let known = self.tried.iter().find(|tried| tried.mpl == compared.known);
            if let Some(other) = known.map(|known| known.compared(&compared)) {
                self.tried.retain(|tried| tried.mpl != compared.other);
                self.tried.push(other);
                self.tried.sort_by_key(|tried| tried.mpl);
            }
        }
        let (mpl, reason) = match self.comparing.take() {
            Some(_) if self.in_turn => self.search(now, seen.mpl, seen, processors),
            _ => self.conclude(now, seen, processors),
        };
        self.next_look = if self.comparing.is_some() { PHASE_COMPLETIONS } else { COMPLETIONS_MIN };
        self.note(Move { at: now, from: seen.mpl, to: mpl, reason, seen: noted });
        mpl
    }

    /// Records the end of an observation, with this outcome.
    fn note(&mut self, moved: Move) {
        self.observations += 1;
        self.moves.push_back(moved);
        if MOVES_KEPT < self.moves.len() {
            self.moves.pop_front();
        }
    }

    /// Makes the gate keep this limit, and observe anew. After a change of the limit nothing is observed until the
    /// newly admitted transactions are as far with their work as those that stayed: of many that begin at once the
    /// short ones leave first, so a higher limit seems to do more, and a lower one, under which the long ones are left
    /// over, less. The remaining work of a transaction inside is (1 + C²) / 2 times the mean (the mean residual life of
    /// renewal theory: Kleinrock, Queueing Systems, volume 1, section 5.2).
    pub fn steer(&self, now: Time, gate: &mut Gate, mpl: u32) {
        if mpl == gate.mpl() {
            return gate.observe_anew(now, 0);
        }
        let inside = f64::from(gate.slots().max(mpl));
        gate.set_mpl(now, mpl);
        let residual = inside * f64::midpoint(1.0, self.work.c2().clamp(1.0, C2_MAX));
        // No longer than a part of the longest observation.
        let most = self.rate * self.settings.observation_max.as_secs_f64() * SEARCH_MAX;
        gate.observe_anew(now, residual.min(most.max(inside)) as u32);
    }

    /// Returns the work of the transactions from which variability is estimated.
    fn work_with(&self, seen: &Observation) -> Moments {
        if self.comparing.is_some() { self.work.and(&seen.demand) } else { seen.demand }
    }

    /// Returns true if an observation is as precise as it must be, or has taken as long as it may.
    fn is_enough(&self, seen: &Observation, processors: u32) -> bool {
        let is_varied = self.phase == Phase::Searching && self.is_varied(seen);
        // A load that pauses has shown nothing meanwhile.
        let has_lasted = self.longest(seen, is_varied) <= seen.worked;
        if self.comparing.is_some() {
            // After a change of the limit the short transactions leave first, and the long ones stay: where few do most
            // of the work, that favours the higher limit until many have come and gone. (C² of no samples is NaN.)
            let completions = PHASE_COMPLETIONS as f64 * self.work_with(seen).c2().clamp(1.0, C2_MAX);
            let is_phase = completions <= seen.completions as f64 && self.settings.observation_min <= seen.lasted;
            return is_phase || (has_lasted && PHASE_COMPLETIONS_MIN <= seen.completions);
        }
        if seen.completions < COMPLETIONS_MIN || seen.lasted < self.settings.observation_min {
            return false;
        }
        let is_precise = match (self.settings.goal, seen.stands_for(processors)) {
            (Goal::Lowest { loss_max, increase_max }, Some(_)) => {
                let loss = loss_max.min(increase_max);
                let share = if is_varied { PRECISION_VARIED } else { PRECISION };
                seen.throughput.half_width <= self.wanted(seen, share, loss) || self.is_hopeless(seen, loss, is_varied)
            }
            // The conclusion then rests on the load and on C², which are known sooner.
            (Goal::Lowest { loss_max, increase_max }, None) => {
                seen.response.half_width <= 10.0 * PRECISION * loss_max.min(increase_max)
            }
            (Goal::BestFor(class), _) => {
                let response = seen.classes[class.index()].response;
                // Twice as wide as if they were independent, which they are not.
                COMPLETIONS_MIN as f64 <= response.count()
                    && 4.0 * (response.c2() / response.count()).sqrt() <= RESPONSE_PRECISION
            }
        };
        is_precise || has_lasted
    }

    /// Returns the width of the interval required of an observation: a share of the loss, or more if the limit falls
    /// short by much more.
    fn wanted(&self, seen: &Observation, share: f64, loss: f64) -> f64 {
        (share * loss).max(self.shortfall(seen, loss) / SURELY)
    }

    /// Returns true if transactions differ by so much, and the host by so little, that only many of them tell the
    /// throughput of a limit. The throughput of n transactions served one after the other, or together, has the
    /// variance C² / n.
    fn is_varied(&self, seen: &Observation) -> bool {
        let c2 = self.work_with(seen).c2();
        let own = 2.0 * (c2 / seen.completions as f64).sqrt();
        self.comparing.is_none() && VARIED <= c2 && seen.throughput.half_width <= OWN * own
    }

    /// Returns the longest time of an observation. A varied load needs C² times as many transactions.
    fn longest(&self, seen: &Observation, is_varied: bool) -> Duration {
        let times = if is_varied { self.work_with(seen).c2().min(C2_MAX) } else { 1.0 };
        self.settings.observation_max.mul_f64(times)
    }

    /// Returns true if no observation of a search can be as precise in its time as required, because the host is
    /// unsteady or little is done: more observations, or limits compared in turn, tell more, and sooner. An interval
    /// becomes narrower with the root of the time.
    fn is_hopeless(&self, seen: &Observation, loss: f64, is_varied: bool) -> bool {
        let share = if is_varied { CERTAIN } else { PRECISION };
        let takes = seen.worked.as_secs_f64() * (seen.throughput.half_width / self.wanted(seen, share, loss)).powi(2);
        let can_turn = self.phase == Phase::Searching && !self.in_turn;
        can_turn
            && HOPE * self.settings.observation_min <= seen.worked
            && self.longest(seen, is_varied).as_secs_f64() < takes
    }

    /// Returns a reason to stay if the observation is less precise than the loss a limit may cost: then nothing moves.
    fn unsure(&self, seen: &Observation, processors: u32) -> Option<Reason> {
        let half_width = seen.throughput.half_width;
        let loss = match self.settings.goal {
            Goal::Lowest { loss_max, increase_max } => loss_max.min(increase_max),
            Goal::BestFor(_) => return None,
        };
        let wanted = self.wanted(seen, CERTAIN, loss);
        let is_unsure = seen.stands_for(processors).is_some() && wanted < half_width;
        is_unsure.then_some(Reason::Unsure { half_width, wanted })
    }

    /// Returns the throughput missing beyond the allowed loss, as a share of the best that was observed at other
    /// limits.
    fn shortfall(&self, seen: &Observation, loss: f64) -> f64 {
        let others = self.tried.iter().filter(|tried| tried.mpl != seen.mpl);
        let best = others.map(TriedLimit::throughput).fold(0.0, f64::max);
        if best == 0.0 { 0.0 } else { (1.0 - loss - seen.throughput.mean / best).max(0.0) }
    }

    /// Returns the conclusion from an observation: the next limit, and the reason.
    fn conclude(&mut self, now: Time, seen: &Observation, processors: u32) -> (u32, Reason) {
        let tried = TriedLimit::of(seen, processors);
        let unsure = self.unsure(seen, processors);
        if self.phase == Phase::Holding {
            let is_new = std::mem::take(&mut self.is_new);
            let is_lowest = self.settings.goal.is_lowest();
            let rest = self.rest.filter(|_| is_lowest);
            let asks_again = rest.is_some_and(|rest| rest.same <= now);
            let before = self.tried.iter_mut().find(|before| before.mpl == tried.mpl);
            let was_bound = before.as_ref().is_some_and(|before| before.is_bound());
            match before {
                Some(_) if is_new => {
                    self.renew(tried);
                    return (seen.mpl, Reason::Stays);
                }
                Some(before) if before.is_like(&tried) && !asks_again => {
                    let mut both = before.clone();
                    both.merge(&tried);
                    self.renew(both);
                    return (seen.mpl, Reason::Stays);
                }
                _ => {}
            }
            // The present throughput of the limit is not known, but it is not the earlier one.
            let observes = is_lowest && self.is_varied(seen);
            let in_turn = asks_again || was_bound && tried.is_bound() && is_lowest && !observes;
            match unsure {
                Some(unsure) if !in_turn && !observes => return (seen.mpl, unsure),
                _ if !asks_again && in_turn && rest.is_some_and(|rest| now < rest.changed) => {
                    return (seen.mpl, unsure.unwrap_or(Reason::Waits));
                }
                _ => {}
            }
            self.before = self.curve();
            if !asks_again {
                self.tried.clear();
            }
            (self.phase, self.guarded) = (Phase::Searching, false);
            (self.in_turn, self.held) = (in_turn, Some(seen.mpl));
            (self.began, self.cost) = (now, 0.0);
            if let Some(unsure) = unsure.filter(|_| !in_turn) {
                // A search observes a varied load for longer.
                return (seen.mpl, unsure);
            }
        }
        let mut mpl = seen.mpl;
        if unsure.is_some() && !self.in_turn {
            // Earlier observations belong to a host that is no longer the same. The limit is the one that was held;
            // where none was, it is one that is never reached, and every other limit has yet to prove its worth.
            self.tried.clear();
            (self.in_turn, self.guarded) = (true, false);
            (self.began, self.cost) = (now, 0.0);
            mpl = self.held.unwrap_or(self.range(seen, processors, true).most);
        }
        match self.tried.iter_mut().find(|before| before.mpl == mpl) {
            Some(_) if self.in_turn => {}
            Some(before) => before.merge(&tried),
            None if self.in_turn => self.tried = vec![tried.into_unit(mpl)],
            None => self.tried.push(tried),
        }
        self.tried.sort_by_key(|tried| tried.mpl);
        self.search(now, mpl, seen, processors)
    }

    /// Returns the next step of the search from this limit, and the reason.
    fn search(&mut self, now: Time, from: u32, seen: &Observation, processors: u32) -> (u32, Reason) {
        if let Some(pairs) = self.guard(seen, processors) {
            let (limit, with) = (pairs.limit(), pairs.other());
            self.comparing = Some(pairs);
            return (limit, Reason::InTurn { with });
        }
        let (mpl, reason) = match self.settings.goal {
            Goal::Lowest { increase_max, .. } => self.lowest(from, seen, increase_max, processors),
            Goal::BestFor(class) => search::best_for(&self.tried, class.index(), self.range(seen, processors, false)),
        };
        let mpl = self.clamp(mpl);
        if reason.is_final() {
            self.hold(now, mpl);
            return (mpl, reason);
        }
        let best = self.tried.iter().max_by(|a, b| a.throughput().total_cmp(&b.throughput()));
        match best.filter(|best| self.in_turn && best.mpl != mpl).map(|best| best.mpl) {
            Some(best) if self.settings.observation_max.mul_f64(SEARCH_MAX) <= now.since(self.began) => {
                let mpl = self.lowest_known(best);
                self.hold(now, mpl);
                (mpl, Reason::Rests)
            }
            Some(best) => {
                let pairs = PairedComparison::new(best, mpl);
                let (limit, with) = (pairs.limit(), mpl);
                self.comparing = Some(pairs);
                (limit, Reason::InTurn { with })
            }
            None => (mpl, reason),
        }
    }

    /// Replaces the values of the held limit by those observed; the values of others are relative to it.
    fn renew(&mut self, held: TriedLimit) {
        let Some(at) = self.tried.iter().position(|tried| tried.mpl == held.mpl) else { return };
        let times = held.throughput() / self.tried[at].throughput();
        self.tried.iter_mut().for_each(|other| other.scale(times));
        self.tried[at] = held;
    }

    /// Begins each search by ratios with a comparison of the held limit and no limit: however the host has changed,
    /// that is the measure.
    fn guard(&mut self, seen: &Observation, processors: u32) -> Option<PairedComparison> {
        if !self.in_turn || std::mem::replace(&mut self.guarded, true) {
            return None;
        }
        let most = self.range(seen, processors, true).most;
        let held = self.tried.iter().find(|tried| Some(tried.mpl) == self.held && tried.is_below(most))?.mpl;
        self.tried.retain(|tried| tried.mpl == held || tried.is_below(most));
        Some(PairedComparison::new(held, most))
    }

    /// Returns the lowest limit that is known to keep the thresholds, in a search by ratios that ends early.
    fn lowest_known(&self, best: u32) -> u32 {
        search::lowest_known(&self.tried, self.loss()).map_or(best, |known| known.mpl)
    }

    /// Returns the loss that a limit may have. In a search by ratios it is known to half of that only, and comparing
    /// costs, too.
    fn loss(&self) -> f64 {
        self.settings.goal.loss() * if self.in_turn { 0.5 } else { 1.0 }
    }

    /// Ends a search, with this limit.
    fn hold(&mut self, now: Time, mpl: u32) {
        self.phase = Phase::Holding;
        let began_here = self.held == Some(mpl);
        self.rest = self.in_turn.then(|| {
            let [first, most, last] = REST;
            let length = self.rest.filter(|_| began_here).map_or(first, |before| (before.length * 2).min(most));
            let repays = Duration::from_secs_f64(self.cost / COST).min(last);
            RestTimes { changed: now.after(first.max(repays)), same: now.after(length.max(repays)), length }
        });
        self.held = Some(mpl);
        self.is_new = std::mem::take(&mut self.in_turn);
    }

    /// Returns the limits that make a difference: one as high as the number of transactions, waiting ones included, is
    /// as good as none.
    fn range(&self, seen: &Observation, processors: u32, in_turn: bool) -> LimitRange {
        // Little's law.
        let present = seen.throughput.mean * seen.response.mean;
        let is_bound = in_turn || seen.stands_for(processors).is_some();
        let useful = if is_bound { present.ceil() as u32 } else { self.settings.mpl_max };
        // Limits that were tried count; in turn, no more than the limits that make a difference.
        let tried = if in_turn { self.held } else { self.tried.iter().map(|tried| tried.mpl).max() };
        LimitRange { least: self.settings.mpl_min, most: useful.max(tried.unwrap_or(1)).min(self.settings.mpl_max) }
    }

    fn lowest(&self, from: u32, seen: &Observation, increase_max: f64, processors: u32) -> (u32, Reason) {
        let loss = self.loss();
        let (points, range) = (self.with_guesses(self.points()), self.range(seen, processors, self.in_turn));
        if self.in_turn || seen.stands_for(processors).is_some() {
            let (curve, hope) = (Curve::through(&points), Curve::without_pairs(&points));
            let search = Search { tried: &self.tried, loss, range, curve, hope };
            return search.next(from, self.start(processors));
        }
        // The cost of the limit is then the time that the short transactions wait for the long ones.
        let Some(curve) = Curve::through(&points) else { return (seen.mpl, Reason::Stays) };
        let load = self.load_of(seen, &curve, processors);
        let model = Response::new(load, seen.demand.c2(), processors);
        match model.and_then(|model| model.least_mpl(increase_max * USED)) {
            Ok(least) => {
                search::settle(seen.mpl, self.clamp(u32::try_from(least).unwrap_or(u32::MAX)), load, seen.demand.c2())
            }
            // No limit costs so little.
            Err(_) => search::settle(seen.mpl, self.settings.mpl_max, load, seen.demand.c2()),
        }
    }

    /// Returns the load as a share of the database's capacity.
    fn load_of(&self, seen: &Observation, curve: &Curve, processors: u32) -> f64 {
        let peak = curve.throughput(curve.peak(self.settings.mpl_max).into());
        let capacity = peak.max(f64::from(processors) / seen.demand.mean().max(f64::MIN_POSITIVE));
        let rate = seen.arrivals as f64 / seen.lasted.as_secs_f64().max(f64::MIN_POSITIVE);
        (rate / capacity).clamp(0.01, forecast::LOAD_MAX)
    }

    /// Returns the observations as points of the curve.
    fn points(&self) -> Vec<Point> {
        self.tried.iter().flat_map(TriedLimit::points).collect()
    }

    /// Adds, with little weight, the points that the model or the load before suggests.
    fn with_guesses(&self, points: Vec<Point>) -> Vec<Point> {
        self.with_guesses_of(self.settings.model.as_ref(), points)
    }

    fn with_guesses_of(&self, model: Option<&Network>, mut points: Vec<Point>) -> Vec<Point> {
        let Some(best) = points.iter().max_by(|a, b| a.throughput.total_cmp(&b.throughput)).copied() else {
            return points;
        };
        const GUESSED: f64 = 0.5;
        let guessed = |n: u32| -> Option<f64> {
            match (&self.before, model) {
                (Some(curve), _) => Some(curve.throughput(n.into())),
                (None, Some(network)) => network.throughput(n as usize).last().copied(),
                (None, None) => Some(f64::from(n) / (f64::from(n) + 1.0)),
            }
        };
        let Some(there) = guessed(best.active.round().max(1.0) as u32) else { return points };
        let prior = [1u32, 4, 16, 64].into_iter().filter_map(|n| {
            Some(Point { active: n.into(), throughput: guessed(n)? / there * best.throughput, half_width: GUESSED })
        });
        points.extend(prior);
        points
    }
}

#[cfg(test)]
mod tests;
