//! Definitions of modules: code for routines in other languages than SQL. An extension of PostgreSQL's grammar.

use super::{Name, RoleName};

/// `CREATE MODULE`
#[derive(Clone, Debug, PartialEq)]
pub struct CreateModule {
    /// True with `OR REPLACE`.
    pub or_replace: bool,
    /// Name of the module.
    pub name: Name,
    /// Text of the manifest.
    pub manifest: Box<str>,
    /// Kinds of the artifacts, with their code as text.
    pub artifacts: Vec<(Name, Box<str>)>,
}

/// `ALTER MODULE … OWNER TO`
#[derive(Clone, Debug, PartialEq)]
pub struct OwnModule {
    /// Name of the module.
    pub name: Name,
    /// New owner.
    pub owner: RoleName,
}

/// `DROP MODULE`
#[derive(Clone, Debug, PartialEq)]
pub struct DropModules {
    /// Names of the modules.
    pub names: Vec<Name>,
    /// True with `IF EXISTS`.
    pub if_exists: bool,
    /// True with `CASCADE`.
    pub is_cascading: bool,
}
