//! Model checks.
