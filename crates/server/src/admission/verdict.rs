//! Prediction in words of the effect of a limit.
//!
//! **Invariant:** where the model does not apply, the verdict says so and names no number.

use super::{Admission, AdmissionView, Mode, Resource};
use gate::control::{COMPLETIONS_MIN, Forecast, LimitForecast};

/// Minimum of recent seconds of transactions inside, for any conclusion about their waits.
const SECONDS_MIN: f64 = 5.0;
/// Share from which waits for locks dominate the time that transactions spend in the database.
const LOCKS_MIN: f64 = 0.5;
/// Minimum gains of throughput and of the soonest response for which a limit is worth it: less may be the model's
/// error.
const GAIN_MIN: f64 = 1.1;
const SOONER_MIN: f64 = 1.5;

/// Verdict where nothing is counted.
const NO_GATE: &str = "There is no gate, so nothing was seen: overtake.mpl = observe changes nothing, and says here what a limit would do.";

/// Predicted effect of a limit.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// Lowest limit that costs almost nothing, if it can be told.
    pub mpl: Option<u32>,
    /// Verdict in one sentence.
    pub words: String,
}

impl Admission {
    /// Predicts in words what a limit would do. It takes as long as the forecast.
    pub fn verdict(&self) -> Verdict {
        let Some(view) = self.view() else { return Verdict { mpl: None, words: NO_GATE.to_owned() } };
        match self.locks_share() {
            Some(share) => Verdict { mpl: None, words: of_locks(view.mode, share) },
            None => of(&view, self.forecast().as_ref()),
        }
    }

    /// Share of their time in the database that transactions wait for locks, if that is most of it. The model has no
    /// station for locks, so its prediction of throughput is wrong then. Waits for clients do not count.
    pub(super) fn locks_share(&self) -> Option<f64> {
        let rows = self.resources();
        let all: f64 = rows.iter().filter(|row| row.resource.is_inside()).map(|row| row.seconds).sum();
        let locks = rows.iter().find(|row| row.resource == Resource::Lock)?.seconds / all;
        (SECONDS_MIN <= all && LOCKS_MIN <= locks).then_some(locks)
    }
}

fn of_locks(mode: Mode, share: f64) -> String {
    let what = match mode {
        Mode::Auto => "the limit goes by what is measured alone",
        Mode::Off | Mode::Observe | Mode::Fixed => {
            "what a limit would do cannot be forecast; overtake.mpl = auto measures it, and overtake.gate_hot keeps those outside that meet at one row"
        }
    };
    format!(
        "Transactions wait for locks for {:.0} % of their time in the database, which the model of throughput does not know: {what}.",
        share * 100.0
    )
}

fn of(view: &AdmissionView, forecast: Option<&Forecast>) -> Verdict {
    let unknown = |words: String| Verdict { mpl: None, words };
    let seen = &view.seen;
    if seen.completions < COMPLETIONS_MIN {
        return unknown(format!(
            "Nothing can be said yet: {} transactions were seen to end, and {COMPLETIONS_MIN} are needed.",
            seen.completions
        ));
    }
    let said = forecast.and_then(|forecast| Some((forecast, forecast.enough?)));
    let Some((forecast, enough)) = said else {
        return unknown("What a limit would do cannot be told from what was seen.".to_owned());
    };
    let words = match view.mode {
        Mode::Observe => of_none(seen.throughput.mean, seen.active, forecast.now, &enough),
        Mode::Off | Mode::Fixed | Mode::Auto => format!(
            "MPL {} is in force; MPL {} would be the lowest that costs almost nothing.",
            view.gate.mpl, enough.mpl
        ),
    };
    Verdict { mpl: Some(enough.mpl), words }
}

/// Verdict where there is no limit yet.
fn of_none(throughput: f64, active: f64, now: f64, enough: &LimitForecast) -> String {
    let (gain, sooner) = (enough.throughput / throughput, now / enough.first);
    if gain < GAIN_MIN && sooner < SOONER_MIN {
        return format!(
            "No gain is expected from a limit: {active:.1} transactions are active on average, and with the lowest limit that costs \
             almost nothing, MPL {}, one that goes first would end after {} instead of {}.",
            enough.mpl,
            ms(enough.first),
            ms(now)
        );
    }
    format!(
        "Enforcing MPL {} would give {:.0} transactions a second instead of {throughput:.0} ({:+.0} %), and one that goes first would \
         end after {} instead of {}.",
        enough.mpl,
        enough.throughput,
        (gain - 1.0) * 100.0,
        ms(enough.first),
        ms(now)
    )
}

fn ms(seconds: f64) -> String {
    let ms = seconds * 1e3;
    if ms < 10.0 { format!("{ms:.1} ms") } else { format!("{ms:.0} ms") }
}

#[cfg(test)]
mod tests {
    use super::super::resources::ResourceSample;
    use super::super::{About, AdmissionOptions};
    use super::*;
    use stage::Class;
    use std::time::{Duration, Instant};

    fn observing() -> Admission {
        Admission::new(&AdmissionOptions { mode: Mode::Observe, ..AdmissionOptions::default() }).expect("an admission")
    }

    fn run(admission: &Admission, count: u64) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let about = About { class: Class::Normal, fingerprint: None, hot_key: None, owner: 0 };
        for _ in 0..count {
            runtime.block_on(admission.enter(about, Instant::now())).expect("it is open").done(Instant::now());
        }
    }

    #[test]
    fn it_says_what_it_knows() {
        let admission = observing();
        run(&admission, 3);
        let words = |admission: &Admission| admission.verdict().words;
        assert_eq!(words(&admission), "Nothing can be said yet: 3 transactions were seen to end, and 400 are needed.");
        run(&admission, 1_000);
        // Transactions run one after another, so they do not delay each other.
        assert!(words(&admission).starts_with("No gain is expected from a limit: "), "{}", words(&admission));
        assert!(admission.verdict().mpl.is_some() && admission.forecast().is_some());
        let mut sample = ResourceSample::default();
        // Time at clients does not belong to the database, and the largest part may still be small.
        sample.at[Resource::Client as usize] = 900;
        sample.at[Resource::Lock as usize] = 4;
        sample.at[Resource::Processor as usize] = 3;
        sample.at[Resource::Io as usize] = 3;
        for _ in 0..20 {
            admission.record(Duration::from_millis(100), &sample);
        }
        assert_eq!(admission.locks_share(), None);
        let admission = observing();
        run(&admission, 1_000);
        sample.at[Resource::Io as usize] = 0;
        sample.at[Resource::Lock as usize] = 9;
        sample.at[Resource::Processor as usize] = 1;
        for _ in 0..10 {
            admission.record(Duration::from_millis(100), &sample);
        }
        assert!(
            words(&admission).starts_with("Transactions wait for locks for 90 % of their time in the database, "),
            "{}",
            words(&admission)
        );
        assert_eq!((admission.verdict().mpl, admission.forecast()), (None, None));
        assert!(words(&Admission::default()).starts_with("There is no gate"));
    }

    #[test]
    fn a_gain_is_said_in_numbers() {
        let enough = LimitForecast { mpl: 6, throughput: 1_230.0, response: 0.08, first: 0.004_9 };
        assert_eq!(
            of_none(1_000.0, 100.0, 0.1, &enough),
            "Enforcing MPL 6 would give 1230 transactions a second instead of 1000 (+23 %), and one that goes first would end \
             after 4.9 ms instead of 100 ms."
        );
    }
}
