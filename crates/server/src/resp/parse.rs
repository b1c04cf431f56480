//! Parses requests that arrive in pieces, within limits of memory.

use std::ops::Range;

use ebbtide_structures::keyspace::VALUE_BYTES_MAX;
use memchr::memchr;
use smallvec::SmallVec;
use thiserror::Error;

use super::inline;
use crate::large::PIECE_BYTES;

/// The longest line in bytes: an inline request, or a count.
const LINE_BYTES_MAX: usize = 64 << 10;

/// Limits of a client's requests. They are lower before the client has given the password.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Maximum number of arguments of a request.
    pub arguments_max: usize,
    /// The longest argument in bytes.
    pub argument_bytes_max: usize,
    /// Maximum bytes of a request.
    pub request_bytes_max: usize,
    /// True if the command of this name takes arguments above [`PIECE_BYTES`], up to
    /// [`VALUE_BYTES_MAX`]. The caller takes them out of the input [as they come](Parser::coming).
    pub streams: fn(&[u8]) -> bool,
}

impl Limits {
    /// Limits before the client has given the password, as in Redis.
    pub const UNAUTHENTICATED: Limits = Limits {
        arguments_max: 10,
        argument_bytes_max: 16384,
        request_bytes_max: 256 << 10,
        streams: |_| false,
    };
}

/// The input is not a valid request. The connection closes after the error.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("Protocol error: {0}")]
pub struct ProtocolError(pub String);

/// Range of an argument. It takes half the memory of a `Range`, as a request may have a million
/// arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    start: u32,
    end: u32,
}

impl Place {
    fn of(range: Range<usize>) -> Place {
        let number = |at: usize| u32::try_from(at).expect("a request has a limit of bytes");
        Place { start: number(range.start), end: number(range.end) }
    }

    fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }
}

/// A request: the places of its arguments, and its length.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Request {
    /// Places of the command and its arguments. Empty for a request without a command.
    places: Vec<Place>,
    /// The unquoted words of an inline request, with the places in it. `None` if the places are in
    /// the input.
    typed: Option<Vec<u8>>,
    /// Length of the request in the input.
    pub end: usize,
}

impl Request {
    /// Returns the command and its arguments. `input` must begin with the request.
    pub fn arguments<'a>(&'a self, input: &'a [u8]) -> SmallVec<[&'a [u8]; 8]> {
        let text = self.typed.as_deref().unwrap_or(input);
        self.places.iter().map(|at| &text[at.range()]).collect()
    }
}

/// A long argument that the caller takes out of the input in pieces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Coming {
    /// Index of the argument.
    pub argument: usize,
    /// Offset of its next byte in the input.
    pub at: usize,
    /// Bytes that were not taken yet.
    pub left: usize,
}

/// Progress on a request that has arrived in part. It does not parse the same input twice.
#[derive(Debug, Default)]
pub struct Parser {
    /// Offset where parsing continues.
    position: usize,
    /// Arguments that are missing.
    left: usize,
    /// Length of the current argument.
    bytes: Option<usize>,
    /// True if the caller takes the current argument in pieces.
    streams: bool,
    arguments: Vec<Place>,
    /// Bytes of an incomplete line that were searched for its end.
    searched: usize,
}

