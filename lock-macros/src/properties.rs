//! Properties of the parsers, checked on generated inputs.
//!
//! `PROPTEST_CASES=1000000 cargo test --release -p lock-macros properties` searches for longer.

mod duration;
mod escaping;
mod template;

use std::ops::RangeInclusive;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

/// Runs 3,000 cases, or `PROPTEST_CASES` if that is more.
fn config() -> ProptestConfig {
    let config = ProptestConfig::default();
    ProptestConfig { cases: config.cases.max(3_000), failure_persistence: None, ..config }
}

/// Generates `count` of `words` in a row, now and then with an arbitrary character among them.
fn words(
    words: &'static [&'static str],
    count: RangeInclusive<usize>,
) -> impl Strategy<Value = String> {
    let word = prop_oneof![
        9 => select(words).prop_map(str::to_owned),
        1 => any::<char>().prop_map(String::from),
    ];
    vec(word, count).prop_map(|words| words.concat())
}

/// Checks the form of a compile error: a line with the mistake, and a line with the help.
fn check_message(text: &str) {
    let (wrong, help) = text.split_once("\n\nhelp: ").expect("a message in two paragraphs");
    for line in [wrong, help] {
        assert!(!line.contains(char::is_control), "more than one line: {text:?}");
        let start = |c: char| c == '`' || c.is_lowercase();
        assert!(line.starts_with(start) && !line.ends_with('.'), "not in rustc style: {text:?}");
    }
}
