//! Packages of Debian: a binary, its unit and its configuration each.

use super::binaries::Binary;
use super::{PackagingJob, tools};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// Makes the packages `overtake` and `overtake-gate`.
pub(super) fn make(job: &PackagingJob) -> anyhow::Result<Vec<PathBuf>> {
    let about = "in-memory database that speaks PostgreSQL's protocol\n Data are in memory only. With --upstream the same \
                 program is a gate before PostgreSQL\n servers.";
    let gate = "priority queues and a limit of transactions before PostgreSQL\n A pooling proxy that lets in as many \
                transactions as are useful, the important\n ones first.";
    Ok(vec![package(job, &job.binaries.overtake, about)?, package(job, job.binaries.gate()?, gate)?])
}

fn package(job: &PackagingJob, binary: &Binary, description: &str) -> anyhow::Result<PathBuf> {
    let name = binary.name;
    let folder = job.stage(name)?;
    let input = |suffix: &str| job.input("debian").join(format!("{name}.{suffix}"));
    let conffile = format!("/etc/overtake/{name}.conf");
    let mut conffiles = format!("{conffile}\n");
    tools::copy(&binary.stripped, &folder.join("usr/bin").join(name), 0o755)?;
    tools::copy(&input("conf"), &folder.join(&conffile[1..]), 0o644)?;
    tools::copy(&input("service"), &folder.join(format!("lib/systemd/system/{name}.service")), 0o644)?;
    if input("default").exists() {
        // The file has a password.
        tools::copy(&input("default"), &folder.join("etc/default").join(name), 0o600)?;
        conffiles += &format!("/etc/default/{name}\n");
    }
    let doc = folder.join("usr/share/doc").join(name);
    job.copy_licences(&doc)?;
    fs::rename(doc.join("LICENSE"), doc.join("copyright"))?;
    job.copy_monitoring(&doc.join("examples"))?;
    let size = tools::size(&folder)?.div_ceil(1024);
    let (version, glibc) = (&job.version, super::binaries::glibc(&binary.stripped)?);
    let control = format!(
        "Package: {name}\nVersion: {version}\nArchitecture: amd64\nMaintainer: Overtake <overtake@localhost>\n\
         Installed-Size: {size}\nDepends: libc6 (>= {glibc}), libgcc-s1\nSection: database\nPriority: optional\n\
         Description: {description}\n"
    );
    tools::write(&folder.join("DEBIAN/control"), &control, 0o644)?;
    tools::write(&folder.join("DEBIAN/conffiles"), &conffiles, 0o644)?;
    for script in ["postinst", "prerm", "postrm"] {
        let text = fs::read_to_string(job.input("debian").join(script))?.replace("PACKAGE", name);
        tools::write(&folder.join("DEBIAN").join(script), &text, 0o755)?;
    }
    let path = job.out.join(format!("{name}_{version}_amd64.deb"));
    tools::run(
        Command::new("dpkg-deb").args(["--root-owner-group", "-Zxz", "-z6", "--build"]).arg(&folder).arg(&path),
    )?;
    Ok(path)
}
