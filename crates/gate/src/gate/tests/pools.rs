//! Connections that are granted with slots, and classes that do not starve.

use super::*;

/// An arrival that needs a connection of this pool.
fn of_pool(class: ClassId, pool: PoolId) -> Arrival {
    Arrival { pool: Some(pool), ..Arrival::new(class) }
}

#[test]
fn who_waits_for_a_connection_holds_no_slot_and_keeps_its_place() {
    let mut rig = Rig::new(4);
    let (full, other) = (rig.gate.open_pool(1), rig.gate.open_pool(1));
    let normal = rig.class("normal");
    let (inside, entrance) = rig.arrive_as(of_pool(normal, full));
    assert_eq!(entrance, Entrance::In);
    let waiting: Vec<Ticket> = (0..6).map(|_| rig.arrive_as(of_pool(normal, full)).0).collect();
    assert_eq!((rig.gate.slots(), rig.gate.waiting_for_pool(full)), (1, 6));
    // Those of another pool, and those that need no connection, pass them.
    assert_eq!(rig.arrive_as(of_pool(normal, other)).1, Entrance::In);
    let (free, entrance) = rig.arrive("low");
    assert_eq!(entrance, Entrance::In);
    assert_eq!(rig.arrive("low").1, Entrance::In);
    assert!(rig.gate.is_pool_shut(full));
    // All slots are taken: the connection alone is not enough, and they did not lose their places.
    let (late, _) = rig.arrive("normal");
    assert!(rig.leave(inside) == [waiting[0]], "it came before the other, and has both now");
    assert_eq!(rig.leave(free), [late], "the connection is taken again");
    assert_eq!(rig.leave(waiting[0]), [waiting[1]]);
}

#[test]
fn connection_and_slot_go_to_the_more_important_though_it_came_later() {
    let mut rig = Rig::new(2);
    let pool = rig.gate.open_pool(1);
    let (inside, _) = rig.arrive_as(of_pool(rig.class("normal"), pool));
    let (low, _) = rig.arrive_as(of_pool(rig.class("low"), pool));
    let (high, _) = rig.arrive_as(of_pool(rig.class("high"), pool));
    // The connection outlives the transaction: slots alone are no use.
    assert_eq!(rig.gate.keep(inside), Some(pool));
    assert_eq!(rig.gate.keep(inside), None);
    assert_eq!(rig.leave(inside), []);
    rig.gate.give_back(rig.now, pool);
    assert_eq!(rig.admitted(), [high]);
    assert_eq!(rig.leave(high), [low]);
}

#[test]
fn who_asks_for_a_connection_alone_goes_before_all_and_takes_no_slot() {
    let mut rig = Rig::new(1);
    let pool = rig.gate.open_pool(1);
    let high = rig.class("high");
    let (inside, _) = rig.arrive_as(of_pool(high, pool));
    let (waiting, _) = rig.arrive_as(of_pool(high, pool));
    let (gone, entrance) = rig.gate.ask(rig.now, high, pool);
    let (asking, _) = rig.gate.ask(rig.now, high, pool);
    assert_eq!(entrance, Entrance::Waits);
    assert_eq!(rig.leave(gone), []);
    assert_eq!(rig.leave(inside), [asking]);
    assert_eq!(rig.gate.slots(), 0);
    assert_eq!(rig.leave(asking), [waiting]);
    assert_eq!(rig.gate.view().classes[0].done, 1, "a question is no transaction");
}

#[test]
fn a_wait_for_a_connection_ends_as_any_other_and_gives_nobody_an_extra_slot() {
    let mut rig = Rig::with(2, |settings| settings.classes[1].wait_max = Some(MS * 1_500));
    let pool = rig.gate.open_pool(1);
    let normal = rig.class("normal");
    rig.arrive_as(of_pool(normal, pool));
    let (late, _) = rig.arrive_as(of_pool(normal, pool));
    rig.pass(MS * 1_200);
    assert_eq!((rig.events(), rig.gate.view().extras), (vec![], 0));
    assert!(rig.gate.due().is_some_and(|due| rig.now < due), "it would look again and again");
    rig.pass(MS * 400);
    assert!(matches!(rig.events()[..], [Event::TimedOut(ticket, ..)] if ticket == late));
}

