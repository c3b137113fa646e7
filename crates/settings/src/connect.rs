//! Parameters of a connection.

/// Parameters of a connection, as in the startup packet.
#[derive(Clone, Debug, Default)]
pub struct Connect {
    /// Name of the role.
    pub user: String,
    /// Name of the database.
    pub database: String,
    /// Settings of the startup packet, including `application_name` and those of its `options`.
    pub settings: Vec<(String, String)>,
    /// Process ID by which the client knows this session.
    pub backend_pid: u32,
}
