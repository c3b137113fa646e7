//! The protocol over each transport: the same tests, and attacks on shared memory.

use crate::real::{Real, Way, join_clients, lab, travel_by};
use overtake_client::SharedStream;
use rings::SharedMemory;
use rings::pair::{RING_BYTES, Side, WANTS_BYTES};
use server::HbaRule;
use settings::roles::Role;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};
use tokio_postgres::{Client, NoTls};
use wire::scram::Verifier;
use wirekit::raw::{PATIENCE, Raw, message, query, startup};

/// Tests of the other modules that do not ask how their clients come. Those left out are about rules for addresses,
/// encryption, the names of transports, and listeners; one expects times to be booked before the client has its answer.
const SUITE: [(&str, fn()); 94] = [
    ("a_session_begins", crate::startup::a_session_begins),
    ("versions_are_negotiated", crate::startup::versions_are_negotiated),
    ("bad_packets_are_refused", crate::startup::bad_packets_are_refused),
    ("too_many_clients", crate::startup::too_many_clients),
    ("who_says_nothing_is_turned_away", crate::startup::who_says_nothing_is_turned_away),
    ("statements_run_where_they_delay_nobody", crate::simple::statements_run_where_they_delay_nobody),
    ("long_texts_are_prepared_where_they_delay_nobody", crate::simple::long_texts_are_prepared_where_they_delay_nobody),
    ("transactions_end_where_they_delay_nobody", crate::simple::transactions_end_where_they_delay_nobody),
    ("statements_are_answered", crate::simple::statements_are_answered),
    ("several_statements_are_one_transaction", crate::simple::several_statements_are_one_transaction),
    ("several_statements_are_a_transaction_block", crate::simple::several_statements_are_a_transaction_block),
    ("a_block_that_cannot_begin_is_over", crate::simple::a_block_that_cannot_begin_is_over),
    ("a_failed_commit_takes_the_tag_away", crate::simple::a_failed_commit_takes_the_tag_away),
    ("what_was_answered_is_not_run_again", crate::simple::what_was_answered_is_not_run_again),
    ("blocks_and_failed_blocks", crate::simple::blocks_and_failed_blocks),
    ("bad_messages_end_the_query_or_the_session", crate::simple::bad_messages_end_the_query_or_the_session),
    ("large_results_pass", crate::simple::large_results_pass),
    (
        "an_endless_result_begins_at_once_and_takes_no_memory",
        crate::streams::an_endless_result_begins_at_once_and_takes_no_memory,
    ),
    (
        "clients_that_do_not_read_cost_little_and_end_at_once",
        crate::streams::clients_that_do_not_read_cost_little_and_end_at_once,
    ),
    ("streamed_rows_are_whole_and_in_order", crate::streams::streamed_rows_are_whole_and_in_order),
    ("copy_to_the_client_is_sent_while_it_is_made", crate::streams::copy_to_the_client_is_sent_while_it_is_made),
    ("an_error_behind_sent_rows_is_the_last_word", crate::streams::an_error_behind_sent_rows_is_the_last_word),
    ("what_cannot_begin_again_is_not_streamed", crate::streams::what_cannot_begin_again_is_not_streamed),
    (
        "a_portal_with_a_row_limit_goes_on_between_its_pieces",
        crate::streams::a_portal_with_a_row_limit_goes_on_between_its_pieces,
    ),
    ("statements_and_portals", crate::extended::statements_and_portals),
    ("row_limits", crate::extended::row_limits),
    ("portals_end_with_their_transaction", crate::extended::portals_end_with_their_transaction),
    (
        "a_portal_refused_in_a_failed_transaction_goes_on_later",
        crate::extended::a_portal_refused_in_a_failed_transaction_goes_on_later,
    ),
    ("errors_by_name_and_number", crate::extended::errors_by_name_and_number),
    ("an_error_skips_to_sync", crate::extended::an_error_skips_to_sync),
    ("one_at_a_time_and_the_important_first", crate::gate::one_at_a_time_and_the_important_first),
    ("who_waits_can_be_cancelled_or_go", crate::gate::who_waits_can_be_cancelled_or_go),
    ("who_dies_inside_leaves", crate::gate::who_dies_inside_leaves),
    ("an_idle_transaction_lends_its_slot", crate::gate::an_idle_transaction_lends_its_slot),
    ("who_reads_nothing_lends_its_slot", crate::gate::who_reads_nothing_lends_its_slot),
    ("who_says_good_bye_at_once_is_answered", crate::gate::who_says_good_bye_at_once_is_answered),
    ("who_is_waited_for_inside_gets_an_extra_slot", crate::gate::who_is_waited_for_inside_gets_an_extra_slot),
    ("who_is_turned_away_is_told_why", crate::gate::who_is_turned_away_is_told_why),
    ("who_runs_for_too_long_is_cancelled", crate::gate::who_runs_for_too_long_is_cancelled),
    ("the_gate_shows_itself", crate::gate::the_gate_shows_itself),
    ("rules_look_at_tags_and_fingerprints", crate::marks::rules_look_at_tags_and_fingerprints),
    ("the_shortest_expected_goes_first", crate::marks::the_shortest_expected_goes_first),
    ("who_would_meet_at_a_row_waits_outside", crate::marks::who_would_meet_at_a_row_waits_outside),
    ("a_wait_at_the_gate_is_part_of_the_time", crate::marks::a_wait_at_the_gate_is_part_of_the_time),
    ("the_gate_is_told_something_else", crate::marks::the_gate_is_told_something_else),
    ("data_come_in", crate::copy::data_come_in),
    ("data_come_in_by_the_extended_protocol", crate::copy::data_come_in_by_the_extended_protocol),
    ("an_error_swallows_the_rest", crate::copy::an_error_swallows_the_rest),
    ("a_client_gives_up_leaves_or_is_confused", crate::copy::a_client_gives_up_leaves_or_is_confused),
    ("data_that_must_wait", crate::copy::data_that_must_wait),
    ("data_go_out_part_by_part", crate::copy::data_go_out_part_by_part),
    ("a_parked_statement_goes_on", crate::parking::a_parked_statement_goes_on),
    ("a_wake_up_for_nothing_parks_again", crate::parking::a_wake_up_for_nothing_parks_again),
    ("cancel_by_key", crate::parking::cancel_by_key),
    ("a_client_that_leaves_is_cancelled", crate::parking::a_client_that_leaves_is_cancelled),
    ("who_is_idle_for_too_long_must_go", crate::parking::who_is_idle_for_too_long_must_go),
    ("shutdown_does_not_wait_for_ever", crate::parking::shutdown_does_not_wait_for_ever),
    ("simple_and_extended_queries", crate::driver::simple_and_extended_queries),
    ("errors_say_what_they_are_about", crate::others::errors_say_what_they_are_about),
    ("a_copy_tells_of_a_wrong_row_at_once", crate::others::a_copy_tells_of_a_wrong_row_at_once),
    ("a_copy_is_cancelled_between_its_pieces", crate::others::a_copy_is_cancelled_between_its_pieces),
    ("a_dead_client_leaves_nothing", crate::others::a_dead_client_leaves_nothing),
    ("statements_have_one_namespace", crate::names::statements_have_one_namespace),
    ("portals_have_one_namespace", crate::names::portals_have_one_namespace),
    ("cursors_in_binary", crate::names::cursors_in_binary),
    ("a_sleep_is_cancelled", crate::names::a_sleep_is_cancelled),
    ("values_make_the_round_trip", crate::real::values_make_the_round_trip),
    ("a_statement_waits_for_a_row_of_another_session", crate::real::a_statement_waits_for_a_row_of_another_session),
    ("what_is_parsed_waits_for_definitions", crate::real::what_is_parsed_waits_for_definitions),
    ("cancel_and_death_leave_nothing_behind", crate::real::cancel_and_death_leave_nothing_behind),
    ("wrong_data_come_before_another_message", crate::real::wrong_data_come_before_another_message),
    ("columns_of_one_batch_may_change", crate::real::columns_of_one_batch_may_change),
    ("a_short_statement_that_gets_long_delays_nobody", crate::real::a_short_statement_that_gets_long_delays_nobody),
    ("who_says_good_bye_has_its_work_done", crate::real::who_says_good_bye_has_its_work_done),
    ("who_is_ended_within_a_copy_hears_only_that", crate::real::who_is_ended_within_a_copy_hears_only_that),
    ("conflicts_have_their_codes", crate::real::conflicts_have_their_codes),
    ("a_statement_alone_survives_a_more_important_one", crate::real::a_statement_alone_survives_a_more_important_one),
    ("time_limits_end_statements_and_sessions", crate::operation::time_limits_end_statements_and_sessions),
    ("a_death_leaves_nothing_behind", crate::operation::a_death_leaves_nothing_behind),
    ("classes_come_from_everywhere", crate::operation::classes_come_from_everywhere),
    ("settings_have_sources", crate::operation::settings_have_sources),
    ("long_statements_delay_nobody", crate::operation::long_statements_delay_nobody),
    ("what_runs_can_be_cancelled", crate::operation::what_runs_can_be_cancelled),
    ("a_message_of_many_statements_harms_nobody", crate::operation::a_message_of_many_statements_harms_nobody),
    ("what_sleeps_again_and_again_can_be_cancelled", crate::operation::what_sleeps_again_and_again_can_be_cancelled),
    ("statements_may_be_handed_over", crate::operation::statements_may_be_handed_over),
    ("a_plan_is_made_once", crate::stages::a_plan_is_made_once),
    ("waits_are_no_work", crate::stages::waits_are_no_work),
    ("the_gate_is_a_stage", crate::stages::the_gate_is_a_stage),
    ("explain_shows_stages", crate::stages::explain_shows_stages),
    ("runs_have_parts", crate::stages::runs_have_parts),
    ("what_stood_in_the_way_is_told", crate::operation::what_stood_in_the_way_is_told),
    ("memory_is_bounded", crate::extended::memory_is_bounded),
    ("last_words_are_heard", crate::startup::last_words_are_heard),
];

