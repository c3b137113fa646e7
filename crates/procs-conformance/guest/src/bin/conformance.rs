//! Module of the suite: code that keeps the rules, and attacks. One source for every level.

use guest::{Call, Decimal, Error, NoticeLevel, Result, Row, Statement, Table, Value, module};

module! {
    tables {
        ITEM: "item" (id, name, amount);
        PAIR: "pair" (a, b, v);
        EVERY: "every" (id, value);
    }
    statements {
        DOUBLE: "UPDATE item SET amount = amount * 2";
        NAMES: "SELECT name FROM item WHERE id < $1";
        FAILS: "SELECT 1 / 0";
    }
    entries {
        echo;
        keep;
        every_call;
        batch;
        sum_of_scan;
        emit_rows;
        notices;
        raise;
        goes_on;
        forge;
        endless;
        endless_calls;
        memory_bomb;
        stack_bomb;
        panics;
        many_calls;
        one_call;
        takes;
        host_files;
        host_network;
        host_processes;
        fork_bomb;
        descriptors;
        leaves;
        writes_output;
        dies_by_signal;
        forbidden_calls;
        open_files;
        identity;
        daemon;
        ends;
        lingers;
    }
}

/// Returns its argument.
fn echo(call: &mut Call) -> Result<Row> {
    Ok(Row::from(vec![call.argument::<Value>(0)?]))
}

/// Returns its argument, after a table has kept it.
fn keep(call: &mut Call) -> Result<Row> {
    let value = call.argument::<Value>(0)?;
    call.put(EVERY, vec![Value::from(1_i64), value])?;
    let row = call.get(EVERY, 1_i64)?.ok_or_else(|| Error::new("P0002", "the row is gone"))?;
    Ok(Row::from(vec![row.get(1)?]))
}

fn check(is_so: bool, what: &str) -> Result<()> {
    if is_so { Ok(()) } else { Err(Error::new("P0004", what)) }
}

/// Makes each kind of call, one by one.
fn every_call(call: &mut Call) -> Result<i64> {
    call.insert(ITEM, (1_i64, "one", Decimal::new(150, 2)))?;
    call.put(ITEM, (2_i64, "two", Decimal::new(25, 1)))?;
    check(call.get(ITEM, 3_i64)?.is_none(), "a row from nowhere")?;
    let one = call.get_for_update(ITEM, 1_i64)?.ok_or_else(|| Error::new("P0002", "no row 1"))?;
    check(one.get::<String>(1)? == "one" && one.get::<Decimal>(2)? == Decimal::new(150, 2), "another row 1")?;
    check(call.execute(DOUBLE, ())?.rows == 2, "rows doubled")?;
    let names = call.query(NAMES, 10_i64)?;
    check(names.len() == 2 && names[0].get::<String>(0)? == "one", "names")?;
    let mut down = call.scan_descending(ITEM, ())?;
    let first = down.next(call)?.ok_or_else(|| Error::new("P0002", "nothing to scan"))?;
    check(first.get::<i64>(0)? == 2 && first.get::<Decimal>(2)? == Decimal::new(5, 0), "the last row first")?;
    let open = call.scan(ITEM, ())?;
    open.close(call)?;
    check(call.delete(ITEM, 2_i64)? && !call.delete(ITEM, 2_i64)?, "one deletion")?;
    call.notice(NoticeLevel::Notice, "done")?;
    Ok(1)
}

/// Makes all of them at once.
fn batch(call: &mut Call) -> Result<i64> {
    let mut batch = call.batch();
    batch.insert(ITEM, (1_i64, "one", Decimal::new(1, 0)));
    let one = batch.get(ITEM, 1_i64);
    let none = batch.get_for_update(ITEM, 2_i64);
    let doubled = batch.execute(DOUBLE, ());
    let names = batch.query(NAMES, 10_i64);
    let scan = batch.scan(ITEM, ());
    let gone = batch.delete(ITEM, 1_i64);
    let not_gone = batch.delete(ITEM, 1_i64);
    batch.notice(NoticeLevel::Info, "in a batch");
    let mut answers = batch.run()?;
    check(answers.take(one)?.is_some() && answers.take(none)?.is_none(), "rows of a batch")?;
    check(answers.take(doubled)?.rows == 1, "rows doubled")?;
    let names = answers.take(names)?;
    check(names.count == 1 && names.rows.len() == 1 && names.rest.is_none(), "names of a batch")?;
    check(names.rows[0].get::<String>(0)? == "one", "the name of a batch")?;
    check(answers.take(gone)? && !answers.take(not_gone)?, "deletions")?;
    let mut cursor = answers.take(scan)?;
    let row = cursor.next(call)?.ok_or_else(|| Error::new("P0002", "no row"))?;
    Ok(row.get::<Decimal>(2)?.round(0).to_string().parse().unwrap_or(-1))
}

