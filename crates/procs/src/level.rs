//! Levels of isolation, channels, and artifacts.
//!
//! **Invariant:** a level runs one kind of artifact. A name that is none of these is refused, and so is a level that
//! the machine lacks; code never runs at another level than it was told to.

use std::fmt;

/// First bytes of an ELF file.
pub const ELF: &[u8] = b"\x7fELF";
/// First bytes of a script, before its interpreter.
pub const SCRIPT: &[u8] = b"#!";

/// Level of isolation of stored code, from none to a virtual machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Level {
    /// Rust code linked into the server.
    Native,
    /// WebAssembly within the server's process.
    Wasm,
    /// Process of the server's user.
    Process,
    /// Process within namespaces, with system calls, files and memory restricted.
    Container,
    /// Process within gVisor's user-space kernel.
    Gvisor,
    /// KVM virtual machine without a kernel.
    Vm,
}

impl Level {
    /// All levels, the weakest isolation first.
    pub const ALL: [Level; 6] =
        [Level::Native, Level::Wasm, Level::Process, Level::Container, Level::Gvisor, Level::Vm];

    /// Returns the name in SQL.
    pub fn name(self) -> &'static str {
        match self {
            Level::Native => "native",
            Level::Wasm => "wasm",
            Level::Process => "process",
            Level::Container => "container",
            Level::Gvisor => "gvisor",
            Level::Vm => "vm",
        }
    }

    /// Returns the level of this name.
    pub fn named(name: &str) -> Option<Level> {
        Level::ALL.into_iter().find(|level| level.name() == name)
    }

    /// Returns the kind of artifact that the level runs.
    pub fn artifact(self) -> ArtifactKind {
        match self {
            Level::Native => ArtifactKind::Native,
            Level::Wasm => ArtifactKind::Wasm,
            Level::Process | Level::Container | Level::Gvisor => ArtifactKind::Exec,
            Level::Vm => ArtifactKind::Guest,
        }
    }

    /// Returns the channels over which the level can carry calls, the default first.
    pub fn channels(self) -> &'static [Channel] {
        match self {
            Level::Native | Level::Wasm => &[Channel::Direct],
            Level::Process | Level::Container | Level::Gvisor | Level::Vm => {
                &[Channel::SharedMemory, Channel::UnixSocket]
            }
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Carrier of calls between code and the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Channel {
    /// Call within the process.
    Direct,
    /// Memory that both sides map, with futexes for whoever sleeps.
    SharedMemory,
    /// Stream socket of the UNIX domain.
    UnixSocket,
}

impl Channel {
    /// All channels.
    pub const ALL: [Channel; 3] = [Channel::Direct, Channel::SharedMemory, Channel::UnixSocket];

    /// Returns the name in SQL.
    pub fn name(self) -> &'static str {
        match self {
            Channel::Direct => "direct",
            Channel::SharedMemory => "shared_memory",
            Channel::UnixSocket => "unix_socket",
        }
    }

    /// Returns the channel of this name.
    pub fn named(name: &str) -> Option<Channel> {
        Channel::ALL.into_iter().find(|channel| channel.name() == name)
    }
}

impl fmt::Display for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Form of a module's code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ArtifactKind {
    /// Name of a module that is linked into the server.
    Native,
    /// WebAssembly module, as bytes.
    Wasm,
    /// Executable file of Linux: ELF, or a script that begins with `#!`.
    Exec,
    /// Static executable of Linux, which needs few system calls.
    Guest,
}

impl ArtifactKind {
    /// All kinds.
    pub const ALL: [ArtifactKind; 4] =
        [ArtifactKind::Native, ArtifactKind::Wasm, ArtifactKind::Exec, ArtifactKind::Guest];

    /// Returns the name in SQL.
    pub fn name(self) -> &'static str {
        match self {
            ArtifactKind::Native => "native",
            ArtifactKind::Wasm => "wasm",
            ArtifactKind::Exec => "exec",
            ArtifactKind::Guest => "guest",
        }
    }

    /// Returns the kind of this name.
    pub fn named(name: &str) -> Option<ArtifactKind> {
        ArtifactKind::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Returns what is wrong with the beginning of such an artifact, as a sentence; `None` if it could be one.
    pub fn fault_of(self, bytes: &[u8]) -> Option<&'static str> {
        let (is_one, fault) = match self {
            // A name, which the registry of linked modules knows.
            ArtifactKind::Native => return None,
            ArtifactKind::Wasm => {
                (bytes.starts_with(b"\0asm"), "A WebAssembly module begins with the bytes \"\\0asm\".")
            }
            ArtifactKind::Exec => (
                bytes.starts_with(ELF) || bytes.starts_with(SCRIPT),
                "An executable is an ELF file, or a script that begins with \"#!\".",
            ),
            ArtifactKind::Guest => (bytes.starts_with(ELF), "A guest is an ELF file."),
        };
        (!is_one).then_some(fault)
    }

    /// Returns true if only superusers may install such an artifact: it runs outside of any sandbox at one of the
    /// levels that accept it.
    pub fn needs_superuser(self) -> bool {
        match self {
            ArtifactKind::Native | ArtifactKind::Exec => true,
            ArtifactKind::Wasm | ArtifactKind::Guest => false,
        }
    }
}

impl fmt::Display for ArtifactKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