/// Runs one of three parts of the suite.
fn part(way: Way, number: usize) {
    travel_by(way);
    for (name, test) in SUITE.iter().skip(number).step_by(3) {
        println!("{name}");
        test();
    }
}

/// First part of the suite over shared memory, by way of the proxy.
pub fn the_protocol_over_shared_memory_1() {
    part(Way::Shared, 0);
}

/// Second part.
pub fn the_protocol_over_shared_memory_2() {
    part(Way::Shared, 1);
}

/// Third part.
pub fn the_protocol_over_shared_memory_3() {
    part(Way::Shared, 2);
}

/// First part of the suite over io_uring.
pub fn the_protocol_over_io_uring_1() {
    part(Way::IoUring, 0);
}

/// Second part.
pub fn the_protocol_over_io_uring_2() {
    part(Way::IoUring, 1);
}

/// Third part.
pub fn the_protocol_over_io_uring_3() {
    part(Way::IoUring, 2);
}

/// The server says that it uses io_uring, and serves TLS and drivers by it.
pub fn io_uring_is_used() {
    travel_by(Way::IoUring);
    let real = Real::new();
    real.runtime.block_on(async {
        let client = real.client().await;
        client.batch_execute("select 1").await.unwrap();
        let counted = "select count(*) > 0 from overtake.stages where transport = 'io_uring' and 0 < count";
        assert!(client.query_one(counted, &[]).await.unwrap().get::<_, bool>(0));
    });
    crate::tls::encryption_by_rustls();
    crate::fuzz::garbage_harms_nobody();
}

