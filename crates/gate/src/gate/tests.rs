//! Scripts of arrivals and departures, and random ones held against what must always be so.

mod pools;

use super::*;
use crate::settings::{AdmissionOrder, ClassSettings, Reaction, Runaway, SlotLimit};
use proptest::prelude::*;
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);

/// A gate and a clock.
struct Rig {
    gate: Gate,
    now: Time,
}

impl Rig {
    fn new(mpl: u32) -> Rig {
        Rig::with(mpl, |_| {})
    }

    fn with(mpl: u32, change: impl FnOnce(&mut GateSettings)) -> Rig {
        let mut settings = GateSettings::of_priorities(mpl);
        change(&mut settings);
        Rig { gate: Gate::new(settings).expect("these settings are right"), now: Time::ZERO }
    }

    fn class(&self, name: &str) -> ClassId {
        self.gate.settings().class(name).expect("there is such a class")
    }

    fn pass(&mut self, time: Duration) {
        self.now = self.now.after(time);
        self.gate.tick(self.now);
    }

    fn arrive(&mut self, class: &str) -> (Ticket, Entrance) {
        self.arrive_as(Arrival::new(self.class(class)))
    }

    fn arrive_as(&mut self, arrival: Arrival) -> (Ticket, Entrance) {
        self.now = self.now.after(Duration::from_nanos(1));
        self.gate.arrive(self.now, arrival).expect("nobody is turned away")
    }

    fn leave(&mut self, ticket: Ticket) -> Vec<Ticket> {
        self.gate.leave(self.now, ticket, Ending::Done);
        self.admitted()
    }

    fn events(&mut self) -> Vec<Event> {
        std::iter::from_fn(|| self.gate.next_event()).collect()
    }

    fn admitted(&mut self) -> Vec<Ticket> {
        let tickets = self.events().into_iter().filter_map(|event| match event {
            Event::Admitted(ticket) => Some(ticket),
            _ => None,
        });
        tickets.collect()
    }
}

#[test]
fn as_many_as_the_limit_go_in_and_the_important_go_first() {
    let mut rig = Rig::new(2);
    let (first, entrance) = rig.arrive("low");
    assert_eq!(entrance, Entrance::In);
    let (second, entrance) = rig.arrive("low");
    assert_eq!(entrance, Entrance::In);
    let (low, entrance) = rig.arrive("low");
    assert_eq!(entrance, Entrance::Waits);
    let (normal, _) = rig.arrive("normal");
    let (high, _) = rig.arrive("high");
    assert_eq!(rig.gate.whereabouts(low).map(|at| at.ahead), Some(2));
    assert_eq!(rig.leave(first), [high]);
    assert_eq!(rig.leave(high), [normal]);
    assert_eq!(rig.leave(normal), [low]);
    assert_eq!(rig.leave(second), []);
    assert_eq!(rig.gate.view().slots, 1);
}

#[test]
fn one_that_gives_up_is_passed_over() {
    let mut rig = Rig::new(1);
    let (inside, _) = rig.arrive("normal");
    let (gone, _) = rig.arrive("normal");
    let (next, _) = rig.arrive("normal");
    assert_eq!(rig.leave(gone), []);
    assert_eq!(rig.leave(inside), [next]);
    assert_eq!(rig.gate.view().counters.given_up, 1);
    // A ticket is good for one transaction.
    assert_eq!(rig.leave(gone), []);
    assert_eq!(rig.gate.view().slots, 1);
}

#[test]
fn a_higher_limit_lets_in_and_a_lower_one_waits_for_some_to_leave() {
    let mut rig = Rig::new(1);
    let all: Vec<Ticket> = (0..4).map(|_| rig.arrive("normal").0).collect();
    rig.gate.set_mpl(rig.now, 3);
    assert_eq!(rig.admitted(), all[1..3]);
    rig.gate.set_mpl(rig.now, 1);
    assert_eq!(rig.leave(all[0]), []);
    assert_eq!(rig.leave(all[1]), []);
    assert_eq!(rig.leave(all[2]), [all[3]]);
}

