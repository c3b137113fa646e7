//! Numbers in the format of a template.
//!
//! The names and the order of steps are those of PostgreSQL's `NUM_processor`, so that odd
//! templates have the same results.

use super::roman::roman;
use super::{NODE, OrdinalSuffix, TemplateNode, nodes, ordinal};
use crate::datum::Datum;
use crate::numeric::Numeric;
use statement::error::{SqlError, SqlResult, SqlState};
use statement::pulse;

const KEYWORDS: &[&str] = &[
    ",", ".", "0", "9", "B", "C", "D", "EEEE", "FM", "G", "L", "MI", "PL", "PR", "RN", "SG", "SP", "S", "TH", "V", "b",
    "c", "d", "eeee", "fm", "g", "l", "mi", "pl", "pr", "rn", "sg", "sp", "s", "th", "v",
];

/// Position of the locale's sign.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum SignPosition {
    #[default]
    None,
    Before,
    Behind,
}

/// Properties of a whole template.
#[derive(Clone, Debug, Default)]
struct NumberTemplate {
    /// Digits before the decimal point, after it, and by which `V` shifts.
    before: usize,
    behind: usize,
    shift: usize,
    sign: SignPosition,
    digits_before_sign: usize,
    zero_start: usize,
    zero_end: usize,
    has_zero: bool,
    has_point: bool,
    is_filled: bool,
    has_sign: bool,
    has_minus: bool,
    has_plus: bool,
    has_brackets: bool,
    is_roman: bool,
    has_shift: bool,
    is_scientific: bool,
    is_blank: bool,
}

fn syntax(message: &str) -> SqlError {
    SqlError::new(SqlState::SYNTAX_ERROR, message)
}

impl NumberTemplate {
    fn of(nodes: &[TemplateNode]) -> SqlResult<NumberTemplate> {
        let mut shape = NumberTemplate::default();
        for node in nodes {
            pulse::tick(NODE)?;
            if let TemplateNode::Field(field) = node {
                shape.add(&field.name.to_uppercase())?;
            }
        }
        Ok(shape)
    }

    fn add(&mut self, name: &str) -> SqlResult<()> {
        // The conflicts between patterns, their order and their messages are PostgreSQL's.
        if self.is_scientific && name != "EEEE" {
            return Err(syntax("\"EEEE\" must be the last pattern used"));
        }
        match name {
            "9" => {
                if self.has_brackets {
                    return Err(syntax("\"9\" must be ahead of \"PR\""));
                }
                match () {
                    () if self.has_shift => self.shift += 1,
                    () if self.has_point => self.behind += 1,
                    () => self.before += 1,
                }
            }
            "0" => {
                if self.has_brackets {
                    return Err(syntax("\"0\" must be ahead of \"PR\""));
                }
                if !self.has_zero && !self.has_point {
                    self.has_zero = true;
                    self.zero_start = self.before + 1;
                }
                if self.has_point {
                    self.behind += 1;
                } else {
                    self.before += 1;
                }
                self.zero_end = self.before + self.behind;
            }
            "B" => self.is_blank |= self.before == 0 && self.behind == 0 && !self.has_zero,
            "D" | "." => {
                if self.has_point {
                    return Err(syntax("multiple decimal points"));
                }
                if self.has_shift {
                    return Err(syntax("cannot use \"V\" and decimal point together"));
                }
                self.has_point = true;
            }
            "FM" => self.is_filled = true,
            "S" => {
                if self.has_sign {
                    return Err(syntax("cannot use \"S\" twice"));
                }
                if self.has_plus || self.has_minus || self.has_brackets {
                    return Err(syntax("cannot use \"S\" and \"PL\"/\"MI\"/\"SG\"/\"PR\" together"));
                }
                self.has_sign = true;
                if self.has_point {
                    self.sign = SignPosition::Behind;
                } else {
                    self.sign = SignPosition::Before;
                    self.digits_before_sign = self.before;
                }
            }
            "MI" | "PL" | "SG" => {
                if self.has_sign {
                    return Err(syntax(&format!("cannot use \"S\" and \"{name}\" together")));
                }
                self.has_minus |= name != "PL";
                self.has_plus |= name != "MI";
            }
            "PR" => {
                if self.has_sign || self.has_plus || self.has_minus {
                    return Err(syntax("cannot use \"PR\" and \"S\"/\"PL\"/\"MI\"/\"SG\" together"));
                }
                self.has_brackets = true;
            }
            "RN" => self.is_roman = true,
            "V" => {
                if self.has_point {
                    return Err(syntax("cannot use \"V\" and decimal point together"));
                }
                self.has_shift = true;
            }
            "EEEE" => {
                if self.is_scientific {
                    return Err(syntax("cannot use \"EEEE\" twice"));
                }
                if self.is_blank
                    || self.is_filled
                    || self.has_sign
                    || self.has_brackets
                    || self.has_minus
                    || self.has_plus
                    || self.is_roman
                    || self.has_shift
                {
                    return Err(syntax("\"EEEE\" is incompatible with other formats")
                        .detail("\"EEEE\" may only be used together with digit and decimal point patterns."));
                }
                self.is_scientific = true;
            }
            _ => {}
        }
        Ok(())
    }