/// Runs one of three parts of the suite with clients in another network.
fn part_from_afar(number: usize) {
    if join_clients() {
        part(Way::Xdp, number);
    }
}

/// First part of the suite over AF_XDP.
pub fn the_protocol_over_af_xdp_1() {
    part_from_afar(0);
}

/// Second part.
pub fn the_protocol_over_af_xdp_2() {
    part_from_afar(1);
}

/// Third part.
pub fn the_protocol_over_af_xdp_3() {
    part_from_afar(2);
}

/// The server says that it uses AF_XDP and from where clients come, and serves TLS by it. Rules for hosts hold.
pub fn af_xdp_is_used() {
    if !join_clients() {
        return;
    }
    travel_by(Way::Xdp);
    let real = Real::new();
    real.runtime.block_on(async {
        let client = real.client().await;
        client.batch_execute("select 1").await.unwrap();
        let of = |text: &'static str| async { client.query_one(text, &[]).await.unwrap().get::<_, bool>(0) };
        assert!(of("select count(*) > 0 from overtake.stages where transport = 'af_xdp' and 0 < count").await);
        let frames = "select 0 < frames_received and 0 < frames_sent and 0 < kernel_ns from overtake.af_xdp";
        assert!(of(frames).await);
        let from = "select client_addr::text like '10.99.0.2%' from pg_stat_activity where pid = pg_backend_pid()";
        assert!(of(from).await);
    });
    drop(real);
    let refusing = Real::with("", |config| {
        config.rules = HbaRule::parse_all("host all all 10.99.0.2/32 reject\nhost all all all trust").unwrap();
    });
    let said = refusing.stranger().start(&[("user", "postgres"), ("database", "postgres")]);
    assert!(said.starts_with("E(FATAL|28000|"), "{said}");
    drop(refusing);
    crate::fuzz::garbage_harms_nobody();
    crate::tls::encryption_by_rustls();
}

