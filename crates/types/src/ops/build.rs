//! Construction of values of any length: the only place that does so, enforces the limit of 1 GB, and counts the work.
//!
//! **Invariant:** no value is longer than [`BYTES_MAX`], and none is started that is known to become so. Functions
//! that make texts, bytes or arrays from their input use `TextBuilder`, `BytesBuilder` and `items`. [`checked`]
//! checks every result once more.

use crate::datum::Datum;
use engine::memory::SMALL_BYTES;
use statement::error::{SqlError, SqlResult, SqlState};
use statement::pulse::{self, slices};
use std::ops::ControlFlow;

/// Maximum length of a text or bytea: PostgreSQL's largest allocation, minus the header of a value.
pub const BYTES_MAX: usize = 0x3fff_ffff - 4;
/// Maximum number of items of an array, as in PostgreSQL.
pub const ITEMS_MAX: usize = 134_217_727;
/// Number of bytes that are copied without a look.
const COPY: usize = 1 << 20;

/// Returns `54000`: a value would be longer than [`BYTES_MAX`].
pub fn too_long() -> SqlError {
    SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "requested length too large")
}

/// Returns `54000`: an array would have more items than [`ITEMS_MAX`].
pub(crate) fn too_many_items() -> SqlError {
    let message = format!("array size exceeds the maximum allowed ({ITEMS_MAX})");
    SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message)
}

/// Checks the length of a value that is about to be made.
///
/// # Errors
/// `54000`
pub(super) fn fits(bytes: Option<usize>) -> SqlResult<usize> {
    bytes.filter(|bytes| *bytes <= BYTES_MAX).ok_or_else(too_long)
}

/// Checks that the process may hold a value of so many bytes, which is built in a buffer and
/// copied when it is complete.
///
/// # Errors
/// `53200`
pub fn has_room(bytes: usize) -> SqlResult<()> {
    if SMALL_BYTES < bytes { SqlError::check_room(bytes.saturating_mul(2)) } else { Ok(()) }
}

/// Returns the bytes to add to the capacity of a buffer that gets so many `more`. They are at least as many as it has,
/// so that appending is cheap, and are granted only if the process may hold them.
///
/// # Errors
/// `54000`, `53200`
fn growth(bytes: usize, capacity: usize, more: usize) -> SqlResult<usize> {
    enlarged(bytes, more)?;
    if bytes + more <= capacity {
        return Ok(0);
    }
    let to = (bytes + more).max(capacity.saturating_mul(2).min(BYTES_MAX));
    has_room(to)?;
    Ok(to - bytes)
}

/// Checks the new length of a buffer, with the error of PostgreSQL's growing buffers.
fn enlarged(bytes: usize, more: usize) -> SqlResult<()> {
    if bytes.checked_add(more).is_some_and(|all| all <= BYTES_MAX) {
        return Ok(());
    }
    let detail = format!("Cannot enlarge string buffer containing {bytes} bytes by {more} more bytes.");
    Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "out of memory").detail(detail))
}

/// A growing text.
#[derive(Clone, Debug, Default)]
pub(crate) struct TextBuilder(String);

impl TextBuilder {
    /// Creates a builder for a text of about so many bytes.
    ///
    /// # Errors
    /// `53200`
    pub(super) fn with_capacity(bytes: usize) -> SqlResult<TextBuilder> {
        has_room(bytes)?;
        Ok(TextBuilder(String::with_capacity(bytes)))
    }

    /// Reserves space for so many more bytes.
    fn grow(&mut self, more: usize) -> SqlResult<()> {
        match growth(self.0.len(), self.0.capacity(), more)? {
            0 => {}
            bytes => self.0.reserve_exact(bytes),
        }
        Ok(())
    }

    /// Returns the number of bytes so far.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Checks that so many bytes may be appended.
    ///
    /// # Errors
    /// `54000`
    pub(super) fn fits(&self, bytes: usize) -> SqlResult<()> {
        enlarged(self.0.len(), bytes)
    }

    /// Appends a text.
    ///
    /// # Errors
    /// `54000`, and those of [`pulse::tick`].
    pub fn push_str(&mut self, part: &str) -> SqlResult<()> {
        self.grow(part.len())?;
        if part.len() <= COPY {
            pulse::copies(part.len())?;
            self.0.push_str(part);
            return Ok(());
        }
        for slice in slices(part) {
            pulse::copies(slice.len())?;
            self.0.push_str(slice);
        }
        Ok(())
    }

    /// Appends a character. Loops over many characters count their slices themselves.
    ///
    /// # Errors
    /// `54000`
    #[inline]
    pub fn push(&mut self, c: char) -> SqlResult<()> {
        self.grow(c.len_utf8())?;
        self.0.push(c);
        Ok(())
    }

    /// Appends the text that `write` appends.
    ///
    /// # Errors
    /// `54000`
    pub fn write(&mut self, write: impl FnOnce(&mut String)) -> SqlResult<()> {
        let before = self.0.len();
        write(&mut self.0);
        let more = self.0.len() - before;
        enlarged(before, more)?;
        pulse::copies(more)
    }

