//! Replies of a Redis-protocol server, only those that a load needs.

/// A reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Reply<'a> {
    /// A status, such as `OK`.
    Status(&'a [u8]),
    /// An error.
    Error(&'a [u8]),
    /// An integer.
    Integer(i64),
    /// A string.
    Bulk(&'a [u8]),
    /// Nothing.
    Null,
    /// A list of strings.
    Array(Vec<&'a [u8]>),
}

/// The received bytes are no reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NotReply;

/// Returns the reply at the start of `input` and its length, if it is complete.
pub(super) fn parse(input: &[u8]) -> Result<Option<(Reply<'_>, usize)>, NotReply> {
    let Some(end) = input.windows(2).position(|pair| pair == b"\r\n") else { return Ok(None) };
    let (kind, line) = input[..end].split_first().ok_or(NotReply)?;
    let after = end + 2;
    let number = || {
        let text = std::str::from_utf8(line).map_err(|_| NotReply)?;
        text.parse::<i64>().map_err(|_| NotReply)
    };
    let reply = match kind {
        b'+' => Reply::Status(line),
        b'-' => Reply::Error(line),
        b':' => Reply::Integer(number()?),
        b'_' => Reply::Null,
        b'$' => {
            let Ok(bytes) = usize::try_from(number()?) else {
                return Ok(Some((Reply::Null, after)));
            };
            let whole = after + bytes + 2;
            if input.len() < whole {
                return Ok(None);
            }
            return Ok(Some((Reply::Bulk(&input[after..after + bytes]), whole)));
        }
        b'*' => {
            let Ok(length) = usize::try_from(number()?) else {
                return Ok(Some((Reply::Null, after)));
            };
            return strings(input, after, length);
        }
        _ => return Err(NotReply),
    };
    Ok(Some((reply, after)))
}

/// Returns a list of `length` strings that starts at `at`, and where it ends.
fn strings(
    input: &[u8],
    mut at: usize,
    length: usize,
) -> Result<Option<(Reply<'_>, usize)>, NotReply> {
    let mut strings = Vec::new();
    while strings.len() < length {
        match parse(&input[at..])? {
            None => return Ok(None),
            Some((Reply::Bulk(string), bytes)) => {
                strings.push(string);
                at += bytes;
            }
            Some(_) => return Err(NotReply),
        }
    }
    Ok(Some((Reply::Array(strings), at)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_read_whole_or_not_at_all() {
        let input = b"$5\r\nhello\r\n+OK\r\n";
        for cut in 0..11 {
            assert_eq!(parse(&input[..cut]), Ok(None), "{cut}");
        }
        assert_eq!(parse(input), Ok(Some((Reply::Bulk(b"hello"), 11))));
        assert_eq!(parse(b"$-1\r\n"), Ok(Some((Reply::Null, 5))));
        assert_eq!(parse(b":-7\r\n"), Ok(Some((Reply::Integer(-7), 5))));
        assert_eq!(parse(b"-ERR x\r\n"), Ok(Some((Reply::Error(b"ERR x"), 8))));
        let list = b"*2\r\n$1\r\na\r\n$2\r\nbc\r\n";
        for cut in 0..list.len() {
            assert_eq!(parse(&list[..cut]), Ok(None), "{cut}");
        }
        assert_eq!(parse(list), Ok(Some((Reply::Array(vec![b"a", b"bc"]), list.len()))));
        assert_eq!(parse(b"*-1\r\n"), Ok(Some((Reply::Null, 5))));
        assert_eq!(parse(b"*0\r\n"), Ok(Some((Reply::Array(Vec::new()), 4))));
        assert_eq!(parse(b"*1\r\n:1\r\n"), Err(NotReply), "no list of strings");
        assert_eq!(parse(b"?\r\n"), Err(NotReply));
        assert_eq!(parse(b":x\r\n"), Err(NotReply));
    }
}
