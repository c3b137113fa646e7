//! The stage clock of a session.
//!
//! **Invariant:** stages partition the time. A stamp books the time since the last one to the stage that ends, so the
//! sum of all stages is the time in which the session was not at rest, and nothing is counted twice.

use crate::away::AwayTime;
use crate::split::{self, RunPart};
use crate::stages::Stage;
use crate::ticks::TickSource;
use crate::turn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};

/// Clock that a session carries and every layer advances: a stamp is one reading of the time-stamp counter and a few
/// stores. Ends of long stretches of work also read the processor time of their thread, and what is missing there
/// belongs to [`Stage::Preempted`].
///
/// The words are relaxed: only the thread that has the session in hand writes, and the hand-over itself orders them.
#[derive(Debug)]
pub struct StageClock {
    source: TickSource,
    /// Ticks from which on a stretch is long.
    long: u64,
    /// Tick of the last stamp.
    since: AtomicU64,
    position: AtomicU8,
    stamps: AtomicU32,
    passed: [AtomicU64; Stage::COUNT],
    /// True if the parts of the run are measured: see [`crate::split`].
    is_sampled: AtomicBool,
    /// Ticks of these parts.
    parts: [AtomicU64; RunPart::COUNT],
}

/// Stage in which a clock was, for [`StageClock::restore`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position(u8);

/// Position of a session at rest.
const REST: u8 = u8::MAX;
/// Mark of a stage that passes on another thread, or without any.
const AWAY: u8 = 0x40;

impl Position {
    fn stage(self) -> Option<Stage> {
        Stage::ALL.get(usize::from(self.0 & !AWAY)).copied().filter(|_| self.0 != REST)
    }

    /// Returns true if the stage is work of this thread.
    fn is_work_here(self) -> bool {
        self.0 & AWAY == 0 && self.stage().is_some_and(|stage| !stage.is_waiting())
    }
}

/// Times of the stages, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StageTimes {
    ns: [u64; Stage::COUNT],
    /// Times of the parts of a sampled run; 0 otherwise.
    pub parts: [u64; RunPart::COUNT],
    /// Number of stamps.
    pub stamps: u32,
    /// Number of readings of the processor time.
    pub readings: u32,
}

impl StageTimes {
    /// Time of a stage.
    pub fn of(&self, stage: Stage) -> u64 {
        self.ns.get(stage as usize).copied().unwrap_or(0)
    }

    /// Stages that were entered, with their times.
    pub fn iter(&self) -> impl Iterator<Item = (Stage, u64)> + '_ {
        Stage::ALL.into_iter().zip(self.ns).filter(|(_, ns)| 0 < *ns)
    }

    /// Sum of the times of these stages.
    pub fn sum(&self, of: impl Fn(Stage) -> bool) -> u64 {
        self.iter().filter(|(stage, _)| of(*stage)).map(|(_, ns)| ns).sum()
    }
}

impl StageClock {
    /// Creates the clock of a session at rest.
    pub fn new(source: TickSource) -> Arc<StageClock> {
        Arc::new(StageClock {
            long: source.ticks(turn::LONG_NS),
            source,
            since: AtomicU64::new(0),
            position: AtomicU8::new(REST),
            stamps: AtomicU32::new(0),
            passed: [const { AtomicU64::new(0) }; Stage::COUNT],
            is_sampled: AtomicBool::new(false),
            parts: [const { AtomicU64::new(0) }; RunPart::COUNT],
        })
    }

    /// Source of its ticks.
    pub fn source(&self) -> &TickSource {
        &self.source
    }

    /// Returns the present position.
    #[inline]
    pub fn position(&self) -> Position {
        Position(self.position.load(Relaxed))
    }

    /// Ends the present stage and enters this one. Returns the position until now. Entering the present stage costs
    /// nothing.
    #[inline]
    pub fn enter(&self, stage: Stage) -> Position {
        self.go(stage as u8)
    }

    /// Does the same for a stage that passes on another thread, or without any.
    #[inline]
    pub fn enter_away(&self, stage: Stage) -> Position {
        self.go(stage as u8 | AWAY)
    }

    /// Ends the present stage, and goes back to an earlier position.
    #[inline]
    pub fn restore(&self, position: Position) {
        self.go(position.0);
    }

