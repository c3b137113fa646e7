//! Intervals: months, days and microseconds, which have no fixed ratio to each other.

/// An interval of time, as PostgreSQL keeps it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Interval {
    /// Months, of 28 to 31 days.
    pub months: i32,
    /// Days, of 23 to 25 hours.
    pub days: i32,
    /// Microseconds.
    pub micros: i64,
}
