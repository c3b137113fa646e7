//! Settings of the gate: `overtake.mpl…` and `overtake.gate_…`.
//!
//! **Invariant:** an invalid setting is reported with its name and with the values that are valid, before the server
//! begins.

use super::hot::HotRules;
use super::marks::NeededMarks;
use super::resources::Demands;
use gate::control::{ControlSettings, Goal};
use gate::model::Network;
use gate::{AdmissionOrder, ClassSettings, GateSettings, Reaction, Runaway, SlotLimit};
use settings::Defaults;
use settings::sources::OptionError;
use std::time::Duration;

/// Mode of the gate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// There is no gate.
    #[default]
    Off,
    /// The gate only observes: every transaction is admitted at once, and the forecast tells what a limit would do.
    Observe,
    /// The gate keeps a configured limit.
    Fixed,
    /// The gate finds the limit.
    Auto,
}

impl Mode {
    /// Name of the mode in views.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Off => "off",
            Mode::Observe => "observe",
            Mode::Fixed => "fixed",
            Mode::Auto => "auto",
        }
    }
}

/// Options of a [`Admission`](crate::Admission).
#[derive(Clone, Debug)]
pub struct AdmissionOptions {
    /// Mode of the gate.
    pub mode: Mode,
    /// Settings of the gate.
    pub gate: GateSettings,
    /// True if the number of processors is configured, and is not to be detected.
    pub has_processors: bool,
    /// Settings of the controller, under [`Mode::Auto`].
    pub control: ControlSettings,
    /// Rules that find the hot keys of transactions, by their first statements.
    pub hot: HotRules,
}

impl Default for AdmissionOptions {
    fn default() -> AdmissionOptions {
        AdmissionOptions {
            mode: Mode::Off,
            gate: GateSettings::of_priorities(UNLIMITED),
            has_processors: false,
            control: ControlSettings::default(),
            hot: HotRules::default(),
        }
    }
}

/// Limit that stands for no limit.
pub(crate) const UNLIMITED: u32 = u32::MAX / 2;
/// Patience under `shortest`: a transaction lets others go first for this many times its own expected length.
const PATIENCE: f64 = 20.0;

impl AdmissionOptions {
    /// Reads the options from the settings. `default` stands for `overtake.mpl` where it is not set; `knows_stalls`
    /// tells that the servers behind the gate report lock waits.
    ///
    /// # Errors
    /// Names the setting that describes no valid gate.
    pub fn from_settings(
        settings: &Defaults,
        default: &str,
        knows_stalls: bool,
    ) -> Result<AdmissionOptions, OptionError> {
        let said = match settings.get("overtake.mpl") {
            "" => default,
            said => said,
        };
        let wrong = || {
            OptionError::of(
                "overtake.mpl",
                format!("\"{said}\" is none of off, observe, auto, and no number from 1 to 10000"),
            )
        };
        let (mode, mpl) = match said {
            "off" => (Mode::Off, UNLIMITED),
            "observe" => (Mode::Observe, UNLIMITED),
            // `auto` starts at 1 here. The controller sets its own start when the gate is made.
            "auto" => (Mode::Auto, 1),
            number => match number.parse::<u32>() {
                Ok(mpl) if (1..=10_000).contains(&mpl) => (Mode::Fixed, mpl),
                _ => return Err(wrong()),
            },
        };
        let number = |name: &str| u32::try_from(settings.number(name)).unwrap_or(0);
        let processors = match number("overtake.mpl_processors") {
            0 => u32::try_from(crate::workers::processors()).unwrap_or(1),
            count => count,
        };
        let (mpl_min, mpl_max) = (number("overtake.mpl_min"), number("overtake.mpl_max"));
        if mpl_max < mpl_min {
            let error = format!("overtake.mpl_min is {mpl_min}, and this is {mpl_max}: no limit is between them");
            return Err(OptionError::of("overtake.mpl_max", error));
        }
        let mut gate = GateSettings { processors, mpl, knows_stalls, ..GateSettings::of_priorities(mpl) };
        let never = |name: &str| (settings.number(name) != -1).then(|| settings.duration(name));
        gate.ageing = Some(settings.duration("overtake.gate_ageing")).filter(|ageing| !ageing.is_zero());
        gate.lend_after = never("overtake.gate_lend_after");
        gate.return_patience = settings.duration("overtake.gate_return_patience");
        gate.stall_patience = never("overtake.gate_stall_patience");
        // Classes are checked before anything refers to them by name.
        classes(settings.get("overtake.gate_classes"), &mut gate)?;
        gate.check().map_err(|error| OptionError::of("overtake.gate_classes", error.to_string()))?;
        let percent = |name: &str| settings.real(name) / 100.0;
        let (loss_max, increase_max) = (percent("overtake.mpl_loss"), percent("overtake.mpl_increase"));
        for (name, share, most) in [("overtake.mpl_loss", loss_max, 0.9), ("overtake.mpl_increase", increase_max, 10.0)]
        {
            if !(0.001..=most).contains(&share) {
                return Err(OptionError::of(name, format!("a percentage from 0.1 to {} is needed", most * 100.0)));
            }
        }
        let goal = match settings.get("overtake.mpl_best_for") {
            "" => Goal::Lowest { loss_max, increase_max },
            name => Goal::BestFor(
                gate.class(name)
                    .ok_or_else(|| OptionError::of("overtake.mpl_best_for", format!("there is no class \"{name}\"")))?,
            ),
        };
        let model = demands(settings.get("overtake.mpl_demands"), processors)?;
        let control = ControlSettings { goal, mpl_min, mpl_max, model, ..ControlSettings::default() };
        let has_processors = number("overtake.mpl_processors") != 0;
        let hot = HotRules::parse(settings.get("overtake.gate_hot"))
            .map_err(|error| OptionError::of("overtake.gate_hot", error))?;
        Ok(AdmissionOptions { mode, gate, has_processors, control, hot })
    }

