//! What is said when too few servers have done what they were asked.

use std::fmt::Write as _;

use super::round::Round;
use crate::store::StoreError;

/// Servers that are named; there may be many.
const NAMED: usize = 5;
/// Characters that one of them may take.
const LONGEST: usize = 200;

/// The error when too few of so many servers have done something: `2 of 5 servers granted it;
/// redis://b:6379/0: no connection in time; …`, with the causes of the others.
pub(super) fn too_few(mut text: String, of: usize, causes: &[(&str, &StoreError)]) -> StoreError {
    for (name, error) in causes.iter().take(NAMED) {
        let error: String = error.to_string().chars().take(LONGEST).collect();
        let _ = write!(text, "; {name}: {error}");
    }
    if causes.len() > NAMED {
        let _ = write!(text, "; and {} more", causes.len() - NAMED);
    }
    let count = |is: fn(&StoreError) -> bool| causes.iter().filter(|(_, error)| is(error)).count();
    let refused = count(|error| matches!(error, StoreError::Refused(_)));
    if refused > of - Round::quorum(of) {
        StoreError::Refused(text.into())
    } else if count(|error| matches!(error, StoreError::Disconnected(_))) > 0 {
        StoreError::Disconnected(text.into())
    } else if count(StoreError::may_have_run) > 0 {
        StoreError::Unknown(text.into())
    } else {
        StoreError::NotExecuted(text.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_the_servers_and_is_as_bad_as_the_worst_of_them() {
        let down = &StoreError::NotExecuted("is down".into());
        let gone = &StoreError::Disconnected("is gone".into());
        let mute = &StoreError::Unknown("says nothing".into());
        let rude = &StoreError::Refused("refuses".into());
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
        let long = StoreError::Unknown("ä".repeat(10_000).into());
        let text = too_few(String::new(), 9, &[("redis://b:6379/0", &long); 9]).to_string();
        assert!(text.ends_with("; and 4 more") && text.chars().count() < 1_500, "{text}");
    }
}
