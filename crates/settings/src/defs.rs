//! The table of settings: those of a session, those of the server, and PostgreSQL's that have no effect here.
//!
//! **Invariant:** the table is in the order of the names; a default is a value that the setting takes, in the form in
//! which it is shown.

use crate::takes::{SettingContext, ValueType};

/// Name of the setting with the schemas where names are looked up.
pub const SEARCH_PATH: &str = "search_path";

/// Definition of a setting.
#[derive(Debug)]
pub struct SettingDef {
    /// Name, in lower case.
    pub name: &'static str,
    /// Name as PostgreSQL writes it, for the client.
    pub title: &'static str,
    /// Built-in default.
    pub default: &'static str,
    /// Values that the setting takes.
    pub takes: ValueType,
    /// Context in which the setting may be changed.
    pub context: SettingContext,
    /// True if changes are reported to the client.
    pub reported: bool,
    /// Description of the setting.
    pub about: &'static str,
}

impl SettingDef {
    /// Returns true if `SHOW ALL` and `pg_settings` list the setting: PostgreSQL leaves out those of the session's
    /// user.
    pub fn is_listed(&self) -> bool {
        !matches!(self.name, "is_superuser" | "role" | "session_authorization")
    }
}

const LEVELS: &[&str] = &["read committed", "repeatable read", "serializable", "read uncommitted"];
const NETWORKS: &[&str] = &["epoll", "io_uring"];
const XDP_MODES: &[&str] = &["generic", "driver"];
const PATHS: &[&str] = &["auto", "row", "analytics"];
const PRIORITIES: &[&str] = &["low", "normal", "high"];
const MESSAGES: &[&str] = &["debug5", "debug4", "debug3", "debug2", "debug1", "log", "notice", "warning", "error"];

const fn def(name: &'static str, default: &'static str, takes: ValueType, about: &'static str) -> SettingDef {
    let context = if matches!(takes, ValueType::Fixed) { SettingContext::Internal } else { SettingContext::User };
    SettingDef { name, title: name, default, takes, context, reported: false, about }
}

const fn told(
    name: &'static str,
    title: &'static str,
    default: &'static str,
    takes: ValueType,
    about: &'static str,
) -> SettingDef {
    SettingDef { title, reported: true, ..def(name, default, takes, about) }
}

/// Defines a setting of the server, which is given when it starts.
const fn server(name: &'static str, default: &'static str, takes: ValueType, about: &'static str) -> SettingDef {
    SettingDef { context: SettingContext::Postmaster, ..def(name, default, takes, about) }
}

/// Defines a setting that is accepted in silence because it could not change an answer: it controls how PostgreSQL
/// plans, vacuums or writes.
const fn inert(name: &'static str, default: &'static str, takes: ValueType) -> SettingDef {
    def(name, default, takes, "Accepted for clients that set it; has no effect here.")
}