    /// Returns the text for a number that is too large for the template.
    fn overflow(&self) -> String {
        format!("{}.{}", "#".repeat(self.before), "#".repeat(self.behind))
    }
}

/// A number to be formatted.
pub(super) enum NumberInput<'n> {
    /// An `int4`.
    Int(i64),
    Exact(&'n Numeric),
    /// A float with this number of significant digits.
    Float(f64, usize),
}

impl NumberInput<'_> {
    fn integer(&self) -> SqlResult<i64> {
        match self {
            NumberInput::Int(value) => Ok(*value),
            NumberInput::Exact(value) => value.round(0).to_integer::<i32>("integer").map(i64::from),
            NumberInput::Float(value, _) => Ok(value.round_ties_even() as i32 as i64),
        }
    }

    fn is_number(&self) -> bool {
        match self {
            NumberInput::Int(_) => true,
            NumberInput::Exact(value) => value.is_finite(),
            NumberInput::Float(value, _) => value.is_finite(),
        }
    }

    /// Returns the number with the template's digits after the decimal point, shifted by powers of
    /// ten. A float may have fewer.
    fn digits(&self, shape: &mut NumberTemplate) -> SqlResult<String> {
        match self {
            NumberInput::Int(value) => exact(&Numeric::from(*value), shape),
            NumberInput::Exact(value) => exact(value, shape),
            NumberInput::Float(value, significant) => {
                let value = value * 10_f64.powi(shape.shift as i32);
                if !value.is_finite() {
                    let name = if value.is_nan() { "NaN" } else { "Infinity" };
                    shape.behind = shape.behind.min(significant.saturating_sub(name.len()));
                    return Ok(if value < 0.0 { format!("-{name}") } else { name.to_owned() });
                }
                let whole = format!("{:.0}", value.abs()).len();
                shape.behind = shape.behind.min(significant.saturating_sub(whole));
                Ok(format!("{value:.*}", shape.behind))
            }
        }
    }

    /// Returns the number in the form `1.5e+03`.
    fn scientific(&self, digits: usize) -> SqlResult<String> {
        match self {
            NumberInput::Int(value) => Ok(with_exponent(&format!("{:.digits$e}", *value as f64))),
            NumberInput::Float(value, _) => Ok(with_exponent(&format!("{value:.digits$e}"))),
            NumberInput::Exact(value) => {
                if value.is_zero() {
                    return Ok(with_exponent(&format!("{:.digits$e}", 0.0)));
                }
                // The exponent is that of the number before it is rounded.
                let written = value.abs().to_string();
                let (whole, fraction) = written.split_once('.').unwrap_or((&written, ""));
                let exponent = match whole.trim_start_matches('0') {
                    "" => -(fraction.len() as i32 - fraction.trim_start_matches('0').len() as i32 + 1),
                    whole => whole.len() as i32 - 1,
                };
                let scale = Numeric::parse(&format!("1e{}", -exponent))?;
                let significand = value.mul(&scale)?.round(digits as i32);
                Ok(format!("{significand}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs()))
            }
        }
    }
}

fn exact(value: &Numeric, shape: &NumberTemplate) -> SqlResult<String> {
    let shifted = match shape.shift {
        0 => value.clone(),
        shift => value.mul(&Numeric::parse(&format!("1e{shift}"))?)?,
    };
    Ok(shifted.round(shape.behind as i32).to_string())
}

/// Normalizes the exponent to a sign and two digits.
fn with_exponent(written: &str) -> String {
    match written.split_once('e') {
        None => written.to_owned(),
        Some((digits, exponent)) => {
            let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |exponent| ('-', exponent));
            format!("{digits}e{sign}{exponent:0>2}")
        }
    }
}

