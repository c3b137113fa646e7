//! Numbers for people.

/// Formats milliseconds, in a unit that suits them.
pub(crate) fn ms(ms: f64) -> String {
    let three = |value: f64| {
        let digits = if value < 9.995 { 2 } else { usize::from(value < 99.95) };
        format!("{value:.digits$}")
    };
    if ms <= 0.0 {
        "0".to_owned()
    } else if ms < 0.9995 {
        format!("{:.0} \u{b5}s", ms * 1e3)
    } else if ms < 999.5 {
        format!("{} ms", three(ms))
    } else {
        format!("{} s", three(ms / 1e3))
    }
}

/// Formats a rate per second.
pub(crate) fn rate(rate: f64) -> String {
    if rate < 99.95 {
        return format!("{rate:.1}");
    }
    let digits = format!("{rate:.0}");
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if 0 < at && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats an age in seconds, in short.
pub(crate) fn ago(seconds: f64) -> String {
    if seconds < 99.5 {
        format!("{seconds:.0} s")
    } else if seconds < 5_970.0 {
        format!("{:.0} min", seconds / 60.0)
    } else {
        format!("{:.1} h", seconds / 3_600.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        assert_eq!(
            [0.0, 0.05, 0.9996, 12.34, 999.6, 72_345.0].map(ms),
            ["0", "50 \u{b5}s", "1.00 ms", "12.3 ms", "1.00 s", "72.3 s"]
        );
        assert_eq!([0.0, 12.34, 1_234.5, 1_234_567.0].map(rate), ["0.0", "12.3", "1,234", "1,234,567"]);
        assert_eq!([3.2, 150.0, 7_200.0].map(ago), ["3 s", "2 min", "2.0 h"]);
    }
}
