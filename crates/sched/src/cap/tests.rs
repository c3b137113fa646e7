use super::*;

const SETTINGS: CapSettings = CapSettings { low_share_percent: 10, window_ns: 100, entry_requests_max: 4 };

/// Plays `lengths` of urgent work, each started as soon as the cap is open, and returns (urgent, total) time.
fn saturate(settings: CapSettings, length: u64, count: u64) -> (u64, u64) {
    let mut cap = Cap::new(settings, 0);
    let mut now = 0;
    for _ in 0..count {
        if cap.share(now) == Share::Closed {
            let opens = cap.opens_at(now);
            assert!(now < opens);
            assert_eq!(cap.share(opens - 1), Share::Closed);
            now = opens;
            assert_eq!(cap.share(now), Share::Open);
        }
        cap.charge(now, now + length);
        now += length;
    }
    (count * length, now)
}

/// Goal: however long the requests are (up to a window), queries get their share. Method: saturation, many lengths.
#[test]
fn queries_keep_their_share() {
    for length in [1, 3, 10, 40, 60, 99, 100] {
        let (urgent, total) = saturate(SETTINGS, length, 10_000);
        // The last window may be owed still.
        assert!(urgent * 100 <= total * 90 + 100 * 100, "length {length}: {urgent} of {total}");
        assert!(total * 80 <= urgent * 100, "length {length} leaves more than needed: {urgent} of {total}");
    }
}

#[test]
fn nine_tenths_of_a_window_are_open() {
    let mut cap = Cap::new(SETTINGS, 1_000);
    cap.charge(1_000, 1_089);
    assert_eq!(cap.share(1_089), Share::Open);
    cap.charge(1_089, 1_090);
    assert_eq!(cap.share(1_090), Share::Closed);
    assert_eq!(cap.share(1_099), Share::Closed);
    assert_eq!(cap.share(1_100), Share::Open);
}

/// Goal: one endless request does not keep urgent work away for longer than a window or two.
#[test]
fn debt_is_bounded() {
    let mut cap = Cap::new(SETTINGS, 0);
    cap.charge(0, 1_000_000);
    assert!(cap.opens_at(1_000_000) <= 1_000_000 + 2 * SETTINGS.window_ns);
}

#[test]
fn a_budget_is_followed_by_a_rest() {
    let mut cap = Cap::new(SETTINGS, 0);
    cap.charge(0, 18);
    cap.rest(18, 18);
    assert_eq!(cap.share(19), Share::Closed);
    assert_eq!(cap.opens_at(19), 20);
    assert_eq!(cap.share(20), Share::Open);
}

#[test]
fn off_is_always_open() {
    let mut cap = Cap::new(CapSettings::OFF, 0);
    cap.charge(0, 1_000_000);
    cap.rest(1_000_000, 1_000_000);
    assert_eq!(cap.share(1_000_000), Share::Open);
    assert_eq!(CapSettings::OFF.entry_requests(), u32::MAX);
}

#[test]
fn a_share_of_everything_stops_urgent_work_on_busy_workers() {
    let mut cap = Cap::new(CapSettings { low_share_percent: 100, ..SETTINGS }, 0);
    assert_eq!(cap.share(50), Share::Closed);
    assert_eq!(cap.share(5_000), Share::Closed);
}
