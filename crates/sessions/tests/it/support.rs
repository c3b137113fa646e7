//! A server of scripted sessions.

use crate::script::Script;
use server::{Config, Server};
use std::net::{SocketAddr, TcpStream};
use std::time::Instant;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use wirekit::raw::{PATIENCE, Raw};

pub struct Rig {
    pub runtime: Runtime,
    pub script: Script,
    pub address: SocketAddr,
    pub shutdown: Option<oneshot::Sender<()>>,
    pub server: Option<JoinHandle<std::io::Result<()>>>,
}

impl Rig {
    pub fn new() -> Rig {
        Rig::with(|_| {})
    }

    pub fn with(change: impl FnOnce(&mut Config)) -> Rig {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let script = Script::default();
        let mut config = Config { listen: vec!["127.0.0.1:0".parse().unwrap()], ..Config::default() };
        change(&mut config);
        let server = Server::bind(config, sessions::Sessions(script.clone())).unwrap();
        let address = server.addresses().unwrap()[0];
        let (shutdown, ended) = oneshot::channel();
        let server = runtime.spawn(server.run(async move { drop(ended.await) }));
        Rig { runtime, script, address, shutdown: Some(shutdown), server: Some(server) }
    }

    /// Connects a client with a session.
    pub fn client(&self) -> Raw<TcpStream> {
        let mut raw = self.stranger();
        raw.start(&[("user", "postgres")]);
        raw
    }

    /// Connects a client that has not sent anything.
    pub fn stranger(&self) -> Raw<TcpStream> {
        Raw::connect(self.address)
    }

    pub fn log(&self) -> Vec<String> {
        self.script.0.log.lock().unwrap().clone()
    }

    /// Waits until a condition holds.
    pub fn until(&self, what: &str, mut is_so: impl FnMut(&Rig) -> bool) {
        let begun = Instant::now();
        while !is_so(self) {
            assert!(begun.elapsed() < PATIENCE, "never: {what}");
            std::thread::yield_now();
        }
    }
}