    /// Ends the present stage: it is the client's turn. Time at rest belongs to no stage.
    #[inline]
    pub fn rest(&self) -> Position {
        self.go(REST)
    }

    /// Runs a wait in which this thread sleeps, in a waiting stage of its own, and goes back to the present position. The
    /// thread needs no processor meanwhile, so none is missing.
    pub fn asleep<R>(&self, stage: Stage, wait: impl FnOnce() -> R) -> R {
        let before = self.enter(stage);
        let waited = turn::outside_by(&self.source, wait);
        self.restore(before);
        waited
    }

    #[inline]
    fn go(&self, next: u8) -> Position {
        let before = self.position();
        // A clock that is off stays at rest.
        if before.0 != next && !self.source.is_off() {
            self.stamp(before);
            self.position.store(next, Relaxed);
        }
        before
    }

    #[inline]
    fn stamp(&self, before: Position) {
        let now = self.source.now();
        let since = self.since.load(Relaxed);
        self.since.store(now, Relaxed);
        self.stamps.store(self.stamps.load(Relaxed).wrapping_add(1), Relaxed);
        let Some(word) = self.passed.get(usize::from(before.0 & !AWAY)) else { return };
        let mut passed = now.saturating_sub(since);
        if self.long <= passed && before.is_work_here() {
            let lost = turn::lost(&self.source, now, passed);
            self.add(Stage::Preempted, lost);
            passed -= lost;
        }
        word.store(word.load(Relaxed) + passed, Relaxed);
    }

    fn add(&self, stage: Stage, ticks: u64) {
        if let Some(word) = self.passed.get(stage as usize) {
            word.store(word.load(Relaxed) + ticks, Relaxed);
        }
    }

    fn words(&self) -> [u64; Stage::COUNT] {
        std::array::from_fn(|at| self.passed.get(at).map_or(0, |word| word.load(Relaxed)))
    }

    fn times(&self, (stamps, readings): (u32, u32)) -> StageTimes {
        let ns = self.words().map(|ticks| if ticks == 0 { 0 } else { self.source.ns(ticks) });
        let parts = match self.is_sampled() {
            true => self.parts.each_ref().map(|ticks| self.source.ns(ticks.load(Relaxed))),
            false => [0; RunPart::COUNT],
        };
        StageTimes { ns, parts, stamps, readings }
    }

    /// Returns true if the parts of the run are measured.
    #[inline]
    pub fn is_sampled(&self) -> bool {
        self.is_sampled.load(Relaxed)
    }

    /// Sets whether the parts of the run are measured.
    #[inline]
    pub fn sample(&self, is_sampled: bool) {
        let is_sampled = is_sampled && !self.source.is_off();
        self.is_sampled.store(is_sampled, Relaxed);
        if is_sampled {
            self.parts.iter().for_each(|word| word.store(0, Relaxed));
        }
    }

    /// Begins to measure the parts of the run on this thread, if they are measured.
    #[inline]
    pub fn begin_parts(&self) {
        if self.is_sampled() {
            split::begin();
        }
    }

    /// Ends that, and adds the parts.
    #[inline]
    pub fn end_parts(&self) {
        if self.is_sampled() {
            self.add_parts(split::end());
        }
    }

    fn add_parts(&self, parts: [u64; RunPart::COUNT]) {
        for (word, ticks) in self.parts.iter().zip(parts) {
            word.store(word.load(Relaxed) + ticks, Relaxed);
        }
    }

    /// Returns the times of the stages that have ended since the last [`StageClock::take`].
    pub fn ended(&self) -> StageTimes {
        if self.source.is_off() {
            return StageTimes::default();
        }
        self.times((self.stamps.load(Relaxed), 0))
    }

    /// Takes the times of the stages that have ended. The present stage goes on.
    pub fn take(&self) -> StageTimes {
        if self.source.is_off() {
            return StageTimes::default();
        }
        let (turns, readings) = turn::take_counts();
        let times = self.times((self.stamps.load(Relaxed).wrapping_add(turns), readings));
        self.stamps.store(0, Relaxed);
        self.passed.iter().for_each(|word| word.store(0, Relaxed));
        if self.is_sampled() {
            self.parts.iter().for_each(|word| word.store(0, Relaxed));
        }
        times
    }

