//! Roman numbers.

/// Text for a number without a Roman form.
const NONE: &str = "###############";

/// Returns the Roman form of a number from 1 to 3999.
pub(super) fn roman(number: i64) -> String {
    if !(1..=3999).contains(&number) {
        return NONE.to_owned();
    }
    let mut left = number;
    let mut out = String::new();
    for (value, letters) in [
        (1000, "M"),
        (900, "CM"),
        (500, "D"),
        (400, "CD"),
        (100, "C"),
        (90, "XC"),
        (50, "L"),
        (40, "XL"),
        (10, "X"),
        (9, "IX"),
        (5, "V"),
        (4, "IV"),
        (1, "I"),
    ] {
        while value <= left {
            left -= value;
            out.push_str(letters);
        }
    }
    out
}

/// Roman months, last one first, in the order in which templates are read.
pub(super) const MONTHS: [&str; 12] = ["XII", "XI", "X", "IX", "VIII", "VII", "VI", "V", "IV", "III", "II", "I"];
