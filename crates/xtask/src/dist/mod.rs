//! `cargo xtask dist`: packages of the two binaries, from the inputs in the folder `packaging`; and `--check`, which installs
//! packages and asks each for `select 1`.

mod archive;
mod binaries;
mod check;
mod container;
mod debian;
mod npm;
mod size;
mod tools;
mod wheel;

#[cfg(test)]
mod monitoring;

use crate::plants::target_directory;
use crate::tidy::root;
use anyhow::Context;
use binaries::Binaries;
use clap::{Parser, ValueEnum};
use std::path::{Path, PathBuf};
use std::time::Instant;
use tools::megabytes;

/// Options of `cargo xtask dist`.
#[derive(Parser)]
pub struct Dist {
    /// Binary `overtake` to package; built if it is left out.
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
    /// Binary `overtake-gate` to package; built if it is left out.
    #[arg(long, value_name = "FILE")]
    gate: Option<PathBuf>,
    /// Folder of the packages; `dist` in cargo's target folder if it is left out.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Kinds of packages to make.
    #[arg(long, value_delimiter = ',', value_enum)]
    only: Vec<PackageKind>,
    /// Install the packages of this folder in empty places and try each, in place of making packages.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["binary", "gate", "out", "only"])]
    check: Option<PathBuf>,
}

/// Kind of a package.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum PackageKind {
    /// Both binaries with the inputs of monitoring, as tar.xz.
    Tar,
    /// Packages of Debian, `overtake` and `overtake-gate`.
    Deb,
    /// Wheel of Python.
    Wheel,
    /// Package of npm.
    Npm,
    /// Folder in which docker or podman builds an image.
    Container,
}

/// Contents of the packages, and their destination.
struct PackagingJob {
    binaries: Binaries,
    /// Version of the workspace.
    version: String,
    /// Oldest version of the C library that has the symbols that `overtake` calls: `2.35`.
    glibc: String,
    /// Folder `packaging` of the repository.
    inputs: PathBuf,
    out: PathBuf,
}

/// Makes the packages, or tries existing ones.
///
/// # Errors
/// An error for a binary that does not build, a program that is not installed, or a package that does not work.
pub fn run(options: &Dist) -> anyhow::Result<()> {
    if let Some(folder) = &options.check {
        return check::run(&folder.canonicalize().with_context(|| format!("no folder {}", folder.display()))?);
    }
    let out = options.out.clone().unwrap_or_else(|| target_directory().join("dist"));
    std::fs::create_dir_all(&out).with_context(|| format!("{} cannot be made", out.display()))?;
    let out = out.canonicalize()?;
    let is_wanted = |kind: &PackageKind| options.only.is_empty() || options.only.contains(kind);
    let kinds: Vec<PackageKind> = PackageKind::value_variants().iter().copied().filter(is_wanted).collect();
    let with_gate = kinds.iter().any(|kind| matches!(kind, PackageKind::Tar | PackageKind::Deb));
    let binaries = Binaries::new(options.binary.as_deref(), options.gate.as_deref(), with_gate, &out)?;
    for binary in binaries.all() {
        print!("{}", size::table(binary)?);
    }
    let glibc = binaries::glibc(&binaries.overtake.stripped)?;
    println!("overtake needs glibc {glibc}\n");
    let job = PackagingJob { binaries, version: version()?, glibc, inputs: root().join("packaging"), out };
    for kind in kinds {
        let began = Instant::now();
        let made = match kind {
            PackageKind::Tar => archive::make(&job),
            PackageKind::Deb => debian::make(&job),
            PackageKind::Wheel => wheel::make(&job),
            PackageKind::Npm => npm::make(&job),
            PackageKind::Container => container::make(&job),
        };
        let made = made.with_context(|| format!("package {kind:?}"))?;
        for path in &made {
            let size = megabytes(tools::size(path)?);
            println!("{size:>8} MB  {}", path.display());
        }
        println!("{:>8.1} s", began.elapsed().as_secs_f64());
    }
    // The stage has the files that packages were put together from.
    std::fs::remove_dir_all(job.out.join("stage")).context("the staged files cannot be removed")
}

/// Returns the version in the workspace's manifest.
fn version() -> anyhow::Result<String> {
    let manifest = std::fs::read_to_string(root().join("Cargo.toml"))?;
    let package = manifest.split("[workspace.package]").nth(1).context("Cargo.toml has a [workspace.package]")?;
    let line = package.lines().find_map(|line| line.strip_prefix("version = ")).context("with a version")?;
    Ok(line.trim_matches('"').to_owned())
}

impl PackagingJob {
    /// Makes an empty folder below the one of the packages, in which a package is put together.
    fn stage(&self, name: &str) -> anyhow::Result<PathBuf> {
        tools::empty_folder(&self.out.join("stage").join(name))
    }

    /// Returns the path of an input in the folder `packaging`.
    fn input(&self, path: impl AsRef<Path>) -> PathBuf {
        self.inputs.join(path)
    }

    /// Copies the licences, which each package has.
    fn copy_licences(&self, folder: &Path) -> anyhow::Result<()> {
        for name in ["LICENSE", "NOTICE"] {
            let path = root().join(name);
            if path.exists() {
                tools::copy(&path, &folder.join(name), 0o644)?;
            }
        }
        Ok(())
    }

    /// Copies dashboard and alert rules.
    fn copy_monitoring(&self, folder: &Path) -> anyhow::Result<()> {
        for name in ["grafana/overtake.json", "prometheus/overtake.rules.yml"] {
            tools::copy(&self.input(name), &folder.join(name), 0o644)?;
        }
        Ok(())
    }
}
