//! Scans: reading keys in order.

use std::ops::ControlFlow;

use ebbtide_core::{Addr, FullMemory};

use super::descend::Place;
use super::key::{KEY_BYTES_MAX, Kind, Rest, SLICE_BYTES};
use super::node::misplaced;
use super::node::{Entry, Node};
use super::{Seen, Tree};
use crate::Corrupt;

/// Receives the keys and nodes of a scan, in key order.
pub trait Visitor {
    /// A border node whose keys come next. If it changes during the scan, this is called again,
    /// followed by the keys that are left.
    fn node(&mut self, _seen: Seen) {}

    /// A key and its value. `Break` ends the scan.
    fn entry(&mut self, key: &[u8], value: u64) -> ControlFlow<()>;
}

/// A visitor that only wants the entries.
struct Entries<F>(F);

impl<F: FnMut(&[u8], u64) -> ControlFlow<()>> Visitor for Entries<F> {
    fn entry(&mut self, key: &[u8], value: u64) -> ControlFlow<()> {
        (self.0)(key, value)
    }
}

/// The state of a scan in one layer.
struct Layer<'a> {
    root: Addr,
    /// Bytes of each key that the layers above hold.
    depth: usize,
    /// The least key wanted, without the bytes of the layers above.
    from: Rest<'a>,
    /// The least slice and rank that was not visited yet.
    next: (u64, u8),
}

/// Whether the scan continues.
type Flow = ControlFlow<()>;

/// The scan must find its place again, since a node that it read has changed.
struct Again;

impl Tree {
    /// Calls `visit` with the keys from `from` on and their values, in order, until it breaks.
    ///
    /// Each border node is read atomically. A key that is present all the time is visited once. One
    /// that is inserted or removed during the scan is visited once or not at all.
    ///
    /// # Errors
    /// [`Corrupt`] if a node is not one of the tree, or `from` is too long for a key.
    pub fn scan<M: FullMemory>(
        &self,
        m: &mut M,
        from: &[u8],
        visit: impl FnMut(&[u8], u64) -> ControlFlow<()>,
    ) -> Result<(), Corrupt> {
        self.scan_seen(m, from, &mut Entries(visit))
    }

    /// As [`scan`](Tree::scan). The visitor receives the border nodes too.
    ///
    /// # Errors
    /// As for [`scan`](Tree::scan).
    pub fn scan_seen<M: FullMemory>(
        &self,
        m: &mut M,
        from: &[u8],
        visitor: &mut impl Visitor,
    ) -> Result<(), Corrupt> {
        let mut key = [0; KEY_BYTES_MAX];
        let from = Rest::whole(from)?;
        self.scan_layer(m, Layer::new(self.root, 0, from), &mut key, visitor).map(|_| ())
    }

    fn scan_layer<M: FullMemory>(
        &self,
        m: &mut M,
        mut layer: Layer<'_>,
        key: &mut [u8; KEY_BYTES_MAX],
        visitor: &mut impl Visitor,
    ) -> Result<Flow, Corrupt> {
        loop {
            let mut place = self.descend(m, layer.root, layer.next.0, 0)?;
            while let Some(node) = self.copy(m, &place)? {
                visitor.node(place.seen());
                match self.scan_node(m, &mut layer, &place, &node, key, visitor)? {
                    Err(Again) => break,
                    Ok(ControlFlow::Break(())) => return Ok(ControlFlow::Break(())),
                    Ok(ControlFlow::Continue(())) => {}
                }
                let Some(right) = node.range().next else {
                    return Ok(ControlFlow::Continue(()));
                };
                layer.next = layer.next.max((right.low, 0));
                match self.step_right(m, &place, right.at)? {
                    None => break,
                    Some(right) => place = right,
                }
            }
        }
    }

    /// Visits the keys of a border node from `layer.next` on.
    fn scan_node<M: FullMemory>(
        &self,
        m: &mut M,
        layer: &mut Layer<'_>,
        place: &Place,
        node: &Node,
        key: &mut [u8; KEY_BYTES_MAX],
        visitor: &mut impl Visitor,
    ) -> Result<Result<Flow, Again>, Corrupt> {
        for Entry { slice, kind, link } in node.entries() {
            if (slice, kind.rank()) < layer.next {
                continue;
            }
            let from = layer.wanted_below(slice);
            let (before, rest) = key.split_at_mut(layer.depth);
            let Some(bytes) = rest.first_chunk_mut::<SLICE_BYTES>() else {
                return Err(misplaced(place.at));
            };
            *bytes = slice.to_be_bytes();
            let flow = match kind {
                Kind::LAYER => {
                    let root = self.layer(place.at, link)?;
                    let below = Layer::new(root, before.len() + SLICE_BYTES, from);
                    self.scan_layer(m, below, key, visitor)?
                }
                Kind::SUFFIX => {
                    let Some(suffix) = self.read_suffix(m, place, link)? else {
                        return Ok(Err(Again));
                    };
                    let start = before.len() + SLICE_BYTES;
                    let end = start + suffix.bytes().len();
                    let Some(bytes) = key.get_mut(start..end) else {
                        return Err(misplaced(place.at));
                    };
                    bytes.copy_from_slice(suffix.bytes());
                    match *bytes >= *from.bytes() {
                        true => visitor.entry(&key[..end], suffix.value),
                        false => ControlFlow::Continue(()),
                    }
                }
                _ => {
                    let Some(len) = kind.ends_after() else { return Err(misplaced(place.at)) };
                    visitor.entry(&key[..layer.depth + len], link)
                }
            };
            if flow.is_break() {
                return Ok(Ok(flow));
            }
            layer.next = (slice, kind.rank() + 1);
        }
        Ok(Ok(ControlFlow::Continue(())))
    }

    /// The node to the right of `place`, or `None` if `place` has changed.
    fn step_right<M: FullMemory>(
        &self,
        m: &mut M,
        place: &Place,
        to: Addr,
    ) -> Result<Option<Place>, Corrupt> {
        let next = self.step(m, place, to)?;
        match next {
            Some(next) if !next.follows(place) => Err(misplaced(to)),
            next => Ok(next),
        }
    }
}

impl<'a> Layer<'a> {
    fn new(root: Addr, depth: usize, from: Rest<'a>) -> Layer<'a> {
        Layer { root, depth, from, next: (from.slice, from.kind().rank()) }
    }

    /// The least wanted rest of longer keys with that slice, which is empty except for the slice of
    /// `from`.
    fn wanted_below(&self, slice: u64) -> Rest<'a> {
        if slice == self.from.slice { self.from.below() } else { Rest::of(&[]) }
    }
}
