use super::*;

fn source(name: &str, text: &str) -> SourceFile {
    SourceFile { name: name.to_owned(), text: text.to_owned() }
}

const ROOT: &str = "//! A crate.\n//!\n//! # Layers\n//!\n//! - low: `a`,\n//!   `b`\n//! - high: `c`\n//!\n//! Because of `d`.\n//!\n//! # More\n//! - `d`\n";

#[test]
fn layers_are_read_from_the_root_file() {
    let layers = declared(ROOT).expect("they are declared");
    assert_eq!(layers, [("low".into(), vec!["a".into(), "b".into()]), ("high".into(), vec!["c".into()])]);
    assert_eq!(declared("//! Layers\n"), None);
}

/// Returns the paths, written out, with their lines.
fn paths(text: &str, module: &[&str]) -> Vec<(String, usize)> {
    let below = BTreeSet::from(["a", "w"]);
    named_paths(text, module, &below).into_iter().map(|path| (path.segments.join("::"), path.line)).collect()
}

#[test]
fn every_way_to_name_a_module_is_found() {
    let text = "use crate::a::X; // crate::z\nuse crate::{b, c::{d, e as k},\n    f::G,\n};\nlet x = crate::h::i() + mycrate::k();\n";
    let expected = [("a::X", 1), ("b", 2), ("c::d", 2), ("c::e", 2), ("f::G", 3), ("h::i", 5)];
    assert_eq!(paths(text, &["m"]), expected.map(|(path, line)| (path.to_owned(), line)));
    let text = "use super::{x::Y, Z};\npub(super) fn f() -> super::super::V { w::x(\"crate::\") + y::a::Z }\n";
    let expected = [("m::x::Y", 1), ("m::Z", 1), ("V", 2), ("m::n::w::x", 2)];
    let found: Vec<_> = paths(text, &["m", "n"]).into_iter().filter(|(path, _)| !path.is_empty()).collect();
    assert_eq!(found, expected.map(|(path, line)| (path.to_owned(), line)));
    assert_eq!(paths("pub use a::b::{C, D as E};\n", &[])[1].0, "a::b::D");
    assert_eq!(paths("use m::a::X;\n", &["m"]), []);
}

#[test]
fn an_upward_use_is_an_offence() {
    let sources = [
        source("crates/x/src/lib.rs", ROOT),
        source("crates/x/src/a.rs", "use crate::b::B;\n"),
        source("crates/x/src/b/mod.rs", "use crate::c::C;\n"),
        source("crates/x/src/c.rs", "use crate::a::A;\n#[cfg(test)]\nmod tests {\nuse crate::c::C;\n}\n"),
        source("crates/x/src/e.rs", ""),
    ];
    let found = offences(&sources, "x");
    assert_eq!(found, ["x: `e` stands in no layer", "crates/x/src/b/mod.rs:1: `b` (low) uses `c` (high)"]);
    let (modules, uses) = uses(&sources, "x");
    assert_eq!(circles(&modules, &uses), [3]);
}

#[test]
fn names_that_a_module_imports_count_as_those_of_another() {
    let sources = [
        source("crates/x/src/lib.rs", &format!("{ROOT}pub use c::C;\n")),
        source("crates/x/src/a.rs", "use crate::C;\n"),
        source("crates/x/src/b.rs", "use crate::c::D;\n"),
        source("crates/x/src/c.rs", "mod d;\npub use d::D;\n"),
        source("crates/x/src/c/d.rs", "use crate::a::A;\n"),
    ];
    let low = ["crates/x/src/a.rs:1: `a` (low) uses `c` (high)", "crates/x/src/b.rs:1: `b` (low) uses `c` (high)"];
    assert_eq!(offences(&sources, "x"), low);
    let sources: Vec<SourceFile> = sources
        .into_iter()
        .map(|file| SourceFile { text: file.text.replace("- high: `c`", "- high: `c::d`\n//! - top: `c`"), ..file })
        .collect();
    assert_eq!(offences(&sources, "x")[1], "crates/x/src/b.rs:1: `b` (low) uses `c::d` (high)");
}

#[test]
fn a_file_may_stand_in_another_layer_than_its_folder() {
    let sources = [
        source("crates/x/src/lib.rs", "//! # Layers\n//! - low: `a::b`\n//! - high: `a`, `c`\n"),
        source("crates/x/src/a.rs", "mod b;\nmod d;\nuse self::b::B;\n"),
        source("crates/x/src/a/b.rs", "use super::d::D;\n"),
        source("crates/x/src/a/d.rs", "use super::b::B;\n"),
        source("crates/x/src/c.rs", ""),
    ];
    assert_eq!(offences(&sources, "x"), ["crates/x/src/a/b.rs:1: `a::b` (low) uses `a` (high)"]);
}

#[test]
fn a_crate_of_many_modules_declares_its_layers() {
    let mut sources = vec![source("crates/x/src/lib.rs", "//! A crate.\n")];
    sources.extend(["a", "b", "c", "d", "e"].map(|module| source(&format!("crates/x/src/{module}.rs"), "")));
    assert_eq!(offences(&sources, "x"), Vec::<String>::new());
    sources.push(source("crates/x/src/f.rs", ""));
    assert_eq!(offences(&sources, "x"), ["x: no `# Layers` of 6 modules"]);
}
