//! Procedures of a hostile tenant, and what the others use. One source for every level.

use guest::{Call, Error, NoticeLevel, Result, module};
use std::io::{Read, Write};

module! {
    tables { VAULT: "vault" (id, secret); }
    statements { STEAL: "SELECT secret FROM vault"; ONE: "SELECT 1"; }
    entries { answer; remember; attack; }
}

/// Returns the number of the rows of the vault with this key: work that somebody relies on.
fn answer(call: &mut Call) -> Result<i64> {
    let id = call.argument::<i64>(0)?;
    Ok(i64::from(call.get(VAULT, id)?.is_some()))
}

/// Fills the memory with a secret, and leaves it there.
fn remember(call: &mut Call) -> Result<i64> {
    let (id, mut count) = (call.argument::<i64>(0)?, 0);
    let row = call.get(VAULT, id)?.ok_or_else(|| Error::new("P0002", "no secret"))?;
    let secret = row.get::<String>(1)?;
    let all: Vec<String> = (0..64).map(|_| std::hint::black_box(secret.repeat(1_000))).collect();
    // Half of it stays with the allocator, which gives it to the next one who asks.
    for (at, copies) in all.into_iter().enumerate() {
        count += copies.len();
        if at % 2 == 0 {
            std::mem::forget(copies);
        }
    }
    Ok(count as i64)
}

/// Makes the attack of this name, with an argument.
fn attack(call: &mut Call) -> Result<String> {
    let (name, argument) = call.arguments::<(String, String)>()?;
    match name.as_str() {
        "row" => call.get(VAULT, 1_i64).map(|row| format!("got it: {row:?}")),
        "write" => call.put(VAULT, (1_i64, "forged")).map(|()| "got it".to_owned()),
        "statement" => call.query(STEAL, ()).map(|rows| format!("got it: {} rows", rows.len())),
        "handle" => call.get(guest::Table::numbered(77, 2), 1_i64).map(|_| "got it".to_owned()),
        "own memory" => Ok(found(own_memory(&argument))),
        "other memory" => other_memory(&argument),
        "file" => told(std::fs::read("/etc/passwd").map(|bytes| bytes.len())),
        "environment" => Ok(found(std::env::vars_os().any(|(_, value)| value.to_string_lossy() == plain(&argument)))),
        "network" => told(std::net::TcpStream::connect(&argument).map(|_| 1)),
        "program" => told(std::process::Command::new("/bin/true").status().map(|_| 1)),
        "memory" => {
            let mut all = Vec::new();
            loop {
                all.push(std::hint::black_box(vec![0x5a_u8; 1 << 20]));
            }
        }
        "stack" => Ok(dive(0).to_string()),
        "descriptors" => {
            let open: Vec<_> = (0..10_000).map_while(|_| std::fs::File::open("/dev/null").ok()).collect();
            if open.len() < 100 { Ok("limited".to_owned()) } else { Ok(format!("got {}", open.len())) }
        }
        "disk" => Ok(fill_disk()),
        "loop" => loop {
            std::hint::spin_loop();
        },
        "calls" => loop {
            call.query(ONE, ())?;
        },
        "sleep" => loop {
            std::thread::sleep(std::time::Duration::from_secs(1_000));
        },
        "notices" => loop {
            call.notice(NoticeLevel::Warning, &"x".repeat(1_000))?;
        },
        "result" => Ok("x".repeat(4 << 20)),
        "panic" => panic!("a panic of the guest"),
        "abort" => std::process::abort(),
        "garbage" => garbage(),
        _ => Err(Error::new("22023", "no such attack")),
    }
}

/// Returns the argument as the others know it: what is sought must not be in memory because it is sought.
fn plain(argument: &str) -> String {
    argument.chars().rev().collect()
}

fn found(is_found: bool) -> String {
    if is_found { "got it".to_owned() } else { "finds nothing".to_owned() }
}

fn told(result: std::io::Result<usize>) -> Result<String> {
    Ok(match result {
        Ok(_) => "got it".to_owned(),
        Err(_) => "is refused".to_owned(),
    })
}

/// Returns true if these bytes, read one after the other, contain the reverse of the argument.
fn contains(bytes: impl Iterator<Item = u8>, argument: &str) -> bool {
    let wanted = argument.as_bytes();
    let mut matched = 0;
    for byte in bytes {
        matched = match byte == wanted[wanted.len() - 1 - matched] {
            true => matched + 1,
            false => usize::from(byte == wanted[wanted.len() - 1]),
        };
        if matched == wanted.len() {
            return true;
        }
    }
    false
}

