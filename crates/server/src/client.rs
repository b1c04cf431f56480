//! [`Client`]: one connection's requests and replies, without its socket.

use ebbtide_core::FullMemory;
use ebbtide_structures::keyspace::Keyspace;

use crate::channels::Message;
use crate::clock::now_ms;
use crate::command::{self, Access, Arguments, STAGED_BYTES};
use crate::failure::Failure;
use crate::large::{PIECE_BYTES, Staged};
use crate::protocol::Protocol;
use crate::resp::{Coming, Limits, Parser, Reply, Request, reserve};
use crate::session::Session;
use crate::state::State;

/// Requests that run before other connections get a turn.
const REQUESTS_MAX: usize = 64;

/// Bytes of replies that a connection writes before other connections have their turn.
pub const REPLY_BYTES_MAX: usize = 64 << 10;

/// The largest capacity in bytes that an empty buffer keeps.
const KEPT_BYTES: usize = 4 << 10;

/// Bytes of a request that are allowed beyond its longest argument.
const REQUEST_BYTES_BEYOND: usize = 1 << 20;

/// The reply to a command whose waiting another client has ended.
const UNBLOCKED: &str = "UNBLOCKED client unblocked via CLIENT UNBLOCK";

/// Maximum number of arguments of a request.
const ARGUMENTS_MAX: usize = 1 << 20;

/// One connection's requests and replies.
#[derive(Debug)]
pub struct Client {
    /// State of the connection between commands.
    pub session: Session,
    /// Replies not sent yet.
    pub reply: Reply,
    parser: Parser,
    /// Bytes received whose requests have not run.
    input: Vec<u8>,
    /// True if the input may hold a whole request.
    more: bool,
    /// Long arguments of the request at the start of the input. Their bytes lie in memory.
    staged: Vec<Staged>,
    /// Length of the replies before the current one.
    whole_replies: usize,
}

impl Client {
    /// A client that has just connected.
    pub fn new(session: Session) -> Client {
        Client {
            session,
            reply: Reply::default(),
            parser: Parser::default(),
            input: Vec::new(),
            more: false,
            staged: Vec::new(),
            whole_replies: 0,
        }
    }

    /// Takes bytes from the socket.
    pub fn receive(&mut self, bytes: &[u8]) {
        if self.input.capacity() == 0 {
            self.input.reserve_exact(bytes.len());
        }
        let missing = self.parser.missing(&self.input);
        if missing > bytes.len() {
            // For a long argument the buffer grows with the bytes that came, not with the
            // announced length.
            self.input.reserve_exact(missing.min(self.input.len().max(64 << 10)));
        }
        reserve(&mut self.input, bytes.len());
        self.input.extend_from_slice(bytes);
        self.more = true;
    }

    /// True if the input may hold a whole request.
    pub fn has_more(&self) -> bool {
        self.more
    }

    /// Bytes received whose requests have not run.
    pub fn unread(&self) -> usize {
        self.input.len()
    }

    /// Bytes of DRAM that the client holds.
    pub fn held_bytes(&self) -> usize {
        self.input.capacity()
            + self.reply.held_bytes()
            + self.parser.held_bytes()
            + self.staged.len() * STAGED_BYTES
            + self.session.held_bytes()
    }

    /// Runs up to 64 requests that have arrived whole, and writes their replies.
    #[expect(clippy::too_many_lines, reason = "a turn of a connection, step by step")]
    pub fn run<M: FullMemory>(&mut self, memory: &mut M, state: &State) {
        state.now_ms.set(now_ms());
        if let Some(patience) = memory.patience() {
            patience.end_with(state.shared.slow_scripts.busy());
        }
        if self.reply.has_large()
            && let Some(keyspace) = state.keys()
        {
            return self.reply.fetch(memory, &keyspace);
        }
        self.reply.seal();
        if !self.resume(memory, state) {
            return;
        }
        let mut requests: Vec<(usize, Request)> = Vec::new();
        let limits = self.limits(state);
        let most = if self.is_trusted(state) { REQUESTS_MAX } else { 1 };
        let mut taken = 0;
        let mut broken = None;
        self.more = false;
        loop {
            if requests.len() == most {
                self.more = true;
                break;
            }
            match self.parser.parse(&self.input[taken..], &limits) {
                Ok(Some(request)) => {
                    let end = request.end;
                    requests.push((taken, request));
                    taken += end;
                }
                Ok(None) => break,
                Err(error) => {
                    broken = Some(error);
                    break;
                }
            }
        }
        let input = std::mem::take(&mut self.input);
        if requests.len() > 1 {
            fetch_ahead(memory, state, self.session.database, &input, &requests);
        }
        let (mut done, before) = (0, self.reply.len());
        for (start, request) in &requests {
            let full = self.reply.len() >= before + REPLY_BYTES_MAX || self.reply.has_large();
            if self.session.closing || full || self.is_blocked() {
                break;
            }
            done = start + request.end;
            self.whole_replies = self.reply.len();
            let arguments = request.arguments(&input[*start..]);
            if !arguments.is_empty() {
                // Only the first request can have come in parts.
                let staged = std::mem::take(&mut self.staged);
                let arguments = Arguments { words: &arguments, staged: &staged };
                command::execute(memory, state, &mut self.session, arguments, &mut self.reply);
            }
        }
        self.whole_replies = self.reply.len();
        if done < taken && !self.session.closing {
            // The replies fill the buffer. The other requests wait, and the parser starts again
            // with them.
            self.parser = Parser::default();
            self.more = true;
        } else if let Some(error) = broken {
            self.reply.error(&format!("ERR {error}"));
            self.session.closing = true;
        }
        self.keep(input, done);
        if done == taken && !self.session.closing {
            self.stage(memory, state);
        }
    }

