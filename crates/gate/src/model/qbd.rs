//! The Markov chain of a processor-sharing server behind an external queue, and its stationary distribution.
//!
//! ```text
//!   level: jobs in the system      0    1    2   ...   M-1    M   |   M+1   M+2   ...
//!   phase: type-1 jobs in service  0   0-1  0-2  ...  0-(M-1) 0-M |   0-M   0-M   ...    a quasi-birth-death process (QBD)
//!                                  from below: S and sums over it |   from above: R = lambda (-A1 - lambda G)^-1
//! ```
//!
//! An arrival goes a level up, a completion a level down. Up to M the phase set grows and a job's type is drawn at its arrival;
//! above M it is drawn when the job leaves the queue, so that an arrival leaves the phase as it is. The solution meets at M.
//!
//! **Invariant:** [`LevelsBelow`] holds, for a state of its level, sums over all lower levels in units of that state's
//! probability, by sums of positive numbers; it does not depend on M, so that limits one after another share it.

use super::h2::H2;
use super::matrix::{Matrix, dot};

/// Arrivals and service: the parameters that do not depend on the limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Flow {
    /// Arrivals per unit of time.
    pub(super) lambda: f64,
    pub(super) sizes: H2,
    /// Jobs that are served at full speed at a time.
    pub(super) servers: u32,
}

impl Flow {
    /// Returns the speed of each of `jobs` in service.
    fn speed(&self, jobs: usize) -> f64 {
        let jobs = jobs as f64;
        if jobs == 0.0 { 0.0 } else { jobs.min(f64::from(self.servers)) / jobs }
    }

    /// Returns the completions per unit of time of type 1 and of type 2 when `ones` of `jobs` in service are of type 1.
    fn completions(&self, jobs: usize, ones: usize) -> (f64, f64) {
        let speed = self.speed(jobs);
        (ones as f64 * self.sizes.mu1 * speed, (jobs - ones) as f64 * self.sizes.mu2 * speed)
    }
}

/// Sums over the levels below one, for each of its states.
pub(super) struct LevelsBelow {
    level: usize,
    /// S: mean visits to the states one level below in between; rows are states of `level`. Empty at level 0.
    visits: Option<Matrix>,
    /// Probability of all lower levels together, for each state of `level` and in proportion to its own.
    mass: Vec<f64>,
    /// Jobs in the lower levels, likewise.
    jobs: Vec<f64>,
    /// Probability of the state itself on that scale: 1, or less where lower levels are likelier by too many digits.
    unit: f64,
}

/// Value beyond which sums are scaled down.
const LARGE: f64 = 1e100;

impl LevelsBelow {
    pub(super) fn bottom() -> LevelsBelow {
        LevelsBelow { level: 0, visits: None, mass: vec![0.0], jobs: vec![0.0], unit: 1.0 }
    }

    /// Goes one level up.
    pub(super) fn ascend(self, flow: &Flow) -> LevelsBelow {
        let level = self.level;
        // However often the chain goes down and comes back, the way up is taken at the rate of arrivals.
        let times = self.returns(flow).inverse_from(vec![flow.lambda; level + 1]);
        let visits = Matrix::from_fn(level + 2, level + 1, |from, to| {
            let (first, second) = flow.completions(level + 1, from);
            let time_at =
                |phase: Option<usize>| phase.filter(|phase| *phase <= level).map_or(0.0, |phase| times.row(phase)[to]);
            first * time_at(from.checked_sub(1)) + second * time_at(Some(from))
        });
        let here = |sums: &[f64], each: f64| {
            let sums: Vec<f64> = sums.iter().map(|sum| sum + each * self.unit).collect();
            visits.before(&sums)
        };
        let (mass, jobs) = (here(&self.mass, 1.0), here(&self.jobs, level as f64));
        let mut above = LevelsBelow { level: level + 1, visits: Some(visits), mass, jobs, unit: self.unit };
        if above.mass.iter().any(|mass| LARGE < *mass) {
            above.mass.iter_mut().chain(&mut above.jobs).for_each(|sum| *sum /= LARGE);
            above.unit /= LARGE;
        }
        above
    }

    /// Returns the rates at which this level's states are entered from below, for each state from which that way down
    /// was begun.
    fn returns(&self, flow: &Flow) -> Matrix {
        let (first, second) = (flow.lambda * flow.sizes.p, flow.lambda * flow.sizes.q());
        Matrix::from_fn(self.level + 1, self.level + 1, |from, to| {
            let visits = self.visits.as_ref().map_or(&[][..], |visits| visits.row(from));
            let visited = |phase: Option<usize>| phase.and_then(|phase| visits.get(phase)).copied().unwrap_or(0.0);
            second * visited(Some(to)) + first * visited(to.checked_sub(1))
        })
    }
}

