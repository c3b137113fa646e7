//! The course of the gate's limit, sampled once a second.
//!
//! **Invariant:** seconds of the gate are those of its own phases; in the others no client comes to it, and it keeps
//! its state.

use super::super::super::client::Control;
use super::super::super::servers::MeasuredServer;
use super::super::real::system::console;
use super::Background;
use anyhow::{Context, anyhow};
use locked::Locked;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const LOOK: Duration = Duration::from_secs(1);

/// State that the gate showed at one moment.
#[derive(Clone, Copy, Debug)]
struct LimitSample {
    at: Duration,
    /// Time of the gate's own phases so far.
    gated: Duration,
    mpl: f64,
    /// Relative half-width of the throughput's confidence interval, if it is known.
    off: Option<f64>,
    holds: bool,
}

/// Thread that samples the limit.
pub(super) struct LimitSampler {
    shared: Arc<SamplerState>,
    thread: Background<()>,
}

#[derive(Default)]
struct SamplerState {
    is_gated: AtomicBool,
    samples: Mutex<Vec<LimitSample>>,
}

/// Samples of a run.
pub(super) struct LimitSamples(Vec<LimitSample>);

/// Averages over a part of the time.
#[derive(Clone, Copy, Debug)]
pub(super) struct PeriodMeans {
    /// Mean limit.
    pub(super) mpl: f64,
    /// Uncertainty of the throughput at the end.
    pub(super) off: Option<f64>,
    /// Share of the time in which a limit was held.
    pub(super) holds: f64,
}

impl LimitSampler {
    /// Starts the thread.
    ///
    /// # Errors
    /// If the gate's console does not answer.
    pub(super) fn start(gated: &MeasuredServer) -> anyhow::Result<LimitSampler> {
        let shared = Arc::new(SamplerState::default());
        let (there, control) = (Arc::clone(&shared), Control::connect(&console(gated)?)?);
        let body = move |is_over: &AtomicBool| {
            let (began, mut gated, mut last) = (Instant::now(), Duration::ZERO, Duration::ZERO);
            while !is_over.load(SeqCst) {
                std::thread::park_timeout(LOOK);
                let at = began.elapsed();
                if there.is_gated.load(SeqCst) {
                    gated += at - last;
                }
                last = at;
                let sample = look(&control, at, gated)?;
                there.samples.locked().push(sample);
            }
            Ok(())
        };
        Ok(LimitSampler { shared, thread: Background::start("course", body)? })
    }

    /// Sets whether clients come to the gate from now on.
    pub(super) fn is_gated(&self, is_gated: bool) {
        self.shared.is_gated.store(is_gated, SeqCst);
    }

    pub(super) fn is_alive(&self) -> bool {
        self.thread.is_alive()
    }

    /// Returns the present limit, and whether it is held.
    pub(super) fn last(&self) -> (f64, bool) {
        let samples = self.shared.samples.locked();
        samples.last().map_or((0.0, false), |last| (last.mpl, last.holds))
    }

    /// Ends the thread and returns its samples.
    ///
    /// # Errors
    /// If the gate did not answer.
    pub(super) fn stop(self) -> anyhow::Result<LimitSamples> {
        self.thread.stop().context("the gate's console")?;
        Ok(LimitSamples(std::mem::take(&mut *self.shared.samples.locked())))
    }
}

fn look(control: &Control, at: Duration, gated: Duration) -> anyhow::Result<LimitSample> {
    let row = control.with(async |client| {
        let messages = client.simple_query("show mpl").await?;
        let row = messages.into_iter().find_map(|message| match message {
            tokio_postgres::SimpleQueryMessage::Row(row) => Some(row),
            _ => None,
        });
        row.ok_or_else(|| anyhow!("no row"))
    })?;
    let value = |name: &str| row.try_get(name).map_err(|error| anyhow!("{name}: {error}"));
    let numbered = |name: &str| value(name)?.map(|text| text.parse::<f64>().context("a number")).transpose();
    Ok(LimitSample {
        at,
        gated,
        mpl: numbered("mpl")?.context("the gate shows no limit")?,
        off: numbered("throughput_off")?,
        holds: value("phase")? == Some("holding"),
    })
}

impl LimitSamples {
    pub(super) fn during(&self, time: &Range<Duration>) -> PeriodMeans {
        let inside: Vec<&LimitSample> = self.0.iter().filter(|sample| time.contains(&sample.at)).collect();
        let mean = |value: &dyn Fn(&LimitSample) -> f64| {
            inside.iter().map(|sample| value(sample)).sum::<f64>() / inside.len().max(1) as f64
        };
        PeriodMeans {
            mpl: mean(&|sample| sample.mpl),
            off: inside.last().and_then(|sample| sample.off),
            holds: mean(&|sample| f64::from(u8::from(sample.holds))),
        }
    }

    /// Returns the limit at each second.
    pub(super) fn limits(&self) -> Vec<(usize, f64)> {
        self.0.iter().map(|sample| (sample.at.as_secs() as usize, sample.mpl)).collect()
    }

    pub(super) fn last_mpl(&self) -> f64 {
        self.0.last().map_or(f64::NAN, |sample| sample.mpl)
    }

    /// Returns the share of the time in which a limit was held.
    pub(super) fn held_share(&self) -> f64 {
        self.0.iter().filter(|sample| sample.holds).count() as f64 / self.0.len() as f64
    }

    /// Returns the time that the gate had worked when it first held a limit.
    pub(super) fn held_after(&self) -> Option<Duration> {
        self.0.iter().find(|sample| sample.holds).map(|sample| sample.gated)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_held_is_told_by_the_gates_own_seconds() {
        let sample = |at: u64, gated: u64, mpl: f64, holds: bool| LimitSample {
            at: Duration::from_secs(at),
            gated: Duration::from_secs(gated),
            mpl,
            off: Some(0.1),
            holds,
        };
        let seen = LimitSamples(vec![sample(1, 1, 20.0, false), sample(5, 1, 6.0, false), sample(9, 3, 2.0, true)]);
        assert_eq!(seen.held_after(), Some(Duration::from_secs(3)));
        assert_eq!((seen.last_mpl(), seen.limits().len()), (2.0, 3));
        let during = seen.during(&(Duration::ZERO..Duration::from_secs(6)));
        assert_eq!((during.mpl, during.holds, during.off), (13.0, 0.0, Some(0.1)));
        assert!(LimitSamples(Vec::new()).held_after().is_none());
    }
}
