//! Classes: the importance of a piece of work.

use core::fmt;
use core::str::FromStr;

/// Importance of a piece of work. The smaller the value, the more important the work.
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
    /// Every class, the most important first.
    pub const ALL: [Class; 3] = [Class::High, Class::Normal, Class::Low];

    /// Returns true if `self` is more important than `other`.
    pub fn outranks(self, other: Class) -> bool {
        self < other
    }

    /// Returns the name of the class in settings, views and documentation.
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
