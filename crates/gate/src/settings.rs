//! Settings of a gate.
//!
//! **Invariant:** by default nothing is ever turned away and nothing times out: a transaction waits until there is
//! room. That is what sets external scheduling apart from admission control (section 1 of the paper).

use stage::Class;
use std::time::Duration;
use thiserror::Error;

/// A class, by its place in [`GateSettings::classes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClassId(pub(crate) u8);

impl ClassId {
    /// Returns the place of the class in [`GateSettings::classes`].
    pub fn index(self) -> usize {
        self.0.into()
    }
}

/// Order in which a class's transactions are admitted.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum AdmissionOrder {
    /// Order of arrival.
    #[default]
    Fifo,
    /// The shortest expected first: a transaction that is expected to take `d` is ordered as if it had come `patience`
    /// times `d` later. So none waits for ever: one that comes later than that is behind it, however short.
    ShortestExpected {
        /// Multiple of its own expected length for which a transaction lets others go before it.
        patience: f64,
    },
}

/// Limit on the slots that a class may hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SlotLimit {
    /// Every slot.
    #[default]
    Unlimited,
    /// A number of slots while another class waits; every slot otherwise, so that no slot stays empty.
    Yielding(u32),
    /// A number of slots, though others stay empty.
    Strict(u32),
}

/// Reaction to a transaction that has been inside for too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reaction {
    /// Count the transaction as one of this class from then on.
    Demote(ClassId),
    /// Ask the caller to cancel the transaction.
    Cancel,
}

/// Limit on the time that a transaction is active inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Runaway {
    /// Longest active time.
    pub after: Duration,
    /// Reaction to transactions that exceed it.
    pub reaction: Reaction,
}

/// Settings of one class of transactions.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassSettings {
    /// Name in settings, views and messages.
    pub name: String,
    /// Level: classes with a smaller level always go before it.
    pub level: u8,
    /// Share of the time in slots, against classes of the same level.
    pub weight: u32,
    /// Number of slots below which the class goes before every other. Others may use slots that it does not.
    pub slots_min: u32,
    /// Limit on the slots that the class may hold.
    pub slots_max: SlotLimit,
    /// Order in which its transactions are admitted.
    pub order: AdmissionOrder,
    /// Limit on the transactions that wait for a slot; more are turned away. Those held back for their hot keys do not
    /// count.
    pub queue_max: Option<usize>,
    /// Longest wait; a transaction that has waited for longer is turned away.
    pub wait_max: Option<Duration>,
    /// Limit on the active time, and the reaction to it.
    pub runaway: Option<Runaway>,
}

impl ClassSettings {
    /// Creates a class that is bound by nothing but its level.
    pub fn new(name: impl Into<String>, level: u8) -> ClassSettings {
        ClassSettings {
            name: name.into(),
            level,
            weight: 1,
            slots_min: 0,
            slots_max: SlotLimit::Unlimited,
            order: AdmissionOrder::Fifo,
            queue_max: None,
            wait_max: None,
            runaway: None,
        }
    }
}

/// Settings of a gate.
#[derive(Clone, Debug, PartialEq)]
pub struct GateSettings {
    /// Classes, at most [`GateSettings::CLASSES_MAX`].
    pub classes: Vec<ClassSettings>,
    /// Number of transactions that may be active inside, to begin with.
    pub mpl: u32,
    /// Processors of the database, by which demands are told from the times that they are stretched to.
    pub processors: u32,
    /// Period of ageing: if no transaction of a class has been admitted for so long, the first that waits counts as one
    /// of the next level above; after twice as long, two above. One at a time of those that need a connection of one
    /// pool.
    pub ageing: Option<Duration>,
    /// Idle time inside a transaction after which it lends its slot to others.
    pub lend_after: Option<Duration>,
    /// Time after which a transaction that comes back for a slot that it has lent gets an extra one.
    pub return_patience: Duration,
    /// Time without departures after which, if all inside may be stuck, one that waits gets an extra slot.
    pub stall_patience: Option<Duration>,
    /// True if the caller reports transactions that wait for a lock inside ([`Gate::stall`](crate::Gate::stall)). If
    /// not, any that is inside may.
    pub knows_stalls: bool,
}

