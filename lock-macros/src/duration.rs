//! Durations in string literals, such as `"500ms"` or `"1m30s"`.

use std::time::Duration;

use crate::errors::message;
use crate::suggest;

/// Units with their length in milliseconds, in the order in which a duration lists them.
const UNITS: [(&str, u64); 4] = [("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

const SYNTAX: &str = "write whole numbers with units, as in \"500ms\", \"30s\" or \"1m30s\"";

/// Parses a duration, or returns the message of a compile error.
///
/// A duration that is too long to count becomes the longest one: the limit of every argument is far
/// below it.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    if text.is_empty() {
        return Err(message("the duration is empty", SYNTAX));
    }
    let mut millis = 0_u64;
    let mut next_unit = 0;
    let mut rest = text;
    while !rest.is_empty() {
        let (number, after) = split(rest, |c| c.is_ascii_digit());
        let (unit, after) = split(after, char::is_alphabetic);
        match (number, unit, after.chars().next()) {
            (_, "", Some(c)) => {
                let wrong = format_args!("unexpected `{c}` in duration `{text}`");
                return Err(message(wrong, SYNTAX));
            }
            (_, "", None) => {
                let wrong = format_args!("duration `{text}` has no unit");
                let seconds = format!("{text}s");
                let help = match parse(&seconds) {
                    Ok(_) => format!("write \"{seconds}\" if you mean seconds"),
                    Err(_) => SYNTAX.to_owned(),
                };
                return Err(message(wrong, help));
            }
            ("", _, _) => {
                let wrong = format_args!("unit `{unit}` has no number before it");
                return Err(message(wrong, SYNTAX));
            }
            _ => {}
        }
        let Some(position) = UNITS.iter().position(|(name, _)| *name == unit) else {
            let help = suggest::names(unit, &UNITS.map(|(name, _)| name), "unit", str::to_owned);
            return Err(message(format!("`{unit}` is not a unit of time"), help));
        };
        if position < next_unit {
            let wrong = format!("unit `{unit}` must be smaller than the unit before it");
            return Err(message(
                wrong,
                "write each unit once, from large to small, as in \"1m30s\"",
            ));
        }
        let number = number.parse().unwrap_or(u64::MAX);
        millis = millis.saturating_add(number.saturating_mul(UNITS[position].1));
        next_unit = position + 1;
        rest = after;
    }
    Ok(Duration::from_millis(millis))
}

/// Formats a duration as in a literal.
pub(crate) fn written(duration: Duration) -> String {
    let mut rest = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let mut text = String::new();
    for (unit, millis) in UNITS {
        if rest >= millis {
            text.push_str(&(rest / millis).to_string());
            text.push_str(unit);
            rest %= millis;
        }
    }
    text
}

/// Splits `text` after the longest prefix whose characters all satisfy `part`.
fn split(text: &str, part: impl Fn(char) -> bool) -> (&str, &str) {
    let end = text.find(|c| !part(c)).unwrap_or(text.len());
    text.split_at(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(text: &str) -> u128 {
        parse(text).unwrap().as_millis()
    }

    #[test]
    fn parses_units_from_milliseconds_to_hours() {
        assert_eq!(millis("500ms"), 500);
        assert_eq!(millis("30s"), 30_000);
        assert_eq!(millis("5m"), 300_000);
        assert_eq!(millis("2h"), 7_200_000);
        assert_eq!(millis("1m30s"), 90_000);
        assert_eq!(millis("1h2m3s4ms"), 3_723_004);
        assert_eq!(millis("007s"), 7_000);
        assert_eq!(millis("0s"), 0);
    }

    #[test]
    fn refuses_other_texts_with_a_reason() {
        for (text, wrong) in [
            ("", "the duration is empty"),
            ("30", "duration `30` has no unit"),
            ("1m30", "duration `1m30` has no unit"),
            ("s", "unit `s` has no number before it"),
            ("5sm", "`sm` is not a unit of time"),
            ("1M", "`M` is not a unit of time"),
            ("5 m s", "unexpected ` ` in duration `5 m s`"),
            ("30s ", "unexpected ` ` in duration `30s `"),
            ("-5s", "unexpected `-` in duration `-5s`"),
            ("1.5s", "unexpected `.` in duration `1.5s`"),
            ("1_000ms", "unexpected `_` in duration `1_000ms`"),
            ("30s1m", "unit `m` must be smaller than the unit before it"),
            ("1s1s", "unit `s` must be smaller than the unit before it"),
        ] {
            let error = parse(text).unwrap_err();
            assert_eq!(error.lines().next(), Some(wrong), "{text:?}");
        }
    }

    #[test]
    fn suggests_seconds_if_that_makes_the_text_valid() {
        assert!(parse("1m30").unwrap_err().ends_with("write \"1m30s\" if you mean seconds"));
        assert!(parse("1s30").unwrap_err().ends_with(SYNTAX));
    }

    #[test]
    fn suggests_a_unit_written_in_the_wrong_case() {
        assert!(parse("1M").unwrap_err().contains("did you mean `m`?"));
        assert!(parse("1Ms").unwrap_err().contains("did you mean `ms`?"));
    }

    #[test]
    fn refuses_digits_and_units_that_are_not_ascii() {
        let error = parse("٣s").unwrap_err();
        assert!(error.starts_with("unexpected `٣`"), "{error}");
        let error = parse("3µs").unwrap_err();
        assert!(error.starts_with("`µs` is not a unit"), "{error}");
    }

    #[test]
    fn saturates_durations_too_long_to_count() {
        let longest = Duration::from_millis(u64::MAX);
        assert_eq!(parse("9223372036854775807s"), Ok(longest));
        assert_eq!(parse("99999999999999999999s"), Ok(longest));
        assert_eq!(parse("18446744073709551615ms"), Ok(longest));
    }

    #[test]
    fn writes_durations_as_parsed() {
        for text in ["100ms", "24h", "1m30s", "1h2m3s4ms"] {
            assert_eq!(written(parse(text).unwrap()), text);
        }
    }
}
