//! Functions of clocks, settings, zones and random numbers, whose results depend on the session.

use super::fields::zone_named;
use super::get::{boolean, float, int, interval, text};
use super::{Function, function, function_in};
use crate::Kind;
use crate::calendar::{self, SECOND, civil_of, split};
use crate::datum::Datum;
use crate::text::dates::{DAYS, MONTHS};
use crate::zone::ZoneName;
use statement::error::{SqlError, SqlResult, SqlState};

fn shifted(micros: i64, offset: i64) -> SqlResult<Datum> {
    if micros == i64::MAX || micros == i64::MIN {
        return Ok(Datum::Timestamp(micros));
    }
    let (days, time) = split(micros);
    calendar::moment(days, time + offset * SECOND).map(Datum::Timestamp)
}

/// Converts to local time: `timestamptz AT TIME ZONE zone`.
fn to_local(micros: i64, zone: &ZoneName) -> SqlResult<Datum> {
    shifted(micros, i64::from(zone.offset_at(micros)))
}

/// Converts from local time: `timestamp AT TIME ZONE zone`.
fn to_moment(micros: i64, zone: &ZoneName) -> SqlResult<Datum> {
    shifted(micros, -i64::from(zone.offset_of_local(micros)))
}

/// Returns the zone that an interval stands for.
fn zone_of_interval(datum: &Datum) -> SqlResult<ZoneName> {
    let span = interval(datum)?;
    if span.months != 0 || span.days != 0 {
        let mut written = String::new();
        span.write(Default::default(), &mut written);
        let message = format!("interval time zone \"{written}\" must not include months or days");
        return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
    }
    Ok(ZoneName::Offset((span.micros / SECOND) as i32))
}

fn zone_of_text(datum: &Datum) -> SqlResult<ZoneName> {
    zone_named(text(datum)?)
}

/// Converts a time to or from a zone. The infinities are the same in all zones, so none is looked up for them.
fn at_zone(
    args: &[Datum],
    zone: fn(&Datum) -> SqlResult<ZoneName>,
    in_zone: fn(i64, &ZoneName) -> SqlResult<Datum>,
) -> SqlResult<Datum> {
    match args[1] {
        Datum::Timestamp(i64::MAX | i64::MIN) => Ok(args[1].clone()),
        _ => in_zone(int(&args[1])?, &zone(&args[0])?),
    }
}

/// Returns the time in the form `Sat Nov 21 22:15:00.123456 2026 UTC`.
fn time_of_day(env: &dyn super::CallContext) -> String {
    let now = env.clock_us();
    let (days, time) = split(env.forms().local(now));
    let civil = civil_of(days);
    let mut out = format!("{} ", &DAYS[(days + 4).rem_euclid(7) as usize][..3]);
    out.push_str(MONTHS.get(civil.month as usize - 1).map_or("", |name| &name[..3]));
    let second = time / SECOND;
    out.push_str(&format!(
        " {:02} {:02}:{:02}:{:02}.{:06} {:04} {}",
        civil.day,
        second / 3600,
        second / 60 % 60,
        second % 60,
        time % SECOND,
        civil.year,
        env.forms().zone.at(now).abbreviation
    ));
    out
}

fn current_setting(args: &[Datum], env: &dyn super::CallContext) -> SqlResult<Datum> {
    match env.setting(text(&args[0])?) {
        Ok(value) => Ok(Datum::text(value)),
        Err(_) if args.get(1).map_or(Ok(false), boolean)? => Ok(Datum::Null),
        Err(error) => Err(error),
    }
}

fn set_config(args: &[Datum], env: &dyn super::CallContext) -> SqlResult<Datum> {
    if args[0].is_null() {
        return Err(SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, "SET requires parameter name"));
    }
    let value = if args[1].is_null() { None } else { Some(text(&args[1])?) };
    let is_local = !args[2].is_null() && boolean(&args[2])?;
    env.ask(text(&args[0])?, value, is_local).map(Datum::text)
}

/// Returns a UUID of version 4: random except for six bits.
fn random_uuid(env: &dyn super::CallContext) -> Datum {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&env.random_bits().to_be_bytes());
    bytes[8..].copy_from_slice(&env.random_bits().to_be_bytes());
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    Datum::Uuid(bytes)
}

