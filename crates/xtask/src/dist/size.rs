//! The sizes of a binary's parts: sections, and code by the crate that a symbol names first.
//!
//! A generic function counts for the crate that defines it, whichever crate instantiates it: `core::ptr::drop_in_place`
//! is `core`, for any type.

use super::binaries::Binary;
use super::tools::{self, megabytes};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::process::Command;

/// Number of sections and crates that are listed by name.
const SECTIONS: usize = 8;
const CRATES: usize = 15;

/// Returns the table of one binary.
pub(super) fn table(binary: &Binary) -> anyhow::Result<String> {
    let sections = tools::run(Command::new("size").arg("-A").arg(&binary.stripped))?;
    let symbols = tools::run(Command::new("nm").args(["-C", "-S", "--size-sort"]).arg(&binary.whole))?;
    let mut out = String::new();
    let whole = megabytes(tools::size(&binary.whole)?);
    // Writing to a string does not fail.
    let _ = writeln!(out, "{}: {whole} MB, stripped {} MB", binary.name, megabytes(tools::size(&binary.stripped)?));
    let mut list = |title: &str, parts: BTreeMap<String, u64>, count: usize| {
        let total: u64 = parts.values().sum();
        let mut parts: Vec<(String, u64)> = parts.into_iter().collect();
        parts.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
        let others: u64 = parts.iter().skip(count).map(|(_, bytes)| bytes).sum();
        let _ = writeln!(out, "  {title:<42}{:>9} MB", megabytes(total));
        parts.truncate(count);
        for (name, bytes) in parts.into_iter().chain([("others".to_owned(), others)]) {
            let share = 100.0 * bytes as f64 / total.max(1) as f64;
            let _ = writeln!(out, "    {name:<40}{:>9} MB{share:>6.1} %", megabytes(bytes));
        }
    };
    list("sections", by_section(&sections), SECTIONS);
    list("code, by crate", by_crate(&symbols), CRATES);
    out.push('\n');
    Ok(out)
}

/// Returns the bytes of the sections that are in the file, from `size -A`.
fn by_section(text: &str) -> BTreeMap<String, u64> {
    let lines = text.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let (name, bytes) = (words.next()?, words.next()?.parse().ok()?);
        (name.starts_with('.') && !name.ends_with("bss")).then(|| (name.to_owned(), bytes))
    });
    lines.collect()
}

/// Returns the bytes of code by crate, from `nm -C -S --size-sort`.
fn by_crate(text: &str) -> BTreeMap<String, u64> {
    let mut crates = BTreeMap::new();
    let mut seen = BTreeSet::new();
    for line in text.lines() {
        let words: Vec<&str> = line.splitn(4, ' ').collect();
        let [address, bytes, "t" | "T" | "w" | "W" | "i", name] = words[..] else { continue };
        // Functions with equal code are one, with several names.
        if let (Ok(bytes), true) = (u64::from_str_radix(bytes, 16), seen.insert(address)) {
            *crates.entry(crate_of(name).to_owned()).or_default() += bytes;
        }
    }
    crates
}

/// Returns the first segment of the first path in a symbol: `<&mut a::B as c::D>::e` is `a`'s.
fn crate_of(symbol: &str) -> &str {
    let mut rest = symbol;
    loop {
        let before = rest;
        rest = rest.trim_start_matches(|letter: char| !letter.is_alphanumeric() && letter != '_');
        for word in ["mut ", "dyn ", "const ", "impl "] {
            rest = rest.strip_prefix(word).unwrap_or(rest);
        }
        if rest == before {
            break;
        }
    }
    let end = rest.find(|letter: char| !letter.is_alphanumeric() && letter != '_').unwrap_or(rest.len());
    if rest[end..].starts_with("::") {
        &rest[..end]
    } else if rest[end..].starts_with(" as ") {
        // For a type of the language, the trait's crate has the code.
        crate_of(&rest[end + " as ".len()..])
    } else if rest[end..].starts_with(['[', ';', ']']) && rest.contains(" as ") {
        rest.split_once(" as ").map_or("C", |(_, of)| crate_of(of))
    } else {
        "C"
    }
}

#[cfg(test)]
mod tests {
    use super::{by_crate, by_section, crate_of};

    #[test]
    fn symbols_belong_to_the_crate_that_they_name_first() {
        let symbols = [
            ("engine::table::Table::get", "engine"),
            ("<&mut sql::Session as core::fmt::Debug>::fmt", "sql"),
            ("<dyn query::Plan>::run", "query"),
            ("<u64 as arrow_array::Number>::add", "arrow_array"),
            ("<[u8] as wire::Bytes>::put", "wire"),
            ("core::ptr::drop_in_place<engine::table::Table>", "core"),
            ("ring_core_0_17_14__x25519_sc_reduce", "C"),
        ];
        for (symbol, name) in symbols {
            assert_eq!(crate_of(symbol), name, "{symbol}");
        }
    }

    #[test]
    fn only_code_counts_for_crates_and_only_what_is_stored_for_sections() {
        let text =
            "00a0 0010 t engine::a\n00b0 0020 T <engine::B>::c\n00b0 0020 t sql::the_same\n00d0 0030 r sql::DATA\n";
        assert_eq!(by_crate(text).into_iter().collect::<Vec<_>>(), [("engine".to_owned(), 0x30)]);
        let text = "overtake  :\nsection   size   addr\n.text   100   4096\n.bss   7   9\nTotal   107\n";
        assert_eq!(by_section(text).into_iter().collect::<Vec<_>>(), [(".text".to_owned(), 100)]);
    }
}
