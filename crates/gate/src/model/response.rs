//! Mean response time against MPL: an external queue before a processor-sharing server (Schroeder et al., section 4.2).
//!
//! Jobs arrive by a Poisson process; their sizes follow [`H2`] with mean 1, the unit of time. At most M are in service,
//! and share `servers` processors of speed 1, none with more than one. The others wait outside, first come first
//! served. M = 1 (with one server) is first come first served altogether; without a limit it is processor sharing,
//! whose mean response time does not depend on the sizes' variability.
//!
//! **Invariant:** with one server every limit does the same work per unit of time; only the order differs. So a limit costs
//! nothing when C² is 1, and the more the larger C² is.

use super::h2::H2;
use super::qbd::{self, Flow, LevelsBelow};
use super::{ModelError, TOLERANCE};

/// Largest limit that is computed. Time grows with its third power, with its fourth for one limit alone.
pub const MPL_MAX: usize = 400;

/// The model of Figure 10.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Response {
    flow: Flow,
    processor_sharing: f64,
}

/// Cost of a limit; times in mean job sizes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AtMpl {
    /// Limit.
    pub mpl: usize,
    /// Mean time from arrival to completion, E\[T\].
    pub response: f64,
    /// Part of that spent in the external queue, on average.
    pub external_wait: f64,
    /// Probability that an arriving job finds the limit reached and waits.
    pub waits: f64,
    /// Ratio of `response` to that without a limit.
    pub ratio_to_ps: f64,
}

impl AtMpl {
    /// Returns true if the mean response time exceeds that without a limit by at most this share.
    pub fn keeps(&self, allowed_increase: f64) -> bool {
        self.ratio_to_ps <= (1.0 + allowed_increase) * (1.0 + TOLERANCE)
    }
}

impl Response {
    /// Creates a model of `servers` processors, of whose capacity the jobs need the share `load`; sizes with this C²,
    /// of which less than 1 counts as 1.
    ///
    /// # Errors
    /// If `load` is not between 0 and 1, C² is invalid, or there is no server.
    pub fn new(load: f64, c2: f64, servers: u32) -> Result<Response, ModelError> {
        let sizes = H2::with_balanced_means(1.0, c2)?;
        let processor_sharing = processor_sharing(load, servers)?;
        Ok(Response { flow: Flow { lambda: load * f64::from(servers), sizes, servers }, processor_sharing })
    }

    /// Returns the mean response time without a limit, in mean job sizes.
    pub fn processor_sharing(&self) -> f64 {
        self.processor_sharing
    }

    /// Returns the distribution of the sizes.
    pub fn sizes(&self) -> H2 {
        self.flow.sizes
    }

    /// Returns the cost of the limit `mpl`.
    ///
    /// # Errors
    /// [`ModelError::OutOfRange`] unless it is from 1 to [`MPL_MAX`]; [`ModelError::Unstable`] if so few cannot do the
    /// work.
    pub fn at(&self, mpl: usize) -> Result<AtMpl, ModelError> {
        self.check(mpl)?;
        let below = (0..mpl).fold(LevelsBelow::bottom(), |below, _| below.ascend(&self.flow));
        Ok(self.solve(mpl, &below))
    }

    /// Returns the cost of each limit up to `mpl_max`, from the least one that can do the work; cheaper than one by
    /// one.
    ///
    /// # Errors
    /// As [`Response::at`] with `mpl_max`.
    pub fn curve(&self, mpl_max: usize) -> Result<Vec<AtMpl>, ModelError> {
        Ok(self.each(mpl_max)?.collect())
    }

    /// Returns the cost of each limit one by one, each computed when it is asked for.
    ///
    /// # Errors
    /// As [`Response::at`] with `mpl_max`.
    pub fn each(&self, mpl_max: usize) -> Result<impl Iterator<Item = AtMpl>, ModelError> {
        self.check(mpl_max)?;
        let mut below = Some(LevelsBelow::bottom());
        Ok((1..=mpl_max).filter_map(move |mpl| {
            let here = below.take()?.ascend(&self.flow);
            let solved = self.check(mpl).is_ok().then(|| self.solve(mpl, &here));
            below = Some(here);
            solved
        }))
    }

