//! Commands on keys of any type, and scans.

use ebbtide_core::FullMemory;
use ebbtide_structures::keyspace::{HASHES, Kind, Scanned};

use super::collections::{self, kind_named, name_of};
use super::{
    Call, Failure, LONG_REPLY, NOT_INTEGER, Outcome, SYNTAX, Stop, check_key, large, routing,
};
use crate::eviction::Order;
use crate::glob;
use crate::number::integer;
use crate::resp::Reply;
use crate::state::State;

/// Leaves that a scan examines beyond its count before it replies with few or no keys.
const EMPTY_LEAVES_MAX: u64 = 10;

pub(super) fn del<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let mut removed = 0;
    for index in 1..call.arguments.len() {
        call.pace(index, 1)?;
        let key = call.key(index);
        removed += i64::from(call.remove(&key)?);
    }
    call.reply.integer(removed);
    Ok(())
}

pub(super) fn exists<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let mut found = 0;
    for index in 1..call.arguments.len() {
        call.pace(index, 1)?;
        let key = call.key(index);
        found += i64::from(call.peek(&key, &mut Vec::new()).is_some());
    }
    call.reply.integer(found);
    Ok(())
}

/// Counts keys as [`exists`] does, and uses them, for every client.
pub(super) fn touch<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let mut found = 0;
    for index in 1..call.arguments.len() {
        call.pace(index, 1)?;
        let key = call.key(index);
        if call.peek(&key, &mut Vec::new()).is_some() {
            call.state.used(call.session.database, key.hash);
            found += 1;
        }
    }
    call.reply.integer(found);
    Ok(())
}

pub(super) fn type_of<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let key = call.key(1);
    let found = call.peek(&key, &mut Vec::new());
    call.reply.status(found.map_or("none", |entry| name_of(entry.kind())));
    Ok(())
}

pub(super) fn rename<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    move_to(call, true).map(|_| call.reply.ok())
}

pub(super) fn renamenx<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let moved = move_to(call, false)?;
    call.reply.integer(moved.into());
    Ok(())
}

fn move_to<M: FullMemory>(call: &mut Call<'_, M>, replace: bool) -> Result<bool, Stop> {
    let (from, to) = (call.key(1), call.key(2));
    check_key(&to)?;
    if call.find(&from, &mut Vec::new()).is_none() {
        return Err("ERR no such key".into());
    }
    if !replace && call.find(&to, &mut Vec::new()).is_some() {
        return Ok(false);
    }
    if from.bytes != to.bytes {
        let database = call.session.database;
        call.rename((database, &from), (database, &to))?;
    }
    Ok(true)
}

/// Parses the number of a database.
pub(super) fn database<M: FullMemory>(call: &Call<'_, M>, index: usize) -> Result<usize, Failure> {
    let number = usize::try_from(call.integer(index)?).ok();
    let exists = number.filter(|number| *number < ebbtide_structures::keyspace::DATABASES);
    exists.ok_or(Failure::from("ERR DB index is out of range"))
}

pub(super) fn move_key<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    routing::refuse(call, "ERR MOVE is not allowed in cluster mode")?;
    let to = database(call, 2)?;
    let from = call.session.database;
    if from == to {
        return Err("ERR source and destination objects are the same".into());
    }
    let key = call.key(1);
    let there = call.find(&key, &mut Vec::new()).is_some();
    let moved = there && call.find_in(to, &key, &mut Vec::new()).is_none();
    if moved {
        call.rename((from, &key), (to, &key))?;
    }
    call.reply.integer(moved.into());
    Ok(())
}