#[test]
fn who_rests_lends_its_slot_after_a_time_and_comes_back_before_all_others() {
    let mut rig = Rig::with(1, |settings| settings.lend_after = Some(MS * 10));
    let (resting, _) = rig.arrive("low");
    let (second, _) = rig.arrive("low");
    let (third, _) = rig.arrive("low");
    rig.gate.rest(rig.now, resting);
    rig.pass(MS * 9);
    assert_eq!(rig.admitted(), []);
    rig.pass(MS * 2);
    assert_eq!(rig.admitted(), [second]);
    assert_eq!(rig.gate.resume(rig.now, resting), Entrance::Waits);
    assert_eq!(rig.leave(second), [resting]);
    assert_eq!(rig.leave(resting), [third]);
    assert_eq!(rig.gate.view().counters.lent, 1);
}

#[test]
fn who_comes_back_in_time_has_its_slot() {
    let mut rig = Rig::with(1, |settings| settings.lend_after = Some(MS * 10));
    let (resting, _) = rig.arrive("low");
    rig.arrive("high");
    for _ in 0..100 {
        rig.gate.rest(rig.now, resting);
        rig.pass(MS * 9);
        assert_eq!(rig.gate.resume(rig.now, resting), Entrance::In);
    }
    assert_eq!(rig.admitted(), []);
}

#[test]
fn who_comes_back_and_finds_all_slots_held_gets_an_extra_one() {
    let mut rig = Rig::with(1, |settings| settings.return_patience = MS * 5);
    let (resting, _) = rig.arrive("low");
    let (holder, _) = rig.arrive("low");
    rig.gate.rest(rig.now, resting);
    rig.pass(MS * 200);
    assert_eq!(rig.admitted(), [holder]);
    assert_eq!(rig.gate.resume(rig.now, resting), Entrance::Waits);
    rig.pass(MS * 6);
    assert_eq!(rig.events(), [Event::Extra(resting), Event::Admitted(resting)]);
    let view = rig.gate.view();
    assert_eq!((view.slots, view.extras, view.counters.extra), (2, 1, 1));
    // It goes with who had it.
    let (waiting, _) = rig.arrive("high");
    assert_eq!(rig.leave(resting), []);
    assert_eq!(rig.leave(holder), [waiting]);
    assert_eq!(rig.gate.view().extras, 0);
}

#[test]
fn a_client_that_waits_for_its_own_second_transaction_gets_it() {
    let mut rig = Rig::new(2);
    let own = |class| Arrival { owner: 7, ..Arrival::new(class) };
    let other = |class| Arrival { owner: 8, ..Arrival::new(class) };
    let (low, high) = (rig.class("low"), rig.class("high"));
    // Both inside are stuck; the first in line is somebody else.
    rig.arrive_as(own(high));
    rig.arrive_as(other(high));
    rig.arrive_as(Arrival { owner: 9, ..Arrival::new(high) });
    let (second, _) = rig.arrive_as(own(low));
    rig.pass(MS * 900);
    assert_eq!(rig.admitted(), []);
    rig.pass(MS * 200);
    assert_eq!(rig.admitted(), [second]);
}

#[test]
fn nobody_gets_an_extra_slot_while_somebody_inside_is_known_to_run() {
    let mut rig = Rig::with(2, |settings| settings.knows_stalls = true);
    let (runs, _) = rig.arrive("low");
    let (stuck, _) = rig.arrive("low");
    let (waits, _) = rig.arrive("low");
    rig.gate.stall(rig.now, stuck, true);
    rig.pass(MS * 5_000);
    assert_eq!(rig.admitted(), []);
    rig.gate.stall(rig.now, runs, true);
    rig.pass(MS * 1_100);
    assert_eq!(rig.admitted(), [waits]);
}

