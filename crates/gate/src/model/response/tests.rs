//! Goal: response times are those of the Markov chain, at any load, variability, limit and number of servers. Method: closed
//! forms where there are some; elsewhere the whole chain, cut at a level that is hardly ever reached.

use super::*;
use crate::model::matrix::Matrix;
use proptest::prelude::*;

#[track_caller]
fn assert_close(found: f64, expected: f64, what: impl std::fmt::Debug) {
    assert!((found / expected - 1.0).abs() <= 1e-9, "{what:?}: {found} instead of {expected}");
}

/// Mean response time and mean external wait, by one elimination over all states (level, type-1 jobs in service).
fn whole_chain(load: f64, c2: f64, servers: u32, mpl: usize, levels: usize) -> (f64, f64) {
    let H2 { p, mu1, mu2 } = H2::with_balanced_means(1.0, c2).unwrap();
    let lambda = load * f64::from(servers);
    let states: Vec<(usize, usize)> =
        (0..=levels).flat_map(|level| (0..=level.min(mpl)).map(move |ones| (level, ones))).collect();
    let rate = |from: usize, to: usize| {
        let ((level, ones), (next, then)) = (states[from], states[to]);
        let service = level.min(mpl);
        let speed = (service as f64).min(f64::from(servers)) / service.max(1) as f64;
        let (first, second) = (ones as f64 * mu1 * speed, (service - ones) as f64 * mu2 * speed);
        let queued = mpl < level;
        match (next as i64 - level as i64, then as i64 - ones as i64) {
            (1, 0) if mpl <= level => lambda,
            (1, 0) => lambda * (1.0 - p),
            (1, 1) if level < mpl => lambda * p,
            (-1, 0) if queued => first * p + second * (1.0 - p),
            (-1, -1) if queued => first * (1.0 - p),
            (-1, 1) if queued => second * p,
            (-1, 0) => second,
            (-1, -1) => first,
            _ => 0.0,
        }
    };
    let weights = Matrix::from_fn(states.len(), states.len(), rate).stationary();
    let mean = |value: &dyn Fn(usize) -> usize| -> f64 {
        states.iter().zip(&weights).map(|((level, _), weight)| value(*level) as f64 * weight).sum()
    };
    (mean(&|level| level) / lambda, mean(&|level| level.saturating_sub(mpl)) / lambda)
}

#[test]
fn it_is_the_markov_chain() {
    for (load, c2, servers, mpl) in
        [(0.5, 4.0, 1, 3), (0.3, 30.0, 1, 2), (0.4, 10.0, 2, 2), (0.5, 5.0, 2, 5), (0.3, 8.0, 4, 3), (0.2, 2.0, 8, 4)]
    {
        let found = Response::new(load, c2, servers).unwrap().at(mpl).unwrap();
        let (response, wait) = whole_chain(load, c2, servers, mpl, 1_000 / (mpl + 1));
        assert_close(found.response, response, (load, c2, servers, mpl));
        assert_close(found.external_wait, wait, (load, c2, servers, mpl));
    }
}

#[test]
fn one_at_a_time_is_first_come_first_served() {
    for load in [1e-6, 0.01, 0.5, 0.9, 0.99, 0.999] {
        for c2 in [1.0, 2.0, 15.0, 100.0, 1_000.0] {
            let found = Response::new(load, c2, 1).unwrap().at(1).unwrap();
            assert_close(found.response, pollaczek_khinchine(load, c2).unwrap(), (load, c2));
            assert_close(found.external_wait, found.response - 1.0, (load, c2));
            assert_close(found.waits, load, (load, c2));
        }
    }
}