pub(super) fn copy<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let (mut to_database, mut replace) = (call.session.database, false);
    let mut index = 3;
    while index < call.arguments.len() {
        if call.is(index, "REPLACE") {
            replace = true;
        } else if call.is(index, "DB") && index + 1 < call.arguments.len() {
            index += 1;
            to_database = database(call, index)?;
        } else {
            return Err(SYNTAX.into());
        }
        index += 1;
    }
    if to_database != 0 {
        let text = "ERR Copying to another database is not allowed in cluster mode";
        routing::refuse(call, text)?;
    }
    let (from, to) = (call.key(1), call.key(2));
    if to_database == call.session.database && from.bytes == to.bytes {
        return Err("ERR source and destination objects are the same".into());
    }
    let mut value = Vec::new();
    let entry = call.find(&from, &mut value);
    let taken = !replace && call.find_in(to_database, &to, &mut Vec::new()).is_some();
    let copied = match entry {
        Some(entry) if !taken => {
            if entry.kind() != Kind::String {
                collections::copy(call, &from, (to_database, &to))?;
            } else if entry.large().is_none() {
                call.complete(&entry, &mut value)?;
                call.set_in(to_database, &to, &value, entry.expires_at_ms)?;
            } else {
                let (length, expires_at_ms) = (entry.value_bytes, entry.expires_at_ms);
                large::build(
                    call,
                    (to_database, &to),
                    length,
                    expires_at_ms,
                    |call, at, count| call.bytes_at(&entry, at, count),
                )?;
            }
            true
        }
        _ => false,
    };
    call.reply.integer(copied.into());
    Ok(())
}

/// The options of `SCAN`.
struct ScanOptions<'a> {
    pattern: Option<&'a [u8]>,
    count: u64,
    /// The kind of keys that are returned, if only one is. A kind that does not exist has no keys.
    kind: Option<Option<Kind>>,
}

fn scan_options<'a, M>(call: &Call<'a, M>) -> Result<ScanOptions<'a>, Failure> {
    let mut options = ScanOptions { pattern: None, count: 10, kind: None };
    let (pairs, odd) = call.arguments[2..].as_chunks::<2>();
    if !odd.is_empty() {
        return Err(SYNTAX.into());
    }
    for [name, value] in pairs {
        match name.to_ascii_uppercase().as_slice() {
            b"MATCH" => options.pattern = Some(value),
            b"COUNT" => {
                let count = integer(value).ok_or(NOT_INTEGER)?;
                let count = u64::try_from(count).ok().filter(|count| *count > 0);
                options.count = count.ok_or(SYNTAX)?;
            }
            b"TYPE" => options.kind = Some(kind_named(value)),
            _ => return Err(SYNTAX.into()),
        }
    }
    Ok(options)
}

/// Replies with keys and a cursor: the hash where the next call continues, 0 at the end.
pub(super) fn scan<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let text = std::str::from_utf8(call.arguments[1]).ok();
    let mut from = text.and_then(|text| text.parse().ok()).ok_or("ERR invalid cursor")?;
    let options = scan_options(call)?;
    let mut names = Names::new(call.state);
    let mut leaves = 0;
    while from < HASHES
        && names.count < options.count
        && leaves < EMPTY_LEAVES_MAX.saturating_add(options.count / 8)
    {
        from = names.add_leaf(call, from, options.pattern, options.kind)?;
        leaves += 1;
    }
    call.reply.array(2);
    let next = if from < HASHES { from } else { 0 };
    call.reply.bulk(itoa::Buffer::new().format(next).as_bytes());
    names.reply(call);
    Ok(())
}

/// Names of keys for a reply. A long reply spills to flash.
pub(super) struct Names<'a> {
    state: &'a State,
    count: u64,
    written: Reply,
    /// Its share of [`State::listed_bytes`].
    listed_bytes: usize,
}

