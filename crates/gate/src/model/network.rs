//! Throughput against MPL: a closed network of resources (Schroeder et al., section 4.1).
//!
//! N transactions go round among the stations; one that ends is replaced at once. X(N) is their throughput per unit of
//! time.
//!
//! **Invariant:** X(N) = G(N-1) / G(N), and G is made from positive numbers only. The textbook's mean value analysis of stations
//! with many servers finds the probability of an empty station by subtraction and loses every digit of it. Instead, the
//! generating function of a station with demand D and c servers is divided into two factors with positive coefficients
//!
//! ```text
//! sum of f(n) z^n  =  (sum of a(n) z^n) * 1 / (1 - z D/c)        f(n) = f(n-1) D / min(n, c),  f(0) = 1
//!                     a(0) = 1,  a(n) = f(n-1) D (1/n - 1/c) for 1 <= n < c,  a(n) = 0 for c <= n
//! ```
//!
//! of which the first is a convolution of c terms and the second one multiplication for each N. A delay station is the first
//! factor alone, with f(n) = D^n / n!.
//!
//! Tested with 1,000 servers and populations of 10,000 to 11 digits; rounding grows with the number of terms in a sum, so that
//! there is no known bound on either. Time is N times the sum of the servers.

use super::wide::Wide;
use super::{ModelError, TOLERANCE, is_amount};

/// A resource that transactions use.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Station {
    /// Time that one transaction needs here in all, when alone; in any unit, the same for all stations.
    demand: f64,
    /// Number of transactions served at a time; `None`: as many as are there.
    servers: Option<u32>,
}

impl Station {
    /// Creates a resource with a queue: `servers` disks, cores or locks, of which a transaction uses one at a time, for
    /// `demand` in all.
    pub fn queue(demand: f64, servers: u32) -> Station {
        Station { demand, servers: Some(servers) }
    }

    /// Creates a delay, in which a transaction waits for no other: a network, a client that thinks between two
    /// statements.
    pub fn delay(demand: f64) -> Station {
        Station { demand, servers: None }
    }

    /// Returns the time of this station per transaction when all its servers work; 0 for a delay, which has as many as
    /// are needed.
    fn share(&self) -> f64 {
        self.servers.map_or(0.0, |servers| self.demand / f64::from(servers))
    }
}

/// Load of a station with a given number of transactions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StationLoad {
    /// Mean time that a transaction spends here, waiting included, in the unit of the demands.
    pub residence: f64,
    /// Mean number of transactions here, those being served included.
    pub transactions: f64,
    /// Share of the servers that work, 0 to 1; for a delay 0.
    pub utilisation: f64,
}

/// A closed network with one class of transactions.
#[derive(Clone, Debug, PartialEq)]
pub struct Network {
    stations: Vec<Station>,
    /// Time per transaction in which it holds its place and no station.
    think: f64,
    /// Largest share; nothing exceeds one transaction in that time.
    bottleneck: f64,
}

/// Factor below which terms are left out: 2^-120 of the first; see [`Network::numerator`].
const NEGLIGIBLE: f64 = 7.5e-37;
/// Largest limit that is tried.
const POPULATION_MAX: usize = 1 << 17;

impl Network {
    /// Creates a network of these stations, in which a transaction also spends `think` without using any.
    ///
    /// # Errors
    /// If a number is invalid, or no station limits the throughput.
    pub fn new(stations: Vec<Station>, think: f64) -> Result<Network, ModelError> {
        if stations.is_empty() {
            return Err(ModelError::NoStations);
        }
        for (at, station) in stations.iter().enumerate() {
            if !is_amount(station.demand) {
                return Err(ModelError::Demand { station: at, demand: station.demand });
            }
            if station.servers == Some(0) {
                return Err(ModelError::NoServers { station: at });
            }
        }
        if !is_amount(think) {
            return Err(ModelError::Think(think));
        }
        let bottleneck = stations.iter().map(Station::share).fold(0.0, f64::max);
        if bottleneck < f64::MIN_POSITIVE {
            return Err(ModelError::NoDemand);
        }
        Ok(Network { stations, think, bottleneck })
    }

