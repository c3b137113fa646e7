//! Attacks on a virtual machine by instructions and addresses.

use crate::{attacks, code, load};
use procs::{Level, Limits, Manifest};
use procs_conformance::{Subject, engine};
use std::sync::Arc;
use std::time::{Duration, Instant};
use types::Kind;
use types::datum::Datum;

const ATTACKS: &[&str] = &[
    "in from a port",
    "out to a port",
    "out to the port of the gate",
    "string output",
    "hlt",
    "cli",
    "ud2",
    "int 3",
    "int 0x80",
    "sysenter",
    "sysret",
    "iret",
    "far jump",
    "mov to cr3",
    "mov from cr0",
    "wrmsr",
    "rdmsr",
    "lidt",
    "ltr",
    "invlpg",
    "wbinvd",
    "vmcall",
    "trap flag",
    "null pointer",
    "far address",
    "address of the kernel",
    "address that is none",
    "write to code",
    "execute data",
    "division by zero",
    "no stack",
    "read page tables",
    "write page tables",
    "write after the right went",
    "execute after the right went",
    "read after all rights went",
    "read of memory that is free",
];

/// Returns the module at the level `vm`; none if this machine does not have it.
fn subjects() -> Vec<Subject> {
    let Some(program) = load(Level::Vm, &code().machine) else { return Vec::new() };
    let manifest =
        Arc::new(Manifest::parse("overtake 1\nentry attack\nentry survives\nentry protects\n").expect("a manifest"));
    Level::Vm.channels().iter().map(|channel| Subject::new(Level::Vm, *channel, &program, &manifest)).collect()
}

#[test]
fn instructions_of_kernels_end_the_code() {
    let mut all = Vec::new();
    for subject in subjects() {
        for name in ATTACKS {
            let limits = Limits { time: Some(Duration::from_secs(20)), ..Limits::default() };
            let types = (Kind::Text.into(), Kind::Int8.into());
            let mut engine = engine(Kind::Int8.into());
            let mut instance = subject.open(&limits).expect("a machine");
            let begin = Instant::now();
            let ran = subject.invoke(&mut *instance, "attack", &[Datum::text(*name)], types, limits, &mut engine);
            let result = match ran {
                Err(error) if error.state().0 == "38000" => Ok(error.message().to_owned()),
                // Processors of Intel hand it to KVM, which refuses calls from ring 3, and the code goes on.
                Ok(_) if *name == "vmcall" => Ok("the hypervisor refused it".to_owned()),
                other => Err(format!("{other:?} after {:?}", begin.elapsed())),
            };
            all.push((*name, subject.name.clone(), result));
        }
    }
    let failures = attacks::table(&all);
    assert!(failures.is_empty(), "{failures:#?}");
}

#[test]
fn wrong_system_calls_are_refused() {
    for subject in subjects() {
        let refused = subject.run("survives", 0, Limits::default(), &mut engine(Kind::Int8.into()));
        assert_eq!(refused.expect(&subject.name), 6 * 8);
    }
}

/// Goal: `mprotect` has its effect at once, also for pages that the processor knows. The attacks above show that rights
/// go; here they come back, and the contents stay.
#[test]
fn rights_to_pages_come_and_go() {
    for subject in subjects() {
        let changes = subject.run("protects", 0, Limits::default(), &mut engine(Kind::Int8.into()));
        assert_eq!(changes.expect(&subject.name), 700);
    }
}