impl<'a> Names<'a> {
    pub(super) fn new(state: &'a State) -> Names<'a> {
        Names { state, count: 0, written: Reply::default(), listed_bytes: 0 }
    }

    /// Number of names.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Adds the matching keys of a leaf that have not expired. Returns the hash of the next leaf.
    ///
    /// # Errors
    /// As [`add`](Names::add).
    fn add_leaf<M: FullMemory>(
        &mut self,
        call: &mut Call<'_, M>,
        from: u64,
        pattern: Option<&[u8]>,
        kind: Option<Option<Kind>>,
    ) -> Result<u64, Stop> {
        let mut found = Vec::new();
        let next = scan_leaf(call, from, pattern, &mut found);
        found.retain(|scanned| kind.is_none_or(|kind| kind == Some(scanned.kind)));
        self.add(call, &found)?;
        call.let_others_run();
        Ok(next)
    }

    /// Adds keys.
    ///
    /// # Errors
    /// Returns an error if lists of keys take too much DRAM: flash is full, or the command runs in
    /// `EXEC`.
    pub(super) fn add<M: FullMemory>(
        &mut self,
        call: &mut Call<'_, M>,
        found: &[Scanned],
    ) -> Outcome {
        self.count += found.len() as u64;
        found.iter().for_each(|scanned| self.written.bulk(&scanned.key));
        let keyspace = call.keyspace();
        // If flash is full, the reply stays in DRAM.
        let _ = self.written.spill(call.memory, &keyspace, call.state);
        let all = self.list(self.written.held_bytes());
        if all > self.state.settings().argument_bytes_max {
            return Err(LONG_REPLY.into());
        }
        Ok(())
    }

    /// Records its DRAM bytes. Returns the bytes of all lists on this core.
    fn list(&mut self, bytes: usize) -> usize {
        let all = self.state.listed_bytes.get() - self.listed_bytes + bytes;
        self.listed_bytes = bytes;
        self.state.listed_bytes.set(all);
        all
    }

    /// Replies with all names.
    pub(super) fn reply<M: FullMemory>(mut self, call: &mut Call<'_, M>) {
        call.reply.array(self.count as usize);
        call.reply.append(std::mem::take(&mut self.written));
    }
}

impl Drop for Names<'_> {
    fn drop(&mut self) {
        self.list(0);
    }
}

/// Appends the matching keys of a leaf that have not expired. Returns the hash of the next leaf.
pub(super) fn scan_leaf<M: FullMemory>(
    call: &mut Call<'_, M>,
    from: u64,
    pattern: Option<&[u8]>,
    found: &mut Vec<Scanned>,
) -> u64 {
    let (database, now_ms) = (call.session.database, call.state.now_ms.get());
    let mut leaf = Vec::new();
    let next = call.keyspace().scan(call.memory, database, from, &mut leaf);
    leaf.retain(|scanned| {
        scanned.expires_at_ms.is_none_or(|at| at > now_ms)
            && pattern.is_none_or(|pattern| glob::all_or_matches(pattern, &scanned.key))
    });
    found.append(&mut leaf);
    next
}

pub(super) fn keys<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let pattern = call.arguments[1];
    let (mut from, mut names) = (0, Names::new(call.state));
    while from < HASHES {
        from = names.add_leaf(call, from, Some(pattern), None)?;
    }
    names.reply(call);
    Ok(())
}

pub(super) fn randomkey<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let start = call.state.random() % HASHES;
    // Searches from a random hash to the end, then from the start.
    for first in [start, 0] {
        let mut from = first;
        while from < HASHES {
            let mut found = Vec::new();
            from = scan_leaf(call, from, None, &mut found);
            if !found.is_empty() {
                let chosen = call.state.random() as usize % found.len();
                call.reply.bulk(&found[chosen].key);
                return Ok(());
            }
        }
    }
    call.reply.null();
    Ok(())
}

pub(super) fn dbsize<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let database = call.session.database;
    let keys = call.keyspace().counts(call.memory, database).keys;
    call.reply.integer(keys as i64);
    Ok(())
}

