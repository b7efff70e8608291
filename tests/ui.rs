//! Inputs that must not compile.
