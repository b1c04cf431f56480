//! Requests typed as one line: words, quoted if necessary.

use std::ops::Range;

/// Returns the words of `line`, concatenated and without quotes, and the range of each. Within
/// double quotes, a backslash escapes `n`, `r`, `t`, `b`, `a`, a byte `xHH`, or any other
/// character. Within single quotes it escapes only a single quote. `None` if a quote is not
/// closed, or not followed by a space.
pub(super) fn words(line: &[u8]) -> Option<(Vec<u8>, Vec<Range<usize>>)> {
    let (mut text, mut words) = (Vec::with_capacity(line.len()), Vec::new());
    let mut rest = line;
    loop {
        rest = rest.trim_ascii_start();
        if rest.is_empty() {
            return Some((text, words));
        }
        let start = text.len();
        rest = word(rest, &mut text)?;
        words.push(start..text.len());
    }
}

/// Appends the first word of `rest` to `text`. Returns the bytes after it.
fn word<'a>(mut rest: &'a [u8], text: &mut Vec<u8>) -> Option<&'a [u8]> {
    while let [byte, behind @ ..] = rest {
        rest = match byte {
            b'"' | b'\'' => return quoted(*byte, behind, text),
            byte if byte.is_ascii_whitespace() => break,
            byte => {
                text.push(*byte);
                behind
            }
        };
    }
    Some(rest)
}

/// Appends the text before the closing `quote` to `text`. Returns the bytes after the quote.
fn quoted<'a>(quote: u8, mut rest: &'a [u8], text: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        let (byte, behind) = match rest {
            [byte, behind @ ..] if *byte == quote => {
                let ends = behind.first().is_none_or(u8::is_ascii_whitespace);
                return ends.then_some(behind);
            }
            [b'\\', b'\'', behind @ ..] if quote == b'\'' => (b'\'', behind),
            [b'\\', b'x', high, low, behind @ ..]
                if quote == b'"' && high.is_ascii_hexdigit() && low.is_ascii_hexdigit() =>
            {
                let digit = |digit: u8| char::from(digit).to_digit(16).expect("it is one") as u8;
                (digit(*high) << 4 | digit(*low), behind)
            }
            [b'\\', escaped, behind @ ..] if quote == b'"' => {
                let byte = match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 8,
                    b'a' => 7,
                    other => *other,
                };
                (byte, behind)
            }
            [byte, behind @ ..] => (*byte, behind),
            [] => return None,
        };
        text.push(byte);
        rest = behind;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(line: &str) -> Option<Vec<Vec<u8>>> {
        let (text, words) = words(line.as_bytes())?;
        Some(words.into_iter().map(|word| text[word].to_vec()).collect())
    }

    #[test]
    fn quotes_keep_spaces_and_bytes_that_cannot_be_typed() {
        let words = |words: &[&[u8]]| Some(words.iter().map(|word| word.to_vec()).collect());
        assert_eq!(split(" SET  a\tb "), words(&[b"SET", b"a", b"b"]));
        assert_eq!(split(r#"SET "a b" '' x"y""#), words(&[b"SET", b"a b", b"", b"xy"]));
        assert_eq!(split(r#""\x00\xfF\n\"\q\x1""#), words(&[b"\0\xff\n\"qx1"]));
        assert_eq!(split(r"'a\'b\n'"), words(&[br"a'b\n"]));
        assert_eq!(split(""), words(&[]));
    }

    #[test]
    fn a_quote_that_is_not_closed_before_a_space_is_refused() {
        for line in [r#"SET "a"#, "SET 'a", r#"SET ""a"""#, r#"SET "a\"#, r#"GET "a"b"#] {
            assert_eq!(split(line), None, "{line}");
        }
    }
}