/// Looks through all memory that this instance can read for the reverse of the argument.
#[cfg(target_family = "wasm")]
fn own_memory(argument: &str) -> bool {
    let pages = core::arch::wasm32::memory_grow::<0>(64);
    let bytes = core::arch::wasm32::memory_size::<0>() << 16;
    assert!(0 < bytes && pages != 0);
    // Every byte of the memory may be read; nobody else writes it.
    contains((0..bytes).map(|at| unsafe { std::ptr::with_exposed_provenance::<u8>(at).read_volatile() }), argument)
}

#[cfg(not(target_family = "wasm"))]
fn own_memory(argument: &str) -> bool {
    // Fresh memory of the system, and whatever the allocator has had before.
    (4..26).any(|power| {
        let layout = std::alloc::Layout::from_size_align(1 << power, 8).expect("a layout");
        // The bytes are those that the allocator gives: none of them is anybody else's.
        let at = unsafe { std::alloc::alloc(layout) };
        if at.is_null() {
            return false;
        }
        let is_there = contains((0..1 << power).map(|offset| unsafe { at.add(offset).read_volatile() }), argument);
        unsafe { std::alloc::dealloc(at, layout) };
        is_there
    })
}

/// Looks through the memory of every process that it can see.
fn other_memory(argument: &str) -> Result<String> {
    let Ok(processes) = std::fs::read_dir("/proc") else { return Ok("is refused".to_owned()) };
    let numbers = processes.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    for number in numbers.filter(|number| *number != std::process::id()) {
        let Ok(maps) = std::fs::read_to_string(format!("/proc/{number}/maps")) else { continue };
        let Ok(memory) = std::fs::File::open(format!("/proc/{number}/mem")) else { continue };
        if !maps.contains("memfd:overtake") && !maps.contains("worker") {
            continue;
        }
        for line in maps.lines().filter(|line| line.contains(" rw")) {
            let range = line.split(' ').next().and_then(|range| range.split_once('-'));
            let Some((from, to)) = range else { continue };
            let parse = |text| u64::from_str_radix(text, 16).unwrap_or(0);
            let (from, to) = (parse(from), parse(to).min(parse(from) + (64 << 20)));
            let mut part = std::io::BufReader::with_capacity(1 << 20, &memory);
            if std::io::Seek::seek(&mut part, std::io::SeekFrom::Start(from)).is_ok()
                && contains(part.take(to - from).bytes().map_while(std::io::Result::ok), argument)
            {
                return Ok("got it".to_owned());
            }
        }
    }
    Ok("finds nothing".to_owned())
}

#[allow(unconditional_recursion, reason = "the attack")]
fn dive(depth: u64) -> u64 {
    let frame = std::hint::black_box([depth; 64]);
    dive(depth + 1) + std::hint::black_box(frame)[3]
}

/// Writes up to 256 MB to every folder that may be written.
fn fill_disk() -> String {
    for folder in ["/tmp", "/dev/shm", ".", "/"] {
        let path = format!("{folder}/overtake-hostile");
        let Ok(mut file) = std::fs::File::create(&path) else { continue };
        let megabyte = vec![1; 1 << 20];
        let written = (0..256).take_while(|_| file.write_all(&megabyte).is_ok()).count();
        let _ = std::fs::remove_file(&path);
        if written == 256 {
            return "got it".to_owned();
        }
    }
    "is refused".to_owned()
}

/// Writes garbage to every descriptor, and waits for what comes of it.
#[cfg(not(target_family = "wasm"))]
fn garbage() -> ! {
    for number in 0..64 {
        if let Ok(mut file) = std::fs::OpenOptions::new().write(true).open(format!("/proc/self/fd/{number}")) {
            let _ = file.write_all(&[0xa5; 4096]);
        }
        let mut socket = std::mem::ManuallyDrop::new(unsafe {
            <std::os::unix::net::UnixStream as std::os::fd::FromRawFd>::from_raw_fd(number)
        });
        let _ = socket.write_all(&[0xa5; 4096]);
    }
    std::process::exit(3)
}

#[cfg(target_family = "wasm")]
fn garbage() -> ! {
    panic!("there are no descriptors")
}
