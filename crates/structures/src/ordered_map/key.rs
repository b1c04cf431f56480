//! [`Key`]: a row's place in the tree, and the layer and the slice of a key that it stands for.

use bytemuck::{Pod, Zeroable};
use ebbtide_core::LINE_BYTES;

/// Bytes of the number of a layer.
const LAYER_BYTES: usize = 6;

/// Bytes of a key that one row holds.
pub(super) const SLICE_BYTES: usize = LINE_BYTES - LAYER_BYTES - 1;

/// The last byte of a row that leads to another layer. Otherwise that byte is the length of the
/// slice.
const LINK: u8 = SLICE_BYTES as u8 + 1;

/// The layer where all keys begin.
pub(super) const TOP: u64 = 0;

/// Added to a layer's number: the rows of counts, which come after all layers.
const COUNTS: u64 = 1 << (LAYER_BYTES * 8 - 1);

/// A row's key: the number of its layer, a slice of a key, zeros, and the length of the slice. All
/// are numbers with the same order as the bytes. The length tells a slice from one that ends with
/// zeros.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Pod, Zeroable)]
#[repr(transparent)]
pub(super) struct Key([u64; LINE_BYTES / 8]);

impl Key {
    fn new(layer: u64, slice: &[u8], last: u8) -> Key {
        let mut bytes = [0; LINE_BYTES];
        bytes[..LAYER_BYTES].copy_from_slice(&layer.to_be_bytes()[8 - LAYER_BYTES..]);
        bytes[LAYER_BYTES..][..slice.len()].copy_from_slice(slice);
        bytes[LINE_BYTES - 1] = last;
        let words: [[u8; 8]; LINE_BYTES / 8] = bytemuck::cast(bytes);
        Key(words.map(u64::from_be_bytes))
    }

    /// The row of a layer that holds the rest `rest` of a key, or leads to the layer that does.
    pub(super) fn of(layer: u64, rest: &[u8]) -> Key {
        match rest.get(..SLICE_BYTES) {
            Some(slice) if rest.len() > SLICE_BYTES => Key::new(layer, slice, LINK),
            _ => Key::new(layer, rest, rest.len() as u8),
        }
    }

    /// The start of a layer.
    pub(super) fn start(layer: u64) -> Key {
        Key::new(layer, &[], 0)
    }

    /// The row with the number of rows of a layer. The row of [`TOP`] has the number of the last
    /// layer.
    pub(super) fn count(layer: u64) -> Key {
        Key::new(COUNTS | layer, &[], 0)
    }

    /// The slice of the row's key, and true if the row leads to a layer.
    pub(super) fn slice(&self) -> (Vec<u8>, bool) {
        let bytes: [u8; LINE_BYTES] = bytemuck::cast(self.0.map(u64::to_be_bytes));
        let last = bytes[LINE_BYTES - 1];
        let length = usize::from(last).min(SLICE_BYTES);
        (bytes[LAYER_BYTES..][..length].to_vec(), last == LINK)
    }
}
