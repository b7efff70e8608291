//! C057: the same inputs are refused in edition 2021, with the same words.

#[rustfmt::skip] // formatted where it stands
#[path = "../ui.rs"]
mod ui;