pub(super) fn to_char(given: NumberInput<'_>, template: &str) -> SqlResult<Datum> {
    if template.is_empty() {
        return Ok(Datum::text(""));
    }
    let nodes = nodes(template, KEYWORDS, false)?;
    let mut shape = NumberTemplate::of(&nodes)?;
    if shape.is_roman {
        let number = roman(given.integer()?);
        shape = NumberTemplate { is_roman: true, is_filled: shape.is_filled, ..NumberTemplate::default() };
        return Ok(Datum::text(NumberWriter::new(shape, number, ' ', 0).write(&nodes)?));
    }
    if shape.is_scientific {
        if !given.is_number() {
            let tail = "#".repeat(shape.behind + 4);
            return Ok(Datum::text(format!(" {}.{tail}", "#".repeat(shape.before))));
        }
        let written = given.scientific(shape.behind)?;
        return Ok(Datum::text(if written.starts_with('-') { written } else { format!(" {written}") }));
    }
    let written = given.digits(&mut shape)?;
    shape.before += shape.shift;
    let (sign, digits) = match written.strip_prefix('-') {
        Some(digits) => ('-', digits.to_owned()),
        None => ('+', written),
    };
    let whole = digits.find('.').unwrap_or(digits.len());
    let (digits, spaces) = if shape.before < whole { (shape.overflow(), 0) } else { (digits, shape.before - whole) };
    Ok(Datum::text(NumberWriter::new(shape, digits, sign, spaces).write(&nodes)?))
}

/// State of a number that is being written.
struct NumberWriter {
    shape: NumberTemplate,
    number: Vec<u8>,
    at: usize,
    sign: char,
    sign_written: bool,
    /// Number of places of the template so far, and of all.
    place: usize,
    places: usize,
    spaces: usize,
    /// Last digit that is not a trailing zero, with `FM`.
    last_relevant: Option<usize>,
    in_number: bool,
    out: String,
    end: Option<usize>,
}

impl NumberWriter {
    fn new(mut shape: NumberTemplate, number: String, sign: char, spaces: usize) -> NumberWriter {
        let mut sign_written = false;
        if shape.has_plus || shape.has_minus {
            // The sign is written by its own field.
            sign_written = !shape.has_plus || shape.has_minus;
        } else if !shape.is_roman {
            if sign != '-' && shape.is_filled {
                shape.has_brackets = false;
            }
            sign_written = sign == '+' && shape.is_filled && !shape.has_sign;
            if shape.sign == SignPosition::Before && shape.before == shape.digits_before_sign {
                shape.sign = SignPosition::Behind;
            }
        }
        shape.zero_start = shape.zero_start.saturating_sub(1);
        let mut places = (shape.behind + shape.before).saturating_sub(1);
        let number = number.into_bytes();
        let mut last_relevant = None;
        if shape.is_filled && shape.has_point {
            last_relevant = number.iter().position(|byte| *byte == b'.').map(|point| {
                let significant = number[point..].iter().rposition(|byte| !matches!(byte, b'0' | b'.'));
                significant.map_or(point, |more| point + more)
            });
            if let Some(relevant) = &mut last_relevant
                && spaces < shape.zero_end
            {
                *relevant = (*relevant).max((number.len() - 1).min(shape.zero_end - spaces));
            }
        }
        if !sign_written && spaces == 0 {
            places += 1;
        }
        let (place, at, in_number, out, end) = (0, 0, false, String::new(), None);
        NumberWriter {
            shape,
            number,
            at,
            sign,
            sign_written,
            place,
            places,
            spaces,
            last_relevant,
            in_number,
            out,
            end,
        }
    }

    fn write(mut self, nodes: &[TemplateNode]) -> SqlResult<String> {
        for node in nodes {
            pulse::tick(NODE)?;
            let field = match node {
                TemplateNode::Separator(letter) | TemplateNode::Letter(letter) => {
                    self.out.push(*letter);
                    continue;
                }
                TemplateNode::Field(field) => field,
            };
            // A group separator before the first digit is a blank, as the digits before it are.
            let filled = self.shape.is_filled;
            match &*field.name.to_uppercase() {
                name @ ("9" | "0" | "." | "D") => self.digit(name == "0"),
                "," | "G" if self.in_number => self.out.push(','),
                "," | "G" if filled => {}
                "," | "G" | "L" => self.out.push(' '),
                "RN" => {
                    let number = String::from_utf8_lossy(&self.number).into_owned();
                    let number = if field.name == "rn" { number.to_lowercase() } else { number };
                    let width = if filled { 0 } else { 15 };
                    self.out.push_str(&format!("{number:>width$}"));
                }
                "TH" => {
                    let is_plain = !self.shape.is_roman
                        && self.number.first() != Some(&b'#')
                        && self.sign != '-'
                        && !self.shape.has_point;
                    if is_plain {
                        let case = if field.name == "TH" { OrdinalSuffix::Upper } else { OrdinalSuffix::Lower };
                        self.out.push_str(ordinal(&String::from_utf8_lossy(&self.number), case));
                    }
                }
                "MI" if self.sign == '-' => self.out.push('-'),
                "PL" if self.sign == '+' => self.out.push('+'),
                "MI" | "PL" if filled => {}
                "MI" | "PL" => self.out.push(' '),
                "SG" => self.out.push(self.sign),
                _ => {}
            }
        }
        self.out.truncate(self.end.unwrap_or(usize::MAX));
        Ok(self.out)
    }

