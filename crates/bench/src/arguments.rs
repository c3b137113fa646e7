//! Arguments that benchmarks share.

use crate::report::Output;
use clap::Args;
use host::arguments::seconds;
use serde::Serialize;
use std::time::Duration;

/// Benchmark's own arguments, and the destinations of its report.
#[derive(Args)]
pub struct WithOutput<A: Args> {
    /// The benchmark's own arguments; they appear in the report.
    #[command(flatten)]
    pub arguments: A,
    /// Destinations of the report besides standard output.
    #[command(flatten)]
    pub output: Output,
}

/// Length of each measured phase.
#[derive(Args, Clone, Copy, Debug, Serialize)]
pub struct PhaseDuration {
    /// Seconds per measured phase.
    #[arg(long, value_name = "SECONDS", default_value_t = 3.0, value_parser = seconds)]
    duration: f64,
}

impl PhaseDuration {
    /// Returns the length as a time span.
    pub fn get(self) -> Duration {
        Duration::from_secs_f64(self.duration)
    }
}

/// Parses a scale factor of TPC-H.
///
/// # Errors
/// A sentence that names the allowed values.
pub fn scale_factor(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(factor) if (0.01..=100.0).contains(&factor) => Ok(factor),
        _ => Err("a scale factor from 0.01 to 100 is needed".to_owned()),
    }
}
