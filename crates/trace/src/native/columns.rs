//! The entries of a block in columns. Each column compresses better alone.
//!
//! A tag byte states which fields of an entry follow in their columns. Fields that equal those of
//! an earlier entry are omitted.

use ebbtide_core::{Addr, PageId, Time};

use super::cursor::{Cursor, PADDING_BYTES, put, unzigzag, zigzag};
use super::recent_frames::RecentFrames;
use crate::error::NativeError;
use crate::{Access, Op};

/// Columns after the tags: times, addresses, sizes, devices, frames, threads.
pub(super) const COLUMNS: usize = 6;

/// Bytes of a column's length. The header before the tags has one for each column.
pub(super) const LENGTH_BYTES: usize = 4;

const OP: u8 = 0b11;
const SIZE_FOLLOWS: u8 = 1 << 2;
const DEVICE_FOLLOWS: u8 = 1 << 3;
const FRAME_REMEMBERED: u8 = 1 << 4;
const FRAME_FOLLOWS: u8 = 1 << 5;
const THREAD_FOLLOWS: u8 = 1 << 6;

/// The previous entry of each kind, also across blocks.
struct Before {
    time: u64,
    /// One for each [`Op`], since reads, writes and hints have patterns of their own.
    address: [u64; 3],
    bytes: u32,
    device: u32,
    thread: u32,
    frame: u64,
    frames: RecentFrames,
}

impl Default for Before {
    fn default() -> Before {
        let frames = RecentFrames::default();
        Before { time: 0, address: [0; 3], bytes: 64, device: 0, thread: 0, frame: 0, frames }
    }
}

/// Turns entries into columns.
#[derive(Default)]
pub(super) struct Encoder {
    before: Before,
    tags: Vec<u8>,
    columns: [Vec<u8>; COLUMNS],
    times: Vec<u64>,
    addresses: Vec<i64>,
}

impl Encoder {
    /// Adds one entry to the block. Times must not decrease.
    #[inline]
    pub(super) fn push(&mut self, access: &Access) {
        let Access { at, address, frame, device, thread, bytes, op } = *access;
        let before = &mut self.before;
        self.times.push(at.as_ps() - before.time);
        before.time = at.as_ps();
        let last = &mut before.address[op as usize];
        self.addresses.push(address.0.wrapping_sub(*last) as i64);
        *last = address.0;
        let mut tag = op as u8;
        let [_, _, sizes, devices, frames, threads] = &mut self.columns;
        if bytes != before.bytes {
            tag |= SIZE_FOLLOWS;
            put(sizes, u64::from(bytes));
            before.bytes = bytes;
        }
        if device != before.device {
            tag |= DEVICE_FOLLOWS;
            put(devices, u64::from(device));
            before.device = device;
        }
        if thread != before.thread {
            tag |= THREAD_FOLLOWS;
            put(threads, u64::from(thread));
            before.thread = thread;
        }
        if let Some(frame) = frame {
            if before.frames.of(address.page()) == Some(frame) {
                tag |= FRAME_REMEMBERED;
            } else {
                tag |= FRAME_FOLLOWS;
                put(frames, zigzag(frame.0.wrapping_sub(before.frame) as i64));
                before.frame = frame.0;
                before.frames.set(address.page(), frame);
            }
        }
        self.tags.push(tag);
    }

    /// Entries in the block so far.
    pub(super) fn entries(&self) -> usize {
        self.tags.len()
    }

    /// Ends the block: its bytes into `raw`.
    pub(super) fn take(&mut self, raw: &mut Vec<u8>) {
        let [times, addresses, ..] = &mut self.columns;
        let unit = unit(self.times.iter().copied());
        put(times, unit);
        self.times.drain(..).for_each(|time| put(times, time / unit));
        let unit = self::unit(self.addresses.iter().map(|step| step.unsigned_abs())) as i64;
        put(addresses, unit as u64);
        self.addresses.drain(..).for_each(|step| put(addresses, zigzag(step.wrapping_div(unit))));
        raw.clear();
        self.columns.iter().for_each(|column| raw.extend((column.len() as u32).to_le_bytes()));
        raw.append(&mut self.tags);
        self.columns.iter_mut().for_each(|column| raw.append(column));
    }
}

/// The greatest number that divides all of `steps`; 1 if they are all zero, or need more than 63
/// bits.
fn unit(steps: impl Iterator<Item = u64>) -> u64 {
    let mut unit = 0;
    for mut step in steps {
        while step != 0 {
            (unit, step) = (step, unit % step);
        }
        if unit == 1 {
            break;
        }
    }
    if unit == 0 || unit > i64::MAX as u64 { 1 } else { unit }
}

