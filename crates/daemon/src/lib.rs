//! Process of a server: arguments and settings, memory limits, the console, and the commands that need no database of
//! their own. The binaries `overtake` and `overtake-gate` are built on it.
//!
//! # Layers
//!
//! - parts of a process: `process`, `arguments`, `purge`, `console`
//! - commands: `gate`, `top`, `import`
//! - commands beside a server: `shared_proxy`

mod arguments;
mod console;
pub mod gate;
pub mod import;
mod process;
mod purge;
pub mod shared_proxy;
pub mod top;

pub use arguments::ServeArguments;
pub use console::Console;
pub use process::{ServiceState, announce, notify, run_command, until};
pub use purge::{Heaps, MemoryLimits, Purging};

/// Version with the commit, if git was available at build time.
pub const VERSION: &str = env!("OVERTAKE_VERSION");