    /// Returns true if the next digit is the 0 of a number without digits before the decimal point.
    fn is_lone_zero(&self) -> bool {
        !self.shape.has_zero && self.at == 0 && self.number.first() == Some(&b'0') && self.shape.behind != 0
    }

    fn ends_with_point(&self) -> bool {
        self.last_relevant.is_some_and(|at| self.number.get(at) == Some(&b'.'))
    }

    fn put_sign(&mut self) {
        match () {
            () if self.shape.has_sign => {
                if self.shape.sign == SignPosition::Before {
                    self.out.push(self.sign);
                    self.sign_written = true;
                }
            }
            () if self.shape.has_brackets => {
                self.out.push(if self.sign == '+' { ' ' } else { '<' });
                self.sign_written = true;
            }
            () if self.sign == '+' => {
                if !self.shape.is_filled {
                    self.out.push(' ');
                }
                self.sign_written = true;
            }
            () => {
                self.out.push('-');
                self.sign_written = true;
            }
        }
    }

    fn digit(&mut self, is_zero: bool) {
        if self.shape.is_roman {
            return;
        }
        self.in_number = false;
        let starts_zeros = self.shape.has_zero && self.shape.zero_start == self.place;
        if !self.sign_written
            && (self.spaces <= self.place || starts_zeros)
            && (!self.is_lone_zero() || self.ends_with_point())
        {
            self.put_sign();
        }
        if self.place < self.spaces && (!self.shape.has_zero || self.place < self.shape.zero_start) {
            if !self.shape.is_filled {
                self.out.push(' ');
            }
        } else if self.shape.has_zero && self.place < self.spaces {
            self.out.push('0');
            self.in_number = true;
        } else {
            let next = self.number.get(self.at).copied();
            if next == Some(b'.') {
                if !self.ends_with_point() || self.shape.is_filled {
                    self.out.push('.');
                }
            } else if self.last_relevant.is_some_and(|last| last < self.at) && !is_zero {
                // A trailing zero.
            } else if self.is_lone_zero() {
                if !self.shape.is_filled {
                    self.out.push(' ');
                } else if self.ends_with_point() {
                    self.out.push('0');
                }
            } else if let Some(next) = next {
                self.out.push(char::from(next));
                self.in_number = true;
            } else {
                // The number has fewer digits than the template. PostgreSQL's string ends here.
                self.end.get_or_insert(self.out.len());
                self.in_number = true;
            }
            self.at += usize::from(next.is_some());
        }
        let mut end = self.places + usize::from(self.spaces != 0) + usize::from(self.shape.has_point);
        if self.last_relevant.is_some_and(|last| last == self.at) {
            end = self.place;
        }
        if self.place + 1 == end {
            if self.sign_written && self.shape.has_brackets {
                self.out.push(if self.sign == '+' { ' ' } else { '>' });
            } else if self.shape.has_sign && self.shape.sign == SignPosition::Behind {
                self.out.push(self.sign);
            }
        }
        self.place += 1;
    }
}

