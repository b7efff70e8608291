//! What depends on the edition of the crate that uses the attribute, in edition 2021. The package
//! `attribute` has everything else.

#![deny(warnings, clippy::all, clippy::pedantic)]

mod drops;
mod macros;
mod names;
mod support;
mod types;
mod ui;