/// Computes for so many milliseconds by the clock, and makes a call. Without a clock, makes the call.
fn takes(call: &mut Call) -> Result<i64> {
    let ms = call.argument::<i64>(0)?;
    #[cfg(target_os = "linux")]
    {
        let begun = std::time::Instant::now();
        while begun.elapsed().as_millis() < ms as u128 {}
    }
    call.get(ITEM, ms)?;
    Ok(ms)
}

/// Ends two transactions. A cursor is gone after that.
fn ends(call: &mut Call) -> Result<i64> {
    call.put(ITEM, (1_i64, "kept", Decimal::ZERO))?;
    let mut cursor = call.scan(ITEM, ())?;
    call.commit()?;
    call.rollback()?;
    cursor.next(call).map(|_| 1)
}

/// Adds up the values of all pairs whose key begins with the argument.
fn sum_of_scan(call: &mut Call) -> Result<i64> {
    let first = call.argument::<i64>(0)?;
    let mut sum = 0;
    let mut cursor = call.scan(PAIR, first)?;
    while let Some(row) = cursor.next(call)? {
        sum += row.get::<i64>(2)?;
    }
    Ok(sum)
}

/// Set-returning function: as many rows as the argument says.
fn emit_rows(call: &mut Call) -> Result<()> {
    let count = call.argument::<i64>(0)?;
    (0..count).try_for_each(|number| call.emit((number, "a row".repeat(20))))
}

fn notices(call: &mut Call) -> Result<i64> {
    use NoticeLevel::{Debug, Info, Log, Notice, Warning};
    for (at, level) in [Debug, Log, Info, Notice, Warning].into_iter().enumerate() {
        call.notice(level, &format!("notice {at}"))?;
    }
    Ok(5)
}

fn raise(_call: &mut Call) -> Result<i64> {
    Err(Error::new("UX123", "the message").detail("The detail.").hint("The hint."))
}

/// Ignores the error of a call, and goes on.
fn goes_on(call: &mut Call) -> Result<i64> {
    let _ = call.execute(FAILS, ());
    let _ = call.put(ITEM, (99_i64, "after the error", Decimal::ZERO));
    Ok(1)
}

/// Uses handles that the manifest does not have.
fn forge(call: &mut Call) -> Result<i64> {
    match call.argument::<i64>(0)? {
        0 => call.get(Table::numbered(3, 1), 1_i64).map(|_| 1),
        1 => call.put(Table::numbered(u16::MAX, 1), 1_i64).map(|()| 1),
        2 => call.execute(Statement::numbered(3), ()).map(|_| 1),
        3 => call.scan(Table::numbered(40_000, 1), ()).map(|_| 1),
        _ => call.delete(Table::numbered(999, 1), 1_i64).map(|_| 1),
    }
}

fn endless(_call: &mut Call) -> Result<i64> {
    loop {
        std::hint::spin_loop();
    }
}

fn endless_calls(call: &mut Call) -> Result<i64> {
    loop {
        call.get(ITEM, 1_i64)?;
    }
}

fn memory_bomb(_call: &mut Call) -> Result<i64> {
    let mut all = Vec::new();
    loop {
        all.push(std::hint::black_box(vec![0x5a_u8; 1 << 20]));
    }
}

#[allow(unconditional_recursion, reason = "the attack")]
fn dive(depth: u64) -> u64 {
    let frame = std::hint::black_box([depth; 64]);
    dive(depth + 1) + std::hint::black_box(frame)[3]
}

fn stack_bomb(_call: &mut Call) -> Result<i64> {
    Ok(dive(0) as i64)
}

fn panics(_call: &mut Call) -> Result<i64> {
    panic!("a panic of the guest")
}