#[test]
fn who_waits_for_itself_gets_an_extra_slot_at_once() {
    let mut rig = Rig::with(2, |settings| settings.knows_stalls = true);
    let low = rig.class("low");
    let own = Arrival { owner: 7, ..Arrival::new(low) };
    let (blocker, _) = rig.arrive_as(own);
    rig.gate.rest(rig.now, blocker);
    // A long one, which has nothing to do with it, and one that waits for the blocker.
    rig.arrive("low");
    rig.pass(MS * 50);
    rig.gate.blocks(rig.now, blocker);
    let (stuck, entrance) = rig.arrive("low");
    assert_eq!(entrance, Entrance::Waits);
    rig.pass(MS * 60);
    assert_eq!(rig.admitted(), [stuck]);
    rig.gate.stall(rig.now, stuck, true);
    let (other, _) = rig.arrive_as(Arrival { owner: 8, ..Arrival::new(rig.class("high")) });
    // Its client is only slow, as far as is known.
    rig.gate.blocks(rig.now, blocker);
    assert_eq!(rig.events(), []);
    let [(second, _), (third, _)] = [rig.arrive_as(own), rig.arrive_as(own)];
    for _ in 0..3 {
        rig.gate.blocks(rig.now, blocker);
    }
    // One is enough, and the long one is no reason to wait.
    assert_eq!(rig.events(), [Event::Extra(second), Event::Admitted(second)]);
    assert_eq!(rig.gate.slots(), 3);
    assert_eq!(rig.leave(second), []);
    rig.gate.blocks(rig.now, blocker);
    assert_eq!(rig.admitted(), [third]);
    rig.leave(third);
    rig.leave(blocker);
    rig.gate.blocks(rig.now, blocker);
    assert_eq!(rig.admitted(), []);
    assert_eq!(rig.leave(stuck), [other]);
    assert_eq!(Ticket::from_bits(stuck.to_bits()), stuck);
}

#[test]
fn processors_that_are_found_out_later_count_from_then_on() {
    let mut rig = Rig::new(4);
    let (first, _) = rig.arrive("low");
    let (second, _) = rig.arrive("low");
    rig.pass(MS * 100);
    // On one, each had half of it; on two, each has one.
    rig.gate.know_processors(rig.now, 2);
    rig.pass(MS * 100);
    rig.leave(first);
    rig.leave(second);
    let demand = rig.gate.view().classes[rig.class("low").index()].demand;
    assert!((demand - 0.15).abs() < 1e-6, "{demand}");
}

#[test]
fn one_hot_key_is_inside_once() {
    let mut rig = Rig::new(8);
    let hot = |rig: &Rig, class: &str, key| Arrival { hot_key: Some(key), ..Arrival::new(rig.class(class)) };
    let (first, entrance) = rig.arrive_as(hot(&rig, "low", 1));
    assert_eq!(entrance, Entrance::In);
    let (second, entrance) = rig.arrive_as(hot(&rig, "low", 1));
    assert_eq!(entrance, Entrance::Waits);
    let (gone, _) = rig.arrive_as(hot(&rig, "low", 1));
    let (high, _) = rig.arrive_as(hot(&rig, "high", 1));
    let (other, entrance) = rig.arrive_as(hot(&rig, "low", 2));
    assert_eq!(entrance, Entrance::In);
    assert_eq!(rig.leave(gone), []);
    assert_eq!(rig.leave(first), [high]);
    assert_eq!(rig.leave(other), []);
    assert_eq!(rig.leave(high), [second]);
    assert_eq!(rig.leave(second), []);
    assert_eq!(rig.arrive_as(hot(&rig, "low", 1)).1, Entrance::In);
}

#[test]
fn a_key_is_passed_on_by_one_that_had_it_and_gave_up_waiting() {
    let mut rig = Rig::new(1);
    let (inside, _) = rig.arrive("high");
    let hot = Arrival { hot_key: Some(1), ..Arrival::new(rig.class("low")) };
    let (has_key, _) = rig.arrive_as(hot);
    let (next, _) = rig.arrive_as(hot);
    rig.leave(has_key);
    assert_eq!(rig.leave(inside), [next]);
}

#[test]
fn who_lends_its_slot_gives_its_hot_key_up() {
    let mut rig = Rig::with(2, |settings| settings.lend_after = Some(150 * MS));
    let hot = Arrival { hot_key: Some(1), owner: 7, ..Arrival::new(rig.class("low")) };
    let (idle, _) = rig.arrive_as(hot);
    // The same client's, which goes on with the first when the second is done.
    let (second, entrance) = rig.arrive_as(hot);
    let (third, _) = rig.arrive_as(hot);
    assert_eq!(entrance, Entrance::Waits);
    rig.gate.rest(rig.now, idle);
    rig.pass(140 * MS);
    assert_eq!(rig.events(), []);
    rig.pass(20 * MS);
    assert_eq!(rig.events(), [Event::Admitted(second)]);
    assert_eq!(rig.gate.resume(rig.now, idle), Entrance::In);
    assert_eq!(rig.leave(idle), []);
    assert_eq!(rig.leave(second), [third]);
}

