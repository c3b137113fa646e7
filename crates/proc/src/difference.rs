//! Differences of texts, line by line.

/// Lines of context around a difference.
const CONTEXT: usize = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    Same,
    Expected,
    Actual,
}

/// Returns the lines that differ, those of `expected` with `-` and those of `actual` with `+` before them, among lines
/// that do not. `None` if the texts are equal.
pub(crate) fn difference(expected: &str, actual: &str) -> Option<String> {
    if expected == actual {
        return None;
    }
    let lines = compared(&expected.lines().collect::<Vec<_>>(), &actual.lines().collect::<Vec<_>>());
    let is_near = |at: usize| {
        let near = at.saturating_sub(CONTEXT)..lines.len().min(at + CONTEXT + 1);
        lines.get(near).is_some_and(|near| near.iter().any(|(mark, _)| *mark != Mark::Same))
    };
    let mut shown = String::new();
    let mut is_gap = false;
    for (at, (mark, line)) in lines.iter().enumerate() {
        if !is_near(at) {
            is_gap = true;
            continue;
        }
        if std::mem::take(&mut is_gap) {
            shown.push_str("  ...\n");
        }
        let sign = match mark {
            Mark::Same => ' ',
            Mark::Expected => '-',
            Mark::Actual => '+',
        };
        shown.push_str(&format!("{sign} {line}\n"));
    }
    // Texts whose lines are equal differ in the end of the last line.
    Some(if shown.is_empty() { "  the end of the last line\n".to_owned() } else { shown })
}

/// Pairs the lines by their longest common subsequence.
fn compared<'a>(expected: &[&'a str], actual: &[&'a str]) -> Vec<(Mark, &'a str)> {
    let width = actual.len() + 1;
    let mut common = vec![0_u32; (expected.len() + 1) * width];
    let cell = |common: &[u32], at: usize, other: usize| common.get(at * width + other).copied().unwrap_or(0);
    for (at, line) in expected.iter().enumerate().rev() {
        for (other, made) in actual.iter().enumerate().rev() {
            let longest = if line == made {
                1 + cell(&common, at + 1, other + 1)
            } else {
                cell(&common, at + 1, other).max(cell(&common, at, other + 1))
            };
            if let Some(place) = common.get_mut(at * width + other) {
                *place = longest;
            }
        }
    }
    let (mut at, mut other) = (0, 0);
    let mut lines = Vec::new();
    loop {
        match (expected.get(at), actual.get(other)) {
            (Some(line), Some(made)) if line == made => {
                lines.push((Mark::Same, *line));
                (at, other) = (at + 1, other + 1);
            }
            (Some(line), made) if made.is_none() || cell(&common, at, other + 1) <= cell(&common, at + 1, other) => {
                lines.push((Mark::Expected, *line));
                at += 1;
            }
            (_, Some(made)) => {
                lines.push((Mark::Actual, *made));
                other += 1;
            }
            (_, None) => return lines,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_differ_are_shown_with_their_neighbours() {
        assert_eq!(difference("a\nb\n", "a\nb\n"), None);
        let expected = "1\n2\n3\n4\nold\n5\n6\n7\n8\n9\nlast\n";
        let actual = "1\n2\n3\n4\nnew\nnewer\n5\n6\n7\n8\n9\n";
        let shown = "  ...\n  3\n  4\n- old\n+ new\n+ newer\n  5\n  6\n  ...\n  8\n  9\n- last\n";
        assert_eq!(difference(expected, actual).as_deref(), Some(shown));
        assert_eq!(difference("", "a\n").as_deref(), Some("+ a\n"));
        assert_eq!(difference("a", "a\n").as_deref(), Some("  the end of the last line\n"));
    }
}
