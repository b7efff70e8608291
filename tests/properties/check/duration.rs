//! Durations in literals, and the limits of the arguments that have them.

use std::ops::RangeInclusive;
use std::time::Duration;

use proc_macro2::Span;
use proc_macro2::extra::invalidate_current_thread_spans;
use syn::LitStr;

use super::message::message;
use crate::args::Args;
use crate::duration::{parse, written};
use crate::times::{Time, Times};

const DAY: u64 = 24 * 60 * 60 * 1000;

/// Checks that a text is read as the duration that it says, or refused; by the parser, and by each
/// argument that takes durations.
///
/// # Panics
///
/// When a property is broken.
pub fn duration(text: &str) {
    let expected = millis(text);
    match parse(text) {
        Ok(duration) => {
            assert_eq!(Some(duration), expected.map(Duration::from_millis), "{text:?}");
            if !duration.is_zero() {
                assert_eq!(parse(&written(duration)), Ok(duration), "{text:?}");
            }
        }
        Err(error) => {
            assert_eq!(expected, None, "{text:?} is refused: {error}");
            refused(&error);
        }
    }
    let lit = LitStr::new(text, Span::call_site()).token();
    let within = |limits: RangeInclusive<u64>| expected.filter(|millis| limits.contains(millis));
    let forever = text == "forever";
    assert_eq!(ttl(&format!("ttl = {lit}")), within(250..=DAY), "{text:?}");
    assert_eq!(ttl(&format!("ttl = {lit}, renew = false")), within(100..=DAY), "{text:?}");
    let with_day = |name| ttl(&format!("ttl = \"24h\", {name} = {lit}")).is_some();
    assert_eq!(with_day("wait"), forever || within(0..=DAY).is_some(), "{text:?}");
    assert_eq!(with_day("max_hold"), within(1..=DAY).is_some(), "{text:?}");
    assert_eq!(with_day("min_hold"), within(1..=DAY).is_some(), "{text:?}");
    invalidate_current_thread_spans();
}

/// The milliseconds that a text says: numbers with units, from large to small, each at most once.
fn millis(text: &str) -> Option<u64> {
    let mut millis = 0_u128;
    let mut rest = text;
    for (unit, length) in [("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)] {
        let after = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        let number = &rest[..rest.len() - after.len()];
        let after =
            after.strip_prefix(unit).filter(|after| !after.starts_with(char::is_alphabetic));
        if let (false, Some(after)) = (number.is_empty(), after) {
            millis =
                millis.saturating_add(number.parse().unwrap_or(u128::MAX).saturating_mul(length));
            rest = after;
        }
    }
    let complete = !text.is_empty() && rest.is_empty();
    complete.then(|| u64::try_from(millis).unwrap_or(u64::MAX))
}

/// Checks a message, and that what it advises to write is a duration.
fn refused(error: &str) {
    message(error);
    if let Some((_, advice)) = error.split_once("write \"") {
        let (advice, _) = advice.split_once('"').expect("an end of the quotation");
        assert!(parse(advice).is_ok(), "{error}");
    }
}

/// The ttl in milliseconds, if the arguments are accepted.
fn ttl(args: &str) -> Option<u64> {
    let args: Args = syn::parse_str(args).expect("arguments");
    let ttl = args.ttl.as_ref().expect("a ttl");
    match Times::check(ttl, &args) {
        Ok(Times { ttl: Time::Literal(ttl), .. }) => u64::try_from(ttl.as_millis()).ok(),
        Ok(_) => panic!("not a literal"),
        Err(errors) => {
            errors.into_iter().for_each(|error| message(&error.to_string()));
            None
        }
    }
}
