//! Server without the service behind it: listeners, authentication, admission, threads, statistics.
//!
//! A [`service::Service`] opens the objects that serve clients: sessions of SQL, or connections to other servers.
//!
//! **Invariant:** no thread blocks on a client.
//!
//! # Layers
//!
//! - rules and threads: `rules`, `attempts`, `strangers`, `network`, `workers`, `registry`, `stats`, `reload`
//! - admission: `admission`
//! - configuration: `config`, `options`, `metrics`, `stage_lines`, `xdp_lines`, `service`, `state`
//! - connections: `startup`, `listen`

pub mod admission;
pub mod attempts;
pub mod config;
pub mod listen;
pub mod metrics;
pub mod network;
pub mod options;
pub mod registry;
pub mod reload;
pub mod rules;
pub mod service;
pub mod stage_lines;
pub mod startup;
pub mod state;
pub mod stats;
pub mod strangers;
pub mod workers;
pub mod xdp_lines;

pub use admission::{Admission, AdmissionOptions, AdmissionView, GateSample, HotRules, Mode, Verdict};
pub use config::Config;
pub use listen::Server;
pub use rules::{ConnectionKind, HbaRule, Method, Origin, RuleError, RuleName, RuleNames};
pub use stats::Stats;
pub use workers::{Dispatch, Workers};