/// A thousand sessions at the same time, each of which works.
pub fn a_thousand_sessions_over_af_xdp() {
    if !join_clients() {
        return;
    }
    travel_by(Way::Xdp);
    let real = Real::with("", |config| config.connections_max = 1_010);
    let mut sessions: Vec<_> = (0..1_000).map(|_| real.raw_client()).collect();
    assert_eq!(real.sessions(), 1_000);
    for _ in 0..2 {
        sessions.iter_mut().for_each(|session| session.send(&query("select 7 as n")));
        for session in &mut sessions {
            assert_eq!(session.answer(), "T(n:23:0) D(7) C(SELECT 1) Z(I)");
        }
    }
    drop(sessions);
    until_sessions(&real, 0);
}

/// Sessions go on although one packet in a hundred is lost.
pub fn sessions_survive_loss_over_af_xdp() {
    if !join_clients() {
        return;
    }
    travel_by(Way::Xdp);
    let real = Real::new();
    let loss = match lab().lose(100) {
        Ok(loss) => loss,
        Err(error) => {
            assert!(std::env::var_os("OVERTAKE_CI").is_none(), "no loss: {error}");
            return println!("SKIPPED: no loss: {error}");
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let mut session = real.raw_client();
                for _ in 0..200 {
                    assert_eq!(session.ask(&query("select 7 as n")), "T(n:23:0) D(7) C(SELECT 1) Z(I)");
                }
                let large = session.ask(&query(&crate::real::rows(20_000)));
                assert!(large.ends_with("C(SELECT 20000) Z(I)"), "{}", &large[large.len() - 60..]);
            });
        }
    });
    drop(loss);
    until_sessions(&real, 0);
}

/// Without the interface, the server serves by the kernel's TCP alone.
fn serves_by_tcp(interface: &str) {
    let real = Real::with("", |config| {
        let interface = interface.to_owned();
        config.xdp = Some(xdp::PortOptions { interface, port: 5432, ..xdp::PortOptions::default() });
    });
    assert_eq!(real.raw_client().ask(&query("select 7 as n")), "T(n:23:0) D(7) C(SELECT 1) Z(I)");
    let frames = real.raw_client().ask(&query("select frames_received as n from overtake.af_xdp"));
    assert_eq!(frames, "T(n:20:0) D(0) C(SELECT 1) Z(I)");
}

/// Case: a server in a process that may do nothing special.
pub fn a_server_without_rights() {
    assert!(xdp::lab::Lab::new(1500).is_err(), "it has rights");
    serves_by_tcp("lo");
    println!("\nserved");
}