/// Makes as many calls as the argument says.
fn many_calls(call: &mut Call) -> Result<i64> {
    let count = call.argument::<i64>(0)?;
    let mut seen = 0;
    for id in 0..count {
        seen += i64::from(call.get(ITEM, id)?.is_some());
    }
    Ok(seen)
}

fn one_call(call: &mut Call) -> Result<i64> {
    let id = call.argument::<i64>(0)?;
    Ok(i64::from(call.get(ITEM, id)?.is_some()))
}

/// Returns what it gets from a file, or the error.
fn told(result: std::io::Result<String>) -> Result<String> {
    Ok(match result {
        Ok(text) => format!("ok: {}", text.chars().filter(|one| *one != '\0').take(200).collect::<String>()),
        Err(error) => format!("refused: {error}"),
    })
}

/// Reads a file of the host.
fn host_files(call: &mut Call) -> Result<String> {
    let path = call.argument::<String>(0)?;
    if path == "environment" {
        return told(Ok(std::env::vars().map(|(name, _)| name + " ").collect()));
    }
    if let Some(path) = path.strip_prefix("write ") {
        return told(std::fs::write(path, "x").map(|()| "written".to_owned()));
    }
    told(std::fs::read_to_string(path))
}

fn host_network(call: &mut Call) -> Result<String> {
    let address = call.argument::<String>(0)?;
    told(std::net::TcpStream::connect(address).map(|_| "connected".to_owned()))
}

fn host_processes(_call: &mut Call) -> Result<String> {
    told(std::process::Command::new("/bin/sh").args(["-c", "kill -0 1"]).output().map(|output| output.status.to_string()))
}

#[cfg(target_os = "linux")]
mod native {
    use super::{Call, Result};
    use std::ffi::c_int;

    #[allow(unsafe_code, reason = "the attacks")]
    unsafe extern "C" {
        safe fn fork() -> c_int;
        safe fn raise(signal: c_int) -> c_int;
        safe fn getpid() -> c_int;
        safe fn getuid() -> u32;
        safe fn setsid() -> c_int;
        safe fn fcntl(fd: c_int, command: c_int, ...) -> c_int;
        // The arguments are such that no call reads or writes memory.
        safe fn syscall(number: i64, ...) -> i64;
    }

    /// Makes system calls that reach for more than a container has. Returns those that were not refused.
    pub(super) fn forbidden_calls(_call: &mut Call) -> Result<String> {
        const CALLS: &[(&str, i64, [i64; 5])] = &[
            ("socket", 41, [2, 1, 0, 0, 0]),
            ("unix socket", 41, [1, 1, 0, 0, 0]),
            ("socketpair", 53, [1, 1, 0, 0, 0]),
            ("clone into a user namespace", 56, [0x1000_0000 | 17, 0, 0, 0, 0]),
            ("ptrace", 101, [0, 0, 0, 0, 0]),
            ("setuid", 105, [0, 0, 0, 0, 0]),
            ("setgid", 106, [0, 0, 0, 0, 0]),
            ("chroot", 161, [0, 0, 0, 0, 0]),
            ("mount", 165, [0, 0, 0, 0, 0]),
            ("umount", 166, [0, 0, 0, 0, 0]),
            ("keyctl", 250, [0, -3, 0, 0, 0]),
            ("unshare", 272, [0x2000_0000, 0, 0, 0, 0]),
            ("perf_event_open", 298, [0, 0, -1, -1, 0]),
            ("prlimit", 302, [0, 7, 1, 0, 0]),
            ("setns", 308, [3, 0, 0, 0, 0]),
            ("memfd_create", 319, [0, 0, 0, 0, 0]),
            ("bpf", 321, [0, 0, 0, 0, 0]),
            ("userfaultfd", 323, [1, 0, 0, 0, 0]),
            ("io_uring_setup", 425, [1, 0, 0, 0, 0]),
            ("pidfd_open", 434, [1, 0, 0, 0, 0]),
            ("clone3", 435, [0, 0, 0, 0, 0]),
            ("prctl of dumps", 157, [4, 1, 0, 0, 0]),
        ];
        let mut allowed = String::new();
        for (name, number, [a, b, c, d, e]) in CALLS {
            let result = syscall(*number, *a, *b, *c, *d, *e);
            let error = std::io::Error::last_os_error().raw_os_error();
            // EPERM and ENOSYS. Any other error shows that the kernel has looked at the arguments.
            if 0 <= result || !matches!(error, Some(1 | 38)) {
                allowed += &format!("{name} ({result}, {error:?}); ");
            }
        }
        Ok(allowed)
    }