impl GateSettings {
    /// Upper limit on the number of classes; more could not be told apart.
    pub const CLASSES_MAX: usize = 64;

    /// Default of [`GateSettings::ageing`]. Longer than any queue that goes away by itself should last, so that the
    /// important are seldom made to wait for it; and the lowest of three levels has one of its turns in each ten
    /// seconds.
    pub const AGEING: Duration = Duration::from_secs(5);

    /// Returns settings with the classes of a session's priority, in strict order, and this limit.
    pub fn of_priorities(mpl: u32) -> GateSettings {
        let classes = Class::ALL.iter().map(|class| ClassSettings::new(class.name(), *class as u8)).collect();
        GateSettings {
            classes,
            mpl,
            processors: 1,
            ageing: Some(GateSettings::AGEING),
            lend_after: Some(Duration::from_millis(100)),
            return_patience: Duration::from_millis(20),
            stall_patience: Some(Duration::from_secs(1)),
            knows_stalls: false,
        }
    }

    /// Returns the class of this name.
    pub fn class(&self, name: &str) -> Option<ClassId> {
        let index = self.classes.iter().position(|class| class.name == name)?;
        u8::try_from(index).ok().map(ClassId)
    }

    /// Checks that the settings are valid.
    ///
    /// # Errors
    /// The first error, and its class.
    pub fn check(&self) -> Result<(), SettingsError> {
        if self.classes.is_empty() || GateSettings::CLASSES_MAX < self.classes.len() {
            return Err(SettingsError::Classes(self.classes.len()));
        }
        if self.mpl == 0 {
            return Err(SettingsError::NoSlot);
        }
        if self.processors == 0 {
            return Err(SettingsError::NoProcessor);
        }
        for (index, class) in self.classes.iter().enumerate() {
            let name = || class.name.clone();
            if self.classes[..index].iter().any(|other| other.name == class.name) {
                return Err(SettingsError::Twice(name()));
            }
            if class.weight == 0 {
                return Err(SettingsError::Weightless(name()));
            }
            let most = match class.slots_max {
                SlotLimit::Unlimited => u32::MAX,
                SlotLimit::Yielding(most) | SlotLimit::Strict(most) => most,
            };
            if most == 0 || most < class.slots_min {
                return Err(SettingsError::Slots(name(), class.slots_min, most));
            }
            if let AdmissionOrder::ShortestExpected { patience } = class.order
                && !(patience.is_finite() && 0.0 <= patience)
            {
                return Err(SettingsError::Patience(name(), patience));
            }
            if let Some(Runaway { reaction: Reaction::Demote(to), .. }) = class.runaway
                && (to.index() == index || self.classes.get(to.index()).is_none_or(|to| to.level < class.level))
            {
                return Err(SettingsError::Demoted(name()));
            }
        }
        Ok(())
    }
}

/// Error in the settings of a gate.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum SettingsError {
    /// Too few or too many classes.
    #[error("there are {0} classes; 1 to {max} are needed", max = GateSettings::CLASSES_MAX)]
    Classes(usize),
    /// No transaction would ever be admitted.
    #[error("a limit of 0 lets nobody in")]
    NoSlot,
    /// There is no processor to share.
    #[error("a database without processors does nothing")]
    NoProcessor,
    /// Two classes of one name.
    #[error("there are two classes named \"{0}\"")]
    Twice(String),
    /// A class that would never get its turn.
    #[error("class \"{0}\" has weight 0")]
    Weightless(String),
    /// The minimum is above the maximum, or the maximum is 0.
    #[error("class \"{0}\" has at least {1} and at most {2} slots")]
    Slots(String, u32, u32),
    /// Patience that is no valid number.
    #[error("class \"{0}\" has a patience of {1}; a number from 0 is needed")]
    Patience(String, f64),
    /// A class that is asked for does not exist.
    #[error("there is no class \"{0}\"")]
    Missing(String),
    /// Demoted to itself, to one that goes before it, or to none.
    #[error("class \"{0}\" demotes to itself, to a more important class, or to one that does not exist")]
    Demoted(String),
}