/// Without an interface, or the right to use it, the server serves by the kernel's TCP.
pub fn without_af_xdp_there_is_tcp() {
    serves_by_tcp("nowhere0");
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set=-all", "--inh-caps=-all"]).arg(std::env::current_exe().unwrap());
    match command.args(["--exec", "transports::a_server_without_rights"]).output() {
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success() && said.contains("\nserved"), "{output:?}");
        }
        Err(error) => {
            assert!(std::env::var_os("OVERTAKE_CI").is_none(), "no setpriv: {error}");
            println!("SKIPPED: no setpriv: {error}");
        }
    }
}

fn raw(real: &Real) -> Raw<overtake_client::BlockingStream> {
    let mut stream = overtake_client::connect_blocking(real.shared()).unwrap();
    stream.set_timeout(Some(PATIENCE));
    Raw { stream, pid: 0, secret: 0 }
}

fn begun(real: &Real) -> Raw<overtake_client::BlockingStream> {
    let mut raw = raw(real);
    let said = raw.start(&[("user", "postgres"), ("database", "postgres")]);
    assert!(said.ends_with("Z(I)"), "{said}");
    raw
}

async fn driver(real: &Real) -> Client {
    let stream = overtake_client::connect(real.shared()).await.unwrap();
    let mut config = tokio_postgres::Config::new();
    config.user("postgres").dbname("postgres");
    let (client, connection) = config.connect_raw::<SharedStream, _>(stream, NoTls).await.unwrap();
    tokio::spawn(async { drop(connection.await) });
    client
}

/// Waits until the server has this many sessions.
fn until_sessions(real: &Real, count: usize) {
    real.wait_until(&format!("{count} sessions"), |real| real.sessions() == count);
}

/// tokio-postgres over shared memory: prepared statements, many at once, large results, a cancel, and the views.
pub fn a_driver_uses_shared_memory() {
    let real = Real::new();
    real.runtime.block_on(async {
        let client = driver(&real).await;
        client.batch_execute("create table t (id int primary key, n bigint)").await.unwrap();
        let insert = client.prepare("insert into t values ($1, $2)").await.unwrap();
        for id in 0..100_i32 {
            client.execute(&insert, &[&id, &i64::from(2 * id)]).await.unwrap();
        }
        let select = client.prepare("select n from t where id = $1").await.unwrap();
        let row = client.query_one(&select, &[&7_i32]).await.unwrap();
        assert_eq!(row.get::<_, i64>(0), 14);
        let rows = client.query("select repeat('x', 1000) || n from generate_series(1, 5000) n", &[]).await.unwrap();
        assert_eq!((rows.len(), rows[4999].get::<_, &str>(0).len()), (5000, 1004));
        let token = client.cancel_token();
        let sleeps = client.batch_execute("select pg_sleep(60)");
        let cancels = async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            token.cancel_query_raw(overtake_client::connect(real.shared()).await.unwrap(), NoTls).await.unwrap();
        };
        let (slept, ()) = tokio::join!(sleeps, cancels);
        assert_eq!(slept.unwrap_err().code().unwrap().code(), "57014");
        let of = |text: &'static str| async { client.query_one(text, &[]).await.unwrap().get::<_, bool>(0) };
        assert!(of("select client_addr is null from pg_stat_activity where pid = pg_backend_pid()").await);
        let counted = "select count(*) > 0 from overtake.stages where transport = 'shared' and 0 < count";
        assert!(of(counted).await);
    });
}

