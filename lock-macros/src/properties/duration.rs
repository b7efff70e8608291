//! Durations in literals, and the limits of the arguments that take them.

use std::ops::RangeInclusive;
use std::time::Duration;

use proc_macro2::Span;
use proc_macro2::extra::invalidate_current_thread_spans;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use syn::LitStr;

use super::{check_message, config};
use crate::args::Args;
use crate::duration::{parse, written};
use crate::times::{Time, Times};

const DAY: u64 = 24 * 60 * 60 * 1000;

proptest! {
    #![proptest_config(config())]

    #[test]
    fn reads_or_refuses_any_duration(text in text()) {
        check(&text);
    }
}

#[test]
fn reads_or_refuses_typical_durations() {
    ["1h2m3s4ms", "forever"].into_iter().for_each(check);
}

fn text() -> impl Strategy<Value = String> {
    let number = prop_oneof![
        Just(String::new()),
        (0..2_000_u32).prop_map(|number| number.to_string()),
        any::<u64>().prop_map(|number| number.to_string()),
        "[0-9]{1,45}",
    ];
    let unit = select(&["h", "m", "s", "ms", "", "H", "ns", " "][..]);
    let pairs = vec((number, unit).prop_map(|(number, unit)| number + unit), 0..=4);
    let limits = select(&["forever", "100ms", "99ms", "250ms", "249ms", "24h", "24h1ms", "0s"][..]);
    prop_oneof![
        8 => pairs.prop_map(|pairs| pairs.concat()),
        1 => limits.prop_map(str::to_owned),
        1 => any::<String>(),
    ]
}

/// Checks that the parser, and each argument that takes a duration, reads `text` as the reference
/// does or refuses it.
fn check(text: &str) {
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
            check_refusal(&error);
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
    // proc-macro2 keeps each parsed string as a source file.
    invalidate_current_thread_spans();
}

/// Reference parser: numbers with units, from large to small, each unit at most once.
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

/// Checks the form of an error, and that the duration it suggests is valid.
fn check_refusal(error: &str) {
    check_message(error);
    if let Some((_, suggested)) = error.split_once("write \"") {
        let (suggested, _) = suggested.split_once('"').expect("a closing quote");
        assert!(parse(suggested).is_ok(), "{error}");
    }
}

/// Returns the ttl in milliseconds if the arguments are accepted.
fn ttl(args: &str) -> Option<u64> {
    let args: Args = syn::parse_str(args).expect("arguments");
    let ttl = args.ttl.as_ref().expect("a ttl");
    match Times::check(ttl, &args) {
        Ok(Times { ttl: Time::Literal(ttl), .. }) => u64::try_from(ttl.as_millis()).ok(),
        Ok(_) => panic!("not a literal"),
        Err(errors) => {
            errors.into_iter().for_each(|error| check_message(&error.to_string()));
            None
        }
    }
}