    /// Returns the text.
    pub fn into_string(self) -> String {
        self.0
    }

    /// Returns the text as a value.
    pub fn finish(self) -> Datum {
        Datum::text(self.0)
    }
}

/// Growing bytes.
#[derive(Clone, Debug, Default)]
pub(super) struct BytesBuilder(Vec<u8>);

impl BytesBuilder {
    /// Appends bytes.
    ///
    /// # Errors
    /// Those of [`TextBuilder::push_str`].
    pub(super) fn push_slice(&mut self, part: &[u8]) -> SqlResult<()> {
        match growth(self.0.len(), self.0.capacity(), part.len())? {
            0 => {}
            bytes => self.0.reserve_exact(bytes),
        }
        for slice in part.chunks(COPY) {
            pulse::copies(slice.len())?;
            self.0.extend_from_slice(slice);
        }
        Ok(())
    }

    /// Returns the bytes as a value.
    pub(super) fn finish(self) -> Datum {
        Datum::Bytes(self.0.into())
    }
}

/// Returns a part of a text as a value.
///
/// # Errors
/// Those of [`pulse::tick`].
pub(super) fn text(part: &str) -> SqlResult<Datum> {
    let mut out = TextBuilder::with_capacity(part.len())?;
    out.push_str(part)?;
    Ok(out.finish())
}

/// Concatenates the parts of a text.
///
/// # Errors
/// `54000`, and those of [`pulse::tick`].
pub(super) fn texts(parts: &[&str]) -> SqlResult<Datum> {
    let bytes = fits(parts.iter().try_fold(0_usize, |all, part| all.checked_add(part.len())))?;
    let mut out = TextBuilder::with_capacity(bytes)?;
    parts.iter().try_for_each(|part| out.push_str(part))?;
    Ok(out.finish())
}

/// Concatenates the parts of bytes.
///
/// # Errors
/// `54000`, and those of [`pulse::tick`].
pub(super) fn bytes(parts: &[&[u8]]) -> SqlResult<Datum> {
    has_room(fits(parts.iter().try_fold(0_usize, |all, part| all.checked_add(part.len())))?)?;
    let mut out = BytesBuilder::default();
    parts.iter().try_for_each(|part| out.push_slice(part))?;
    Ok(out.finish())
}

/// Maps each character of a text by `change`, which keeps its length or makes it shorter.
///
/// # Errors
/// Those of [`pulse::tick`].
pub(super) fn mapped(text: &str, mut change: impl FnMut(char) -> char) -> SqlResult<Datum> {
    let mut out = TextBuilder::with_capacity(text.len())?;
    for slice in slices(text) {
        pulse::tick(slice.len())?;
        for c in slice.chars() {
            out.push(change(c))?;
        }
    }
    Ok(out.finish())
}

/// Returns the bytes of an array's item, with its header and its length.
pub(super) fn bytes_of(item: &Datum) -> usize {
    4 + item.text_bytes()
}

/// Returns an array of these items.
///
/// # Errors
/// `54000`, and those of [`pulse::tick`].
pub(super) fn array(items: Vec<Datum>) -> SqlResult<Datum> {
    array_fits(items.len(), 0)?;
    let mut bytes = 0_usize;
    for some in items.chunks(pulse::SLICE) {
        pulse::tick(some.len())?;
        bytes += some.iter().map(bytes_of).sum::<usize>();
    }
    array_fits(items.len(), bytes)?;
    Ok(Datum::Array(items.into()))
}

/// Checks the size of an array that is about to be made.
fn array_fits(count: usize, bytes: usize) -> SqlResult<()> {
    if ITEMS_MAX < count {
        return Err(too_many_items());
    }
    if BYTES_MAX < bytes {
        let message = format!("array size exceeds the maximum allowed ({})", 0x3fff_ffff);
        return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message));
    }
    Ok(())
}

/// Concatenates items of arrays to an array.
///
/// # Errors
/// `54000`, and those of [`pulse::tick`].
pub(super) fn items(parts: &[&[Datum]]) -> SqlResult<Datum> {
    let count = parts.iter().map(|part| part.len()).sum::<usize>();
    array_fits(count, 0)?;
    let mut all = Vec::with_capacity(count);
    for item in parts.iter().copied().flatten() {
        pulse::copies(size_of::<Datum>() + bytes_of(item))?;
        all.push(item.clone());
    }
    array(all)
}

/// Returns an array that repeats one item so many times.
///
/// # Errors
/// `54000`, and those of [`pulse::tick`].
pub(super) fn repeated(item: &Datum, count: usize) -> SqlResult<Datum> {
    array_fits(count, bytes_of(item).saturating_mul(count))?;
    let mut all = Vec::with_capacity(count);
    for _ in 0..count {
        pulse::copies(size_of::<Datum>() + bytes_of(item))?;
        all.push(item.clone());
    }
    Ok(Datum::Array(all.into()))
}

