//! Messages of compile errors.

/// Checks the form of a message: a line that tells what is wrong, and one that helps.
pub(super) fn message(text: &str) {
    let (wrong, help) = text.split_once("\n\nhelp: ").expect("a message in two paragraphs");
    for line in [wrong, help] {
        assert!(!line.contains(char::is_control), "more than a line: {text:?}");
        let start = |c: char| c == '`' || c.is_lowercase();
        assert!(line.starts_with(start) && !line.ends_with('.'), "not as rustc says it: {text:?}");
    }
}
