//! The database in memory behind the protocol, for trying clients: `cargo run -p server --example serve -- 127.0.0.1:55499`.
//!
//! **Invariant:** light: neither analytics nor the scheduler's workers are there.
#![allow(clippy::unwrap_used, reason = "an example fails by panicking")]

use engine::{Engine, EngineConfig};
use server::{Config, Server};
use sql::session::Database;

fn main() {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:0".to_owned());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let config = Config { listen: vec![address.parse().unwrap()], ..Config::default() };
    let _inside = runtime.enter();
    let server = Server::bind(config, Database::new(Engine::new(EngineConfig::in_memory()))).unwrap();
    println!("{:?}", server.addresses().unwrap());
    runtime.block_on(server.run(std::future::pending())).unwrap();
}
