//! Classes: how important a piece of work is.

use core::fmt;
use core::str::FromStr;

/// How important a piece of work is. The smaller, the more important.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Class {
    /// Mission-critical: overtakes everything.
    High = 0,
    /// Ordinary transactions.
    Normal = 1,
    /// Reports and other work that may wait.
    Low = 2,
}

impl Class {
    /// All classes, the most important first.
    pub const ALL: [Class; 3] = [Class::High, Class::Normal, Class::Low];

    /// Whether `self` matters more than `other`.
    pub fn outranks(self, other: Class) -> bool {
        self < other
    }

    /// Its name in settings, views and documentation.
    pub fn name(self) -> &'static str {
        match self {
            Class::High => "high",
            Class::Normal => "normal",
            Class::Low => "low",
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Class {
    type Err = String;

    fn from_str(name: &str) -> Result<Class, String> {
        Class::ALL
            .into_iter()
            .find(|class| class.name() == name)
            .ok_or_else(|| format!("unknown class \"{name}\": use high, normal or low"))
    }
}