/// Goal: without variability the order does not matter. Method: M/M/c, whose number of jobs has a closed form.
#[test]
fn exponential_sizes_are_those_of_m_m_c() {
    for (load, servers) in [(0.001, 1), (0.3, 1), (0.9, 1), (0.99, 1), (0.8, 4), (0.95, 16)] {
        let model = Response::new(load, 0.5, servers).unwrap();
        for at in model.curve(60).unwrap().into_iter().filter(|at| servers as usize <= at.mpl) {
            assert_close(at.ratio_to_ps, 1.0, (load, servers, at.mpl));
            // Above c jobs the levels are geometric; and the probability that c or more are there is Erlang's.
            let all_work = (model.processor_sharing - 1.0) * f64::from(servers) * (1.0 - load);
            assert_close(at.waits, all_work * load.powi(at.mpl as i32 - servers as i32), (load, servers, at.mpl));
            assert_close(at.external_wait * model.flow.lambda, at.waits * load / (1.0 - load), (load, servers, at.mpl));
        }
    }
}

#[test]
fn a_large_limit_is_processor_sharing() {
    for (load, c2, servers, mpl) in
        [(0.01, 100.0, 1, 200), (0.5, 100.0, 1, 100), (0.7, 15.0, 8, 120), (0.9, 5.0, 1, 200)]
    {
        let at = Response::new(load, c2, servers).unwrap().at(mpl).unwrap();
        assert!((at.ratio_to_ps - 1.0).abs() < 1e-7, "{load} {c2} {servers} {mpl}: {at:?}");
        assert!(at.external_wait <= 1e-6);
    }
    assert_close(processor_sharing(0.9, 1).unwrap(), 10.0, "M/M/1");
    assert_close(processor_sharing(0.75, 2).unwrap(), 1.0 / (1.0 - 0.75 * 0.75), "M/M/2");
}

#[test]
fn a_limit_below_the_work_is_unstable() {
    let model = Response::new(0.9, 5.0, 4).unwrap();
    assert_eq!(model.at(3), Err(ModelError::Unstable { mpl: 3 }));
    let curve = model.curve(6).unwrap();
    assert_eq!(curve.iter().map(|at| at.mpl).collect::<Vec<_>>(), [4, 5, 6]);
    assert!(4 <= model.least_mpl(0.5).unwrap());
}

#[test]
fn a_limit_that_is_out_of_reach_is_said_to_be() {
    let model = Response::new(0.5, 5.0, 1_000).unwrap();
    assert_eq!(model.least_mpl(0.05), Err(ModelError::OutOfReach { mpl_max: MPL_MAX }));
}

#[test]
fn nonsense_is_refused() {
    for load in [0.0, 1.0, -0.5, 2.0, f64::NAN] {
        assert!(matches!(Response::new(load, 5.0, 1), Err(ModelError::NoSteadyState(_))), "{load}");
    }
    assert!(matches!(Response::new(0.5, -1.0, 1), Err(ModelError::Variability(_))));
    assert!(matches!(Response::new(0.5, 1.0, 0), Err(ModelError::OutOfRange { .. })));
    let model = Response::new(0.5, 5.0, 1).unwrap();
    for mpl in [0, MPL_MAX + 1] {
        assert!(matches!(model.at(mpl), Err(ModelError::OutOfRange { .. })), "{mpl}");
    }
    for increase in [0.0, -0.1, f64::NAN, f64::INFINITY] {
        assert!(model.least_mpl(increase).is_err(), "{increase}");
    }
    assert!(pollaczek_khinchine(0.5, f64::NAN).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Goal: a larger limit is never worse, one alone is the worst, and none is better than processor sharing.
    #[test]
    fn a_larger_limit_is_never_worse(load in 0.05..0.99_f64, c2 in 0.0..100.0_f64, servers in 1..6_u32) {
        let model = Response::new(load, c2, servers).unwrap();
        let curve = model.curve(24).unwrap();
        prop_assert!(curve.windows(2).all(|pair| pair[1].response <= pair[0].response * (1.0 + 1e-9)), "{curve:?}");
        prop_assert!(curve.windows(2).all(|pair| pair[1].waits <= pair[0].waits * (1.0 + 1e-9)), "{curve:?}");
        prop_assert!(curve.iter().all(|at| 1.0 - 1e-9 <= at.ratio_to_ps), "{curve:?}");
        prop_assert!(curve.iter().all(|at| at.external_wait < at.response), "{curve:?}");
        let alone = model.at(24).unwrap();
        prop_assert_eq!(alone, curve[curve.len() - 1]);
    }
}
