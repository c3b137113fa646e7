//! Model check of the version word: `cargo test --release -p engine --features shuttle --lib btree::model`.
//!
//! Shuttle explores interleavings of sequentially consistent accesses; the orderings are argued in `version`.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::version::{Restart, VersionLock};
use core::sync::atomic::Ordering::Relaxed;
use shuttle::sync::Arc;
use shuttle::sync::atomic::AtomicU64;
use shuttle::thread;

const SCHEDULES: usize = 20_000;

/// A node of two words that are equal whenever no writer is at work.
struct Tiny {
    lock: VersionLock,
    words: [AtomicU64; 2],
}

impl Tiny {
    fn read(&self) -> Result<u64, Restart> {
        let version = self.lock.read()?;
        let copies = [self.words[0].load(Relaxed), self.words[1].load(Relaxed)];
        self.lock.validate(version)?;
        assert_eq!(copies[0], copies[1], "a torn read was validated");
        Ok(copies[0])
    }

    /// Adds one to the number that was read optimistically: only right if no other writer came between.
    fn add(&self) -> Result<(), Restart> {
        let version = self.lock.read()?;
        let seen = self.words[0].load(Relaxed);
        self.lock.upgrade(version)?;
        for word in &self.words {
            word.store(seen + 1, Relaxed);
        }
        self.lock.unlock_changed();
        Ok(())
    }

    /// Retires the node as a merge does: the node goes, and readers that still see it must restart.
    fn retire(&self) -> Result<(), Restart> {
        let version = self.lock.read()?;
        self.lock.upgrade(version)?;
        self.words[0].store(u64::MAX, Relaxed);
        self.lock.unlock_obsolete();
        Ok(())
    }
}

fn check(model: impl Fn() + Send + Sync + Clone + 'static) {
    shuttle::check_random(model.clone(), SCHEDULES);
    shuttle::check_pct(model, SCHEDULES, 3);
}

/// No validated read is torn or goes back, and no addition is lost, while a lock is also given back unchanged.
#[test]
fn validated_reads_are_whole_and_no_write_is_lost() {
    check(|| {
        let node = Arc::new(Tiny { lock: VersionLock::new(), words: [AtomicU64::new(0), AtomicU64::new(0)] });
        let writers: Vec<_> = (0..2)
            .map(|_| {
                let node = node.clone();
                thread::spawn(move || u64::from(node.add().is_ok()) + u64::from(node.add().is_ok()))
            })
            .collect();
        let reader = {
            let node = node.clone();
            thread::spawn(move || {
                let reads: Vec<_> = (0..3).filter_map(|_| node.read().ok()).collect();
                assert!(reads.is_sorted());
            })
        };
        if let Ok(version) = node.lock.read()
            && node.lock.upgrade(version).is_ok()
        {
            node.lock.unlock_unchanged();
        }
        let added: u64 = writers.into_iter().map(|writer| writer.join().unwrap()).sum();
        reader.join().unwrap();
        assert_eq!(node.read(), Ok(added));
    });
}

/// Goal: a reader that saw a node before it left the tree neither validates nor locks it afterwards.
#[test]
fn an_obsolete_node_is_never_validated() {
    check(|| {
        let node = Arc::new(Tiny { lock: VersionLock::new(), words: [AtomicU64::new(0), AtomicU64::new(0)] });
        let other = {
            let node = node.clone();
            thread::spawn(move || {
                let _ = node.read();
                let _ = node.add();
                let _ = node.read();
            })
        };
        let retired = node.retire().is_ok();
        other.join().unwrap();
        assert_eq!(node.read().is_err(), retired);
        assert_eq!(node.add().is_err(), retired);
    });
}
