//! In-memory database behind the protocol, for trying clients: `cargo run -p server --example serve
//! -- 127.0.0.1:55499`, or with the arguments of the product's binary: `serve --listen 127.0.0.1:0
//! -c max_connections=2000`.
//!
//! **Invariant:** light: it has neither analytics nor the scheduler's workers.
#![allow(clippy::unwrap_used, reason = "an example fails by panicking")]

use engine::{Engine, EngineConfig};
use server::{Config, Server};
use sessions::Views;
use settings::Defaults;
use sql::session::Database;

fn main() {
    let mut arguments = std::env::args().skip(1).filter(|argument| argument != "serve" && argument != "--listen");
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:0".to_owned());
    let mut defaults = Defaults::default();
    for setting in arguments.filter(|argument| argument != "-c") {
        settings::sources::read_flag(&setting, &mut defaults).unwrap();
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let mut config = Config::from_settings(&defaults).unwrap();
    config.listen = vec![address.parse().unwrap()];
    let engine = Engine::new(EngineConfig::in_memory());
    let views = Views::new(config.stats.clone(), engine.clone());
    let database = Database::new(engine.clone()).with_provider(views).with_defaults(defaults).unwrap();
    config.roles = database.roles().clone();
    let _inside = runtime.enter();
    let server = Server::bind(config, sessions::Sessions(database)).unwrap();
    for address in server.addresses().unwrap() {
        println!("psql postgresql://postgres@{address}/postgres");
    }
    let _housekeeper = engine::Housekeeper::start(&engine).unwrap();
    runtime.block_on(server.run(std::future::pending())).unwrap();
}