    /// Returns the least limit whose mean response time exceeds that without a limit by at most the share
    /// `allowed_increase`.
    ///
    /// # Errors
    /// [`ModelError::OutOfRange`] unless the increase is above 0 and finite; [`ModelError::OutOfReach`] beyond
    /// [`MPL_MAX`].
    pub fn least_mpl(&self, allowed_increase: f64) -> Result<usize, ModelError> {
        if !(0.0 < allowed_increase && allowed_increase.is_finite()) {
            return Err(ModelError::OutOfRange { what: "an allowed increase of", value: allowed_increase });
        }
        let enough = |mpl: usize| match self.at(mpl) {
            Ok(at) => at.keeps(allowed_increase),
            Err(_) => false,
        };
        // A larger limit is never worse here: double it until it is enough, then halve the gap.
        let mut high = 1;
        while !enough(high) {
            if MPL_MAX <= high {
                return Err(ModelError::OutOfReach { mpl_max: MPL_MAX });
            }
            high = (2 * high).min(MPL_MAX);
        }
        let mut low = high / 2;
        while low + 1 < high {
            let middle = low.midpoint(high);
            if enough(middle) { high = middle } else { low = middle }
        }
        Ok(high)
    }

    fn check(&self, mpl: usize) -> Result<(), ModelError> {
        if !(1..=MPL_MAX).contains(&mpl) {
            return Err(ModelError::OutOfRange { what: "a limit of", value: mpl as f64 });
        }
        let capacity = (mpl as f64).min(f64::from(self.flow.servers));
        if capacity <= self.flow.lambda { Err(ModelError::Unstable { mpl }) } else { Ok(()) }
    }

    fn solve(&self, mpl: usize, below: &LevelsBelow) -> AtMpl {
        let found = qbd::stationary(&self.flow, below);
        // Little's law.
        let response = found.jobs / self.flow.lambda;
        AtMpl {
            mpl,
            response,
            external_wait: found.queued / self.flow.lambda,
            waits: found.full,
            ratio_to_ps: response / self.processor_sharing,
        }
    }
}

/// Returns the mean response time of processor sharing by `servers` processors, in mean job sizes: that of M/M/c,
/// whatever the sizes' variability.
///
/// # Errors
/// If `load` is not between 0 and 1, or there is no server.
pub fn processor_sharing(load: f64, servers: u32) -> Result<f64, ModelError> {
    check_load(load)?;
    if servers == 0 {
        return Err(ModelError::OutOfRange { what: "a number of servers of", value: 0.0 });
    }
    let offered = load * f64::from(servers);
    // Erlang's loss formula by its recursion, and from it the probability that all processors work.
    let lost = (1..=servers).fold(1.0, |lost, n| offered * lost / (f64::from(n) + offered * lost));
    let all_work = lost / (1.0 - load * (1.0 - lost));
    Ok(1.0 + all_work / (f64::from(servers) * (1.0 - load)))
}

/// Returns the mean response time of one server, first come first served, in mean job sizes: the case M = 1 (Pollaczek
/// and Khinchine).
///
/// # Errors
/// If `load` is not between 0 and 1, or C² is invalid. Any C² of at least 0 is exact here.
pub fn pollaczek_khinchine(load: f64, c2: f64) -> Result<f64, ModelError> {
    check_load(load)?;
    if !super::is_amount(c2) {
        return Err(ModelError::Variability(c2));
    }
    Ok(1.0 + load * (1.0 + c2) / 2.0 / (1.0 - load))
}

fn check_load(load: f64) -> Result<(), ModelError> {
    if 0.0 < load && load < 1.0 { Ok(()) } else { Err(ModelError::NoSteadyState(load)) }
}

#[cfg(test)]
mod tests;