fn set_seed(args: &[Datum], env: &dyn super::CallContext) -> SqlResult<Datum> {
    let seed = float(&args[0])?;
    if !(-1.0..=1.0).contains(&seed) {
        let mut shown = String::new();
        crate::text::float::push_f64(&mut shown, seed, 0);
        let message = format!("setseed parameter {shown} is out of allowed range [-1,1]");
        return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
    }
    env.set_seed(seed);
    Ok(Datum::text(""))
}

fn sleep(seconds: f64, env: &dyn super::CallContext) -> SqlResult<Datum> {
    env.sleep(seconds).map(|()| Datum::text(""))
}

/// Returns the seconds of an interval. A month has 30 days, as in the comparison of intervals.
fn seconds_of(span: crate::interval::Interval) -> f64 {
    let days = f64::from(span.months) * 30.0 + f64::from(span.days);
    days * 86_400.0 + span.micros as f64 / 1e6
}

fn user(_: &[Datum], env: &dyn super::CallContext) -> SqlResult<Datum> {
    Ok(Datum::text(env.user()))
}

fn session_user(_: &[Datum], env: &dyn super::CallContext) -> SqlResult<Datum> {
    Ok(Datum::text(env.session_user()))
}

fn database(_: &[Datum], env: &dyn super::CallContext) -> SqlResult<Datum> {
    Ok(Datum::text(env.database()))
}

/// Functions without arguments that return session state, written as a word or a call. A definition
/// stores the word, not the value.
static SAID: [Function; 7] = [
    function_in("current_user", &[], Kind::Name, user),
    function_in("session_user", &[], Kind::Name, session_user),
    function_in("user", &[], Kind::Name, user),
    function_in("current_role", &[], Kind::Name, user),
    function_in("current_catalog", &[], Kind::Name, database),
    function_in("current_database", &[], Kind::Name, database),
    function_in("version", &[], Kind::Text, |_, env| Ok(Datum::text(env.version()))),
];

/// Returns the entry of `SAID` with this name.
pub fn said(name: &str) -> Option<&'static Function> {
    SAID.iter().find(|line| line.name == name)
}

pub(super) fn functions() -> Vec<Function> {
    use Kind::{Bool, Float8, Int4, Interval as Span, Text, Timestamp, Timestamptz, Uuid, Void};
    let volatile = |function: Function| Function { volatile: true, ..function };
    let now = |name| function_in(name, &[], Timestamptz, |_, env| Ok(Datum::Timestamp(env.forms().now_us)));
    vec![
        now("now"),
        now("transaction_timestamp"),
        function_in("statement_timestamp", &[], Timestamptz, |_, env| Ok(Datum::Timestamp(env.statement_us()))),
        volatile(function_in("clock_timestamp", &[], Timestamptz, |_, env| Ok(Datum::Timestamp(env.clock_us())))),
        volatile(function_in("timeofday", &[], Text, |_, env| Ok(Datum::text(time_of_day(env))))),
        function("timezone", &[Text, Timestamptz], Timestamp, |a| at_zone(a, zone_of_text, to_local)),
        function("timezone", &[Text, Timestamp], Timestamptz, |a| at_zone(a, zone_of_text, to_moment)),
        function("timezone", &[Span, Timestamptz], Timestamp, |a| at_zone(a, zone_of_interval, to_local)),
        function("timezone", &[Span, Timestamp], Timestamptz, |a| at_zone(a, zone_of_interval, to_moment)),
        function_in("current_setting", &[Text], Text, current_setting),
        function_in("current_setting", &[Text, Bool], Text, current_setting),
        volatile(Function { strict: false, ..function_in("set_config", &[Text, Text, Bool], Text, set_config) }),
        volatile(function_in("random", &[], Float8, |_, env| Ok(Datum::Float8(env.random())))),
        volatile(function_in("setseed", &[Float8], Void, set_seed)),
        volatile(function_in("gen_random_uuid", &[], Uuid, |_, env| Ok(random_uuid(env)))),
        volatile(function_in("pg_sleep", &[Float8], Void, |a, env| sleep(float(&a[0])?, env))),
        volatile(function_in("pg_sleep_for", &[Span], Void, |a, env| sleep(seconds_of(interval(&a[0])?), env))),
        volatile(function_in("pg_sleep_until", &[Timestamptz], Void, |a, env| {
            sleep((int(&a[0])?.saturating_sub(env.clock_us())) as f64 / 1e6, env)
        })),
        function_in("pg_backend_pid", &[], Int4, |_, env| Ok(Datum::Int4(env.backend_pid() as i32))),
    ]
}
