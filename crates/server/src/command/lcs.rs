//! `LCS`: the longest common subsequence of two values.

use ebbtide_core::FullMemory;
use ebbtide_structures::keyspace::Key;

use super::{Call, Failure, Outcome, SYNTAX, Stop};

/// Maximum bytes of the table of lengths. It grows with the product of both values' lengths.
const TABLE_BYTES_MAX: usize = 4 << 20;

/// A run of bytes that both values share: its start in each, and its length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Match {
    one: usize,
    other: usize,
    length: usize,
}

/// Returns the value of a key; empty if there is none.
fn text<M: FullMemory>(call: &mut Call<'_, M>, key: &Key<'_>) -> Result<Vec<u8>, Stop> {
    match call.value(key) {
        Err(stop) if stop.is_wrong_kind() => {
            Err("ERR The specified keys must contain string values".into())
        }
        value => Ok(value?.unwrap_or_default()),
    }
}

pub(super) fn lcs<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let (mut length_only, mut indexes, mut with_lengths, mut least) = (false, false, false, 0);
    let mut index = 3;
    while index < call.arguments.len() {
        if call.is(index, "IDX") {
            indexes = true;
        } else if call.is(index, "LEN") {
            length_only = true;
        } else if call.is(index, "WITHMATCHLEN") {
            with_lengths = true;
        } else if call.is(index, "MINMATCHLEN") && index + 1 < call.arguments.len() {
            index += 1;
            least = usize::try_from(call.integer(index)?).unwrap_or(0);
        } else {
            return Err(SYNTAX.into());
        }
        index += 1;
    }
    if indexes && length_only {
        return Err("ERR If you want both the length and indexes, please just use IDX.".into());
    }
    let (one, other) = (call.key(1), call.key(2));
    let one = text(call, &one)?;
    let other = text(call, &other)?;
    let table = Table::of(&one, &other)?;
    if length_only {
        call.reply.integer(i64::from(table.length()));
        return Ok(());
    }
    let (common, matches) = table.trace(&one, &other);
    if !indexes {
        call.reply.bulk(&common);
        return Ok(());
    }
    let long: Vec<&Match> = matches.iter().filter(|one| one.length >= least).collect();
    let reply = &mut *call.reply;
    reply.map(2);
    reply.bulk(b"matches");
    reply.array(long.len());
    for Match { one, other, length } in long {
        reply.array(if with_lengths { 3 } else { 2 });
        for start in [one, other] {
            reply.array(2);
            reply.integer(*start as i64);
            reply.integer((start + length - 1) as i64);
        }
        if with_lengths {
            reply.integer(*length as i64);
        }
    }
    reply.bulk(b"len");
    reply.integer(i64::from(table.length()));
    Ok(())
}

/// The length of the common subsequence for each pair of prefixes.
struct Table {
    lengths: Vec<u32>,
    width: usize,
}

impl Table {
    fn of(one: &[u8], other: &[u8]) -> Result<Table, Failure> {
        let width = other.len() + 1;
        let cells = (one.len() + 1).saturating_mul(width);
        if cells > TABLE_BYTES_MAX / 4 {
            return Err(
                "ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len"
                    .into(),
            );
        }
        let mut lengths = vec![0; cells];
        for (i, a) in one.iter().enumerate() {
            for (j, b) in other.iter().enumerate() {
                let at = (i + 1) * width + j + 1;
                lengths[at] = if a == b {
                    lengths[at - width - 1] + 1
                } else {
                    u32::max(lengths[at - width], lengths[at - 1])
                };
            }
        }
        Ok(Table { lengths, width })
    }

    fn length(&self) -> u32 {
        self.lengths[self.lengths.len() - 1]
    }

    /// Returns the common subsequence and its runs, last run first, split as in Redis.
    fn trace(&self, one: &[u8], other: &[u8]) -> (Vec<u8>, Vec<Match>) {
        let mut common = Vec::with_capacity(self.length() as usize);
        let mut matches = Vec::new();
        let mut open: Option<Match> = None;
        let (mut i, mut j) = (one.len(), other.len());
        while i > 0 && j > 0 {
            let mut ends = false;
            if one[i - 1] == other[j - 1] {
                common.push(one[i - 1]);
                match &mut open {
                    Some(open) if open.one == i && open.other == j => {
                        *open = Match { one: i - 1, other: j - 1, length: open.length + 1 };
                    }
                    Some(_) => ends = true,
                    None => open = Some(Match { one: i - 1, other: j - 1, length: 1 }),
                }
                ends |= open.is_some_and(|open| open.one == 0 || open.other == 0);
                (i, j) = (i - 1, j - 1);
            } else {
                let above = self.lengths[(i - 1) * self.width + j];
                let before = self.lengths[i * self.width + j - 1];
                if above > before {
                    i -= 1;
                } else {
                    j -= 1;
                }
                ends = open.is_some();
            }
            if ends {
                matches.extend(open.take());
            }
        }
        common.reverse();
        (common, matches)
    }
}