    /// Returns the times since the last [`StageClock::take`], the present stage up to now included.
    pub fn so_far(&self) -> StageTimes {
        if !self.source.is_off() {
            self.stamp(self.position());
        }
        self.ended()
    }

    /// Lends the session to another thread: until [`StageClock::take_back`], that one advances a clock of its own, which
    /// begins in [`Stage::Dispatch`] and knows the times so far. This clock is in [`Stage::Run`], and may be advanced as
    /// well: what it books is not the other thread's.
    pub fn lend(&self) -> LentClock {
        self.enter_away(Stage::Run);
        let (before, clock) = (self.words(), StageClock::new(self.source.clone()));
        for (word, ticks) in clock.passed.iter().zip(before) {
            word.store(ticks, Relaxed);
        }
        clock.since.store(self.since.load(Relaxed), Relaxed);
        clock.position.store(Stage::Dispatch as u8, Relaxed);
        clock.sample(self.is_sampled());
        LentClock { clock, before }
    }

    /// Ends the loan: the time that this clock has booked to [`Stage::Run`] meanwhile is divided as the other thread says.
    /// The rest is the wait until the session was told of the end.
    pub fn take_back(&self, lent: &LentClock) {
        self.enter(Stage::Run);
        let LentClock { clock, before } = lent;
        let booked = |word: Option<&AtomicU64>| word.map_or(0, |word| word.load(Relaxed));
        let run_before = before.get(Stage::Run as usize).copied().unwrap_or(0);
        let mut left = booked(self.passed.get(Stage::Run as usize)).saturating_sub(run_before);
        // The other thread may have taken time out of the run that had been booked before the loan.
        left += run_before.saturating_sub(booked(clock.passed.get(Stage::Run as usize)));
        self.take_from_run(left);
        for (stage, before) in Stage::ALL.into_iter().zip(before) {
            let spent = booked(clock.passed.get(stage as usize)).saturating_sub(*before).min(left);
            self.add(stage, spent);
            left -= spent;
        }
        self.add(Stage::Dispatch, left);
        if self.is_sampled() {
            self.add_parts(clock.parts.each_ref().map(|word| word.load(Relaxed)));
        }
        let stamps = self.stamps.load(Relaxed).wrapping_add(clock.stamps.load(Relaxed));
        self.stamps.store(stamps, Relaxed);
    }

    /// Books time of [`Stage::Run`] in which other threads were in stored code to [`Stage::Crossing`], and to
    /// [`Stage::CrossingWait`] if all of them slept. Books no more than the run has.
    pub fn take_out_of_run(&self, code: &AwayTime) {
        let (worked, slept) = code.ticks();
        if worked + slept == 0 || self.source.is_off() {
            return;
        }
        self.stamp(self.position());
        for (stage, ticks) in [(Stage::Crossing, worked), (Stage::CrossingWait, slept)] {
            let run = self.passed.get(Stage::Run as usize).map_or(0, |word| word.load(Relaxed));
            let ticks = ticks.min(run);
            self.take_from_run(ticks);
            self.add(stage, ticks);
        }
    }

    /// Takes ticks out of [`Stage::Run`].
    fn take_from_run(&self, ticks: u64) {
        if let Some(word) = self.passed.get(Stage::Run as usize) {
            word.store(word.load(Relaxed).saturating_sub(ticks), Relaxed);
        }
    }
}

/// Clock of a session that is lent to another thread.
#[derive(Debug)]
pub struct LentClock {
    /// Clock that the other thread advances.
    pub clock: Arc<StageClock>,
    /// Ticks at the begin.
    before: [u64; Stage::COUNT],
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ticks::ManualTicks;
    use crate::turn::JobTurn;

    fn manual() -> (Arc<ManualTicks>, TickSource) {
        let manual = ManualTicks::new();
        (Arc::clone(&manual), TickSource::Manual(manual))
    }

    #[test]
    fn stages_partition_the_time() {
        let (time, source) = manual();
        let clock = StageClock::new(source);
        // Time before the first stage, and at rest, belongs to nobody.
        time.pass(77);
        let mut whole = 0;
        for (at, stage) in Stage::ALL.into_iter().cycle().take(40).enumerate() {
            clock.enter(stage);
            time.run_for(at as u64);
            whole += at as u64;
        }
        clock.rest();
        time.pass(1_000);
        let times = clock.take();
        assert_eq!((times.sum(|_| true), times.stamps), (whole, 41));
        assert_eq!(times.of(Stage::NetworkRead), 16 + 32);
        assert_eq!(clock.take().sum(|_| true), 0);
    }