    /// Properties of statements that the settings need.
    pub(super) fn asked(&self) -> NeededMarks {
        let by_length = |class: &ClassSettings| matches!(class.order, AdmissionOrder::ShortestExpected { .. });
        NeededMarks { fingerprints: self.gate.classes.iter().any(by_length), hot: self.hot.clone() }
    }

    /// True if some class limits the run time of its transactions.
    pub(super) fn bounds_runaways(&self) -> bool {
        self.gate.classes.iter().any(|class| class.runaway.is_some())
    }
}

/// Parses `resource=milliseconds …` into a network; `None` for an empty text.
fn demands(text: &str, processors: u32) -> Result<Option<Network>, OptionError> {
    let mut demands = Demands::default();
    let wrong = |why: String| {
        let known =
            "Known are processor, io, log and think, each with the milliseconds that a transaction needs of it.";
        OptionError::of("overtake.mpl_demands", format!("{why}. {known}"))
    };
    for word in text.split_whitespace() {
        let (name, ms) =
            word.split_once('=').ok_or_else(|| wrong(format!("\"{word}\" is no RESOURCE=MILLISECONDS")))?;
        let ms: f64 = ms.parse().map_err(|_| wrong(format!("\"{ms}\" is no number of milliseconds")))?;
        let demand = match name {
            "processor" => &mut demands.processor,
            "io" => &mut demands.io,
            "log" => &mut demands.log,
            "think" => &mut demands.think,
            _ => return Err(wrong(format!("there is no resource \"{name}\""))),
        };
        *demand = ms / 1e3;
    }
    if text.trim().is_empty() {
        return Ok(None);
    }
    demands.network(processors).map(Some).map_err(|error| wrong(error.to_string()))
}

/// Applies `CLASS word=value …; …` to the existing classes.
fn classes(text: &str, gate: &mut GateSettings) -> Result<(), OptionError> {
    for part in text.split(';').map(str::trim).filter(|part| !part.is_empty()) {
        let mut words = part.split_whitespace();
        let name = words.next().unwrap_or_default();
        let index = gate.class(name).ok_or_else(|| wrong(part, &format!("there is no class \"{name}\"")))?.index();
        for word in words {
            let (key, value) =
                word.split_once('=').ok_or_else(|| wrong(part, &format!("\"{word}\" is no WORD=VALUE")))?;
            let class =
                class_with(gate, index, key, value).ok_or_else(|| wrong(part, &format!("\"{word}\" is not known")))?;
            gate.classes[index] = class;
        }
    }
    Ok(())
}

fn wrong(part: &str, why: &str) -> OptionError {
    let known = "Known are level, weight, slots_min, slots_max (never more), slots_share (more while nobody else waits), \
                 order=fifo|shortest, queue_max, wait_max, runaway=TIME and runaway_to=CLASS|cancel.";
    OptionError::of("overtake.gate_classes", format!("\"{part}\": {why}. {known}"))
}

/// Returns the class with one property changed; `None` if there is no such property, or no such value.
fn class_with(gate: &GateSettings, index: usize, key: &str, value: &str) -> Option<ClassSettings> {
    let mut class = gate.classes[index].clone();
    match key {
        "level" => class.level = value.parse().ok()?,
        "weight" => class.weight = value.parse().ok()?,
        "slots_min" => class.slots_min = value.parse().ok()?,
        "slots_max" => class.slots_max = SlotLimit::Strict(value.parse().ok()?),
        "slots_share" => class.slots_max = SlotLimit::Yielding(value.parse().ok()?),
        "queue_max" => class.queue_max = Some(value.parse().ok()?),
        "wait_max" => class.wait_max = Some(time(value)?),
        "order" => {
            class.order = match value {
                "fifo" => AdmissionOrder::Fifo,
                "shortest" => AdmissionOrder::ShortestExpected { patience: PATIENCE },
                _ => return None,
            }
        }
        "runaway" => {
            // A transaction of the lowest class cannot be demoted any further.
            let low = gate.class("low")?;
            let default = if low.index() == index { Reaction::Cancel } else { Reaction::Demote(low) };
            let reaction = class.runaway.map_or(default, |runaway| runaway.reaction);
            let after = time(value).filter(|after| !after.is_zero())?;
            class.runaway = Some(Runaway { after, reaction });
        }
        "runaway_to" => {
            let reaction = match value {
                "cancel" => Reaction::Cancel,
                name => Reaction::Demote(gate.class(name)?),
            };
            let after = class.runaway.map_or(Duration::from_mins(1), |runaway| runaway.after);
            class.runaway = Some(Runaway { after, reaction });
        }
        _ => return None,
    }
    Some(class)
}