/// Goal: a server may have no room for a connection that its pool has room for.
#[test]
fn who_has_no_connection_after_all_waits_again_where_it_stood() {
    let mut rig = Rig::with(3, |settings| settings.classes[1].wait_max = Some(MS * 1_000));
    let pool = rig.gate.open_pool(3);
    let normal = rig.class("normal");
    let (inside, _) = rig.arrive_as(of_pool(normal, pool));
    let (refused, entrance) = rig.arrive_as(of_pool(normal, pool));
    assert_eq!(entrance, Entrance::In);
    rig.pass(MS * 400);
    let (later, _) = rig.arrive_as(of_pool(normal, pool));
    rig.gate.bound_pool(rig.now, pool, Some(1));
    for ticket in [later, refused] {
        rig.gate.wait_again(rig.now, ticket);
    }
    assert_eq!((rig.admitted(), rig.gate.slots(), rig.gate.waiting_for_pool(pool)), (vec![], 1, 2));
    assert_eq!(rig.leave(inside), [refused], "it came first");
    // Twice is no other than once.
    for _ in 0..2 {
        rig.gate.bound_pool(rig.now, pool, Some(0));
        rig.gate.wait_again(rig.now, refused);
        rig.gate.bound_pool(rig.now, pool, Some(1));
        assert_eq!(rig.admitted(), [refused]);
    }
    // Each waits for as long as its class may, from its arrival on.
    rig.gate.bound_pool(rig.now, pool, Some(0));
    rig.gate.wait_again(rig.now, refused);
    rig.pass(MS * 700);
    assert!(matches!(rig.events()[..], [Event::TimedOut(ticket, ..)] if ticket == refused));
    rig.pass(MS * 400);
    assert!(matches!(rig.events()[..], [Event::TimedOut(ticket, ..)] if ticket == later));
    assert_eq!((rig.gate.slots(), rig.gate.view().transactions), (0, 0));
}

#[test]
fn who_waits_for_a_connection_is_not_held_back_by_the_limit() {
    let mut rig = Rig::new(3);
    let pool = rig.gate.open_pool(1);
    let normal = rig.class("normal");
    let (inside, _) = rig.arrive_as(of_pool(normal, pool));
    rig.arrive_as(of_pool(normal, pool));
    rig.pass(MS * 100);
    assert_eq!(rig.gate.observation().saturated, 0.0);
    rig.leave(inside);
}

/// Turns of 10 ms, all of them wanted by important transactions as well.
#[test]
fn nobody_starves_by_default_and_the_important_lose_little() {
    let mut rig = Rig::new(1);
    let (busy, other) = (rig.gate.open_pool(1), rig.gate.open_pool(1));
    let [high, low] = ["high", "low"].map(|name| rig.class(name));
    let mut inside = rig.arrive_as(of_pool(high, busy)).0;
    // Of a pool that the important have for themselves, and of one that they do not use.
    let lows: Vec<(Ticket, Time)> =
        (0..40).map(|at| (rig.arrive_as(of_pool(low, if at % 2 == 0 { busy } else { other })).0, rig.now)).collect();
    let (mut served, turns) = (Vec::new(), 6_100);
    for _ in 0..turns {
        rig.arrive_as(of_pool(high, busy));
        rig.pass(MS * 10);
        inside = rig.leave(inside)[0];
        served.extend(lows.iter().position(|(ticket, _)| *ticket == inside));
    }
    // A little more than a minute: every ten seconds one of each pool, in the order in which they came.
    let of_pool = |rest| served.iter().copied().filter(|at| at % 2 == rest).collect::<Vec<_>>();
    assert_eq!(of_pool(0), (0..12).step_by(2).collect::<Vec<_>>());
    assert_eq!(of_pool(1), (1..12).step_by(2).collect::<Vec<_>>());
}

#[test]
fn ageing_has_one_inside_at_a_time() {
    let mut rig = Rig::with(2, |settings| settings.ageing = Some(MS * 100));
    let (first, _) = rig.arrive("high");
    let (mut second, _) = rig.arrive("high");
    let lows: Vec<Ticket> = (0..3).map(|_| rig.arrive("low").0).collect();
    rig.pass(MS * 250);
    assert_eq!(rig.leave(first), [lows[0]]);
    // It stays for long, and the important go on in the other slot.
    for _ in 0..10 {
        let (next, _) = rig.arrive("high");
        rig.pass(MS * 250);
        assert_eq!(rig.leave(second), [next]);
        second = next;
    }
    let (next, _) = rig.arrive("high");
    assert_eq!(rig.leave(lows[0]), [lows[1]], "the next of them has waited for long enough, and {next:?} can");
}