    #[test]
    fn entering_the_present_stage_is_no_stamp() {
        let (time, source) = manual();
        let clock = StageClock::new(source);
        clock.enter(Stage::Run);
        time.run_for(5);
        let before = clock.enter(Stage::Run);
        time.run_for(5);
        clock.enter(Stage::NetworkWrite);
        time.run_for(2);
        assert_eq!(clock.so_far().of(Stage::NetworkWrite), 2);
        clock.restore(before);
        time.run_for(1);
        let times = clock.so_far();
        assert_eq!((times.of(Stage::Run), times.of(Stage::NetworkWrite)), (11, 2));
    }

    #[test]
    fn time_without_a_processor_is_split_off() {
        let (time, source) = manual();
        let clock = StageClock::new(source.clone());
        turn::begin(&source);
        clock.enter(Stage::Decode);
        time.run_for(30_000);
        clock.enter(Stage::Run);
        time.run_for(60_000);
        // The thread loses its processor.
        time.pass(2_000_000);
        time.run_for(10_000);
        clock.enter(Stage::Encode);
        time.run_for(90_000);
        clock.enter(Stage::LockWait);
        time.pass(500_000);
        clock.rest();
        turn::end(&source);
        let times = clock.take();
        assert_eq!(times.of(Stage::Preempted), 2_000_000);
        assert_eq!((times.of(Stage::Run), times.of(Stage::Encode)), (70_000, 90_000));
        assert_eq!((times.of(Stage::Decode), times.of(Stage::LockWait)), (30_000, 500_000));
    }

    #[test]
    fn waits_for_events_are_not_preempted_time() {
        let (time, source) = manual();
        let clock = StageClock::new(source.clone());
        for _ in 0..20 {
            turn::begin(&source);
            clock.enter(Stage::Run);
            time.run_for(60_000);
            clock.rest();
            turn::end(&source);
            // The wait itself costs processor time, too.
            time.run_for(3_000);
            time.pass(700_000);
        }
        let times = clock.take();
        assert_eq!((times.of(Stage::Run), times.of(Stage::Preempted)), (20 * 60_000, 0));
    }

    #[test]
    fn a_thread_that_sleeps_for_code_is_not_preempted() {
        let (time, source) = manual();
        let clock = StageClock::new(source.clone());
        turn::begin(&source);
        clock.enter(Stage::Run);
        time.run_for(40_000);
        let before = clock.enter(Stage::Crossing);
        time.run_for(60_000);
        clock.asleep(Stage::CrossingWait, || time.pass(50_000_000));
        // A call of the engine.
        time.run_for(1_000);
        let crossing = clock.enter(Stage::Run);
        time.run_for(70_000);
        clock.restore(crossing);
        clock.asleep(Stage::CrossingWait, || time.pass(10_000_000));
        // The thread loses its processor.
        time.run_for(80_000);
        time.pass(3_000_000);
        clock.restore(before);
        time.run_for(90_000);
        clock.rest();
        turn::end(&source);
        let times = clock.take();
        assert_eq!((times.of(Stage::CrossingWait), times.of(Stage::Preempted)), (60_000_000, 3_000_000));
        assert_eq!((times.of(Stage::Run), times.of(Stage::Crossing)), (200_000, 141_000));
        assert_eq!(times.sum(|_| true), 63_341_000);
    }

    #[test]
    fn a_clock_without_a_turn_books_sleep() {
        let (time, source) = manual();
        let clock = StageClock::new(source);
        clock.enter(Stage::Crossing);
        clock.asleep(Stage::CrossingWait, || time.pass(7_000));
        time.run_for(5);
        assert_eq!((clock.so_far().of(Stage::CrossingWait), clock.so_far().of(Stage::Crossing)), (7_000, 5));
    }