/// Parses a number of milliseconds, or one with `ms`, `s` or `min`.
fn time(text: &str) -> Option<Duration> {
    let end = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let number: u64 = number.parse().ok()?;
    match unit {
        "" | "ms" => Some(Duration::from_millis(number)),
        "s" => Some(Duration::from_secs(number)),
        "min" => Some(Duration::from_secs(number.checked_mul(60)?)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use settings::sources::read_flag;

    fn options(flags: &[&str]) -> Result<AdmissionOptions, OptionError> {
        let mut settings = Defaults::default();
        for flag in flags {
            read_flag(flag, &mut settings)?;
        }
        AdmissionOptions::from_settings(&settings, "off", true)
    }

    #[test]
    fn modes_are_words_or_a_number() {
        let mode = |flags: &[&str]| options(flags).map(|options| (options.mode, options.gate.mpl)).ok();
        assert_eq!(mode(&[]), Some((Mode::Off, UNLIMITED)));
        assert_eq!(mode(&["overtake.mpl=auto"]).map(|(mode, _)| mode), Some(Mode::Auto));
        assert_eq!(mode(&["overtake.mpl=observe"]), Some((Mode::Observe, UNLIMITED)));
        assert_eq!(mode(&["overtake.mpl=12"]), Some((Mode::Fixed, 12)));
        for wrong in [
            "overtake.mpl=0",
            "overtake.mpl=x",
            "overtake.mpl_loss=0",
            "overtake.mpl_best_for=nobody",
            "overtake.gate_hot=select 1",
        ] {
            let error = options(&[wrong]).expect_err(wrong).to_string();
            assert!(error.starts_with(wrong.split('=').next().unwrap_or_default()), "{error}");
        }
    }

    #[test]
    fn demands_are_a_network() {
        let model = |text: &str| options(&[&format!("overtake.mpl_demands={text}"), "overtake.mpl_processors=4"]);
        assert_eq!(model("").expect("none").control.model, None);
        let network = model("processor=8 log=0.5 think=3").expect("demands").control.model.expect("a network");
        // Four processors complete 500 transactions a second.
        assert!((network.throughput_max() - 500.0).abs() < 1e-6, "{network:?}");
        for wrong in ["processor", "processor=x", "cpu=1", "processor=-1", "io=0", "think=5", "log=inf"] {
            let error = model(wrong).expect_err(wrong).to_string();
            assert!(error.starts_with("overtake.mpl_demands: "), "{error}");
        }
    }

    #[test]
    fn classes_are_changed_word_by_word() {
        let text = "overtake.gate_classes=low slots_max=4 wait_max=10s queue_max=100; \
                    normal level=0 weight=3 order=shortest runaway=2s runaway_to=low; high slots_min=2 slots_share=8";
        let [high, normal, low] = &options(&[text]).expect("classes").gate.classes[..] else { panic!("three classes") };
        assert_eq!(
            (low.slots_max, low.wait_max, low.queue_max),
            (SlotLimit::Strict(4), Some(Duration::from_secs(10)), Some(100))
        );
        assert_eq!((normal.level, normal.weight), (0, 3));
        assert!(matches!(normal.order, AdmissionOrder::ShortestExpected { .. }));
        assert!(matches!(normal.runaway, Some(Runaway { reaction: Reaction::Demote(_), .. })));
        assert_eq!((high.slots_min, high.slots_max), (2, SlotLimit::Yielding(8)));
        for alone in ["runaway=20s", "runaway_to=cancel", "slots_min=1", "wait_max=1s", "order=shortest", "level=9"] {
            options(&[&format!("overtake.gate_classes=low {alone}")]).expect(alone);
        }
        let [high, _, low] =
            &options(&["overtake.gate_classes=low runaway=20s; high runaway=20s"]).expect("classes").gate.classes[..]
        else {
            panic!("three classes")
        };
        let reaction = |class: &ClassSettings| class.runaway.map(|runaway| (runaway.after.as_secs(), runaway.reaction));
        assert_eq!(reaction(low), Some((20, Reaction::Cancel)), "there is no lower one");
        assert!(matches!(reaction(high), Some((20, Reaction::Demote(to))) if to.index() == 2));
        for wrong in [
            "lwo weight=1",
            "low weight",
            "low wieght=1",
            "low weight=0",
            "low wait_max=1h",
            "low slots_max=x",
            "low runaway=0",
        ] {
            let error = options(&[&format!("overtake.gate_classes={wrong}")]).expect_err(wrong).to_string();
            assert!(error.starts_with("overtake.gate_classes: "), "{error}");
        }
    }
}