impl Parser {
    /// Returns the request at the start of `input` if it is complete. Otherwise the next call must
    /// pass the same input with more bytes after it. After a request, the caller drops its bytes
    /// from the input.
    ///
    /// # Errors
    /// Returns an error if the input is no valid request or exceeds `limits`.
    #[expect(clippy::too_many_lines, reason = "a state machine that goes on where the input ended")]
    pub fn parse(
        &mut self,
        input: &[u8],
        limits: &Limits,
    ) -> Result<Option<Request>, ProtocolError> {
        if self.left == 0 {
            match input.get(self.position) {
                None => return Ok(None),
                Some(b'*') => {}
                Some(_) => return self.parse_inline(input),
            }
            let Some(count) = self.count(input, "mbulk", "multibulk")? else { return Ok(None) };
            if count > limits.arguments_max as i64 {
                return Err(match limits.arguments_max {
                    10 => ProtocolError("unauthenticated multibulk length".into()),
                    _ => ProtocolError("invalid multibulk length".into()),
                });
            }
            if count <= 0 {
                return Ok(Some(self.finish()));
            }
            self.left = count as usize;
        }
        while self.left > 0 {
            let bytes = match self.bytes {
                Some(bytes) => bytes,
                None => {
                    match input.get(self.position) {
                        None => return Ok(None),
                        Some(b'$') => {}
                        Some(other) => {
                            let other = char::from(*other);
                            return Err(ProtocolError(format!("expected '$', got '{other}'")));
                        }
                    }
                    let Some(bytes) = self.count(input, "bulk", "bulk")? else { return Ok(None) };
                    self.streams = bytes > PIECE_BYTES as i64
                        && (self.arguments.first())
                            .is_some_and(|name| (limits.streams)(&input[name.range()]));
                    let most = match self.streams {
                        true => VALUE_BYTES_MAX as usize,
                        false => limits.argument_bytes_max,
                    };
                    let fits = usize::try_from(bytes).ok();
                    let Some(bytes) = fits.filter(|bytes| *bytes <= most) else {
                        return Err(match limits.arguments_max {
                            10 if bytes > 0 => ProtocolError("unauthenticated bulk length".into()),
                            _ => ProtocolError("invalid bulk length".into()),
                        });
                    };
                    if !self.streams && self.position + bytes > limits.request_bytes_max {
                        return Err(ProtocolError("request too large".into()));
                    }
                    *self.bytes.insert(bytes)
                }
            };
            if self.streams && bytes > 0 || input.len() < self.position + bytes + 2 {
                return Ok(None);
            }
            self.arguments.push(Place::of(self.position..self.position + bytes));
            self.position += bytes + 2;
            self.bytes = None;
            self.streams = false;
            self.left -= 1;
        }
        Ok(Some(self.finish()))
    }

    /// DRAM bytes of the arguments' places.
    pub fn held_bytes(&self) -> usize {
        self.arguments.capacity() * size_of::<Place>()
    }

    /// Returns the long argument that the caller must take out of the input.
    pub fn coming(&self) -> Option<Coming> {
        let left = self.bytes.filter(|left| self.streams && *left > 0)?;
        Some(Coming { argument: self.arguments.len(), at: self.position, left })
    }

    /// Records that the caller has taken `bytes` of the [long argument](Parser::coming) out of the
    /// input.
    pub fn taken(&mut self, bytes: usize) {
        self.bytes = self.bytes.map(|left| left - bytes);
    }

    /// Returns the least number of bytes that must arrive before parsing can continue; 0 if
    /// unknown.
    pub fn missing(&self, input: &[u8]) -> usize {
        let bytes =
            if self.streams { self.bytes.map(|left| left.min(PIECE_BYTES)) } else { self.bytes };
        bytes.map_or(0, |bytes| (self.position + bytes + 2).saturating_sub(input.len()))
    }

    fn finish(&mut self) -> Request {
        let end = std::mem::take(&mut self.position);
        self.searched = 0;
        Request { places: std::mem::take(&mut self.arguments), typed: None, end }
    }

    /// Returns the line at the position, without its end. `None` if it is incomplete.
    fn line(
        &mut self,
        input: &[u8],
        too_long: &str,
    ) -> Result<Option<Range<usize>>, ProtocolError> {
        let start = self.position;
        let from = start + self.searched;
        match memchr(b'\n', &input[from..]) {
            None if input.len() - start > LINE_BYTES_MAX => Err(ProtocolError(too_long.into())),
            None => {
                self.searched = input.len() - start;
                Ok(None)
            }
            Some(found) => {
                self.searched = 0;
                let end = from + found;
                self.position = end + 1;
                let carriage_return = end > start && input[end - 1] == b'\r';
                Ok(Some(start..end - usize::from(carriage_return)))
            }
        }
    }

    /// Parses the number of the line `*NUMBER` or `$NUMBER`.
    fn count(
        &mut self,
        input: &[u8],
        short: &str,
        long: &str,
    ) -> Result<Option<i64>, ProtocolError> {
        let too_long = format!("too big {short} count string");
        let Some(line) = self.line(input, &too_long)? else { return Ok(None) };
        let digits = &input[line.start + 1..line.end];
        match crate::number::integer(digits) {
            Some(count) => Ok(Some(count)),
            None => Err(ProtocolError(format!("invalid {long} length"))),
        }
    }