#[test]
fn other_settings_count_for_those_who_are_there() {
    let mut rig = Rig::with(2, |settings| settings.lend_after = None);
    let hot = |rig: &Rig, class: &str| Arrival { hot_key: Some(1), ..Arrival::new(rig.class(class)) };
    let (has_key, _) = rig.arrive_as(hot(&rig, "normal"));
    let (idle, _) = rig.arrive("normal");
    let (low, _) = rig.arrive_as(hot(&rig, "low"));
    let (normal, _) = rig.arrive_as(hot(&rig, "normal"));
    let (waits, _) = rig.arrive("low");
    rig.gate.rest(rig.now, idle);
    rig.pass(100 * MS);
    // The low one goes before the normal one from now on, waits are bounded, and slots are lent.
    let mut settings = rig.gate.settings().clone();
    settings.lend_after = Some(150 * MS);
    settings.classes[2].level = 0;
    settings.classes[2].wait_max = Some(200 * MS);
    settings.classes[1].runaway = Some(Runaway { after: 120 * MS, reaction: Reaction::Cancel });
    let now = rig.now;
    rig.gate.change(now, settings).expect("these are right");
    assert_eq!(rig.events(), []);
    rig.pass(60 * MS);
    // The idle one has lent its slot, and the one that has run for too long is known.
    assert_eq!(rig.events(), [Event::Runaway(has_key), Event::Admitted(waits)]);
    assert_eq!(rig.leave(has_key), [low]);
    rig.pass(60 * MS);
    assert_eq!(rig.events(), []);
    assert_eq!(rig.leave(low), [normal]);
    assert_eq!(rig.gate.view().counters.held_back, 2);
    // A slot less is one for nobody, and another number of classes is no gate's.
    let mut settings = rig.gate.settings().clone();
    settings.classes.pop();
    assert!(rig.gate.change(now, settings).is_err());
    assert_eq!(rig.gate.settings().classes.len(), 3);
}

#[test]
fn the_shortest_expected_goes_first_but_not_for_ever() {
    let mut rig =
        Rig::with(1, |settings| settings.classes[1].order = AdmissionOrder::ShortestExpected { patience: 10.0 });
    let statement = |rig: &Rig, print| Arrival { fingerprint: Some(print), ..Arrival::new(rig.class("normal")) };
    // They are learned: one takes 100 ms, the other one.
    for _ in 0..200 {
        for (print, time) in [(1, MS * 100), (2, MS)] {
            let (ticket, _) = rig.arrive_as(statement(&rig, print));
            rig.pass(time);
            rig.leave(ticket);
        }
    }
    let (inside, _) = rig.arrive("normal");
    let (long, _) = rig.arrive_as(statement(&rig, 1));
    rig.pass(MS * 900);
    let (short, _) = rig.arrive_as(statement(&rig, 2));
    rig.pass(MS * 95);
    let (too_late, _) = rig.arrive_as(statement(&rig, 2));
    assert_eq!(rig.leave(inside), [short]);
    assert_eq!(rig.leave(short), [long], "a thousand milliseconds are ten times its length");
    assert_eq!(rig.leave(long), [too_late]);
}

#[test]
fn shares_are_of_time_in_slots() {
    let two = |settings: &mut GateSettings| {
        settings.classes = vec![
            ClassSettings { weight: 3, ..ClassSettings::new("a", 0) },
            ClassSettings { weight: 1, ..ClassSettings::new("b", 0) },
        ];
    };
    let mut rig = Rig::with(1, two);
    let mut used = [Duration::ZERO; 2];
    let takes = [MS, MS * 5];
    // Both always have somebody who waits.
    let mut inside = rig.arrive("a").0;
    let mut of = std::collections::HashMap::from([(inside, 0)]);
    for (index, name) in ["a", "b"].into_iter().enumerate() {
        for _ in 0..3 {
            of.insert(rig.arrive(name).0, index);
        }
    }
    for _ in 0..4_000 {
        let class = of[&inside];
        rig.pass(takes[class]);
        used[class] += takes[class];
        of.insert(rig.arrive(["a", "b"][class]).0, class);
        inside = rig.leave(inside)[0];
    }
    let share = used[0].as_secs_f64() / (used[0] + used[1]).as_secs_f64();
    assert!((share - 0.75).abs() < 0.01, "{share}");
}

