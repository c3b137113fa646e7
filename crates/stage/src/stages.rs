//! Stages of a statement, and the properties by which their times are kept apart.

/// Part of the time of a statement. Each moment of a session that works belongs to exactly one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Stage {
    /// Reading bytes from the network.
    NetworkRead = 0,
    /// Making messages and values of the bytes.
    Decode,
    /// Making a syntax tree of a text.
    Parse,
    /// Binding names and types, and choosing a plan.
    Plan,
    /// Finding a plan that was made before, and checking that it is current.
    PlanCached,
    /// Waiting for admission.
    Gate,
    /// Waiting for a thread: from the hand-over to the start, from the end to the notice of it, and while other
    /// sessions of the thread have their turn.
    Dispatch,
    /// Executing, to the end of the commit.
    Run,
    /// Entering and leaving stored code that is no SQL, and what it computes between its calls.
    Crossing,
    /// Waiting for stored code in another process, while this thread sleeps. Polling for its answer is
    /// [`Stage::Crossing`].
    CrossingWait,
    /// Waiting for a lock.
    LockWait,
    /// Waiting until changes are durable.
    LogWait,
    /// Making bytes of the rows.
    Encode,
    /// Handing bytes to the network.
    NetworkWrite,
    /// Time in which the kernel, or the host of a virtual machine, had given the processor to others.
    Preempted,
    /// Work that belongs to no other stage.
    Unattributed,
}

impl Stage {
    /// Number of stages.
    pub const COUNT: usize = 16;

    /// Every stage, in the order in which a statement passes them.
    pub const ALL: [Stage; Stage::COUNT] = [
        Stage::NetworkRead,
        Stage::Decode,
        Stage::Parse,
        Stage::Plan,
        Stage::PlanCached,
        Stage::Gate,
        Stage::Dispatch,
        Stage::Run,
        Stage::Crossing,
        Stage::CrossingWait,
        Stage::LockWait,
        Stage::LogWait,
        Stage::Encode,
        Stage::NetworkWrite,
        Stage::Preempted,
        Stage::Unattributed,
    ];

    /// Returns the name in views, metrics and documentation.
    pub fn name(self) -> &'static str {
        match self {
            Stage::NetworkRead => "network_read",
            Stage::Decode => "decode",
            Stage::Parse => "parse",
            Stage::Plan => "plan",
            Stage::PlanCached => "plan_cached",
            Stage::Gate => "gate",
            Stage::Dispatch => "dispatch",
            Stage::Run => "run",
            Stage::Crossing => "crossing",
            Stage::CrossingWait => "crossing_wait",
            Stage::LockWait => "lock_wait",
            Stage::LogWait => "log_wait",
            Stage::Encode => "encode",
            Stage::NetworkWrite => "network_write",
            Stage::Preempted => "preempted",
            Stage::Unattributed => "unattributed",
        }
    }

    /// Returns true if the session needs no processor in this stage.
    pub fn is_waiting(self) -> bool {
        match self {
            Stage::Gate
            | Stage::Dispatch
            | Stage::CrossingWait
            | Stage::LockWait
            | Stage::LogWait
            | Stage::Preempted => true,
            Stage::NetworkRead
            | Stage::Decode
            | Stage::Parse
            | Stage::Plan
            | Stage::PlanCached
            | Stage::Run
            | Stage::Crossing
            | Stage::Encode
            | Stage::NetworkWrite
            | Stage::Unattributed => false,
        }
    }
}

/// Way by which the messages of a client come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Transport {
    /// TCP.
    Tcp = 0,
    /// Unix socket.
    Unix,
    /// TLS, over TCP.
    Tls,
    /// Memory that is shared with a client of the same machine.
    Shared,
    /// TCP by io_uring.
    IoUring,
    /// TCP of this process, over AF_XDP.
    AfXdp,
}

impl Transport {
    /// Every transport.
    pub const ALL: [Transport; 6] =
        [Transport::Tcp, Transport::Unix, Transport::Tls, Transport::Shared, Transport::IoUring, Transport::AfXdp];

    /// Returns the name in views, metrics and documentation.
    pub fn name(self) -> &'static str {
        match self {
            Transport::Tcp => "tcp",
            Transport::Unix => "unix",
            Transport::Tls => "tls",
            Transport::Shared => "shared",
            Transport::IoUring => "io_uring",
            Transport::AfXdp => "af_xdp",
        }
    }
}

/// Border between the engine and a stored procedure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum IsolationLevel {
    /// The statement calls no code outside of SQL.
    None = 0,
    /// Code that is linked into the server.
    Native,
    /// WebAssembly.
    Wasm,
    /// Process.
    Process,
    /// Process within namespaces.
    Container,
    /// Process within gVisor.
    Gvisor,
    /// Virtual machine.
    Vm,
}

impl IsolationLevel {
    /// Every level, the weakest first.
    pub const ALL: [IsolationLevel; 7] = [
        IsolationLevel::None,
        IsolationLevel::Native,
        IsolationLevel::Wasm,
        IsolationLevel::Process,
        IsolationLevel::Container,
        IsolationLevel::Gvisor,
        IsolationLevel::Vm,
    ];

    /// Returns the name in views, metrics and documentation.
    pub fn name(self) -> &'static str {
        match self {
            IsolationLevel::None => "none",
            IsolationLevel::Native => "native",
            IsolationLevel::Wasm => "wasm",
            IsolationLevel::Process => "process",
            IsolationLevel::Container => "container",
            IsolationLevel::Gvisor => "gvisor",
            IsolationLevel::Vm => "vm",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stage_stands_at_its_own_place() {
        for (at, stage) in Stage::ALL.into_iter().enumerate() {
            assert_eq!(stage as usize, at);
        }
        for (at, transport) in Transport::ALL.into_iter().enumerate() {
            assert_eq!(transport as usize, at);
        }
        for (at, level) in IsolationLevel::ALL.into_iter().enumerate() {
            assert_eq!(level as usize, at);
        }
    }
}
