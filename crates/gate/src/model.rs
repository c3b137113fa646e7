//! Queueing models of a database with a multiprogramming limit.