#[test]
fn a_class_that_was_away_has_saved_nothing_up() {
    let two = |settings: &mut GateSettings| {
        settings.classes = vec![ClassSettings::new("a", 0), ClassSettings::new("b", 0)];
    };
    let mut rig = Rig::with(1, two);
    for _ in 0..1_000 {
        let (ticket, _) = rig.arrive("a");
        rig.pass(MS);
        rig.leave(ticket);
    }
    let (mut inside, _) = rig.arrive("a");
    let mut waiting: Vec<Ticket> = (0..10).map(|_| rig.arrive("b").0).collect();
    waiting.extend((0..10).map(|_| rig.arrive("a").0));
    let mut served = Vec::new();
    for _ in 0..10 {
        rig.pass(MS);
        inside = rig.leave(inside)[0];
        served.push(waiting.iter().position(|ticket| *ticket == inside).expect("it waited") < 10);
    }
    let of_b = served.iter().filter(|is_b| **is_b).count();
    assert!((4..=6).contains(&of_b), "{served:?}");
}

#[test]
fn bounds_turn_away_and_say_where_one_stood() {
    let mut rig = Rig::with(1, |settings| {
        settings.classes[2].queue_max = Some(1);
        settings.classes[2].wait_max = Some(MS * 50);
    });
    let (inside, _) = rig.arrive("low");
    rig.pass(MS * 10);
    let (waits, _) = rig.arrive("low");
    let low = rig.class("low");
    let refused = rig.gate.arrive(rig.now, Arrival::new(low)).expect_err("one waits");
    assert!(matches!(&refused, Refused::Full { class, waiting: 1, .. } if class == "low"), "{refused:?}");
    rig.arrive("high");
    rig.pass(MS * 49);
    assert_eq!(rig.events(), []);
    rig.pass(MS);
    let events = rig.events();
    assert!(
        matches!(events[..], [Event::TimedOut(ticket, _, Whereabouts { ahead: 1, expected: None })] if ticket == waits),
        "{events:?}"
    );
    rig.leave(inside);
    let counters = rig.gate.view().counters;
    assert_eq!((counters.turned_away, counters.timed_out, counters.given_up), (1, 1, 0));
}

#[test]
fn a_runaway_is_demoted_or_cancelled_and_waits_do_not_count() {
    let mut rig = Rig::with(1, |settings| {
        let low = settings.class("low").expect("it is there");
        settings.classes[1].runaway = Some(Runaway { after: MS * 100, reaction: Reaction::Demote(low) });
        settings.classes[2].runaway = Some(Runaway { after: MS * 50, reaction: Reaction::Cancel });
    });
    let (runs, _) = rig.arrive("normal");
    let (waits, _) = rig.arrive("normal");
    rig.pass(MS * 101);
    let low = rig.class("low");
    assert_eq!(rig.events(), [Event::Demoted(runs, low)]);
    assert_eq!(rig.gate.view().classes.iter().map(|class| class.slots).collect::<Vec<_>>(), [0, 0, 1]);
    assert_eq!(rig.leave(runs), [waits]);
    rig.pass(MS * 99);
    assert_eq!(rig.events(), []);
    let (_, entrance) = rig.arrive("low");
    assert_eq!(entrance, Entrance::Waits);
    rig.leave(waits);
    rig.pass(MS * 60);
    assert!(matches!(rig.events()[..], [Event::Runaway(_)]));
}

#[test]
fn demands_are_told_from_stretched_times() {
    // Four at a time on two processors: each is stretched to twice its demand.
    let mut rig = Rig::with(4, |settings| settings.processors = 2);
    for _ in 0..100 {
        let all: Vec<Ticket> = (0..4).map(|_| rig.arrive("normal").0).collect();
        rig.pass(MS * 20);
        all.into_iter().for_each(|ticket| drop(rig.leave(ticket)));
    }
    let seen = rig.gate.observation();
    assert!((seen.demand.mean() - 0.01).abs() < 1e-5, "{:?}", seen.demand);
    assert_eq!(seen.completions, 400);
    let (seconds, _) = seen.by_active[4];
    assert!((seconds - 2.0).abs() < 1e-3, "{:?}", seen.by_active);
}

#[test]
fn pauses_of_the_load_are_not_throughput() {
    let mut rig = Rig::new(1);
    for at in 0..400u32 {
        let (ticket, _) = rig.arrive("normal");
        rig.pass(MS * 2);
        rig.leave(ticket);
        if at % 50 == 0 {
            rig.pass(MS * 10_000);
        }
    }
    let seen = rig.gate.observation();
    assert!((seen.throughput.mean - 500.0).abs() < 1.0 && seen.throughput.half_width < 0.01, "{:?}", seen.throughput);
}

