//! One function for each parser, which panics when a property of it is broken.

mod escaping;
mod reply;

pub use self::escaping::escaping;
pub use self::reply::reply;
