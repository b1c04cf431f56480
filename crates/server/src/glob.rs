//! Patterns of keys and channels: `*`, `?`, `[a-c]`, `[^x]`, and `\` before a literal character.

/// Returns true if all of `text` matches `pattern`. As in Redis, empty text matches no pattern with
/// a star.
///
/// Only the last star is retried, so time is at most the product of the lengths.
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    if text.is_empty() {
        return pattern.is_empty();
    }
    let (mut p, mut t) = (0, 0);
    // The pattern after the last star, and the text where its last try began.
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        if pattern.get(p) == Some(&b'*') {
            star = Some((p + 1, t));
            p += 1;
        } else if let Some(next) = one(&pattern[p..], text[t]) {
            p += next;
            t += 1;
        } else if let Some((after, from)) = star {
            star = Some((after, from + 1));
            (p, t) = (after, from + 1);
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

/// As [`matches`], but a single star matches empty text too.
pub fn all_or_matches(pattern: &[u8], text: &[u8]) -> bool {
    pattern == b"*" || matches(pattern, text)
}

/// Returns the length of the pattern's first element if it matches a character.
fn one(pattern: &[u8], character: u8) -> Option<usize> {
    match pattern {
        [] => None,
        [b'?', ..] => Some(1),
        [b'[', ..] => class(pattern, character),
        [b'\\', literal, ..] => (*literal == character).then_some(2),
        [literal, ..] => (*literal == character).then_some(1),
    }
}

/// Returns the length of the class `[…]` at the start of the pattern if a character is in it. An
/// open class ends with the pattern.
fn class(pattern: &[u8], character: u8) -> Option<usize> {
    let negated = pattern.get(1) == Some(&b'^');
    let mut at = 1 + usize::from(negated);
    let mut found = false;
    loop {
        match pattern[at..] {
            [] => break,
            [b']', ..] => {
                at += 1;
                break;
            }
            [b'\\', literal, ..] => {
                found |= literal == character;
                at += 2;
            }
            [from, b'-', to, ..] => {
                found |= (from.min(to)..=from.max(to)).contains(&character);
                at += 3;
            }
            [literal, ..] => {
                found |= literal == character;
                at += 1;
            }
        }
    }
    (found != negated).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_those_of_redis() {
        for (pattern, text, expected) in [
            ("*", "", false),
            ("**", "a", true),
            ("h?llo", "hello", true),
            ("h*llo", "heeeello", true),
            ("h[ae]llo", "hillo", false),
            ("h[^e]llo", "hallo", true),
            ("h[b-a]llo", "hallo", true),
            (r"\*", "*", true),
            (r"\*", "x", false),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-b-b", false),
            ("", "", true),
            ("", "x", false),
            ("[a", "a", true),
            ("key:*", "key:1", true),
        ] {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn many_stars_take_no_exponential_time() {
        let pattern = b"a*".repeat(200);
        let text = b"a".repeat(2_000);
        assert!(!matches(&[&pattern[..], b"b"].concat(), &text));
    }
}
