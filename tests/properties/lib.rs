//! What holds for keys and for replies, whatever they contain: checked by proptest here, and by the
//! fuzz targets in `fuzz`. The parsers of the attribute have such tests beside them.

mod escaping;
mod reply;

pub use self::escaping::escaping;
pub use self::reply::reply;
