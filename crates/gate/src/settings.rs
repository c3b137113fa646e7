//! What a gate is told when it is made.
//!
//! **Invariant:** by default nothing is ever turned away and nothing times out: who comes waits until there is room. That is what
//! sets external scheduling apart from admission control (section 1 of the paper).

use stage::Class;
use std::time::Duration;
use thiserror::Error;

/// A class, by its place in [`Settings::classes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClassId(pub(crate) u8);

impl ClassId {
    /// Its place in [`Settings::classes`].
    pub fn index(self) -> usize {
        self.0.into()
    }
}

/// In which order a class's transactions go in.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Order {
    /// As they have come.
    #[default]
    Fifo,
    /// The shortest expected first: one that is expected to take `d` goes as if it had come `patience` times `d` later. So
    /// nobody waits for ever: who comes later than that is behind it, however short.
    ShortestExpected {
        /// How many times its own expected length a transaction lets others go before it.
        patience: f64,
    },
}

/// How many slots a class may hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Most {
    /// All of them.
    #[default]
    Unlimited,
    /// So many while another class waits; all of them else, so that no slot stays empty.
    Yielding(u32),
    /// So many, though slots stay empty.
    Strict(u32),
}

/// What becomes of a transaction that has been inside for too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reaction {
    /// It counts as one of this class from then on.
    Demote(ClassId),
    /// The caller is asked to cancel it.
    Cancel,
}

/// A bound on the time that a transaction is active inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Runaway {
    /// The bound.
    pub after: Duration,
    /// What becomes of those that exceed it.
    pub reaction: Reaction,
}

/// One class of transactions.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassSettings {
    /// Its name in settings, views and messages.
    pub name: String,
    /// Classes with a smaller level go before it, always.
    pub level: u8,
    /// Its share of the time in slots, against classes of the same level.
    pub weight: u32,
    /// Below so many slots it goes before everybody. What it does not use others may.
    pub slots_min: u32,
    /// How many slots it may hold.
    pub slots_max: Most,
    /// In which order its transactions go in.
    pub order: Order,
    /// More than so many that wait for a slot are turned away; those held back for their hot keys do not count.
    pub queue_max: Option<usize>,
    /// Who has waited for so long is turned away.
    pub wait_max: Option<Duration>,
    /// What becomes of those that stay for too long.
    pub runaway: Option<Runaway>,
}

impl ClassSettings {
    /// A class that is bound by nothing but its level.
    pub fn new(name: impl Into<String>, level: u8) -> ClassSettings {
        ClassSettings {
            name: name.into(),
            level,
            weight: 1,
            slots_min: 0,
            slots_max: Most::Unlimited,
            order: Order::Fifo,
            queue_max: None,
            wait_max: None,
            runaway: None,
        }
    }
}

/// What a gate is told when it is made.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The classes, at most [`Settings::CLASSES_MAX`].
    pub classes: Vec<ClassSettings>,
    /// How many transactions may be active inside, to begin with.
    pub mpl: u32,
    /// Processors of the database, by which demands are told from the times that they are stretched to.
    pub processors: u32,
    /// If nobody of a class has gone in for so long, the first that waits counts as one of the next level above; after twice as long,
    /// two above. One at a time of those who need a connection of the same pool.
    pub ageing: Option<Duration>,
    /// Who is idle inside its transaction for so long lends its slot to others.
    pub lend_after: Option<Duration>,
    /// Who comes back to a slot that it has lent gets an extra one after so long.
    pub return_patience: Duration,
    /// When nobody has left for so long and all inside may be stuck, one that waits gets an extra slot.
    pub stall_patience: Option<Duration>,
    /// Whether the caller says who waits for a lock inside ([`Gate::stall`](crate::Gate::stall)). If not, everybody who is
    /// inside may.
    pub knows_stalls: bool,
}

impl Settings {
    /// More classes than this are none that anybody could tell apart.
    pub const CLASSES_MAX: usize = 64;

    /// [`Settings::ageing`], unless it is said. Longer than any queue that goes away by itself should last, so that the important are
    /// seldom made to wait for it; and who is at the lowest of three levels has one of its turns in each ten seconds.
    pub const AGEING: Duration = Duration::from_secs(5);

    /// The classes of a session's priority, in strict order, and a limit of so many.
    pub fn of_priorities(mpl: u32) -> Settings {
        let classes = Class::ALL.iter().map(|class| ClassSettings::new(class.name(), *class as u8)).collect();
        Settings {
            classes,
            mpl,
            processors: 1,
            ageing: Some(Settings::AGEING),
            lend_after: Some(Duration::from_millis(100)),
            return_patience: Duration::from_millis(20),
            stall_patience: Some(Duration::from_secs(1)),
            knows_stalls: false,
        }
    }

    /// The class of this name.
    pub fn class(&self, name: &str) -> Option<ClassId> {
        let index = self.classes.iter().position(|class| class.name == name)?;
        u8::try_from(index).ok().map(ClassId)
    }

    /// Whether a gate can be made of them.
    ///
    /// # Errors
    /// What is wrong, and of which class.
    pub fn check(&self) -> Result<(), SettingsError> {
        if self.classes.is_empty() || Settings::CLASSES_MAX < self.classes.len() {
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
                Most::Unlimited => u32::MAX,
                Most::Yielding(most) | Most::Strict(most) => most,
            };
            if most == 0 || most < class.slots_min {
                return Err(SettingsError::Slots(name(), class.slots_min, most));
            }
            if let Order::ShortestExpected { patience } = class.order
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

/// Why no gate can be made of its settings.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum SettingsError {
    /// Too few or too many classes.
    #[error("there are {0} classes; 1 to {max} are needed", max = Settings::CLASSES_MAX)]
    Classes(usize),
    /// Nobody would ever get in.
    #[error("a limit of 0 lets nobody in")]
    NoSlot,
    /// There is none to share.
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
    /// No number that orders anything.
    #[error("class \"{0}\" has a patience of {1}; a number from 0 is needed")]
    Patience(String, f64),
    /// One that is asked for is not there.
    #[error("there is no class \"{0}\"")]
    Missing(String),
    /// Demoted to itself, to one that goes before it, or to none.
    #[error("class \"{0}\" demotes to itself, to a more important class, or to one that does not exist")]
    Demoted(String),
}
