//! Functions with the attribute that compile, on a real server. `ui` has those that do not.

#![deny(warnings, clippy::all, clippy::pedantic)]

mod arguments;
mod durations;
mod early_exit;
mod futures;
mod hygiene;
mod lints;
mod macros;
mod options;
mod other_attributes;
mod receivers;
mod return_types;
mod spans;
mod support;
mod template;
