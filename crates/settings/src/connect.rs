//! Parameters of a connection.

/// Parameters of a connection, as the start-up packet has them.
#[derive(Clone, Debug, Default)]
pub struct Connect {
    /// The role.
    pub user: String,
    /// The database.
    pub database: String,
    /// Settings of the start-up packet, `application_name` among them, and those of its `options`.
    pub settings: Vec<(String, String)>,
    /// The number by which the client knows this session.
    pub backend_pid: u32,
}
