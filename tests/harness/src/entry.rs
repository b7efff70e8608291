//! One command, as `MONITOR` reports it.

use std::time::Duration;

/// A command that a server ran.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The time on the server's clock, as a Unix time.
    pub at: Duration,
    /// The number of the database.
    pub db: u32,
    /// The client's address, or `lua` for a script.
    pub source: String,
    /// The command's name and its arguments; invalid UTF-8 is replaced.
    pub args: Vec<String>,
}

impl Entry {
    /// Returns the command's name as it was sent.
    #[must_use]
    pub fn name(&self) -> &str {
        self.args.first().map_or("", String::as_str)
    }

    /// Returns whether this is the command `name`, ignoring case.
    #[must_use]
    pub fn is(&self, name: &str) -> bool {
        self.name().eq_ignore_ascii_case(name)
    }

    /// Returns whether a script ran the command, not a client.
    #[must_use]
    pub fn from_script(&self) -> bool {
        self.source == "lua"
    }

    /// Returns whether one of the arguments is `text`.
    #[must_use]
    pub fn has(&self, text: &str) -> bool {
        self.args.iter().skip(1).any(|arg| arg == text)
    }

    /// Parses `+1700000000.000042 [0 127.0.0.1:50000] "set" "k" "v"`; other replies are `None`.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let (at, rest) = line.strip_prefix('+')?.split_once(" [")?;
        let (seconds, micros) = at.split_once('.')?;
        let (db, rest) = rest.split_once(' ')?;
        let (source, args) = rest.split_once("] ")?;
        Some(Self {
            at: Duration::from_secs(seconds.parse().ok()?)
                + Duration::from_micros(micros.parse().ok()?),
            db: db.parse().ok()?,
            source: source.to_owned(),
            args: arguments(args),
        })
    }
}

/// Splits a sequence of quoted strings.
fn arguments(text: &str) -> Vec<String> {
    let mut bytes = text.bytes();
    let mut args = Vec::new();
    while bytes.any(|byte| byte == b'"') {
        args.push(String::from_utf8_lossy(&quoted(&mut bytes)).into_owned());
    }
    args
}

/// Reads up to the closing quote.
fn quoted(bytes: &mut impl Iterator<Item = u8>) -> Vec<u8> {
    let mut plain = Vec::new();
    while let Some(byte) = bytes.next().filter(|&byte| byte != b'"') {
        plain.push(if byte == b'\\' { escaped(bytes) } else { byte });
    }
    plain
}

/// Decodes the escape sequence after a backslash.
fn escaped(bytes: &mut impl Iterator<Item = u8>) -> u8 {
    match bytes.next().unwrap_or(b'\\') {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'a' => 0x07,
        b'b' => 0x08,
        b'x' => hex_digit(bytes) << 4 | hex_digit(bytes),
        itself => itself,
    }
}

fn hex_digit(bytes: &mut impl Iterator<Item = u8>) -> u8 {
    let digit = bytes.next().and_then(|byte| char::from(byte).to_digit(16));
    digit.map_or(0, |digit| u8::try_from(digit).expect("below 16"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_a_command() {
        let entry = Entry::parse(r#"+1700000000.000042 [3 127.0.0.1:50000] "set" "k" """#).unwrap();
        assert_eq!(entry.at, Duration::new(1_700_000_000, 42_000));
        assert_eq!(entry.db, 3);
        assert_eq!(entry.source, "127.0.0.1:50000");
        assert_eq!(entry.args, ["set", "k", ""]);
        assert!(entry.is("SET") && entry.has("k") && !entry.has("set") && !entry.from_script());
    }

    #[test]
    fn parses_a_command_of_a_script() {
        let entry = Entry::parse(r#"+1700000000.000042 [0 lua] "DEL" "k""#).unwrap();
        assert!(entry.from_script());
    }

    #[test]
    fn decodes_every_escape() {
        let args = arguments(r#""\"] \\" "\n\r\t\a\b" "caf\xc3\xa9" "\xff\x00""#);
        assert_eq!(args, ["\"] \\", "\n\r\t\u{7}\u{8}", "café", "\u{fffd}\0"]);
    }

    #[test]
    fn ignores_other_replies() {
        assert_eq!(Entry::parse("+OK"), None);
        assert_eq!(Entry::parse("$8"), None);
    }
}
