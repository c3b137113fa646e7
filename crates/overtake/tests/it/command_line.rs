//! Goal: a wrong call of the binary is reported, with exit code 2. Method: call it wrongly.

use crate::{run, text};

pub fn version_and_help_exist_on_every_level() {
    let levels: [&[&str]; 7] = [
        &[],
        &["top"],
        &["bench"],
        &["bench", "delivery"],
        &["bench", "mpl"],
        &["bench", "wire", "mixed"],
        &["mpl", "response"],
    ];
    for level in levels {
        for flag in ["--version", "--help"] {
            let output = run(&[level, &[flag]].concat());
            assert_eq!(output.status.code(), Some(0), "{level:?} {flag}");
            let expected = if flag == "--version" { env!("CARGO_PKG_VERSION") } else { "Usage: overtake" };
            assert!(text(&output.stdout).contains(expected), "{level:?} {flag}: {}", text(&output.stdout));
        }
    }
}

pub fn a_bad_argument_is_refused() {
    let wrong: [&[&str]; 37] = [
        &[],
        &["bench"],
        &["bench", "nothing"],
        &["bench", "delivery", "--duration", "0"],
        &["bench", "delivery", "--no-such-option"],
        &["bench", "tpcc", "--mix", "all"],
        &["bench", "tpcc", "--isolation", "read-uncommitted"],
        &["bench", "tpcc", "--workers", "0"],
        &["bench", "tpcc", "--warehouses", "1001"],
        &["bench", "locks", "--sessions", "1"],
        &["bench", "locks", "--high-percent", "100"],
        &["bench", "locks", "--hot-rows", "0"],
        &["bench", "soak", "--minutes", "0"],
        &["bench", "soak", "--rate", "0"],
        &["bench", "soak", "--query", "ch23"],
        &["bench", "soak", "--query", "q0"],
        &["bench", "soak", "--jobs", "129"],
        &["bench", "wire"],
        &["bench", "wire", "tpcb", "--clients", "0"],
        &["bench", "wire", "tpcc", "--url", "postgresql://localhost", "--servers", "postgres"],
        &["bench", "wire", "mixed", "--rate", "0"],
        &["bench", "wire", "mixed", "--query", "23"],
        &["top", "5432"],
        &["top", "--interval", "0"],
        &["top", "--once", "--count", "2"],
        &["serve", "--console", "8080"],
        &["serve", "--console", "0.0.0.0:0", "--listen", "127.0.0.1:0", "--check-config"],
        &["mpl"],
        &["mpl", "throughput"],
        &["mpl", "throughput", "--demand", "1,x"],
        &["mpl", "throughput", "--demand", "1", "--mpl", "0..5"],
        &["mpl", "throughput", "--demand", "1", "--mpl", "10001"],
        &["mpl", "throughput", "--demand", "1", "--balanced", "2"],
        &["mpl", "response", "--load", "0.9"],
        &["mpl", "response", "--load", "0.9", "--c2", "15", "--mpl", "5..4"],
        &["mpl", "response", "--load", "0.9", "--c2", "15", "--mpl", "201"],
        &["mpl", "response", "--load", "0.9", "--c2", "15", "--servers", "0"],
    ];
    for arguments in wrong {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(!output.stderr.is_empty(), "{arguments:?} was refused without a word");
        assert!(output.stdout.is_empty(), "{arguments:?}: {}", text(&output.stdout));
    }
}

pub fn a_filter_of_messages_that_is_none_is_refused() {
    let serve = |filter: &str| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_overtake"));
        command.args(["serve", "--check-config"]).env("OVERTAKE_LOG", filter).output().unwrap()
    };
    let output = serve("garbage=xx=yy");
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).starts_with("overtake: OVERTAKE_LOG: "), "{}", text(&output.stderr));
    assert!(serve("warn,server=debug").status.success());
}

pub fn an_output_file_that_cannot_be_written_is_refused() {
    for option in ["--json", "--svg"] {
        let output = run(&["bench", "delivery", option, "/nonexistent/report"]);
        assert_eq!(output.status.code(), Some(2), "{option}");
        let message = "overtake: cannot write /nonexistent/report: No such file or directory";
        assert!(text(&output.stderr).starts_with(message), "{}", text(&output.stderr));
    }
}

/// Goal: the demo does not start on a port that is taken, and gives advice.
pub fn a_taken_port_is_refused() {
    let taken = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let output = run(&["demo", "--port", &port]);
    assert_eq!(output.status.code(), Some(2));
    let message = text(&output.stderr);
    assert!(message.contains(&format!("port {port} is taken")) && message.contains("--port"), "{message}");
}

/// Goal: a proxy without a server ends at once, and names the socket.
pub fn a_proxy_without_a_server_is_refused() {
    let folder = testkit::folder("proxy");
    let socket = folder.path().join("shared");
    let path = socket.to_str().unwrap();
    let start = || run(&["shared-proxy", "--server", path, "--listen", "127.0.0.1:0"]);
    let output = start();
    assert_eq!(output.status.code(), Some(1));
    let expected = format!(
        "overtake: connection to server on socket \"{path}\" failed: No such file or directory (os error 2)\n\
         \tIs the server running with --shared {path}?\n"
    );
    assert_eq!((text(&output.stderr), text(&output.stdout)), (&*expected, ""));
    // Clients need a place to come to; either kind will do.
    let output = run(&["shared-proxy", "--server", path]);
    assert_eq!(output.status.code(), Some(2));
    let message = text(&output.stderr);
    assert!(message.contains("<--listen <ADDRESS:PORT>|--socket <PATH>>"), "{message}");
    let place = folder.path().join("clients");
    let output = run(&["shared-proxy", "--server", path, "--socket", place.to_str().unwrap()]);
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(1), &*expected));
    // A socket that nobody listens at any more.
    drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
    let output = start();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("failed: Connection refused"), "{}", text(&output.stderr));
}
