//! The facts of the machine that a reader must know to judge a figure.

use host::memory;
use preempt::os;
use serde::Serialize;
use std::fmt;
use std::fs;

/// Facts about the machine, as far as the kernel tells them.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// Processor's name.
    pub cpu_model: String,
    /// Number of processors that this process may use.
    pub cpus: usize,
    /// Release of the kernel.
    pub kernel: String,
    /// Signature of the hypervisor, if this is a virtual machine.
    pub virtualised: Option<String>,
    /// Source from which the kernel reads the time; anything but `tsc` makes each stamp expensive.
    pub clocksource: String,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// Number of threads that wanted a processor in the last minute, before this run.
    pub load_average: f64,
    /// True if this process may use the real-time class.
    pub realtime_allowed: bool,
    /// Availability of user interrupts (UINTR), and the reason if they cannot be used.
    pub uintr: String,
}

impl Machine {
    /// Reads the facts from the kernel.
    pub fn read() -> Machine {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        Machine {
            cpu_model: field(&cpuinfo, "model name").unwrap_or("unknown").to_owned(),
            cpus: os::cpus().len(),
            kernel: line("/proc/sys/kernel/osrelease"),
            virtualised: hypervisor(&cpuinfo),
            clocksource: line("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
            memory_bytes: memory::total_bytes().unwrap_or(0),
            load_average: line("/proc/loadavg").split(' ').next().and_then(|load| load.parse().ok()).unwrap_or(0.0),
            realtime_allowed: os::realtime_allowed(),
            uintr: os::uintr().to_string(),
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let virtualised = match &self.virtualised {
            Some(maker) => format!("virtual machine ({maker})"),
            None => "no virtual machine".to_owned(),
        };
        let realtime = if self.realtime_allowed { "allowed" } else { "not allowed" };
        writeln!(f, "{} x {}, {}, {virtualised}", self.cpus, self.cpu_model, memory::in_words(self.memory_bytes))?;
        writeln!(f, "Linux {}, clock source {}, real-time class {realtime}", self.kernel, self.clocksource)?;
        write!(f, "user interrupts (UINTR) {}; load before the run {}", self.uintr, self.load_average)
    }
}

fn hypervisor(cpuinfo: &str) -> Option<String> {
    let flagged = field(cpuinfo, "flags")?.split(' ').any(|flag| flag == "hypervisor");
    flagged.then(|| {
        // By convention of the hypervisors, leaf 0x4000_0000 answers with twelve letters in EBX, ECX and EDX.
        let leaf = core::arch::x86_64::__cpuid(0x4000_0000);
        let letters = [leaf.ebx, leaf.ecx, leaf.edx].map(u32::to_le_bytes).concat();
        String::from_utf8_lossy(&letters).trim_end_matches('\0').to_owned()
    })
}

fn field<'a>(cpuinfo: &'a str, name: &str) -> Option<&'a str> {
    cpuinfo.lines().find_map(|line| {
        let (found, value) = line.split_once(':')?;
        (found.trim() == name).then(|| value.trim())
    })
}

fn line(path: &str) -> String {
    match fs::read_to_string(path) {
        Ok(text) if !text.trim().is_empty() => text.trim().to_owned(),
        _ => "unknown".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CPUINFO: &str = "processor\t: 0\nmodel name\t: AMD EPYC\nflags\t\t: fpu hypervisor tsc\n";

    #[test]
    fn fields_are_found_by_their_whole_name() {
        assert_eq!(field(CPUINFO, "model name"), Some("AMD EPYC"));
        assert_eq!(field(CPUINFO, "model"), None);
        assert!(hypervisor(CPUINFO).is_some());
        assert_eq!(hypervisor("flags : fpu hypervisors\n"), None);
    }

    #[test]
    fn this_machine_has_processors_and_a_kernel() {
        let machine = Machine::read();
        assert!(0 < machine.cpus);
        assert_ne!(machine.kernel, "unknown");
        assert!(machine.to_string().contains(&machine.kernel));
    }
}
