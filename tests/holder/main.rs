//! A process that takes a lock, for tests in which a holder is stopped or killed.
fn main() {}