/// All settings, in the order of their names.
pub static DEFS: &[SettingDef] = &[
    told(
        "application_name",
        "application_name",
        "",
        ValueType::Text,
        "Sets the application name to be reported in statistics and logs.",
    ),
    server("authentication_timeout", "1min", ValueType::Milliseconds, "Sets the maximum allowed time to log in."),
    inert("backend_flush_after", "0", ValueType::Integer(0, 256)),
    def("block_size", "8192", ValueType::Fixed, "Shows the size of a disk block."),
    def("bytea_output", "hex", ValueType::OneOf(&["escape", "hex"]), "Sets the output format for bytea."),
    def(
        "check_function_bodies",
        "on",
        ValueType::Switch,
        "Check routine bodies during CREATE FUNCTION and CREATE PROCEDURE.",
    ),
    told(
        "client_encoding",
        "client_encoding",
        "UTF8",
        ValueType::OneOf(&["utf8", "utf-8", "unicode"]),
        "Sets the client's character set encoding.",
    ),
    def(
        "client_min_messages",
        "notice",
        ValueType::OneOf(MESSAGES),
        "Sets the message levels that are sent to the client.",
    ),
    server("config_file", "", ValueType::Text, "Shows the server's configuration file."),
    inert("constraint_exclusion", "partition", ValueType::OneOf(&["partition", "on", "off"])),
    inert("cpu_index_tuple_cost", "0.005", ValueType::Real),
    inert("cpu_operator_cost", "0.0025", ValueType::Real),
    inert("cpu_tuple_cost", "0.01", ValueType::Real),
    inert("cursor_tuple_fraction", "0.1", ValueType::Real),
    told(
        "datestyle",
        "DateStyle",
        "ISO, MDY",
        ValueType::DateStyle,
        "Sets the display format for date and time values.",
    ),
    inert("deadlock_timeout", "1s", ValueType::Milliseconds),
    inert("default_statistics_target", "100", ValueType::Integer(1, 10_000)),
    inert("default_table_access_method", "heap", ValueType::OneOf(&["heap"])),
    inert("default_tablespace", "", ValueType::OneOf(&["", "pg_default"])),
    def(
        "default_transaction_deferrable",
        "off",
        ValueType::Switch,
        "Sets the default deferrable status of new transactions; no transaction has to be deferred here.",
    ),
    def(
        "default_transaction_isolation",
        "read committed",
        ValueType::OneOf(LEVELS),
        "Sets the transaction isolation level of each new transaction.",
    ),
    told(
        "default_transaction_read_only",
        "default_transaction_read_only",
        "off",
        ValueType::Switch,
        "Sets the default read-only status of new transactions.",
    ),
    inert("default_with_oids", "off", ValueType::OneOf(&["off", "false", "no", "0"])),
    inert("effective_cache_size", "4GB", ValueType::Kilobytes(0)),
    inert("effective_io_concurrency", "1", ValueType::Integer(0, 1000)),
    inert("enable_async_append", "on", ValueType::Switch),
    inert("enable_bitmapscan", "on", ValueType::Switch),
    inert("enable_gathermerge", "on", ValueType::Switch),
    inert("enable_hashagg", "on", ValueType::Switch),
    inert("enable_hashjoin", "on", ValueType::Switch),
    inert("enable_incremental_sort", "on", ValueType::Switch),
    inert("enable_indexonlyscan", "on", ValueType::Switch),
    inert("enable_indexscan", "on", ValueType::Switch),
    inert("enable_material", "on", ValueType::Switch),
    inert("enable_memoize", "on", ValueType::Switch),
    inert("enable_mergejoin", "on", ValueType::Switch),
    inert("enable_nestloop", "on", ValueType::Switch),
    inert("enable_parallel_append", "on", ValueType::Switch),
    inert("enable_parallel_hash", "on", ValueType::Switch),
    inert("enable_partition_pruning", "on", ValueType::Switch),
    inert("enable_partitionwise_aggregate", "off", ValueType::Switch),
    inert("enable_partitionwise_join", "off", ValueType::Switch),
    inert("enable_seqscan", "on", ValueType::Switch),
    inert("enable_sort", "on", ValueType::Switch),
    inert("enable_tidscan", "on", ValueType::Switch),
    inert("escape_string_warning", "on", ValueType::Switch),
    def(
        "extra_float_digits",
        "1",
        ValueType::Integer(-15, 3),
        "Sets the number of digits displayed for floating-point values.",
    ),
    inert("force_parallel_mode", "off", ValueType::OneOf(&["off", "on", "regress"])),
    inert("from_collapse_limit", "8", ValueType::Integer(1, i32::MAX)),
    inert("geqo", "on", ValueType::Switch),
    inert("geqo_effort", "5", ValueType::Integer(1, 10)),
    inert("geqo_generations", "0", ValueType::Integer(0, i32::MAX)),
    inert("geqo_pool_size", "0", ValueType::Integer(0, i32::MAX)),
    inert("geqo_seed", "0", ValueType::Real),
    inert("geqo_selection_bias", "2", ValueType::Real),
    inert("geqo_threshold", "12", ValueType::Integer(2, i32::MAX)),
    inert("hash_mem_multiplier", "2", ValueType::Real),
    server("hba_file", "", ValueType::Text, "The file of rules who may connect, in the form of pg_hba.conf."),
    def(
        "idle_in_transaction_session_timeout",
        "0",
        ValueType::Milliseconds,
        "Sets the maximum allowed idle time between queries, when in a transaction.",
    ),
    def(
        "idle_session_timeout",
        "0",
        ValueType::Milliseconds,
        "Sets the maximum allowed idle time between queries, when not in a transaction.",
    ),
    told("in_hot_standby", "in_hot_standby", "off", ValueType::Fixed, "Shows whether hot standby is currently active."),
    told(
        "integer_datetimes",
        "integer_datetimes",
        "on",
        ValueType::Fixed,
        "Shows whether datetimes are integer based.",
    ),
    told(
        "intervalstyle",
        "IntervalStyle",
        "postgres",
        ValueType::OneOf(&["postgres", "postgres_verbose", "sql_standard", "iso_8601"]),
        "Sets the display format for interval values.",
    ),
    told("is_superuser", "is_superuser", "on", ValueType::Fixed, "Shows whether the current user is a superuser."),
    inert("jit", "off", ValueType::Switch),
    inert("jit_above_cost", "100000", ValueType::Real),
    inert("jit_inline_above_cost", "500000", ValueType::Real),
    inert("jit_optimize_above_cost", "500000", ValueType::Real),
    inert("join_collapse_limit", "8", ValueType::Integer(1, i32::MAX)),
    def("lc_collate", "C", ValueType::Fixed, "Shows the collation order locale."),
    def("lc_ctype", "C", ValueType::Fixed, "Shows the character classification and case conversion locale."),
    def("lc_messages", "C", ValueType::OneOf(&["C"]), "Sets the language in which messages are displayed."),
    def("lc_monetary", "C", ValueType::OneOf(&["C"]), "Sets the locale for formatting monetary amounts."),
    def("lc_numeric", "C", ValueType::OneOf(&["C"]), "Sets the locale for formatting numbers."),
    def("lc_time", "C", ValueType::OneOf(&["C"]), "Sets the locale for formatting date and time values."),
    server("listen_addresses", "127.0.0.1", ValueType::Text, "Sets the addresses to listen on, separated by commas."),
    def("lock_timeout", "0", ValueType::Milliseconds, "Sets the maximum allowed duration of any wait for a lock."),
    server("log_connections", "on", ValueType::Switch, "Logs each successful connection, and its end."),
    SettingDef {
        context: SettingContext::Superuser,
        ..def(
            "log_min_duration_statement",
            "-1",
            ValueType::MillisecondsOrNever,
            "Sets the execution time above which statements are logged.",
        )
    },
    inert("maintenance_io_concurrency", "10", ValueType::Integer(0, 1000)),
    inert("maintenance_work_mem", "64MB", ValueType::Kilobytes(1024)),
    server(
        "max_connections",
        "1000",
        ValueType::Integer(1, 100_000),
        "Sets the maximum number of concurrent connections.",
    ),
    def("max_identifier_length", "63", ValueType::Fixed, "Shows the maximum identifier length."),
    def("max_index_keys", "32", ValueType::Fixed, "Shows the maximum number of index keys."),
    inert("max_parallel_maintenance_workers", "2", ValueType::Integer(0, 1024)),
    inert("max_parallel_workers", "8", ValueType::Integer(0, 1024)),
    inert("max_parallel_workers_per_gather", "2", ValueType::Integer(0, 1024)),
    inert("min_parallel_index_scan_size", "512kB", ValueType::Kilobytes(0)),
    inert("min_parallel_table_scan_size", "8MB", ValueType::Kilobytes(0)),
    server(
        "overtake.analytics_memory",
        "0",
        ValueType::Kilobytes(0),
        "Sets the memory that all running analytics may take together; 0 is a quarter of the machine's.",
    ),
    server(
        "overtake.analytics_queries",
        "0",
        ValueType::Integer(0, 10_000),
        "Sets how many queries of a class run as analytics at a time, more wait; 0 is four for each worker.",
    ),
    server(
        "overtake.analytics_threads",
        "idle",
        ValueType::OneOf(&["idle", "ordinary"]),
        "Sets the scheduling class of threads that run long queries: below all others, or ordinary.",
    ),
    server(
        "overtake.analytics_workers",
        "0",
        ValueType::Integer(0, 1024),
        "Sets how many threads run the analytics of each class; 0 is one for each processor.",
    ),
    server(
        "overtake.dispatch",
        "spot",
        ValueType::OneOf(&["spot", "worker"]),
        "Sets where statements run: on the thread that has read them, or handed to a worker.",
    ),
    server(
        "overtake.gate_ageing",
        "5s",
        ValueType::Milliseconds,
        "Sets for how long no transaction of a class goes in before the first that waits counts as one of the class above; 0: never.",
    ),
    server(
        "overtake.gate_classes",
        "",
        ValueType::Text,
        "Slots, shares, order and bounds of classes at the gate: CLASS [weight=] [slots_min=] [slots_max=] ...; ...",
    ),
    server(
        "overtake.gate_hot",
        "",
        ValueType::Text,
        "Statements that meet at a row, with $key where its value stands, one at a time inside: [NAME:] STATEMENT; ...",
    ),
    server(
        "overtake.gate_lend_after",
        "100ms",
        ValueType::MillisecondsOrNever,
        "Sets after how long a transaction that waits for its client lends its slot; -1 is never.",
    ),
    server(
        "overtake.gate_return_patience",
        "20ms",
        ValueType::Milliseconds,
        "Sets how long a transaction waits that comes back to a slot it has lent, before it gets one beyond the limit.",
    ),
    server(
        "overtake.gate_stall_patience",
        "1s",
        ValueType::MillisecondsOrNever,
        "Sets after how long without any progress inside one that waits gets a slot beyond the limit; -1 is never.",
    ),
    def(
        "overtake.hot_key",
        "",
        ValueType::Text,
        "Sets what the session's transactions meet others at: of those with one key, one at a time is let in at the gate.",
    ),
    server(
        "overtake.internal_priorities",
        "off",
        ValueType::Switch,
        "Whether the server process behind that runs a transaction of class low has a lower processor priority meanwhile.",
    ),
    server(
        "overtake.listen_shared",
        "",
        ValueType::Text,
        "Sets the path of the Unix-domain socket for clients that share memory with the server; none if empty.",
    ),
    server(
        "overtake.listen_xdp",
        "",
        ValueType::Text,
        "Sets the network interface, as INTERFACE[:QUEUE] [ADDRESS[:PORT]], whose TCP the server handles itself; none if empty.",
    ),
    server(
        "overtake.lock_priority",
        "not-running",
        ValueType::OneOf(&["none", "priority-queue", "pow", "not-running"]),
        "Sets which holders of a row or lock give way to a more important transaction: their work is rolled back, 40001.",
    ),
    server(
        "overtake.memory",
        "0",
        ValueType::Kilobytes(0),
        "Sets the memory that this process may hold; 0 is half of what the machine or the control group has, or a third of less than 4 GB.",
    ),
    server(
        "overtake.message_max",
        "64MB",
        ValueType::Kilobytes(0),
        "Sets how long a message of a client may be; of a COPY, any length.",
    ),
    server(
        "overtake.metrics",
        "",
        ValueType::Text,
        "Sets ADDRESS:PORT of the metrics, of health and readiness, by HTTP.",
    ),
    server(
        "overtake.mpl",
        "",
        ValueType::Text,
        "Sets how many transactions may be active: a number, auto, observe or off; empty is auto before an upstream, else off.",
    ),
    server(
        "overtake.mpl_best_for",
        "",
        ValueType::Text,
        "Sets the class for which overtake.mpl = auto finds the limit, instead of the lowest that costs little.",
    ),
    server(
        "overtake.mpl_demands",
        "",
        ValueType::Text,
        "Sets what a transaction needs of the database behind the gate, in milliseconds: [processor=] [io=] [log=] [think=].",
    ),
    server(
        "overtake.mpl_increase",
        "5",
        ValueType::Real,
        "Sets by how many percent the mean response may grow under overtake.mpl = auto.",
    ),
    server(
        "overtake.mpl_loss",
        "5",
        ValueType::Real,
        "Sets how many percent of the best throughput may be lost under overtake.mpl = auto.",
    ),
    server(
        "overtake.mpl_max",
        "200",
        ValueType::Integer(1, 10_000),
        "Sets the highest limit that overtake.mpl = auto tries.",
    ),
    server(
        "overtake.mpl_min",
        "1",
        ValueType::Integer(1, 10_000),
        "Sets the lowest limit that overtake.mpl = auto tries.",
    ),
    server(
        "overtake.mpl_processors",
        "0",
        ValueType::Integer(0, 10_000),
        "Sets how many processors the database behind the gate has; 0 is as many as it may use if it is here, else this machine's.",
    ),
    server(
        "overtake.network",
        "epoll",
        ValueType::OneOf(NETWORKS),
        "Sets the kernel's interface for TCP: epoll or, where the kernel allows it, io_uring.",
    ),
    server(
        "overtake.network_realtime",
        "off",
        ValueType::Switch,
        "Whether the threads that read the network run in the real-time class, where that is allowed.",
    ),
    server(
        "overtake.network_threads",
        "0",
        ValueType::Integer(0, 1024),
        "Sets how many threads read the network; 0 is one for each processor, before an upstream one for every two.",
    ),
    def(
        "overtake.path",
        "auto",
        ValueType::OneOf(PATHS),
        "Sets where queries run: row by row in the session, or as analytics; auto chooses for each.",
    ),
    def(
        "overtake.priority",
        "normal",
        ValueType::OneOf(PRIORITIES),
        "Sets the class of the session's transactions: high overtakes normal, normal overtakes low.",
    ),
    SettingDef {
        context: SettingContext::Superuser,
        ..def(
            "overtake.priority_max",
            "normal",
            ValueType::OneOf(PRIORITIES),
            "Sets the highest class that a role's sessions may have; of superusers it is high by default.",
        )
    },
    server(
        "overtake.priority_rules",
        "",
        ValueType::Text,
        "Classes of sessions and statements by rules: CLASS [user=] [database=] [application=] [statement=]; ...",
    ),
    server(
        "overtake.query_wait_timeout",
        "0",
        ValueType::Milliseconds,
        "Sets how long a client before an upstream may wait for its turn and a connection before it is disconnected; 0 is for ever.",
    ),
    server(
        "overtake.send_timeout",
        "1h",
        ValueType::Milliseconds,
        "Sets how long a client may take nothing of what it is sent before it is disconnected; 0 is for ever.",
    ),
    server(
        "overtake.session_memory",
        "64MB",
        ValueType::Kilobytes(0),
        "Sets the memory that prepared statements and portals of one session may take.",
    ),
    server(
        "overtake.shutdown_grace",
        "5s",
        ValueType::Milliseconds,
        "Sets how long a shutdown waits for sessions to end.",
    ),
    def(
        "overtake.target",
        "primary",
        ValueType::OneOf(&["primary", "standby", "prefer_standby", "any"]),
        "Chooses to which of several servers behind the session's transactions go; there is one, if data are kept here.",
    ),
    server(
        "overtake.upstream_auth_query",
        "SELECT rolname, rolpassword, rolvaliduntil OPERATOR(pg_catalog.<) pg_catalog.now() FROM pg_catalog.pg_authid \
         WHERE rolname OPERATOR(pg_catalog.=) $1 AND rolcanlogin",
        ValueType::Text,
        "Sets how the server behind is asked for the password of role $1, the second column of the row, and whether it has expired, the third.",
    ),
    server(
        "overtake.upstream_check",
        "1s",
        ValueType::Milliseconds,
        "Sets how often each of several servers behind is asked whether it is the primary.",
    ),
    server(
        "overtake.upstream_idle",
        "10min",
        ValueType::Milliseconds,
        "Sets after how long an idle connection to the server behind is closed.",
    ),
    server(
        "overtake.upstream_lifetime",
        "1h",
        ValueType::Milliseconds,
        "Sets after how long a connection to the server behind is replaced when it is idle.",
    ),
    server(
        "overtake.upstream_pool",
        "100",
        ValueType::Integer(1, 10_000),
        "Sets how many connections to the server behind each user has to each database at most.",
    ),
    server(
        "overtake.upstream_prepare",
        "off",
        ValueType::Switch,
        "Whether statements without a name that come again and again are prepared once on each connection to the server behind.",
    ),
    server(
        "overtake.upstream_reset",
        "unexplained",
        ValueType::Text,
        "Sets when a connection to the server behind is asked what a client has left on it: never, unexplained or always, by user and database.",
    ),
    server(
        "overtake.upstream_wait",
        "30s",
        ValueType::Milliseconds,
        "Sets how long a transaction waits for a server behind that suits it, a new primary for instance.",
    ),
    server(
        "overtake.upstream_watch",
        "250ms",
        ValueType::MillisecondsOrNever,
        "Sets how often it is looked at what the server processes behind wait for; -1 is never.",
    ),
    server(
        "overtake.urgent_calls",
        "on",
        ValueType::Switch,
        "Lets calls of urgent procedures of class high interrupt queries on busy workers.",
    ),
    server(
        "overtake.urgent_claim_after",
        "100",
        ValueType::Integer(0, 1_000_000),
        "Sets after how many microseconds an urgent call that no worker has started runs on a thread of its own; 0: never.",
    ),
    server(
        "overtake.xdp_capture",
        "",
        ValueType::Text,
        "Sets the file to which frames of overtake.listen_xdp are written, for tcpdump and Wireshark; none if empty.",
    ),
    server(
        "overtake.xdp_capture_size",
        "64MB",
        ValueType::Kilobytes(64),
        "Sets how much overtake.xdp_capture may take on the disk; older frames are dropped.",
    ),
    server(
        "overtake.xdp_mode",
        "generic",
        ValueType::OneOf(XDP_MODES),
        "Sets where frames of overtake.listen_xdp are diverted: generic works everywhere, driver needs one that can.",
    ),
    inert("parallel_leader_participation", "on", ValueType::Switch),
    inert("parallel_setup_cost", "1000", ValueType::Real),
    inert("parallel_tuple_cost", "0.1", ValueType::Real),
    def(
        "password_encryption",
        "scram-sha-256",
        ValueType::OneOf(&["scram-sha-256"]),
        "Chooses how passwords are kept.",
    ),
    inert("plan_cache_mode", "auto", ValueType::OneOf(&["auto", "force_generic_plan", "force_custom_plan"])),
    server(
        "port",
        "5432",
        ValueType::Integer(0, 65_535),
        "Sets the TCP port the server listens on; 0 takes a free one.",
    ),
    inert("random_page_cost", "4", ValueType::Real),
    inert("recursive_worktable_factor", "10", ValueType::Real),
    def("role", "none", ValueType::Text, "Sets the current role."),
    inert("row_security", "on", ValueType::Switch),
    def(
        SEARCH_PATH,
        "\"$user\", public",
        ValueType::Names,
        "Sets the schema search order for names that are not schema-qualified.",
    ),
    inert("seq_page_cost", "1", ValueType::Real),
    told(
        "server_encoding",
        "server_encoding",
        "UTF8",
        ValueType::Fixed,
        "Shows the server (database) character set encoding.",
    ),
    told(
        "server_version",
        "server_version",
        concat!("15.0 (Overtake ", env!("CARGO_PKG_VERSION"), ")"),
        ValueType::Fixed,
        "Shows the server version.",
    ),
    def("server_version_num", "150000", ValueType::Fixed, "Shows the server version as an integer."),
    told("session_authorization", "session_authorization", "postgres", ValueType::Text, "Sets the session user name."),
    def(
        "session_replication_role",
        "origin",
        ValueType::OneOf(&["origin"]),
        "Sets the session's behavior for triggers and rewrite rules.",
    ),
    server("ssl", "off", ValueType::Switch, "Enables SSL connections."),
    server("ssl_cert_file", "server.crt", ValueType::Text, "Location of the SSL server certificate file."),
    server("ssl_key_file", "server.key", ValueType::Text, "Location of the SSL server private key file."),
    told(
        "standard_conforming_strings",
        "standard_conforming_strings",
        "on",
        ValueType::OneOf(&["on"]),
        "Causes '...' strings to treat backslashes literally.",
    ),
    def("statement_timeout", "0", ValueType::Milliseconds, "Sets the maximum allowed duration of any statement."),
    inert("synchronize_seqscans", "on", ValueType::Switch),
    inert("synchronous_commit", "on", ValueType::OneOf(&["on", "off", "local", "remote_write", "remote_apply"])),
    inert("temp_buffers", "8MB", ValueType::Kilobytes(0)),
    told(
        "timezone",
        "TimeZone",
        "UTC",
        ValueType::TimeZone,
        "Sets the time zone for displaying and interpreting time stamps.",
    ),
    def("transaction_deferrable", "off", ValueType::Switch, "Whether to defer a read-only serializable transaction."),
    def(
        "transaction_isolation",
        "read committed",
        ValueType::OneOf(LEVELS),
        "Sets the current transaction's isolation level.",
    ),
    def("transaction_read_only", "off", ValueType::Switch, "Sets the current transaction's read-only status."),
    server(
        "unix_socket_directories",
        "",
        ValueType::Text,
        "Sets the directory of the Unix-domain socket; none if empty.",
    ),
    inert("vacuum_cost_delay", "0", ValueType::Real),
    inert("vacuum_cost_limit", "200", ValueType::Integer(1, 10_000)),
    inert("vacuum_cost_page_dirty", "20", ValueType::Integer(0, 10_000)),
    inert("vacuum_cost_page_hit", "1", ValueType::Integer(0, 10_000)),
    inert("vacuum_cost_page_miss", "2", ValueType::Integer(0, 10_000)),
    inert("vacuum_failsafe_age", "1600000000", ValueType::Integer(0, 2_100_000_000)),
    inert("vacuum_freeze_min_age", "50000000", ValueType::Integer(0, 1_000_000_000)),
    inert("vacuum_freeze_table_age", "150000000", ValueType::Integer(0, 2_000_000_000)),
    inert("vacuum_multixact_failsafe_age", "1600000000", ValueType::Integer(0, 2_100_000_000)),
    inert("vacuum_multixact_freeze_min_age", "5000000", ValueType::Integer(0, 1_000_000_000)),
    inert("vacuum_multixact_freeze_table_age", "150000000", ValueType::Integer(0, 2_000_000_000)),
    inert("wal_compression", "off", ValueType::Switch),
    inert("work_mem", "4MB", ValueType::Kilobytes(64)),
    inert("xmloption", "content", ValueType::OneOf(&["content"])),
];