/// Rules for local clients hold: some are refused, others need a password.
pub fn shared_memory_asks_who_comes() {
    let real = Real::with("", |config| {
        config.rules = HbaRule::parse_all("local all postgres reject\nlocal all all scram-sha-256").unwrap();
        let password = Some(Verifier::new("pencil").unwrap().to_string());
        config.roles.put("ann", Role { may_log_in: true, password, ..Role::default() });
    });
    let mut raw = raw(&real);
    let said = raw.start(&[("user", "postgres"), ("database", "postgres")]);
    assert!(said.starts_with("E(FATAL|28000|"), "{said}");
    real.runtime.block_on(async {
        for (password, is_right) in [("pencil", true), ("wrong", false)] {
            let stream = overtake_client::connect(real.shared()).await.unwrap();
            let mut config = tokio_postgres::Config::new();
            config.user("ann").password(password).dbname("postgres");
            assert_eq!(config.connect_raw(stream, NoTls).await.is_ok(), is_right);
        }
    });
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// Returns the memory of a connection, to be attacked.
fn attacked(real: &Real) -> (UnixStream, SharedMemory) {
    let socket = UnixStream::connect(real.shared()).unwrap();
    let memory = rings::receive(&socket).unwrap();
    (socket, memory)
}

/// Writes positions, marks and bytes at random, all the time, with and without a session.
fn attack(real: &Real, random: &mut Random, until: Duration) {
    let begun = Instant::now();
    let (mut socket, memory) = attacked(real);
    socket.set_nonblocking(true).unwrap();
    let client = Side::Client.words();
    if random.next().is_multiple_of(2) {
        let packet = startup(3 << 16, &[("user", "postgres"), ("database", "postgres")]);
        memory.write(client.ring, &packet);
        memory.word(client.written).store(packet.len() as u32, SeqCst);
        let _ = socket.write(&[0]);
    }
    let sides = [client, Side::Server.words()];
    let words = sides.map(|words| [words.written, words.taken, words.wants, words.ended]).concat();
    let texts = [query("select 1"), query("select n from generate_series(1, 100000) n"), message(b'X', b"")];
    while begun.elapsed() < until {
        match random.next() % 6 {
            0 => memory.word(words[random.next() as usize % words.len()]).store(random.next() as u32, SeqCst),
            1 => {
                let step = random.next() as u32 % 300;
                memory.word(client.written).fetch_add(step, SeqCst);
            }
            2 => {
                let ended = memory.word(Side::Server.words().written).load(SeqCst);
                memory.word(client.taken).store(ended, SeqCst);
            }
            3 => {
                let text = &texts[random.next() as usize % texts.len()];
                memory.write(client.ring + random.next() as usize % (RING_BYTES - 100), text);
            }
            4 => drop(socket.write(&[0; 20])),
            _ => memory.word(client.wants).store(WANTS_BYTES, SeqCst),
        }
    }
}

/// Clients that write garbage into the rings end at worst themselves. Another session goes on meanwhile.
pub fn garbage_in_rings_harms_nobody() {
    let real = Real::with("", |config| config.network_threads = 1);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for seed in 1..=2 {
            let (real, is_over) = (&real, &is_over);
            scope.spawn(move || {
                let mut random = Random(u64::MAX / (seed + 2));
                while !is_over.load(SeqCst) {
                    attack(real, &mut random, Duration::from_millis(5));
                }
            });
        }
        let mut other = begun(&real);
        let (mut asked, begun) = (0, Instant::now());
        while begun.elapsed() < Duration::from_secs(3) {
            assert_eq!(other.ask(&query("select 7 as n")), "T(n:23:0) D(7) C(SELECT 1) Z(I)");
            asked += 1;
        }
        is_over.store(true, SeqCst);
        assert!(100 < asked, "{asked}");
    });
    until_sessions(&real, 0);
}

/// A client dies within a message, within a transaction, and while it does not read.
pub fn a_dead_peer_leaves_no_session() {
    let real = Real::with("", |config| config.network_threads = 1);
    begun(&real).ask(&query("create table t (n int)"));
    until_sessions(&real, 0);
    let mut torn = begun(&real);
    torn.ask(&query("begin; insert into t values (1)"));
    let whole = query("commit");
    torn.send(&whole[..whole.len() - 3]);
    drop(torn);
    let mut busy = begun(&real);
    busy.ask(&query("begin; insert into t values (2)"));
    busy.send(&query("select count(*) from generate_series(1, 100000000000)"));
    drop(busy);
    let mut deaf = begun(&real);
    deaf.ask(&query("begin; insert into t values (3)"));
    deaf.send(&query("select n from generate_series(1, 100000000000) n"));
    // The server fills the ring, and then waits for room. Others are served.
    let mut other = begun(&real);
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(other.ask(&query("select count(*) from t")), "T(count:20:0) D(0) C(SELECT 1) Z(I)");
    drop(deaf);
    until_sessions(&real, 1);
    assert_eq!(other.ask(&query("select count(*) from t")), "T(count:20:0) D(0) C(SELECT 1) Z(I)");
}