    /// Creates the worst case: `count` stations with one server each and equal demands of 1 (Figure 7 of the paper).
    ///
    /// # Errors
    /// [`ModelError::NoStations`] when `count` is 0.
    pub fn balanced(count: usize) -> Result<Network, ModelError> {
        Network::new(vec![Station::queue(1.0, 1); count], 0.0)
    }

    /// Returns X(infinity), transactions per unit of time: the limit set by the busiest station.
    pub fn throughput_max(&self) -> f64 {
        1.0 / self.bottleneck
    }

    /// Returns X(1) to X(`population_max`), transactions per unit of time.
    pub fn throughput(&self, population_max: usize) -> Vec<f64> {
        let relative = self.relative_throughput(population_max);
        relative.into_iter().map(|share| share / self.bottleneck).collect()
    }

    /// Returns X(1) to X(`population_max`) as shares of X(infinity), 0 to 1. Thinking is no station: it delays, it does
    /// not limit.
    pub fn relative_throughput(&self, population_max: usize) -> Vec<f64> {
        let constants = self.constants(population_max, |_| true);
        constants.windows(2).map(|pair| pair[0].ratio(pair[1])).collect()
    }

    /// Returns the load of each station with `population` transactions, in the order in which the stations were given.
    pub fn loads(&self, population: usize) -> Vec<StationLoad> {
        let constants = self.constants(population, |_| true);
        let throughput: Vec<f64> = constants.windows(2).map(|pair| pair[0].ratio(pair[1]) / self.bottleneck).collect();
        let load = |(at, station): (usize, &Station)| {
            let reached = throughput.last().copied().unwrap_or(0.0);
            let transactions = match station.servers {
                None => reached * station.demand,
                // An arriving transaction finds the state of the network with one transaction less.
                Some(1) => throughput.iter().fold(0.0, |there, reached| reached * station.demand * (1.0 + there)),
                Some(_) => self.transactions_at(at, &constants),
            };
            let residence = if reached == 0.0 { station.demand } else { transactions / reached };
            StationLoad { residence, transactions, utilisation: reached * station.share() }
        };
        self.stations.iter().enumerate().map(load).collect()
    }

    /// Returns the least MPL that keeps the share `keep` of X(infinity).
    ///
    /// # Errors
    /// [`ModelError::OutOfRange`] unless `keep` is above 0 and below 1; [`ModelError::OutOfReach`] beyond 131,072.
    pub fn least_mpl(&self, keep: f64) -> Result<usize, ModelError> {
        if !(0.0 < keep && keep < 1.0) {
            return Err(ModelError::OutOfRange { what: "a share to keep of", value: keep });
        }
        let mut population_max = 64;
        while population_max <= POPULATION_MAX {
            if let Some(mpl) = first_at_least(&self.relative_throughput(population_max), keep) {
                return Ok(mpl);
            }
            population_max *= 2;
        }
        Err(ModelError::OutOfReach { mpl_max: POPULATION_MAX })
    }

    /// Returns the least MPL that keeps the share `keep` of the throughput of this many `clients` without a limit,
    /// X(`clients`).
    ///
    /// # Errors
    /// [`ModelError::OutOfRange`] unless `keep` is above 0 and at most 1 and there are clients.
    pub fn least_mpl_of(&self, clients: usize, keep: f64) -> Result<usize, ModelError> {
        if !(0.0 < keep && keep <= 1.0) {
            return Err(ModelError::OutOfRange { what: "a share to keep of", value: keep });
        }
        let relative = self.relative_throughput(clients);
        let unlimited = relative.last().ok_or(ModelError::OutOfRange { what: "a number of clients of", value: 0.0 })?;
        first_at_least(&relative, keep * unlimited).ok_or(ModelError::OutOfReach { mpl_max: clients })
    }

