//! Compile errors: the form of their messages, and several errors at once.

use std::fmt::Display;

use syn::Result;

/// Formats a message in two paragraphs: what is wrong, and what to type instead.
pub(crate) fn message(wrong: impl Display, help: impl Display) -> String {
    format!("{}\n\nhelp: {}", in_one_line(wrong), in_one_line(help))
}

/// Escapes control characters, which a message may quote from a literal.
fn in_one_line(text: impl Display) -> String {
    let mut line = String::new();
    for c in text.to_string().chars() {
        if c.is_control() {
            line.extend(c.escape_default());
        } else {
            line.push(c);
        }
    }
    line
}

/// Returns both values, or all errors.
pub(crate) fn both<A, B>(a: Result<A>, b: Result<B>) -> Result<(A, B)> {
    match (a, b) {
        (Ok(a), Ok(b)) => Ok((a, b)),
        (Err(mut a), Err(b)) => {
            a.combine(b);
            Err(a)
        }
        (Err(error), Ok(_)) | (Ok(_), Err(error)) => Err(error),
    }
}

/// Returns all values, or all errors.
pub(crate) fn all<T>(results: impl IntoIterator<Item = Result<T>>) -> Result<Vec<T>> {
    let mut values = Ok(Vec::new());
    for result in results {
        values = both(values, result).map(|(mut values, value)| {
            values.push(value);
            values
        });
    }
    values
}

#[cfg(test)]
mod tests {
    use proc_macro2::Span;
    use syn::Error;

    use super::*;

    fn error(text: &str) -> Result<u8> {
        Err(Error::new(Span::call_site(), text))
    }

    fn texts(error: Error) -> Vec<String> {
        error.into_iter().map(|error| error.to_string()).collect()
    }

    #[test]
    fn escapes_control_characters_in_quotations() {
        assert_eq!(
            message("no `a\n`", "write `\0\u{85}é`"),
            "no `a\\n`\n\nhelp: write `\\u{0}\\u{85}é`"
        );
    }

    #[test]
    fn returns_both_values_or_all_errors() {
        assert_eq!(both(Ok(1), Ok('b')).unwrap(), (1, 'b'));
        assert_eq!(texts(both(error("a"), Ok('b')).unwrap_err()), ["a"]);
        assert_eq!(texts(both(Ok('a'), error("b")).unwrap_err()), ["b"]);
        assert_eq!(texts(both(error("a"), error("b")).unwrap_err()), ["a", "b"]);
    }

    #[test]
    fn returns_all_values_or_all_errors() {
        assert_eq!(all([Ok(1), Ok(2)]).unwrap(), [1, 2]);
        let errors = all([error("a"), Ok(1), error("b"), Ok(2)]).unwrap_err();
        assert_eq!(texts(errors), ["a", "b"]);
    }
}
