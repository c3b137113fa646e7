//! Settings that govern the text forms of values: `TimeZone`, `DateStyle` and the like.
//!
//! **Invariant:** the defaults are PostgreSQL's, with the time zone UTC.

use super::calendar::{DAY, SECOND, split};
use super::naming::Naming;
use super::zone::Zone;
use std::sync::Arc;

/// Format of dates.
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

/// Order of day, month and year, for input and output.
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

/// Format of intervals.
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
    /// First word of `DateStyle`.
    pub date_style: DateStyle,
    /// Second word of `DateStyle`.
    pub date_order: DateOrder,
    /// `IntervalStyle`.
    pub interval_style: IntervalStyle,
    /// `extra_float_digits`: above 0, floats are written with the fewest digits that read back as the same value.
    pub extra_float_digits: i32,
    /// True if `bytea_output` is `escape`, not `hex`.
    pub bytea_escape: bool,
    /// Value of `now` in a date or time: start of the transaction, in microseconds since 1970.
    pub now_us: i64,
    /// Names of catalog objects. Without it, values such as `regclass` are written as OIDs.
    pub naming: Option<Arc<dyn Naming>>,
}

impl Forms {
    /// Default settings, with `now` in 1970.
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

    /// Returns the local time of a timestamp in the session's zone. The infinities stay.
    pub fn local(&self, micros: i64) -> i64 {
        match micros {
            i64::MAX | i64::MIN => micros,
            _ => micros.saturating_add(i64::from(self.zone.offset_at(micros)) * SECOND),
        }
    }

    /// Returns the timestamp of a local time in the session's zone, and `None` beyond the
    /// calendar. The infinities stay.
    pub fn moment(&self, local: i64) -> Option<i64> {
        match local {
            i64::MAX | i64::MIN => Some(local),
            _ => {
                let micros = local.checked_sub(i64::from(self.zone.offset_of_local(local)) * SECOND)?;
                (super::calendar::FIRST_DATE * DAY..i64::MAX).contains(&micros).then_some(micros)
            }
        }
    }

    /// Returns today's date, in days since 1970.
    pub fn today(&self) -> i64 {
        split(self.local(self.now_us)).0
    }
}

impl Default for Forms {
    fn default() -> Forms {
        Forms::DEFAULT
    }
}