    /// Returns G(0) to G(`population_max`) of the stations that `wanted` names by their places, and of thinking, with
    /// the bottleneck's share as the unit of time.
    fn constants(&self, population_max: usize, wanted: impl Fn(usize) -> bool) -> Vec<Wide> {
        let mut constants = vec![Wide::ZERO; population_max + 1];
        constants[0] = Wide::ONE;
        let thinking = Station::delay(self.think);
        let wanted = self.stations.iter().enumerate().filter(|(at, _)| wanted(*at)).map(|(_, station)| station);
        for station in wanted.chain([&thinking]) {
            convolve(&mut constants, &self.numerator(station, population_max));
            let share = Wide::new(station.share() / self.bottleneck);
            for n in 1..constants.len() {
                constants[n] = constants[n] + share * constants[n - 1];
            }
        }
        constants
    }

    /// Returns a station's demand with the bottleneck's share as the unit.
    fn scaled(&self, station: &Station) -> f64 {
        (station.demand / self.bottleneck).min(f64::MAX)
    }

    /// Returns the first factor of a station, a(0) to at most a(`population_max`).
    ///
    /// It ends where f(n) falls below a negligible number. With the bottleneck's share as the unit, G does not
    /// decrease, so that a(n) bounds the probability that its term adds to any state: the omitted part is far below
    /// rounding.
    fn numerator(&self, station: &Station, population_max: usize) -> Vec<Wide> {
        let demand = self.scaled(station);
        let terms = station.servers.map_or(usize::MAX, |servers| servers as usize).min(population_max + 1);
        let (small, scaled) = (Wide::new(NEGLIGIBLE), Wide::new(demand));
        let mut factor = Wide::ONE;
        let mut numerator = vec![Wide::ONE];
        for n in 1..terms {
            let last = factor;
            factor = factor * scaled * Wide::new(1.0 / n as f64);
            if demand < n as f64 && factor.ratio(small) < 1.0 {
                break;
            }
            numerator.push(match station.servers {
                None => factor,
                Some(servers) => {
                    let idle = f64::from(servers) - n as f64;
                    last * scaled * Wide::new(idle / (n as f64 * f64::from(servers)))
                }
            });
        }
        numerator
    }

    /// Returns the mean number of transactions at the station with many servers that stands at `at`, from its
    /// distribution there.
    fn transactions_at(&self, at: usize, constants: &[Wide]) -> f64 {
        let (station, population) = (&self.stations[at], constants.len() - 1);
        let servers = station.servers.map_or(usize::MAX, |servers| servers as usize);
        let others = self.constants(population, |other| other != at);
        let demand = Wide::new(self.scaled(station));
        let (mut factor, mut weighted) = (Wide::ONE, Wide::ZERO);
        for here in 1..=population {
            factor = factor * demand * Wide::new(1.0 / here.min(servers) as f64);
            weighted = weighted + factor * others[population - here] * Wide::new(here as f64);
        }
        weighted.ratio(constants[population])
    }
}

/// Multiplies a series by another one that begins with 1, in place and up to the length of the first.
fn convolve(series: &mut [Wide], by: &[Wide]) {
    // From the end, so that a sum reads places that are still as they were.
    for n in (1..series.len()).rev() {
        let terms = by.iter().zip(series[..=n].iter().rev());
        series[n] = terms.fold(Wide::ZERO, |sum, (a, b)| sum + *a * *b);
    }
}

/// Returns the first place, from 1, whose value is not below the threshold.
fn first_at_least(values: &[f64], threshold: f64) -> Option<usize> {
    values.iter().position(|value| threshold * (1.0 - TOLERANCE) <= *value).map(|at| at + 1)
}

#[cfg(test)]
mod tests;