#[test]
fn an_observation_leaves_out_who_was_inside_when_the_limit_changed() {
    let mut rig = Rig::new(1);
    for _ in 0..5 {
        let (ticket, _) = rig.arrive("normal");
        rig.pass(MS);
        rig.leave(ticket);
    }
    assert_eq!(rig.gate.observed(), 5);
    rig.gate.set_mpl(rig.now, 3);
    for _ in 0..10 {
        let (ticket, _) = rig.arrive("normal");
        rig.pass(MS * 2);
        rig.leave(ticket);
    }
    let seen = rig.gate.observation();
    assert_eq!((seen.mpl, seen.completions), (3, 7));
    assert!((seen.throughput.mean - 500.0).abs() < 1.0, "{:?}", seen.throughput);
}

/// A step of a random script.
#[derive(Clone, Copy, Debug)]
enum Step {
    Arrive { class: usize, hot: Option<u64>, owner: u64, pool: Option<usize> },
    Ask(usize),
    Keep(usize),
    GiveBack(usize),
    Resize(usize, usize),
    Bound(usize, Option<usize>),
    Again(usize),
    Leave(usize),
    Rest(usize),
    Resume(usize),
    Reclass(usize, usize),
    Stall(usize, bool),
    Limit(u32),
    Pass(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..3usize, proptest::option::of(0..2u64), 0..3u64, proptest::option::of(0..2usize))
            .prop_map(|(class, hot, owner, pool)| Step::Arrive { class, hot, owner, pool }),
        1 => (0..2usize).prop_map(Step::Ask),
        2 => (0..64usize).prop_map(Step::Keep),
        2 => (0..64usize).prop_map(Step::GiveBack),
        1 => (0..2usize, 0..3usize).prop_map(|(pool, size)| Step::Resize(pool, size)),
        1 => (0..2usize, proptest::option::of(0..3usize)).prop_map(|(pool, ceiling)| Step::Bound(pool, ceiling)),
        2 => (0..64usize).prop_map(Step::Again),
        4 => (0..64usize).prop_map(Step::Leave),
        2 => (0..64usize).prop_map(Step::Rest),
        2 => (0..64usize).prop_map(Step::Resume),
        1 => (0..64usize, 0..3usize).prop_map(|(at, class)| Step::Reclass(at, class)),
        1 => (0..64usize, any::<bool>()).prop_map(|(at, stalled)| Step::Stall(at, stalled)),
        1 => (1..6u32).prop_map(Step::Limit),
        4 => (0..60u64).prop_map(Step::Pass),
    ]
}

/// Returns true if the transaction stands in the queue of its class.
fn is_queued(state: TransactionState) -> bool {
    matches!(state, TransactionState::Waiting | TransactionState::Returning)
}

/// Holds after every step.
fn check(gate: &Gate, pools: &[PoolId], kept: &[PoolId]) {
    for pool in pools {
        let having = gate.entries.iter().filter(|(_, entry)| entry.pool == Some(*pool) && entry.has_place).count();
        let kept = kept.iter().filter(|kept| *kept == pool).count();
        let asking = gate
            .entries
            .iter()
            .filter(|(_, entry)| entry.state == TransactionState::Asking && entry.needs() == Some(*pool));
        assert_eq!(gate.rooms.taken(*pool), (having + kept, asking.count()));
    }
    let without = |entry: &GateEntry| entry.state.has_slot() && entry.needs().is_some();
    assert!(!gate.entries.iter().any(|(_, entry)| without(entry)), "a slot without the connection that it needs");
    let of = |is: fn(TransactionState) -> bool| gate.entries.iter().filter(|(_, entry)| is(entry.state)).count();
    let slots = of(TransactionState::has_slot);
    assert_eq!(slots, gate.slots as usize);
    assert_eq!(of(is_queued), gate.queued);
    assert_eq!(of(|state| state == TransactionState::Inside), gate.meter.active() as usize);
    for (index, class) in gate.classes.iter().enumerate() {
        let own = |is: fn(TransactionState) -> bool| {
            gate.entries.iter().filter(|(_, entry)| entry.class.index() == index && is(entry.state)).count()
        };
        assert_eq!(own(TransactionState::has_slot), class.slots as usize);
        assert_eq!(own(is_queued), class.queue.len());
        assert_eq!(own(|state| state == TransactionState::HeldBack), class.held_back);
        assert_eq!(own(|state| state == TransactionState::Lent), class.lent);
        if let SlotLimit::Strict(most) = gate.settings.classes[index].slots_max {
            // Somebody who was demoted, or whose limit was lowered, may be beyond it; nobody went in beyond it.
            let may = class.slots < most && gate.slots < gate.limit();
            assert!(!may || !class.queue.can_run(), "a free slot and somebody who may have it");
        } else {
            assert!(gate.slots >= gate.limit() || !class.queue.can_run(), "a free slot and somebody who waits");
        }
    }
    let extras = gate.entries.iter().filter(|(_, entry)| entry.is_extra).count();
    assert_eq!(extras, gate.extras as usize);
    for key in 0..2 {
        let has = |entry: &&GateEntry| entry.hot == Some(key) && entry.state != TransactionState::HeldBack;
        let holders = gate.entries.iter().map(|(_, entry)| entry).filter(has).count();
        let held_back =
            gate.entries.iter().any(|(_, entry)| entry.hot == Some(key) && entry.state == TransactionState::HeldBack);
        assert!(holders <= 1, "a hot key is inside twice");
        assert!(holders == 1 || !held_back, "somebody is held back by nobody");
    }
}

