//! One function for each parser, which panics when a property of it is broken.

mod duration;
mod escaping;
mod message;
mod reply;
mod template;

pub use self::duration::duration;
pub use self::escaping::escaping;
pub use self::reply::reply;
pub use self::template::template;