pub(super) fn to_number(text: &str, template: &str) -> SqlResult<Datum> {
    if template.is_empty() {
        return Ok(Datum::Null);
    }
    let nodes = nodes(template, KEYWORDS, false)?;
    let shape = NumberTemplate::of(&nodes)?;
    for (is_there, what) in [(shape.is_scientific, "EEEE"), (shape.is_roman, "RN")] {
        if is_there {
            let message = format!("\"{what}\" not supported for input");
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
    }
    let (precision, shift) = (shape.before + shape.shift, shape.shift);
    let (written, behind) = NumberReader { shape, text, at: 0, ..NumberReader::default() }.read(&nodes)?;
    let scale = behind as i32;
    let value = Numeric::parse(&written)?;
    let typmod = ((precision as i32 + scale) << 16 | scale) + 4;
    let value = value.with_typmod(typmod)?;
    Ok(Datum::Numeric(match shift {
        0 => value,
        shift => value.mul(&Numeric::from(10_i64).power(&Numeric::from(-(shift as i64)))?)?,
    }))
}

/// State of a number that is being read.
#[derive(Default)]
struct NumberReader<'t> {
    shape: NumberTemplate,
    text: &'t str,
    at: usize,
    sign: Option<char>,
    digits: String,
    before: usize,
    behind: usize,
    has_point: bool,
}

impl NumberReader<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip(&mut self) {
        self.at += self.text[self.at..].chars().next().map_or(0, char::len_utf8);
    }

    /// Skips characters that cannot be part of the number.
    fn skip_other(&mut self, count: usize) {
        for _ in 0..count {
            if self.peek().is_none_or(|byte| b"0123456789.,+-".contains(&byte)) {
                return;
            }
            self.skip();
        }
    }

    fn read(mut self, nodes: &[TemplateNode]) -> SqlResult<(String, usize)> {
        for node in nodes {
            pulse::tick(NODE)?;
            let Some(next) = self.peek() else { break };
            let field = match node {
                TemplateNode::Separator(_) | TemplateNode::Letter(_) => {
                    self.skip();
                    // As in PostgreSQL, any character of the text takes the place of one that is not a pattern.
                    continue;
                }
                TemplateNode::Field(field) => field,
            };
            match &*field.name.to_uppercase() {
                "9" | "0" | "." | "D" => {
                    let is_digit = matches!(field.name, "9" | "0");
                    self.part(is_digit);
                    if self.peek().is_some() {
                        self.skip();
                    }
                }
                "," | "G" => self.at += usize::from(!self.shape.is_filled && next == b','),
                "L" => self.skip_other(1),
                "TH" => self.skip_other(2),
                "MI" if next == b'-' => {
                    self.sign = Some('-');
                    self.at += 1;
                }
                "PL" if next == b'+' => {
                    self.sign = Some('+');
                    self.at += 1;
                }
                "SG" if next == b'-' || next == b'+' => {
                    self.sign = Some(char::from(next));
                    self.at += 1;
                }
                "MI" | "PL" | "SG" => self.skip_other(1),
                _ => {}
            }
        }
        Ok((format!("{}{}", self.sign.unwrap_or(' '), self.digits.trim_end_matches('.')), self.behind))
    }

    fn part(&mut self, is_digit: bool) {
        if self.peek() == Some(b' ') {
            self.at += 1;
        }
        // A sign may come before the first digit, wherever the template has its own. With `PR`, a
        // bracket stands for a minus.
        if self.sign.is_none() && is_digit && self.before + self.behind == 0 {
            let is_anchored = self.shape.has_sign && self.shape.sign == SignPosition::Before;
            match self.peek() {
                Some(sign @ (b'-' | b'+'))
                    if is_anchored || !self.shape.has_sign || self.shape.sign != SignPosition::Before =>
                {
                    self.sign = Some(char::from(sign));
                    self.at += 1;
                }
                Some(b'<') if self.shape.has_brackets => {
                    self.sign = Some('-');
                    self.at += 1;
                }
                _ => {}
            }
        }
        let Some(next) = self.peek() else { return };
        let mut is_read = false;
        if next.is_ascii_digit() {
            if self.has_point && self.behind == self.shape.behind {
                return;
            }
            self.digits.push(char::from(next));
            if self.has_point {
                self.behind += 1;
            } else {
                self.before += 1;
            }
            is_read = true;
        } else if self.shape.has_point && !self.has_point && next == b'.' {
            self.digits.push('.');
            self.has_point = true;
            is_read = true;
        }
        if self.sign.is_some() || self.before + self.behind == 0 {
            return;
        }
        // With `S`, the sign may also follow the digits.
        let behind = self.text.as_bytes().get(self.at + 1).copied();
        if self.shape.has_sign {
            if let (true, Some(sign @ (b'-' | b'+'))) = (is_read, behind) {
                self.sign = Some(char::from(sign));
                self.at += 1;
            }
        } else if !is_read && (self.shape.has_plus || self.shape.has_minus) && matches!(next, b'-' | b'+') {
            self.sign = Some(char::from(next));
        }
    }
}