    /// True if a command of the client waits for an element of a key, or for the end of a pause.
    pub fn is_blocked(&self) -> bool {
        self.session.blocked.is_some()
    }

    /// Runs a command that waits again. Returns true if no command waits any more.
    fn resume<M: FullMemory>(&mut self, memory: &mut M, state: &State) -> bool {
        let Some(blocked) = self.session.blocked.take() else { return true };
        if let Some(fails) = self.session.unblocked.take() {
            self.reply.begin();
            match fails {
                true => self.reply.error(UNBLOCKED),
                false => self.reply.null_array(),
            }
            command::stop_waiting(state, &self.session, &blocked);
            return true;
        }
        let words: Vec<&[u8]> = blocked.words.iter().map(Vec::as_slice).collect();
        let arguments = Arguments { words: &words, staged: &blocked.staged };
        self.whole_replies = self.reply.len();
        self.session.resumed = (!blocked.is_postponed).then_some(blocked.deadline_ms);
        command::execute(memory, state, &mut self.session, arguments, &mut self.reply);
        self.session.resumed = None;
        if self.is_blocked() {
            return false;
        }
        command::stop_waiting(state, &self.session, &blocked);
        !self.session.closing
    }

    /// Moves the received part of a long argument from the input to memory.
    fn stage<M: FullMemory>(&mut self, memory: &mut M, state: &State) {
        let Some(keyspace) = state.keys() else { return };
        let mut moved = false;
        while let Some(Coming { argument, at, left }) = self.parser.coming() {
            let piece = left.min(PIECE_BYTES);
            let Some(bytes) = self.input.get(at..at + piece) else { return };
            if self.staged.last().is_none_or(|staged| staged.argument != argument) {
                let staged = Staged::begin(memory, &keyspace, state, argument);
                self.staged.push(staged);
            }
            let staged = self.staged.last_mut().expect("it was pushed");
            staged.add(memory, &keyspace, state, bytes);
            self.input.drain(at..at + piece);
            self.parser.taken(piece);
            moved = true;
        }
        // The bytes after the argument may be in the input already.
        self.more |= moved;
    }

    /// Ends the command with an error and closes the connection. The cause is flash or a defect of
    /// the program.
    pub fn fail(&mut self, failure: &Failure) {
        if self.reply.has_large() {
            // A reply that is half sent cannot become an error.
            self.reply.truncate(0);
            self.session.closing = true;
            return;
        }
        self.reply.truncate(self.whole_replies);
        self.reply.error(failure.text());
        // Requests that follow are lost with the job.
        self.session.closing = true;
    }

    /// Drops all replies, because the changes that they report will never be durable.
    pub fn fail_all(&mut self, failure: &Failure) {
        self.reply.truncate(0);
        self.whole_replies = 0;
        self.fail(failure);
    }

    /// Writes a message of a channel, unless the client has unsubscribed since it was sent.
    pub fn deliver(&mut self, message: &Message) {
        if self.session.subscribes_to(message) {
            self.reply.seal();
            self.reply.message(message);
        }
    }

    /// Keeps the input after the requests that have run.
    fn keep(&mut self, mut input: Vec<u8>, done: usize) {
        input.drain(..done);
        if input.is_empty() && input.capacity() > KEPT_BYTES {
            input = Vec::new();
        }
        self.input = input;
    }

    fn is_trusted(&self, state: &State) -> bool {
        self.session.user.is_some() || state.shared.acl.open_default().is_some()
    }

    fn limits(&self, state: &State) -> Limits {
        if !self.is_trusted(state) {
            return Limits::UNAUTHENTICATED;
        }
        let argument_bytes_max = state.settings().argument_bytes_max;
        Limits {
            arguments_max: ARGUMENTS_MAX,
            argument_bytes_max,
            request_bytes_max: argument_bytes_max + REQUEST_BYTES_BEYOND,
            streams: |name| command::find(name).is_some_and(|spec| spec.streams),
        }
    }

    /// Protocol of the replies.
    pub fn protocol(&self) -> Protocol {
        self.reply.protocol
    }
}

/// Prefetches the leaves of the keys of all requests, so that their reads overlap.
fn fetch_ahead<M: FullMemory>(
    memory: &mut M,
    state: &State,
    database: usize,
    input: &[u8],
    requests: &[(usize, Request)],
) {
    let Some(keyspace): Option<Keyspace> = state.keys() else { return };
    for (start, request) in requests {
        let arguments = request.arguments(&input[*start..]);
        let Some(name) = arguments.first() else { continue };
        let spec = command::find(name).filter(|spec| spec.takes(arguments.len()));
        let spec = spec
            .filter(|spec| matches!(spec.access, Access::Read | Access::Write | Access::Script));
        for key in spec.iter().flat_map(|spec| spec.keys(&arguments)) {
            keyspace.fetch_ahead(memory, database, &keyspace.key(key));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_request_takes_little_more_memory_than_its_bytes_in_parts_of_any_size() {
        for part in [1, 100, 1_460, 16 << 10, 40_000, 64 << 10] {
            let mut client = Client::new(Session::default());
            while client.unread() < 900_000 {
                client.receive(&vec![b'*'; part]);
            }
            let (held, bytes) = (client.held_bytes(), client.unread());
            assert!(held <= bytes / 4 * 5 + part, "{held} for {bytes} in parts of {part}");
        }
    }
}