/// Returns the position of a setting in [`DEFS`], by its name in any case.
pub fn find(name: &str) -> Option<usize> {
    let at = |name: &str| DEFS.binary_search_by(|def| def.name.cmp(name)).ok();
    at(name).or_else(|| at(&name.to_lowercase()))
}

/// Returns the setting whose name is most like this one, if any is much like it.
pub fn nearest(name: &str) -> Option<&'static str> {
    nearest_by(name, |own| own)
}

/// Does the same as [`nearest`] where names stand without `overtake.`.
pub fn nearest_short(name: &str) -> Option<&'static str> {
    nearest_by(name, |own| own.strip_prefix("overtake.").unwrap_or(own))
}

fn nearest_by(name: &str, shown: impl Fn(&'static str) -> &'static str) -> Option<&'static str> {
    let name = name.to_lowercase();
    let distance = |def: &&SettingDef| edits(&name, shown(def.name));
    let nearest = DEFS.iter().min_by_key(distance)?;
    (distance(&nearest) <= 2 + name.len() / 5).then_some(nearest.name)
}

/// Returns the number of letters to insert, delete or replace, or neighbours to exchange.
fn edits(from: &str, to: &str) -> usize {
    let [from, to] = [from, to].map(|text| text.chars().collect::<Vec<char>>());
    let mut rows: Vec<Vec<usize>> = vec![(0..=to.len()).collect()];
    for (at, letter) in from.iter().enumerate() {
        let mut row = vec![at + 1];
        for (column, other) in to.iter().enumerate() {
            let changed = rows[at][column] + usize::from(letter != other);
            let mut least = changed.min(rows[at][column + 1] + 1).min(row[column] + 1);
            if 0 < at && 0 < column && (letter, &from[at - 1]) == (&to[column - 1], other) {
                least = least.min(rows[at - 1][column - 1] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[from.len()][to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::accepted;

    #[test]
    fn settings_stand_in_order_and_take_their_defaults() {
        assert!(DEFS.is_sorted_by_key(|def| def.name));
        for def in DEFS.iter().filter(|def| def.takes != ValueType::Fixed) {
            assert_eq!(accepted(def, def.default).as_deref(), Ok(def.default), "{}", def.name);
        }
    }

    #[test]
    fn a_slip_finds_its_name() {
        assert_eq!(nearest("max_conections"), Some("max_connections"));
        assert_eq!(nearest("Overtake.Prioritys"), Some("overtake.priority"));
        assert_eq!(nearest("something_else_entirely"), None);
    }
}