/// Turns columns into entries.
pub(super) struct Decoder {
    /// Number of columns in the file. An earlier version has fewer.
    given: usize,
    before: Before,
    raw: Vec<u8>,
    /// The place of the next tag, and the number of tags left.
    tag: usize,
    left: usize,
    columns: [Cursor; COLUMNS],
    time_unit: u64,
    address_unit: i64,
}

impl Decoder {
    /// A decoder of blocks with `given` columns after the tags.
    pub(super) fn new(given: usize) -> Decoder {
        Decoder {
            given,
            before: Before::default(),
            raw: Vec::new(),
            tag: 0,
            left: 0,
            columns: [Cursor::default(); COLUMNS],
            time_unit: 1,
            address_unit: 1,
        }
    }

    /// The buffer for the columns of the next block.
    pub(super) fn raw(&mut self) -> &mut Vec<u8> {
        &mut self.raw
    }

    /// Starts the block of `entries` entries whose columns are in [`Decoder::raw`].
    pub(super) fn begin(&mut self, entries: usize) -> Result<(), NativeError> {
        let lengths = NativeError::Corrupt("columns as long as the block");
        let header_bytes = LENGTH_BYTES * self.given;
        let (header, _) = self.raw.split_at_checked(header_bytes).ok_or(lengths.clone())?;
        let mut at = header_bytes.saturating_add(entries);
        self.tag = header_bytes;
        // A column that the file does not have is empty.
        let given =
            header.as_chunks::<LENGTH_BYTES>().0.iter().map(|length| u32::from_le_bytes(*length));
        for (column, length) in self.columns.iter_mut().zip(given.chain([0; COLUMNS])) {
            let end = at.saturating_add(length as usize);
            *column = Cursor { at, end };
            at = end;
        }
        if at != self.raw.len() {
            return Err(lengths);
        }
        self.raw.extend([0; PADDING_BYTES]);
        let [times, addresses, ..] = &mut self.columns;
        let units = times.varint(&self.raw).zip(addresses.varint(&self.raw));
        let (time, address) = units.ok_or(NativeError::Corrupt("units of time and address"))?;
        (self.time_unit, self.address_unit) = (time, address as i64);
        self.left = entries;
        Ok(())
    }

    /// Whether entries of the block are left.
    pub(super) fn has_more(&self) -> bool {
        self.left > 0
    }

    /// Appends entries until `batch` has `count` or the block ends.
    pub(super) fn decode(
        &mut self,
        batch: &mut Vec<Access>,
        count: usize,
    ) -> Result<(), NativeError> {
        let entries = self.left.min(count.saturating_sub(batch.len()));
        self.left -= entries;
        batch.reserve(entries);
        for _ in 0..entries {
            batch.push(self.entry().ok_or(NativeError::Corrupt("an entry of a trace"))?);
        }
        let ends = || self.columns.iter().all(|column| column.is_at_end());
        if self.left == 0 && !ends() {
            return Err(NativeError::Corrupt("columns that end with the block"));
        }
        Ok(())
    }

    #[inline]
    fn entry(&mut self) -> Option<Access> {
        let (raw, before) = (&self.raw[..], &mut self.before);
        let [times, addresses, sizes, devices, frames, threads] = &mut self.columns;
        let tag = *raw.get(self.tag)?;
        self.tag += 1;
        let op = match tag & OP {
            0 => Op::Read,
            1 => Op::Write,
            2 => Op::Hint,
            _ => return None,
        };
        let step = times.varint(raw)?.checked_mul(self.time_unit)?;
        before.time = before.time.checked_add(step)?;
        let step = unzigzag(addresses.varint(raw)?).wrapping_mul(self.address_unit);
        let address = &mut before.address[op as usize];
        *address = address.wrapping_add(step as u64);
        let address = Addr(*address);
        if tag & SIZE_FOLLOWS != 0 {
            before.bytes = u32::try_from(sizes.varint(raw)?).ok().filter(|&bytes| bytes > 0)?;
        }
        if tag & DEVICE_FOLLOWS != 0 {
            before.device = u32::try_from(devices.varint(raw)?).ok()?;
        }
        if tag & THREAD_FOLLOWS != 0 {
            before.thread = u32::try_from(threads.varint(raw)?).ok()?;
        }
        let frame = if tag & FRAME_REMEMBERED != 0 {
            Some(before.frames.of(address.page())?)
        } else if tag & FRAME_FOLLOWS != 0 {
            before.frame = before.frame.wrapping_add(unzigzag(frames.varint(raw)?) as u64);
            // All its bytes must have addresses.
            let frame = PageId(before.frame);
            (frame.0 <= u64::MAX >> 12).then(|| before.frames.set(address.page(), frame))?;
            Some(frame)
        } else {
            None
        };
        let &mut Before { time, bytes, device, thread, .. } = before;
        address.0.checked_add(u64::from(bytes) - 1)?;
        Some(Access { at: Time::from_ps(time), address, frame, device, thread, bytes, op })
    }
}
