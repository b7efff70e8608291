//! Suggestions for misspelt names.

/// Formats the help for a wrong name: the name that was probably meant, and all known names.
pub(crate) fn names<T: AsRef<str>>(
    wrong: &str,
    known: &[T],
    what: &str,
    show: impl Fn(&str) -> String,
) -> String {
    let shown: Vec<_> = known.iter().map(|name| format!("`{}`", show(name.as_ref()))).collect();
    let meant = match nearest(wrong, known) {
        Some(position) => format!("did you mean {}? ", shown[position]),
        None => String::new(),
    };
    match shown.as_slice() {
        [] => format!("there are no {what}s"),
        [only] => format!("{meant}the only {what} is {only}"),
        [others @ .., last] => format!("{meant}the {what}s are {} and {last}", others.join(", ")),
    }
}

/// Returns the position of the name most similar to `wrong`, unless more than a third of `wrong`
/// differs.
pub(crate) fn nearest<T: AsRef<str>>(wrong: &str, known: &[T]) -> Option<usize> {
    let limit = wrong.chars().count() / 3;
    let distances = known.iter().map(|name| distance(wrong, name.as_ref()));
    let (position, distance) = distances.enumerate().min_by_key(|(_, distance)| *distance)?;
    (distance <= limit).then_some(position)
}

/// Counts the letters to add, remove, replace or swap with the next letter, ignoring case.
fn distance(from: &str, to: &str) -> usize {
    let from: Vec<char> = from.to_lowercase().chars().collect();
    let to: Vec<char> = to.to_lowercase().chars().collect();
    // costs[i][j] is the distance from the first i letters to the first j.
    let mut costs = vec![vec![0; to.len() + 1]; from.len() + 1];
    for i in 0..=from.len() {
        for j in 0..=to.len() {
            costs[i][j] = if i == 0 || j == 0 {
                i + j
            } else {
                let replaced = costs[i - 1][j - 1] + usize::from(from[i - 1] != to[j - 1]);
                let cost = replaced.min(costs[i - 1][j] + 1).min(costs[i][j - 1] + 1);
                if i > 1 && j > 1 && from[i - 2..i] == [to[j - 1], to[j - 2]] {
                    cost.min(costs[i - 2][j - 2] + 1)
                } else {
                    cost
                }
            };
        }
    }
    costs[from.len()][to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_added_removed_replaced_and_swapped_letters() {
        assert_eq!(distance("wait", "wait"), 0);
        assert_eq!(distance("wait", "waits"), 1);
        assert_eq!(distance("wait", "wat"), 1);
        assert_eq!(distance("tll", "ttl"), 1);
        assert_eq!(distance("kye", "key"), 1);
        assert_eq!(distance("M", "m"), 0);
        assert_eq!(distance("", "ttl"), 3);
        assert_eq!(distance("né", "ne"), 1);
    }

    #[test]
    fn finds_the_most_similar_name() {
        let known = ["max_hold", "min_hold", "key"];
        assert_eq!(nearest("min_holt", &known), Some(1));
        assert_eq!(nearest("kye", &known), Some(2));
        assert_eq!(nearest("KEY", &known), Some(2));
    }

    #[test]
    fn finds_nothing_for_a_name_unlike_all_others() {
        assert_eq!(nearest("retries", &["key", "ttl"]), None);
        assert_eq!(nearest("x", &["y"]), None);
        assert_eq!(nearest("", &["id"]), None);
        assert_eq!(nearest::<&str>("id", &[]), None);
    }

    #[test]
    fn lists_every_name_in_the_help() {
        let help = |known: &[&str]| names("idd", known, "parameter", |name| format!("<{name}>"));
        assert_eq!(help(&[]), "there are no parameters");
        assert_eq!(help(&["user"]), "the only parameter is `<user>`");
        assert_eq!(
            help(&["a", "id", "user"]),
            "did you mean `<id>`? the parameters are `<a>`, `<id>` and `<user>`"
        );
    }
}
