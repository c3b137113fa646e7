//! Modules: code of routines in other languages than SQL.
//!
//! **Invariant:** a description never changes; a change makes another with the same OID. The names of modules form one
//! name space in a database, without schemas.

use procs::{Artifact, ArtifactKind, Manifest};

/// Code that routines run, in one or more forms (`CREATE MODULE`).
#[derive(Clone, Debug)]
pub struct Module {
    /// OID of the module, which stays when it is replaced.
    pub oid: u32,
    /// Name of the module.
    pub name: String,
    /// OID of the role that owns the module.
    pub owner: u32,
    /// Text of the manifest.
    pub text: String,
    /// Parsed manifest.
    pub manifest: Manifest,
    /// Code, at most one of each kind.
    pub artifacts: Vec<Artifact>,
}

impl Module {
    /// Returns the code of this kind.
    pub fn artifact(&self, kind: ArtifactKind) -> Option<&Artifact> {
        self.artifacts.iter().find(|artifact| artifact.kind() == kind)
    }
}