/// Descriptors, mappings of rings and threads of this process.
fn held() -> [usize; 3] {
    let count = |path: &str| std::fs::read_dir(path).unwrap().count();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let rings = maps.lines().filter(|line| line.contains("overtake-rings")).count();
    [count("/proc/self/fd"), rings, count("/proc/self/task")]
}

/// Case: a client in a process of its own, which holds a transaction open until it is killed.
pub fn a_client_to_be_killed() {
    let path = std::env::var("OVERTAKE_TEST_SHARED").unwrap();
    let mut raw = Raw { stream: overtake_client::connect_blocking(path).unwrap(), pid: 0, secret: 0 };
    raw.start(&[("user", "postgres"), ("database", "postgres")]);
    raw.ask(&query("begin; insert into t values (1)"));
    println!("\nready");
    loop {
        raw.ask(&query("select * from t"));
    }
}

fn victim(real: &Real) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exec", "transports::a_client_to_be_killed"]).env("OVERTAKE_TEST_SHARED", real.shared());
    let mut child = command.stdout(Stdio::piped()).stdin(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == "ready"));
    child
}

/// Clients that are killed leave no descriptor, mapping, thread, session or lock.
pub fn killed_clients_leave_nothing() {
    let real = Real::new();
    let mut other = begun(&real);
    other.ask(&query("create table t (n int)"));
    // Threads and descriptors that are made once.
    let mut first = victim(&real);
    first.kill().unwrap();
    first.wait().unwrap();
    until_sessions(&real, 1);
    let before = held();
    for _ in 0..50 {
        let mut victims: Vec<Child> = (0..4).map(|_| victim(&real)).collect();
        assert_eq!(real.sessions(), 5);
        victims.iter_mut().for_each(|victim| victim.kill().unwrap());
        victims.iter_mut().for_each(|victim| assert!(!victim.wait().unwrap().success()));
        until_sessions(&real, 1);
    }
    for _ in 0..200 {
        drop(raw(&real));
        let mut leaves = begun(&real);
        leaves.send(&query("select 1")[..3]);
    }
    until_sessions(&real, 1);
    let begun = Instant::now();
    while before.iter().zip(held()).any(|(before, now)| *before < now) {
        assert!(begun.elapsed() < PATIENCE, "{before:?} before, {:?} now", held());
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(other.ask(&query("select count(*) from t")), "T(count:20:0) D(0) C(SELECT 1) Z(I)");
    assert!(other.ask(&query("drop table t")).starts_with("C(DROP TABLE)"));
}

/// Shared memory is closed with the server, whatever its clients do.
pub fn the_end_of_the_server_is_heard() {
    let mut real = Real::new();
    let mut idle = begun(&real);
    let (path, mut held) = (real.shared(), attacked(&real).0);
    real.shut_down();
    let said = idle.answer();
    assert!(said.starts_with("E(FATAL|57P01|"), "{said}");
    assert!(!path.exists());
    let mut rest = Vec::new();
    let _ = held.read_to_end(&mut rest);
}

/// A path of something else is refused, and stays.
pub fn a_file_is_no_place_for_shared_memory() {
    let folder = testkit::folder("file");
    let path = folder.path().join("file");
    std::fs::write(&path, "precious").unwrap();
    let config = server::Config { shared: Some(path.clone()), ..server::Config::default() };
    let database = sql::session::Database::new(engine::Engine::new(engine::EngineConfig::in_memory()));
    let error = server::Server::bind(config, sessions::Sessions(database)).err().unwrap();
    assert!(error.to_string().contains("for clients that share memory"), "{error}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
}
