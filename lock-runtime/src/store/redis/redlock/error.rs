//! The error when too few servers have carried out a request.

use std::fmt::Write as _;

use super::quorum::quorum;
use crate::store::StoreError;
use crate::store::redis::client::error::{ClientError, Kind};

/// How many servers the message names.
const NAMED: usize = 5;
/// How many characters the cause of one server may take.
const LONGEST: usize = 200;

/// The error when too few of `all` servers have done something, with the causes of the others:
/// `2 of 5 servers granted it; redis://b:6379/0: no connection in time; …`.
pub(super) fn too_few(mut text: String, all: usize, causes: &[(&str, &ClientError)]) -> StoreError {
    for (name, error) in causes.iter().take(NAMED) {
        let error: String = error.to_string().chars().take(LONGEST).collect();
        let _ = write!(text, "; {name}: {error}");
    }
    if causes.len() > NAMED {
        let _ = write!(text, "; and {} more", causes.len() - NAMED);
    }
    let count = |kind: &Kind| causes.iter().filter(|(_, error)| error.kind == *kind).count();
    if count(&Kind::Refused) > all - quorum(all) {
        StoreError::Refused(text.into())
    } else if count(&Kind::Disconnected) > 0 {
        StoreError::Disconnected(text.into())
    } else if count(&Kind::Unknown) > 0 {
        StoreError::Unknown(text.into())
    } else {
        StoreError::NotExecuted(text.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_the_servers_and_has_the_worst_kind() {
        let down = &ClientError::not_executed("is down");
        let gone = &ClientError::disconnected("is gone");
        let mute = &ClientError::unknown("says nothing");
        let rude = &ClientError::refused("refuses");
        let error = too_few(
            "2 of 5 servers granted it".into(),
            5,
            &[("redis://b:6379/0", down), ("redis://c:6379/0", mute)],
        );
        assert!(matches!(error, StoreError::Unknown(_)));
        assert_eq!(
            error.to_string(),
            "2 of 5 servers granted it; redis://b:6379/0: is down; redis://c:6379/0: says nothing"
        );
        let kind = |one, other| too_few(String::new(), 3, &[("b", one), ("c", other)]);
        assert!(matches!(kind(down, down), StoreError::NotExecuted(_)));
        assert!(matches!(kind(down, rude), StoreError::NotExecuted(_)));
        assert!(matches!(kind(rude, rude), StoreError::Refused(_)));
        assert!(matches!(kind(mute, gone), StoreError::Disconnected(_)));
    }

    #[test]
    fn stays_readable_with_many_servers() {
        let long = ClientError::unknown("ä".repeat(10_000));
        let text = too_few(String::new(), 9, &[("redis://b:6379/0", &long); 9]).to_string();
        assert!(text.ends_with("; and 4 more") && text.chars().count() < 1_500, "{text}");
    }
}