    /// Parses an inline request: words in one line.
    fn parse_inline(&mut self, input: &[u8]) -> Result<Option<Request>, ProtocolError> {
        let Some(line) = self.line(input, "too big inline request")? else { return Ok(None) };
        let Some((text, places)) = inline::words(&input[line]) else {
            return Err(ProtocolError("unbalanced quotes in request".into()));
        };
        let places = places.into_iter().map(Place::of).collect();
        Ok(Some(Request { places, typed: Some(text), ..self.finish() }))
    }
}

#[cfg(test)]
mod tests {
    use rand::{Rng, RngExt, SeedableRng};
    use rand_pcg::Pcg64Mcg;

    use super::*;

    const LIMITS: Limits = Limits {
        arguments_max: 1000,
        argument_bytes_max: 5000,
        request_bytes_max: 100_000,
        streams: |name| name == b"SET",
    };

    /// Returns all requests in `input`, which arrives in pieces of these lengths.
    fn requests(
        input: &[u8],
        mut piece: impl FnMut() -> usize,
    ) -> Vec<Result<Vec<Vec<u8>>, String>> {
        let (mut parser, mut buffer, mut found) = (Parser::default(), Vec::new(), Vec::new());
        let mut rest = input;
        loop {
            match parser.parse(&buffer, &LIMITS) {
                Ok(Some(request)) => {
                    assert!(request.end <= buffer.len());
                    let arguments = request.arguments(&buffer);
                    found.push(Ok(arguments.into_iter().map(<[u8]>::to_vec).collect()));
                    buffer.drain(..request.end);
                }
                Ok(None) if rest.is_empty() => return found,
                Ok(None) => {
                    assert!(buffer.len() <= LIMITS.request_bytes_max + LINE_BYTES_MAX);
                    let (next, later) = rest.split_at(piece().clamp(1, rest.len()));
                    buffer.extend_from_slice(next);
                    rest = later;
                }
                Err(error) => {
                    found.push(Err(error.to_string()));
                    return found;
                }
            }
        }
    }

    fn encoded(arguments: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = format!("*{}\r\n", arguments.len()).into_bytes();
        for argument in arguments {
            bytes.extend_from_slice(format!("${}\r\n", argument.len()).as_bytes());
            bytes.extend_from_slice(argument);
            bytes.extend_from_slice(b"\r\n");
        }
        bytes
    }

    #[test]
    fn requests_are_the_same_in_whatever_pieces_they_come() {
        let mut rng = Pcg64Mcg::seed_from_u64(1);
        for _ in 0..300 {
            let mut input = Vec::new();
            let mut sent = Vec::new();
            for _ in 0..rng.random_range(1..6) {
                let arguments: Vec<Vec<u8>> = (0..rng.random_range(1..5))
                    .map(|_| {
                        let length = rng.random_range(0..40);
                        (0..length).map(|_| rng.next_u32() as u8).collect()
                    })
                    .collect();
                input.extend(encoded(&arguments));
                sent.push(Ok(arguments));
            }
            let largest = rng.random_range(1..60);
            assert_eq!(requests(&input, || rng.random_range(1..=largest)), sent);
        }
    }

