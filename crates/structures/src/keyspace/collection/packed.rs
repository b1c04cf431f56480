//! A small collection as bytes: its elements one after the other, each behind its length.

use super::super::varint::{number_bytes, take_number};

/// Bytes that an element takes.
pub(super) fn bytes_of(element: &[u8]) -> usize {
    number_bytes(element.len() as u64).len() + element.len()
}

/// The elements in packed bytes with the offset at which each begins. It ends early at bytes that
/// are no elements.
fn places(bytes: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let at = bytes.len() - rest.len();
        let length = usize::try_from(take_number(&mut rest)?).ok()?;
        let (element, later) = rest.split_at_checked(length)?;
        rest = later;
        Some((at, element))
    })
}

/// The elements in packed bytes, in order.
pub(super) fn elements(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    places(bytes).map(|(_, element)| element)
}

/// The elements of a packed collection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Packed(pub(super) Vec<u8>);

impl Packed {
    /// The elements in order.
    pub(super) fn elements(&self) -> impl Iterator<Item = &[u8]> {
        elements(&self.0)
    }

    /// Inserts an element before the one at `index`.
    pub(super) fn insert(&mut self, index: usize, element: &[u8]) {
        let at = places(&self.0).nth(index).map_or(self.0.len(), |(at, _)| at);
        let mut bytes = Vec::with_capacity(element.len() + 3);
        bytes.extend_from_slice(&number_bytes(element.len() as u64));
        bytes.extend_from_slice(element);
        self.0.splice(at..at, bytes);
    }

    /// Removes the element at `index` and returns it.
    pub(super) fn remove(&mut self, index: usize) -> Option<Vec<u8>> {
        let (at, element) = places(&self.0).nth(index)?;
        let (gone, bytes) = (element.to_vec(), bytes_of(element));
        self.0.drain(at..at + bytes);
        Some(gone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_inserted_and_removed_at_any_index() {
        let long = vec![b'x'; 300];
        let mut packed = Packed::default();
        packed.insert(0, b"b");
        packed.insert(0, b"");
        packed.insert(2, &long);
        packed.insert(2, b"c");
        let all: Vec<&[u8]> = packed.elements().collect();
        assert_eq!(all, [&b""[..], b"b", b"c", &long]);
        assert_eq!(packed.remove(3), Some(long));
        assert_eq!(packed.remove(3), None);
        assert_eq!(packed.remove(0), Some(vec![]));
        assert_eq!(packed.elements().count(), 2);
    }

    #[test]
    fn bytes_that_are_no_elements_end_the_list() {
        assert_eq!(Packed(vec![3, b'a']).elements().count(), 0);
        assert_eq!(Packed(vec![1, b'a', 0xff]).elements().count(), 1);
    }
}
