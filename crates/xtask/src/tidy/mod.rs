//! Tidiness that no compiler checks: the tests here fail on it, `cargo xtask tidy` prints its figures.

#[cfg(test)]
mod docs;
mod layers;
mod shape;
mod source;
#[cfg(test)]
mod tests;

use shape::SourceFigures;
pub(crate) use source::root;
#[cfg(test)]
pub(crate) use source::sources;
use std::collections::BTreeSet;

/// Prints the figures of the repository that the command stands in.
pub(crate) fn run() {
    let sources = source::sources("rs");
    println!("{}", SourceFigures::of(&sources));
    let crates: BTreeSet<&str> = sources.iter().map(source::SourceFile::crate_name).collect();
    let lines = |file: &&source::SourceFile| file.product().lines().count();
    let product: Vec<&source::SourceFile> = sources.iter().filter(|file| !file.is_test()).collect();
    let total: usize = product.iter().map(lines).sum();
    println!("\n{:<12}{:>8}{:>8}{:>7}{:>9}  circles of modules", "crate", "lines", "share", "files", "modules");
    for name in crates {
        let own: Vec<&source::SourceFile> = product.iter().copied().filter(|file| file.crate_name() == name).collect();
        let own_lines: usize = own.iter().map(lines).sum();
        let (modules, uses) = layers::uses(&sources, name);
        let circles: Vec<String> = layers::circles(&modules, &uses).iter().map(usize::to_string).collect();
        println!(
            "{name:<12}{own_lines:>8}{:>6.1} %{:>7}{:>9}  {}",
            100.0 * own_lines as f64 / total.max(1) as f64,
            own.len(),
            modules.len(),
            if circles.is_empty() { "none".to_owned() } else { circles.join(", ") }
        );
        for offence in layers::offences(&sources, name) {
            println!("    {offence}");
        }
    }
}