pub(super) fn object<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    if call.is(1, "HELP") {
        call.reply.array(3);
        call.reply.status("OBJECT <subcommand> <key>. Subcommands are:");
        call.reply.status("ENCODING, FREQ, IDLETIME, REFCOUNT");
        call.reply.status("HELP");
        return Ok(());
    }
    let known = ["ENCODING", "FREQ", "IDLETIME", "REFCOUNT"];
    if call.arguments.len() != 3 || !known.iter().any(|word| call.is(1, word)) {
        let name = String::from_utf8_lossy(call.arguments[1]).into_owned();
        let text = format!("ERR unknown subcommand '{name}'. Try OBJECT HELP.");
        return Err(text.into());
    }
    let key = call.key(2);
    let mut value = Vec::new();
    let Some(entry) = call.peek(&key, &mut value) else {
        call.reply.null();
        return Ok(());
    };
    if call.is(1, "ENCODING") {
        // A value that is not inline is longer than any number.
        let encoding = match entry.kind() {
            Kind::String if entry.is_inline() => encoding(&value),
            Kind::String => "raw",
            kind => collections::encoding(call, kind, &key)?,
        };
        call.reply.bulk(encoding.as_bytes());
    } else if call.is(1, "REFCOUNT") {
        call.reply.integer(1);
    } else {
        let used = use_of(call, call.is(1, "FREQ"), key.hash)?;
        call.reply.integer(used as i64);
    }
    Ok(())
}

/// Returns how often a key was used, or for how many seconds it was not used.
fn use_of<M: FullMemory>(call: &Call<'_, M>, how_often: bool, hash: u64) -> Result<u64, Failure> {
    const NOTE: &str = "Please note that when switching between policies at runtime LRU and LFU \
                        data will take some time to adjust.";
    let database = call.session.database;
    match (call.state.shared.eviction.uses(), how_often) {
        (Some((uses, Order::Frequency)), true) => {
            Ok(uses.frequency(uses.place(database, hash)).into())
        }
        (_, true) => {
            let text = "An LFU maxmemory policy is not selected, access frequency not tracked.";
            Err(format!("ERR {text} {NOTE}").into())
        }
        (Some((_, Order::Frequency)), false) => {
            let text = "An LFU maxmemory policy is selected, idle time not tracked.";
            Err(format!("ERR {text} {NOTE}").into())
        }
        (Some((uses, _)), false) => {
            Ok(uses.idle_ms(uses.place(database, hash), call.state.now_ms.get()) / 1_000)
        }
        (None, false) => Ok(0),
    }
}

/// Returns the encoding that Redis would choose for a new value.
fn encoding(value: &[u8]) -> &'static str {
    if integer(value).is_some() {
        "int"
    } else if value.len() <= 44 {
        "embstr"
    } else {
        "raw"
    }
}

/// Checks the option `SAMPLES` of `MEMORY USAGE`. The estimate for a collection takes one sample.
fn check_samples<M: FullMemory>(call: &Call<'_, M>) -> Outcome {
    let mut index = 3;
    while index < call.arguments.len() {
        if !call.is(index, "SAMPLES") || index + 1 == call.arguments.len() {
            return Err(SYNTAX.into());
        }
        if call.integer(index + 1)? < 0 {
            return Err(SYNTAX.into());
        }
        index += 2;
    }
    Ok(())
}

pub(super) fn memory<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    if call.is(1, "USAGE") {
        check_samples(call)?;
        let key = call.key(2);
        match call.peek(&key, &mut Vec::new()) {
            None => call.reply.null(),
            Some(entry) if entry.kind() != Kind::String => {
                let bytes = collections::estimated_bytes(call, entry.kind(), &key)?;
                call.reply.integer((bytes + key.bytes.len() as u64 + 24) as i64);
            }
            Some(entry) => {
                let bytes = entry.stored_bytes();
                call.reply.integer((bytes + key.bytes.len() as u64 + 24) as i64);
            }
        }
        return Ok(());
    }
    let name = String::from_utf8_lossy(call.arguments[1]).into_owned();
    Err(format!("ERR unknown subcommand '{name}'. Try MEMORY HELP.").into())
}
