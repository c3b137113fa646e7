//! Processors for the server, and others for those who ask it.

use super::super::super::servers::Target;
use anyhow::{Context, ensure};
use preempt::os;
use std::process::Command;

/// The benchmark, its clients and its fronts run elsewhere until this is dropped.
pub struct Pinned(Vec<usize>);

impl Pinned {
    /// The server keeps so many processors; if there are no more, all share them.
    ///
    /// # Errors
    /// The system has no `taskset`, or does not let it.
    pub fn new(server: &Target, processors: usize) -> anyhow::Result<Pinned> {
        let all = os::cpus();
        let (own, others) = all.split_at(processors.min(all.len()));
        let pid = server.processes().context("the server is not of this machine")?.parent();
        taskset(own, pid)?;
        taskset(if others.is_empty() { &all } else { others }, std::process::id())?;
        Ok(Pinned(all))
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // Who could be pinned can be let go.
        let _ = taskset(&self.0, std::process::id());
    }
}

/// All threads of a process; what it starts from now on, too.
fn taskset(cpus: &[usize], pid: u32) -> anyhow::Result<()> {
    let list: Vec<String> = cpus.iter().map(ToString::to_string).collect();
    let output = Command::new("taskset").args(["-a", "-c", "-p", &list.join(","), &pid.to_string()]).output();
    let output = output.context("taskset")?;
    ensure!(output.status.success(), "taskset: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(())
}