/// Means of the stationary distribution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Stationary {
    /// Mean number of jobs, in service and queued.
    pub(super) jobs: f64,
    /// Mean number of jobs in the external queue.
    pub(super) queued: f64,
    /// Probability that an arriving job is queued.
    pub(super) full: f64,
}

/// Returns the stationary distribution with the limit at the level that `below` has reached, at least 1. The chain must
/// be stable.
pub(super) fn stationary(flow: &Flow, below: &LevelsBelow) -> Stationary {
    let mpl = below.level;
    let above = LevelsAbove::new(flow, mpl);
    let r = above.r();
    // The chain as it is while at level M: there by way of higher levels, and by way of lower levels.
    let mut censored = r.times(&above.down);
    censored.add(&below.returns(flow));
    let at_limit = censored.stationary();
    let (phases, levels) = sum_of_powers(&r, &at_limit);
    let full = phases.iter().sum::<f64>() * below.unit;
    let queued = dot(&r.after(&phases), &levels) * below.unit;
    let mass = dot(&at_limit, &below.mass) + full;
    let jobs = dot(&at_limit, &below.jobs) + mpl as f64 * full + queued;
    Stationary { jobs: jobs / mass, queued: queued / mass, full: full / mass }
}

/// Returns two products with the sum P of all powers of `r`: `vector * P`, which has the phases of all levels from M on
/// together, and P * 1, the number of levels from there on that a state stands for.
fn sum_of_powers(r: &Matrix, vector: &[f64]) -> (Vec<f64>, Vec<f64>) {
    let (mut left, mut right) = (vector.to_vec(), vec![1.0; vector.len()]);
    let mut power = r.clone();
    for _ in 0..DOUBLINGS_MAX {
        // (1 + r)(1 + r^2)(1 + r^4)...
        left = sum(&left, &power.after(&left));
        right = sum(&right, &power.before(&right));
        power = power.times(&power);
        if power.row_sums().into_iter().all(|sum| sum < REMAINDER_MAX) {
            break;
        }
    }
    (left, right)
}

fn sum(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| a + b).collect()
}

fn unit(row: usize, column: usize) -> f64 {
    if row == column { 1.0 } else { 0.0 }
}

/// The levels above the limit, all alike.
struct LevelsAbove {
    lambda: f64,
    /// A2: rates of completions; the next job comes from the queue. Nothing changes the phase alone, so that -A1 is a diagonal.
    down: Matrix,
    /// Completions per unit of time in each state, A2's row sums.
    completions: Vec<f64>,
}

/// Largest number of doublings of the levels that are looked at; a stable queue needs far fewer.
const DOUBLINGS_MAX: usize = 60;
/// Largest contribution of the levels that were not looked at.
const REMAINDER_MAX: f64 = 1e-15;

impl LevelsAbove {
    fn new(flow: &Flow, mpl: usize) -> LevelsAbove {
        let (p, q) = (flow.sizes.p, flow.sizes.q());
        let down = Matrix::from_fn(mpl + 1, mpl + 1, |from, to| {
            let (first, second) = flow.completions(mpl, from);
            match from.abs_diff(to) {
                0 => first * p + second * q,
                1 if to < from => first * q,
                1 => second * p,
                _ => 0.0,
            }
        });
        let completions = down.row_sums();
        LevelsAbove { lambda: flow.lambda, down, completions }
    }

    /// Returns G: the phase in which the level below is entered first. Logarithmic reduction (Latouche and Ramaswami
    /// 1993): each step doubles the number of levels up to which the way may lead.
    fn g(&self) -> Matrix {
        let size = self.completions.len();
        let out = |state: usize| self.lambda + self.completions[state];
        let mut up = Matrix::from_fn(size, size, |i, j| unit(i, j) * self.lambda / out(i));
        let mut down = Matrix::from_fn(size, size, |i, j| self.down.row(i)[j] / out(i));
        let (mut g, mut not_yet) = (down.clone(), up.clone());
        for _ in 0..DOUBLINGS_MAX {
            let mut back = up.times(&down);
            back.add(&down.times(&up));
            let (twice_up, twice_down) = (up.times(&up), down.times(&down));
            // Two steps lead back, or two levels up, or two levels down.
            let visits = back.inverse_from(sum(&twice_up.row_sums(), &twice_down.row_sums()));
            (up, down) = (visits.times(&twice_up), visits.times(&twice_down));
            g.add(&not_yet.times(&down));
            not_yet = not_yet.times(&up);
            if not_yet.row_sums().into_iter().all(|sum| sum < REMAINDER_MAX) {
                break;
            }
        }
        g.make_stochastic();
        g
    }

    /// Returns R: mean time in a state of the next level per unit of time in a state of this one, before this level is
    /// entered again.
    fn r(&self) -> Matrix {
        let mut r = self.g();
        r.scale(self.lambda);
        // The rows of -A1 - lambda G: G's own add up to 1.
        let mut r = r.inverse_from(self.completions.clone());
        r.scale(self.lambda);
        r
    }
}
