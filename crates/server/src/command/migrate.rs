//! `MIGRATE`: moves keys to another server.
//!
//! It reserves the stripes of its keys, so that they do not change until it has removed them. Other
//! commands may read them, and commands on other keys run.

use std::time::Duration;

use ebbtide_core::FullMemory;
use ebbtide_structures::keyspace::{Entry, Key, Kind};

use super::dump::{Summed, dumped_whole};
use super::table::keys_of_migrate;
use super::{Call, Failure, NOT_INTEGER, Outcome, SYNTAX, Stop};
use crate::large::PIECE_BYTES;
use crate::number::integer;
use crate::target::{Target, Unreachable};

/// The timeout in place of one that is not positive, as in Redis.
const TIMEOUT_MS: i64 = 1000;

/// Options of `MIGRATE`.
#[derive(Default)]
struct Options<'a> {
    copy: bool,
    replace: bool,
    /// The words after `AUTH`.
    auth: Vec<&'a [u8]>,
}

impl<'a> Options<'a> {
    /// Parses the arguments from 6 to the keys.
    fn parse(arguments: &[&'a [u8]]) -> Result<Options<'a>, Failure> {
        let mut options = Options::default();
        let mut rest = arguments.get(6..).unwrap_or_default();
        while let Some((word, more)) = rest.split_first() {
            let (taken, later) = match word.to_ascii_uppercase().as_slice() {
                b"COPY" => {
                    options.copy = true;
                    (0, more)
                }
                b"REPLACE" => {
                    options.replace = true;
                    (0, more)
                }
                b"AUTH" => (1, more),
                b"AUTH2" => (2, more),
                b"KEYS" if arguments[3].is_empty() => break,
                b"KEYS" => {
                    return Err(
                        "ERR When using MIGRATE KEYS option, the key argument must be set \
                                to the empty string"
                            .into(),
                    );
                }
                _ => return Err(SYNTAX.into()),
            };
            let (words, later) = later.split_at_checked(taken).ok_or(SYNTAX)?;
            if taken > 0 {
                options.auth = words.to_vec();
            }
            rest = later;
        }
        Ok(options)
    }
}

/// A command in RESP.
fn request(words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

impl From<Unreachable> for Failure {
    fn from(failure: Unreachable) -> Failure {
        failure.to_string().into()
    }
}

fn refused(text: &str) -> Failure {
    format!("ERR Target instance replied with error: {text}").into()
}

pub(super) fn migrate<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let options = Options::parse(call.arguments)?;
    let timeout_ms = call.integer(5)?;
    let database = integer(call.arguments[4]).ok_or(NOT_INTEGER)?;
    let port = integer(call.arguments[2]).and_then(|port| u16::try_from(port).ok());
    let port = port.ok_or("ERR Invalid TCP port number")?;
    call.writer.require_steps("ERR MIGRATE cannot run between MULTI and EXEC or in a script")?;
    let names = keys_of_migrate(call.arguments);
    let keys: Vec<Key<'_>> = names.iter().map(|name| call.keyspace().key(name)).collect();
    let mut there = Vec::new();
    for key in &keys {
        if call.find(key, &mut Vec::new()).is_some() {
            there.push(key);
        }
    }
    if there.is_empty() {
        call.reply.status("NOKEY");
        return Ok(());
    }
    let timeout_ms = if timeout_ms > 0 { timeout_ms } else { TIMEOUT_MS };
    let timeout = Duration::from_millis(timeout_ms as u64);
    let host = String::from_utf8_lossy(call.arguments[1]).into_owned();
    let target = Target::connect(host, port, timeout).map_err(|_| Unreachable::Connecting)?;
    log_in(call, &target, &options.auth, database)?;
    let mut failure = None;
    for key in there {
        match send_key(call, &target, key, options.replace)? {
            Ok(()) if !options.copy => drop(call.remove(key)?),
            Ok(()) => {}
            Err(text) => failure = failure.or(Some(refused(&text))),
        }
    }
    call.reply.ok();
    failure.map_or(Ok(()), |failure| Err(failure.into()))
}

/// Sends the password, and selects the database.
fn log_in<M: FullMemory>(
    call: &mut Call<'_, M>,
    target: &Target,
    auth: &[&[u8]],
    database: i64,
) -> Outcome {
    let number = database.to_string();
    let select = [&b"SELECT"[..], number.as_bytes()];
    let auth = [&[&b"AUTH"[..]], auth].concat();
    for words in [&auth[..], &select].into_iter().filter(|words| words.len() > 1) {
        target.send(call.memory, request(words))?;
        target.reply(call.memory)?.map_err(|text| refused(&text))?;
    }
    Ok(())
}

/// Sends a key with its expiry. Returns the error of the other server.
fn send_key<M: FullMemory>(
    call: &mut Call<'_, M>,
    target: &Target,
    key: &Key<'_>,
    replace: bool,
) -> Result<Result<(), String>, Stop> {
    let mut value = Vec::new();
    let Some(entry) = call.find(key, &mut value) else { return Ok(Ok(())) };
    let now_ms = call.state.now_ms.get();
    let left = entry.expires_at_ms.map_or(0, |at| at.saturating_sub(now_ms).max(1));
    let words = if replace { 5 } else { 4 };
    let head = format!("*{words}\r\n$7\r\nRESTORE\r\n${}\r\n", key.bytes.len());
    let mut bytes = [head.as_bytes(), key.bytes, b"\r\n"].concat();
    let left = left.to_string();
    bytes.extend(format!("${}\r\n{left}\r\n", left.len()).into_bytes());
    match entry.large() {
        Some(_) if entry.kind() == Kind::String => send_large(call, target, &entry, bytes)?,
        _ => {
            let dump = dumped_whole(call, key, &entry, value)?;
            bytes.extend(format!("${}\r\n", dump.len()).into_bytes());
            bytes.extend(dump);
            target.send(call.memory, bytes)?;
        }
    }
    let end: &[u8] = if replace { b"\r\n$7\r\nREPLACE\r\n" } else { b"\r\n" };
    target.send(call.memory, end.to_vec())?;
    Ok(target.reply(call.memory)?)
}

/// Sends the dump of a large value after `bytes`, piece by piece.
fn send_large<M: FullMemory>(
    call: &mut Call<'_, M>,
    target: &Target,
    entry: &Entry,
    mut bytes: Vec<u8>,
) -> Outcome {
    let mut dump = Summed::begin(entry.value_bytes);
    let length = dump.length(entry.value_bytes);
    bytes.extend(format!("${length}\r\n").into_bytes());
    bytes.extend(dump.head());
    target.send(call.memory, bytes)?;
    let mut at = 0;
    while at < entry.value_bytes {
        let count = (entry.value_bytes - at).min(PIECE_BYTES as u64);
        let piece = call.bytes_at(entry, at, count as usize);
        dump.add(&piece);
        target.send(call.memory, piece)?;
        call.memory.let_others_run();
        at += count;
    }
    target.send(call.memory, dump.foot())?;
    Ok(())
}