    /// Returns the numbers of open descriptors.
    pub(super) fn open_files(_call: &mut Call) -> Result<String> {
        const F_GETFD: c_int = 1;
        let open: Vec<String> =
            (0..70_000).filter(|fd| 0 <= fcntl(*fd, F_GETFD)).map(|fd| fd.to_string()).collect();
        Ok(open.join(" "))
    }

    /// Returns the process, the user, and the names in the root folder.
    pub(super) fn identity(_call: &mut Call) -> Result<String> {
        let files = std::fs::read_dir("/").map(|all| all.flatten().map(|one| one.file_name()).collect::<Vec<_>>());
        let mut files = files.unwrap_or_default();
        files.sort();
        let made = std::fs::create_dir("/new").is_ok();
        Ok(format!("process {}, user {}, root {files:?}, folder made: {made}", getpid(), getuid()))
    }

    /// Forks until that fails. Returns the number of children, which stay.
    pub(super) fn fork_bomb(_call: &mut Call) -> Result<i64> {
        let own = getpid();
        let mut children = 0;
        while children < 5_000 {
            match fork() {
                0 => loop {
                    std::thread::sleep(std::time::Duration::from_secs(100));
                },
                child if child < 0 => break,
                _ => children += 1,
            }
        }
        assert_eq!(own, getpid());
        Ok(children)
    }

    /// Starts a process in another session. Returns its number.
    pub(super) fn daemon(_call: &mut Call) -> Result<i64> {
        match fork() {
            0 => {
                setsid();
                loop {
                    std::thread::sleep(std::time::Duration::from_secs(100));
                }
            }
            child => Ok(i64::from(child)),
        }
    }

    /// Starts a thread that computes for ever, also when the call has ended.
    pub(super) fn lingers(_call: &mut Call) -> Result<i64> {
        let started = std::thread::Builder::new().spawn(|| {
            loop {
                std::hint::spin_loop();
            }
        });
        Ok(i64::from(started.is_ok()))
    }

    /// Opens files until that fails. Returns their number.
    pub(super) fn descriptors(_call: &mut Call) -> Result<i64> {
        let mut all = Vec::new();
        while let Ok(file) = std::fs::File::open("/dev/null") {
            all.push(file);
        }
        Ok(all.len() as i64)
    }

    pub(super) fn dies_by_signal(call: &mut Call) -> Result<i64> {
        Ok(i64::from(raise(call.argument::<i64>(0)? as c_int)))
    }
}

#[cfg(not(target_os = "linux"))]
mod native {
    use super::{Call, Error, Result};

    fn missing() -> Result<i64> {
        Err(Error::new("0A000", "there is no such thing in WebAssembly"))
    }

    pub(super) fn fork_bomb(_call: &mut Call) -> Result<i64> {
        missing()
    }

    pub(super) fn descriptors(_call: &mut Call) -> Result<i64> {
        missing()
    }

    pub(super) fn dies_by_signal(_call: &mut Call) -> Result<i64> {
        missing()
    }

    pub(super) fn forbidden_calls(_call: &mut Call) -> Result<i64> {
        missing()
    }

    pub(super) fn open_files(_call: &mut Call) -> Result<i64> {
        missing()
    }

    pub(super) fn identity(_call: &mut Call) -> Result<i64> {
        missing()
    }

    pub(super) fn daemon(_call: &mut Call) -> Result<i64> {
        missing()
    }

    pub(super) fn lingers(_call: &mut Call) -> Result<i64> {
        missing()
    }
}

use native::{daemon, descriptors, dies_by_signal, forbidden_calls, fork_bomb, identity, lingers, open_files};

fn leaves(call: &mut Call) -> Result<i64> {
    std::process::exit(call.argument::<i64>(0)? as i32)
}

/// Writes more than a pipe holds, and then fails.
fn writes_output(_call: &mut Call) -> Result<i64> {
    for line in 0..20_000 {
        println!("line {line}");
    }
    eprintln!("the last line");
    std::process::exit(3)
}
