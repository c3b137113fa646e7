//! Processors for the server, and others for its clients.

use super::super::super::servers::MeasuredServer;
use anyhow::{Context, ensure};
use preempt::os;
use std::process::Command;

/// Guard of a pinned process: the benchmark, its clients and its proxies run on other processors than the server until
/// this is dropped.
pub struct Pinned(Vec<usize>);

impl Pinned {
    /// Reserves this many processors for the server; if there are no more, all share them.
    ///
    /// # Errors
    /// If the system has no `taskset`, or does not allow it.
    pub fn new(server: &MeasuredServer, processors: usize) -> anyhow::Result<Pinned> {
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
        // A process that could be pinned can be released.
        let _ = taskset(&self.0, std::process::id());
    }
}

/// Pins all threads of a process, and those that it starts from now on.
fn taskset(cpus: &[usize], pid: u32) -> anyhow::Result<()> {
    let list: Vec<String> = cpus.iter().map(ToString::to_string).collect();
    let output = Command::new("taskset").args(["-a", "-c", "-p", &list.join(","), &pid.to_string()]).output();
    let output = output.context("taskset")?;
    ensure!(output.status.success(), "taskset: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(())
}
