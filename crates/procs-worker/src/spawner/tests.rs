use super::*;
use procs::{CodeTenant, InstanceKind, Tenant};
use std::io::Read;
use std::path::Path;

/// Order of a sandbox whose `runsc` is `cat`: it writes the control groups in which it begins.
fn order(output: OwnedFd) -> Order {
    let file = File::open("/bin/cat").unwrap();
    let len = file.metadata().unwrap().len();
    let folder = Folder::new(&std::env::temp_dir()).unwrap();
    let arguments = vec![c"cat".to_owned(), c"/proc/self/cgroup".to_owned()];
    Order {
        executable: Arc::new(Executable { file, kind: ExecutableKind::Dynamic, len }),
        machine: None,
        sandbox: Some(SandboxOrder { folder, arguments }),
        doorbell: None,
        is_container: false,
        channel_name: "unused",
        channel: File::open("/dev/null").unwrap().into(),
        output,
        memory: 1 << 20,
        share: CodeTenant::alone(Tenant(10)).take(InstanceKind::Worker, 1 << 20).unwrap(),
        activity: Arc::default(),
    }
}

#[test]
fn a_sandbox_belongs_to_its_group_from_the_beginning() {
    let spawner = Spawner::start().unwrap();
    if !spawner.has_groups {
        println!("SKIPPED: no control groups can be created here");
        return;
    }
    let version = if Path::new("/sys/fs/cgroup/cgroup.controllers").exists() { "0::" } else { ":memory:" };
    for _ in 0..20 {
        let (mut reader, writer) = io::pipe().unwrap();
        let mut worker = spawner.create(order(writer.into())).unwrap().unwrap();
        worker.grace = Duration::from_secs(10);
        let mut groups = String::new();
        reader.read_to_string(&mut groups).unwrap();
        let own = groups.lines().find(|line| line.contains(version)).unwrap_or_else(|| panic!("{groups}"));
        assert!(own.contains("/overtake-"), "{own}");
    }
}