    #[test]
    fn work_of_other_threads_is_taken_out_of_the_run() {
        let (time, source) = manual();
        let clock = StageClock::new(source.clone());
        let work = AwayTime::new(source);
        clock.enter_away(Stage::Run);
        time.pass(100);
        work.begin();
        time.pass(30);
        // A second thread counts once.
        work.begin();
        time.pass(30);
        work.end();
        time.pass(30);
        // One thread sleeps; the other works, and sleeps as well.
        work.asleep(|| {
            time.pass(7);
            work.begin();
            time.pass(20);
            work.asleep(|| time.pass(5));
            work.end();
            time.pass(1);
        });
        work.end();
        time.pass(100);
        clock.enter(Stage::Run);
        clock.take_out_of_run(&work);
        let times = clock.so_far();
        assert_eq!(times.of(Stage::Run), 200);
        assert_eq!((times.of(Stage::Crossing), times.of(Stage::CrossingWait)), (90 + 20, 7 + 5 + 1));
    }

    #[test]
    fn a_clock_that_is_off_books_nothing() {
        let clock = StageClock::new(TickSource::Off);
        turn::begin(&TickSource::Off);
        clock.enter(Stage::Decode);
        clock.sample(true);
        let lent = clock.lend();
        lent.clock.enter(Stage::Run);
        clock.take_back(&lent);
        clock.enter(Stage::NetworkWrite);
        turn::end(&TickSource::Off);
        assert_eq!((clock.so_far(), clock.take()), (StageTimes::default(), StageTimes::default()));
        assert!(!clock.is_sampled());
    }

    #[test]
    fn a_lent_session_has_one_time_line() {
        let (time, source) = manual();
        let clock = StageClock::new(source.clone());
        clock.enter(Stage::Decode);
        time.run_for(100);
        let lent = clock.lend();
        time.pass(2_000);
        {
            let _turn = JobTurn::begin(source);
            lent.clock.enter(Stage::PlanCached);
            time.run_for(50);
            lent.clock.enter(Stage::Run);
            time.run_for(100_000);
            time.pass(9_000);
            assert_eq!(lent.clock.so_far().of(Stage::Decode), 100);
            lent.clock.rest();
        }
        time.pass(3_000);
        clock.take_back(&lent);
        time.run_for(7);
        clock.enter(Stage::Encode);
        let times = clock.take();
        assert_eq!((times.of(Stage::Decode), times.of(Stage::PlanCached)), (100, 50));
        assert_eq!((times.of(Stage::Dispatch), times.of(Stage::Run)), (5_000, 100_007));
        assert_eq!(times.of(Stage::Preempted), 9_000);
        assert_eq!(times.sum(|_| true), 100 + 2_000 + 50 + 109_000 + 3_000 + 7);
    }

    #[test]
    fn a_loan_takes_out_of_the_run_before_it() {
        let (time, source) = manual();
        let clock = StageClock::new(source.clone());
        let code = AwayTime::new(source);
        clock.enter(Stage::Decode);
        time.run_for(10);
        clock.enter_away(Stage::Run);
        code.begin();
        code.asleep(|| time.pass(500));
        time.run_for(40);
        code.end();
        clock.enter(Stage::Unattributed);
        time.run_for(2);
        let lent = clock.lend();
        time.pass(20);
        lent.clock.enter(Stage::Run);
        time.run_for(3);
        lent.clock.take_out_of_run(&code);
        lent.clock.rest();
        time.pass(7);
        clock.take_back(&lent);
        clock.rest();
        let times = clock.take();
        assert_eq!((times.of(Stage::Crossing), times.of(Stage::CrossingWait)), (40, 500));
        assert_eq!((times.of(Stage::Run), times.of(Stage::Dispatch)), (3, 27));
        assert_eq!(times.sum(|_| true), 582);
    }

    #[test]
    fn what_is_booked_during_a_loan_stays_booked() {
        let (time, source) = manual();
        let clock = StageClock::new(source);
        clock.enter(Stage::Decode);
        let lent = clock.lend();
        lent.clock.enter(Stage::Run);
        time.run_for(1_000);
        // Rows are sent while others are made.
        let before = clock.enter(Stage::Encode);
        time.run_for(300);
        clock.restore(before);
        time.run_for(200);
        lent.clock.rest();
        clock.take_back(&lent);
        clock.rest();
        let times = clock.take();
        assert_eq!((times.of(Stage::Run), times.of(Stage::Encode)), (1_200, 300));
        assert_eq!(times.sum(|_| true), 1_500);
    }
}