proptest! {
    #[test]
    fn whatever_happens_slots_are_counted_and_nobody_is_forgotten(steps in proptest::collection::vec(step(), 1..200)) {
        let mut rig = Rig::with(2, |settings| {
            settings.classes[0].slots_min = 1;
            settings.classes[1].slots_max = SlotLimit::Yielding(1);
            settings.classes[2].slots_max = SlotLimit::Strict(2);
            settings.classes[2].wait_max = Some(MS * 100);
            settings.classes[1].order = AdmissionOrder::ShortestExpected { patience: 2.0 };
            settings.classes[1].runaway = Some(Runaway { after: MS * 70, reaction: Reaction::Demote(ClassId(2)) });
            settings.ageing = Some(MS * 30);
            settings.lend_after = Some(MS * 20);
            settings.knows_stalls = true;
        });
        let pools = [rig.gate.open_pool(1), rig.gate.open_pool(2)];
        let (mut known, mut kept): (Vec<Ticket>, Vec<PoolId>) = (Vec::new(), Vec::new());
        for step in steps {
            let at = |index: usize| known.get(index % known.len().max(1)).copied();
            match step {
                Step::Arrive { class, hot, owner, pool } => {
                    let (class, fingerprint) = (ClassId(class as u8), Some(class as u64));
                    let pool = pool.map(|pool| pools[pool]);
                    known.push(rig.arrive_as(Arrival { class, fingerprint, hot_key: hot, owner, pool }).0);
                }
                Step::Ask(pool) => known.push(rig.gate.ask(rig.now, ClassId(0), pools[pool]).0),
                Step::Keep(index) => kept.extend(at(index).and_then(|ticket| rig.gate.keep(ticket))),
                Step::GiveBack(index) => if !kept.is_empty() {
                    let pool = kept.remove(index % kept.len());
                    rig.gate.give_back(rig.now, pool);
                },
                Step::Resize(pool, size) => rig.gate.resize_pool(rig.now, pools[pool], size),
                Step::Bound(pool, ceiling) => rig.gate.bound_pool(rig.now, pools[pool], ceiling),
                Step::Again(index) => if let Some(ticket) = at(index) { rig.gate.wait_again(rig.now, ticket) },
                Step::Leave(index) => if let Some(ticket) = at(index) {
                    rig.gate.leave(rig.now, ticket, Ending::Done);
                    known.retain(|other| *other != ticket);
                },
                Step::Rest(index) => if let Some(ticket) = at(index) { rig.gate.rest(rig.now, ticket) },
                Step::Resume(index) => if let Some(ticket) = at(index) { let _ = rig.gate.resume(rig.now, ticket); },
                Step::Reclass(index, class) => if let Some(ticket) = at(index) {
                    rig.gate.reclass(rig.now, ticket, ClassId(class as u8));
                },
                Step::Stall(index, stalled) => if let Some(ticket) = at(index) { rig.gate.stall(rig.now, ticket, stalled) },
                Step::Limit(mpl) => rig.gate.set_mpl(rig.now, mpl),
                Step::Pass(ms) => rig.pass(MS * ms as u32),
            }
            for event in rig.events() {
                if let Event::TimedOut(gone, ..) = event {
                    known.retain(|ticket| *ticket != gone);
                }
            }
            check(&rig.gate, &pools, &kept);
        }
        for pool in pools {
            rig.gate.bound_pool(rig.now, pool, None);
            rig.gate.resize_pool(rig.now, pool, 1);
        }
        kept.drain(..).for_each(|pool| rig.gate.give_back(rig.now, pool));
        // All who are left come to their turn when the others go, whatever they do.
        while !known.is_empty() {
            rig.pass(MS * 2_000);
            let timed_out: Vec<Ticket> = rig.events().into_iter().filter_map(|event| match event {
                Event::TimedOut(gone, ..) => Some(gone),
                _ => None,
            }).collect();
            known.retain(|ticket| !timed_out.contains(ticket));
            let has_slot = |ticket: &Ticket| rig.gate.state(*ticket).is_some_and(TransactionState::has_slot);
            let inside = known.iter().copied().find(has_slot);
            let lent = known.iter().copied().find(|ticket| rig.gate.state(*ticket) == Some(TransactionState::Lent));
            let is_asking = |entry: &GateEntry| entry.state == TransactionState::Asking && entry.needs().is_none();
            let asking = known.iter().copied().find(|ticket| rig.gate.entries.get(*ticket).is_some_and(is_asking));
            let next = inside.or(lent).or(asking);
            prop_assert!(next.is_some() || known.is_empty(), "{} wait for nobody", known.len());
            if let Some(ticket) = next {
                rig.gate.leave(rig.now, ticket, Ending::Done);
                known.retain(|other| *other != ticket);
            }
            check(&rig.gate, &pools, &kept);
        }
        pools.into_iter().for_each(|pool| rig.gate.close_pool(pool));
        prop_assert_eq!(rig.gate.view().slots, 0);
        prop_assert_eq!(rig.gate.view().transactions, 0);
    }
}

