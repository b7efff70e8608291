//! The properties, for inputs that proptest makes.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

/// More cases than proptest's default, and as many as `PROPTEST_CASES` says if that is more.
fn config() -> ProptestConfig {
    let config = ProptestConfig::default();
    ProptestConfig { cases: config.cases.max(3_000), failure_persistence: None, ..config }
}

/// Words in a row, now and then with a character of any kind among them.
fn words(words: &'static [&'static str], most: usize) -> impl Strategy<Value = String> {
    let word = prop_oneof![
        9 => select(words).prop_map(str::to_owned),
        1 => any::<char>().prop_map(String::from),
    ];
    vec(word, 0..=most).prop_map(|words| words.concat())
}

/// Values with everything that is escaped, and lengths around the limit.
fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        20 => words(&["a", "A", "3", ":", "%", "%3A", "{", "}", "-", " ", "\n", "\u{85}", "é"], 4),
        1 => (510..=514_usize).prop_map(|length| "x".repeat(length)),
    ]
}

fn texts() -> impl Strategy<Value = Vec<String>> {
    vec(words(&["", "a", ":", "{", "}", "%", "%3A", "-", "<", "\n", "\u{85}"], 3), 0..=4)
}

fn values() -> impl Strategy<Value = Vec<(String, String)>> {
    let same = value().prop_map(|value| (value.clone(), value));
    vec(prop_oneof![1 => same, 3 => (value(), value())], 0..=4)
}

/// A reply on the wire: a value of RESP2 or RESP3, or something like it.
fn reply() -> impl Strategy<Value = Vec<u8>> {
    let number = prop_oneof![(-2..=3_i64), any::<i64>()];
    let simple = prop_oneof![
        4 => number.clone().prop_map(|number| format!(":{number}\r\n")),
        2 => "[a-z0-9-]{0,8}|[0-9]{1,2} -?[0-9]{1,2}"
            .prop_map(|text| format!("${}\r\n{text}\r\n", text.len())),
        2 => select(&["_\r\n", "$-1\r\n", "*-1\r\n", "+hash\r\n", "+OK\r\n", "#t\r\n", ",1.5\r\n"][..])
            .prop_map(str::to_owned),
        1 => number.prop_map(|number| format!("({number}\r\n")),
        1 => select(&["-ERR no\r\n", "!3\r\nERR\r\n", "=6\r\ntxt:ab\r\n", ">0\r\n", "~0\r\n"][..])
            .prop_map(str::to_owned),
    ];
    let value = simple.prop_recursive(3, 12, 4, |value| {
        let parts = vec(value.clone(), 0..=4);
        prop_oneof![
            6 => parts.clone().prop_map(|parts| format!("*{}\r\n{}", parts.len(), parts.concat())),
            1 => parts.clone().prop_map(|parts| format!("~{}\r\n{}", parts.len(), parts.concat())),
            1 => parts.prop_map(|parts| format!("%{}\r\n{}", parts.len() / 2, parts.concat())),
            1 => (value.clone(), value.clone(), value)
                .prop_map(|(name, note, value)| format!("|1\r\n{name}{note}{value}")),
        ]
    });
    prop_oneof![9 => value.prop_map(String::into_bytes), 1 => any::<Vec<u8>>()]
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn different_values_have_different_keys(texts in texts(), values in values()) {
        let texts: Vec<_> = texts.iter().map(String::as_str).collect();
        let values: Vec<_> = values.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
        properties::escaping(&texts, &values);
    }

    #[test]
    fn reads_replies_of_scripts_and_rejects_others(bytes in reply()) {
        properties::reply(&bytes);
    }
}
