//! Generates `docs/failure-modes.md`: each failure, the promise of the lock, and the tests that
//! show it. The name of a test begins with the numbers of its failures: `f01_…`, `f19_f21_…`.

mod rows;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

use rows::{Kind, ROWS, Row};

/// Returns the names of all tests by failure, each with its file.
fn tests() -> BTreeMap<u8, Vec<(String, String)>> {
    let root = root();
    let mut tests = BTreeMap::<u8, Vec<_>>::new();
    for folder in ["lock-macros/src", "lock-runtime/src", "tests"] {
        for file in rust_files(&root.join(folder)) {
            let text = fs::read_to_string(&file).unwrap();
            let place = file.strip_prefix(&root).unwrap().display().to_string();
            for name in text.lines().filter_map(function) {
                for id in ids(name) {
                    tests.entry(id).or_default().push((name.to_owned(), place.clone()));
                }
            }
        }
    }
    for tests in tests.values_mut() {
        tests.sort();
    }
    tests
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files
}

/// Returns the name of the function that begins in this line.
fn function(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let rest = line.strip_prefix("async ").unwrap_or(line).strip_prefix("fn ")?;
    rest.split_once('(').map(|(name, _)| name)
}

/// Returns the numbers of failures at the beginning of a name.
fn ids(name: &str) -> impl Iterator<Item = u8> {
    let is_id = |word: &&str| {
        let digits = word.strip_prefix('f');
        digits.is_some_and(|digits| digits.len() >= 2 && digits.bytes().all(|b| b.is_ascii_digit()))
    };
    let ids = name.split('_').take_while(is_id);
    ids.filter_map(|id| id.strip_prefix('f')?.parse().ok())
}

fn table(tests: &BTreeMap<u8, Vec<(String, String)>>) -> String {
    let mut text = String::from(
        "# What can go wrong\n\n\
         What a lock in Redis promises in each case, with the tests that show it on real servers. \
         This page is generated from the names of the tests: `UPDATE=1 cargo test -p failure-modes`.\n\n\
         - **kept**: the lock keeps the promise by itself.\n\
         - **ttl**: only the ttl frees the lock.\n\
         - **fence**: only a data store that [compares fences](../README.md#fences) is safe.\n\
         - **yours**: left to the operator of the service.\n\n\
         | | what happens | what is promised | | tests |\n| --- | --- | --- | --- | --- |\n",
    );
    for Row { id, what, promise, kind } in ROWS {
        let shown = tests.get(id).map(Vec::as_slice).unwrap_or_default();
        let shown = shown.iter().map(|(name, place)| format!("[`{name}`](../{place})"));
        let shown = shown.collect::<Vec<_>>().join("<br>");
        let (verdict, shown) = match *kind {
            Kind::Kept => ("kept", shown),
            Kind::Ttl => ("ttl", shown),
            Kind::Fence => ("fence", shown),
            Kind::Yours => ("yours", shown),
            Kind::Void(why) => ("does not apply", format!("{shown}{why}")),
            Kind::Untested(why) => ("not tested", why.to_owned()),
        };
        writeln!(text, "| F{id:02} | {what} | {promise} | {verdict} | {shown} |").unwrap();
    }
    text
}

#[test]
fn has_a_test_or_a_reason_for_each_row() {
    let tests = tests();
    let without: Vec<u8> = ROWS
        .iter()
        .filter(|row| !matches!(row.kind, Kind::Void(_) | Kind::Untested(_)))
        .map(|row| row.id)
        .filter(|id| !tests.contains_key(id))
        .collect();
    assert_eq!(without, [0; 0], "rows without a test");
    let unknown: Vec<_> = tests.keys().filter(|id| ROWS.iter().all(|row| row.id != **id)).collect();
    assert_eq!(unknown, [&0; 0], "tests of rows that do not exist");
}

#[test]
fn has_an_up_to_date_page() {
    let (page, text) = (root().join("docs/failure-modes.md"), table(&tests()));
    if env::var_os("UPDATE").is_some() {
        fs::create_dir_all(page.parent().unwrap()).unwrap();
        fs::write(&page, &text).unwrap();
    }
    let written = fs::read_to_string(&page).unwrap_or_default();
    assert!(written == text, "run `UPDATE=1 cargo test -p failure-modes`");
}
