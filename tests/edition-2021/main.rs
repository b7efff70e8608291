//! C057: the tests of the attribute once more, in edition 2021.

#[rustfmt::skip] // formatted where it stands, in the edition it was written in
#[path = "../attribute/main.rs"]
mod attribute;