/// Returns a result if its size is allowed.
///
/// # Errors
/// `54000`
#[inline]
pub fn checked(value: Datum) -> SqlResult<Datum> {
    match &value {
        Datum::Text(text) if BYTES_MAX < text.len() => Err(too_long()),
        Datum::Bytes(bytes) if BYTES_MAX < bytes.len() => Err(too_long()),
        Datum::Array(items) if ITEMS_MAX < items.len() => Err(too_many_items()),
        _ => Ok(value),
    }
}

/// Returns true if a text begins with another.
///
/// # Errors
/// Those of [`pulse::tick`].
pub(super) fn begins_with(all: &[u8], part: &[u8]) -> SqlResult<bool> {
    let Some(all) = all.get(..part.len()) else { return Ok(false) };
    for (left, right) in all.chunks(COPY).zip(part.chunks(COPY)) {
        pulse::copies(left.len())?;
        if left != right {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Longest text that the library searches for, since it prepares itself for each.
const HEAD: usize = 1 << 12;

/// Calls `each` with the positions of a text in another, from left to right and without
/// overlaps, until `each` has enough.
///
/// # Errors
/// Those of [`pulse::tick`] and of `each`.
pub(crate) fn occurrences(
    all: &str,
    part: &str,
    mut each: impl FnMut(usize) -> SqlResult<ControlFlow<()>>,
) -> SqlResult<()> {
    let head = &part[..part.floor_char_boundary(HEAD)];
    if head.is_empty() {
        return Ok(());
    }
    let mut at = 0;
    while part.len() <= all.len() - at {
        let end = all.ceil_char_boundary((at + pulse::SLICE + head.len()).min(all.len()));
        pulse::tick(end - at)?;
        // An occurrence that begins in this window and ends after it is found in the next.
        let mut next = if end == all.len() { end } else { all.floor_char_boundary(end - head.len() + 1) };
        for (found, _) in all[at..end].match_indices(head) {
            let found = at + found;
            if head.len() < part.len() && !begins_with(&all.as_bytes()[found..], part.as_bytes())? {
                // Another occurrence may begin within this one.
                next = found + all[found..].chars().next().map_or(1, char::len_utf8);
                break;
            }
            if each(found)?.is_break() {
                return Ok(());
            }
            next = next.max(found + part.len());
            if head.len() < part.len() {
                next = found + part.len();
                break;
            }
        }
        at = next;
    }
    Ok(())
}

/// Passes the parts of a text between the occurrences of a delimiter to `each`.
///
/// # Errors
/// Those of [`pulse::tick`] and of `each`.
pub fn split<'t>(
    all: &'t str,
    delimiter: &str,
    mut each: impl FnMut(&'t str) -> SqlResult<ControlFlow<()>>,
) -> SqlResult<()> {
    let mut from = 0;
    let mut has_enough = false;
    occurrences(all, delimiter, |at| {
        let flow = each(&all[from..at])?;
        from = at + delimiter.len();
        has_enough = flow.is_break();
        Ok(flow)
    })?;
    if !has_enough {
        let _ = each(&all[from..])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(all: &str, part: &str) -> Vec<usize> {
        let mut found = Vec::new();
        occurrences(all, part, |at| {
            found.push(at);
            Ok(ControlFlow::Continue(()))
        })
        .expect("nobody stops it");
        found
    }

    /// Goal: windows change nothing. Method: comparison with the library's own search.
    #[test]
    fn a_text_is_found_wherever_it_stands() {
        let filler = "é".repeat(pulse::SLICE / 2 - 3);
        let long = format!("{}x", "ab".repeat(HEAD));
        for part in ["a", "aa", "é", "éa", "xyz", &"é".repeat(40_000), &long, &"a".repeat(HEAD + 1)] {
            for all in [
                String::new(),
                part.to_owned(),
                format!("{part}{filler}{part}"),
                format!("{filler}{part}{part}{filler}{part}x{part}"),
                format!("{filler}{}", "a".repeat(3 * HEAD)),
                format!("{}{long}{long}", "ab".repeat(HEAD)),
            ] {
                let expected: Vec<usize> = all.match_indices(part).map(|(at, _)| at).collect();
                assert!(found(&all, part) == expected, "{} in {} bytes", part.len(), all.len());
            }
        }
        assert!(found("abc", "").is_empty());
    }

    /// Goal: values that would be too long are refused, by the function that makes them and by the check of
    /// results, without being made.
    #[test]
    fn nothing_becomes_too_long() {
        let error = enlarged(BYTES_MAX, 1).expect_err("too long");
        assert_eq!((error.state().0, error.message()), ("54000", "out of memory"));
        assert!(enlarged(BYTES_MAX - 1, 1).is_ok());
        assert!(enlarged(1, usize::MAX).is_err());
        assert!(fits(None).is_err());
        assert!(fits(Some(BYTES_MAX)).is_ok());
        let error = fits(Some(BYTES_MAX + 1)).expect_err("too long");
        assert_eq!((error.state().0, error.message()), ("54000", "requested length too large"));
        let many = vec![Datum::Null; 1 << 20];
        let error = items(&[&many[..]; 129]).expect_err("too many");
        assert_eq!(error.message(), "array size exceeds the maximum allowed (134217727)");
    }
}
