//! Helpers of the tests of this package.

pub(crate) mod capture;
pub(crate) mod group;
pub(crate) mod kit;
pub(crate) mod logged;
pub(crate) mod trace;