    #[test]
    fn a_long_argument_of_some_commands_is_taken_out_of_the_input_as_it_comes() {
        let value: Vec<u8> = (0..100_000u32).map(|at| (at ^ at >> 8) as u8).collect();
        let set = [b"SET".to_vec(), b"k".to_vec(), value.clone(), b"NX".to_vec()];
        let sent = [encoded(&set), encoded(&[b"PING".to_vec()])].concat();
        for piece in [1, 1_000, 40_000, 1 << 20] {
            let (mut parser, mut input, mut found, mut came) =
                (Parser::default(), Vec::new(), Vec::new(), Vec::new());
            for piece in sent.chunks(piece) {
                input.extend_from_slice(piece);
                loop {
                    match parser.parse(&input, &LIMITS).expect("a request") {
                        Some(request) => {
                            let arguments = request.arguments(&input).into_iter();
                            found.push(arguments.map(<[u8]>::to_vec).collect::<Vec<_>>());
                            input.drain(..request.end);
                        }
                        None => {
                            let Some(Coming { argument, at, left }) = parser.coming() else {
                                break;
                            };
                            let count = left.min(input.len() - at);
                            if count == 0 {
                                break;
                            }
                            assert_eq!(argument, 2);
                            came.extend(input.drain(at..at + count));
                            parser.taken(count);
                        }
                    }
                }
            }
            assert!(came == value, "in pieces of {piece}");
            let set = vec![b"SET".to_vec(), b"k".to_vec(), vec![], b"NX".to_vec()];
            assert_eq!(found, [set, vec![b"PING".to_vec()]]);
        }
        let refused = requests(b"*2\r\n$3\r\nGET\r\n$100000\r\n", || usize::MAX);
        assert_eq!(refused, [Err("Protocol error: invalid bulk length".into())]);
    }

    #[test]
    fn garbage_ends_in_an_error_or_waits_for_more_and_never_panics() {
        let mut rng = Pcg64Mcg::seed_from_u64(2);
        const PARTS: [&[u8]; 15] = [
            b"*3\r\n",
            b"$5\r\n",
            b"hello\r\n",
            b"\r\n",
            b"*-1\r\n",
            b"$-1\r\n",
            b"*99999999999\r\n",
            b"$4294967296\r\n",
            b"GET a\r\n",
            b"GET 'a \"\\x",
            b"*1\r\n",
            b"\n",
            b"$",
            b"*",
            b"\0\xff",
        ];
        for _ in 0..3_000 {
            let mut input = Vec::new();
            for _ in 0..rng.random_range(1..12) {
                match rng.random_range(0..5) {
                    0 => input.extend((0..9).map(|_| rng.next_u32() as u8)),
                    _ => input.extend_from_slice(PARTS[rng.random_range(0..PARTS.len())]),
                }
            }
            let whole = requests(&input, || usize::MAX);
            let pieces = requests(&input, || rng.random_range(1..4));
            assert_eq!(whole, pieces, "{:?}", String::from_utf8_lossy(&input));
        }
    }

    #[test]
    fn what_exceeds_a_limit_is_refused_before_it_comes() {
        let refused = |input: &[u8]| requests(input, || usize::MAX).pop().unwrap().unwrap_err();
        assert_eq!(refused(b"*2000\r\n"), "Protocol error: invalid multibulk length");
        assert_eq!(refused(b"*a\r\n"), "Protocol error: invalid multibulk length");
        assert_eq!(refused(b"*1\r\n$4294967296\r\n"), "Protocol error: invalid bulk length");
        assert_eq!(refused(b"*1\r\n$-1\r\n"), "Protocol error: invalid bulk length");
        assert_eq!(refused(b"*1\r\n%4\r\n"), "Protocol error: expected '$', got '%'");
        assert_eq!(refused(&[b'x'; 70_000]), "Protocol error: too big inline request");
        let mut endless = b"*1\r\n$".to_vec();
        endless.extend([b'1'; 70_000]);
        assert_eq!(refused(&endless), "Protocol error: too big bulk count string");
        let many: Vec<Vec<u8>> = (0..30).map(|_| vec![b'x'; 4_900]).collect();
        assert_eq!(refused(&encoded(&many)), "Protocol error: request too large");
    }

    #[test]
    fn a_line_of_words_is_a_request_and_an_empty_one_is_nothing() {
        let words = |text: &str| requests(text.as_bytes(), || 1);
        let request =
            |words: &[&str]| Ok(words.iter().map(|word| word.as_bytes().to_vec()).collect());
        assert_eq!(words("PING\r\n"), [request(&["PING"])]);
        assert_eq!(words("  SET a  b \n\r\n"), [request(&["SET", "a", "b"]), request(&[])]);
        assert_eq!(words("*0\r\nPING\n"), [request(&[]), request(&["PING"])]);
        assert_eq!(words("SET a \"b c\"\n"), [request(&["SET", "a", "b c"])]);
        let unbalanced = Err("Protocol error: unbalanced quotes in request".into());
        assert_eq!(words("SET a \"b\nPING\n"), [unbalanced]);
    }
}