/// Goal: transactions of `low` get every other turn, as long as others go on coming as they have.
#[test]
fn the_expected_wait_is_what_it_then_is() {
    let mut rig = Rig::new(1);
    // A pause of the load says nothing of the pace.
    rig.pass(Duration::from_secs(600));
    let (mut inside, _) = rig.arrive("low");
    let lows: Vec<Ticket> = (0..40).map(|_| rig.arrive("low").0).collect();
    assert_eq!(rig.gate.whereabouts(lows[0]), Some(Whereabouts { ahead: 0, expected: None }));
    let mut turns = 0;
    let mut turn = |rig: &mut Rig| {
        turns += 1;
        if turns % 2 == 0 {
            rig.arrive("high");
        }
        rig.pass(MS * 10);
        inside = rig.leave(inside)[0];
        inside
    };
    while turn(&mut rig) != lows[9] {}
    let said = rig.gate.whereabouts(lows[39]).expect("it waits");
    let (begun, expected) = (rig.now, said.expected.expect("ten were seen").as_secs_f64());
    assert_eq!(said.ahead, 29);
    while turn(&mut rig) != lows[39] {}
    let waited = rig.now.since(begun).as_secs_f64();
    assert!((expected / waited - 1.0).abs() < 0.1, "{expected} s were expected, and it waited {waited} s");
}

#[test]
fn who_is_held_back_takes_no_place_of_those_who_wait_for_slots() {
    let mut rig = Rig::with(1, |settings| settings.classes[1].queue_max = Some(1));
    let hot = Arrival { hot_key: Some(7), ..Arrival::new(rig.class("normal")) };
    let (inside, _) = rig.arrive_as(hot);
    let held: Vec<Ticket> = (0..3).map(|_| rig.arrive_as(hot).0).collect();
    assert_eq!(rig.gate.whereabouts(held[2]), Some(Whereabouts { ahead: 3, expected: None }));
    let (waits, _) = rig.arrive("normal");
    rig.arrive_as(hot);
    let refused = rig.gate.arrive(rig.now, Arrival::new(rig.class("normal")));
    assert!(matches!(refused, Err(Refused::Full { waiting: 1, .. })), "{refused:?}");
    assert_eq!(rig.leave(inside), [held[0]], "it came before the other");
    assert_eq!(rig.leave(held[0]), [waits].map(|_| held[1]));
}
