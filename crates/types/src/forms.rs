//! The settings by which values are written and read as text: `TimeZone`, `DateStyle` and their like.
//!
//! **Invariant:** the default is PostgreSQL's own, with the time zone UTC.

use super::calendar::{DAY, SECOND, split};
use super::naming::Naming;
use super::zone::Zone;
use std::sync::Arc;

/// How dates are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DateStyle {
    /// `1997-12-17 07:37:16-08`
    #[default]
    Iso,
    /// `12/17/1997 07:37:16.00 PST`
    Sql,
    /// `Wed Dec 17 07:37:16 1997 PST`
    Postgres,
    /// `17.12.1997 07:37:16.00 PST`
    German,
}

/// In which order day, month and year are read and written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DateOrder {
    /// Month, day, year.
    #[default]
    Mdy,
    /// Day, month, year.
    Dmy,
    /// Year, month, day.
    Ymd,
}

/// How intervals are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IntervalStyle {
    /// `1 year 2 mons 3 days 04:05:06`
    #[default]
    Postgres,
    /// `@ 1 year 2 mons 3 days 4 hours 5 mins 6 secs`
    PostgresVerbose,
    /// `+1-2 +3 +4:05:06`
    SqlStandard,
    /// `P1Y2M3DT4H5M6S`
    Iso8601,
}

/// Settings for the text forms of values.
#[derive(Clone, Debug)]
pub struct Forms {
    /// `TimeZone`.
    pub zone: Zone,
    /// `DateStyle`'s first word.
    pub date_style: DateStyle,
    /// Its second.
    pub date_order: DateOrder,
    /// `IntervalStyle`.
    pub interval_style: IntervalStyle,
    /// `extra_float_digits`: above 0 floats are written with as few digits as give them again.
    pub extra_float_digits: i32,
    /// `bytea_output` is `escape`, not `hex`.
    pub bytea_escape: bool,
    /// What `now` means in a date or time: when the transaction began, in microseconds since 1970.
    pub now_us: i64,
    /// Names of tables and the like; without it their values are written as numbers.
    pub naming: Option<Arc<dyn Naming>>,
}

impl Forms {
    /// The default, `now` being 1970.
    pub const DEFAULT: Forms = Forms {
        zone: Zone::UTC,
        date_style: DateStyle::Iso,
        date_order: DateOrder::Mdy,
        interval_style: IntervalStyle::Postgres,
        extra_float_digits: 1,
        bytea_escape: false,
        now_us: 0,
        naming: None,
    };

    /// What clocks of the session's zone show at a moment. The infinities stay.
    pub fn local(&self, micros: i64) -> i64 {
        match micros {
            i64::MAX | i64::MIN => micros,
            _ => micros.saturating_add(i64::from(self.zone.offset_at(micros)) * SECOND),
        }
    }

    /// The moment at which clocks of the session's zone show this; none beyond the calendar. The infinities stay.
    pub fn moment(&self, local: i64) -> Option<i64> {
        match local {
            i64::MAX | i64::MIN => Some(local),
            _ => {
                let micros = local.checked_sub(i64::from(self.zone.offset_of_local(local)) * SECOND)?;
                (super::calendar::FIRST_DATE * DAY..i64::MAX).contains(&micros).then_some(micros)
            }
        }
    }

    /// Today, in days since 1970.
    pub fn today(&self) -> i64 {
        split(self.local(self.now_us)).0
    }
}

impl Default for Forms {
    fn default() -> Forms {
        Forms::DEFAULT
    }
}
