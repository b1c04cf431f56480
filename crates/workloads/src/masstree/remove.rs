//! Removals.

use ebbtide_core::{Addr, FullMemory};

use super::key::{Kind, Rest};
use super::lock::{Held, hold};
use super::suffix::Suffix;
use super::version::Change;
use super::{Look, Tree};
use crate::Corrupt;

/// The result of a removal from a border node.
struct Removed {
    /// The removed value.
    value: Option<u64>,
    /// The line of its suffix, to free.
    line: Option<Addr>,
    /// True if the node is now empty and not the root of its layer.
    emptied: bool,
}

impl Tree {
    /// Removes `key` and returns its value.
    ///
    /// # Errors
    /// [`Corrupt`] if a node is not one of the tree, or the key is too long.
    pub fn remove<M: FullMemory>(&self, m: &mut M, key: &[u8]) -> Result<Option<u64>, Corrupt> {
        let mut root = self.root;
        let mut rest = Rest::whole(key)?;
        loop {
            let place = self.descend(m, root, rest.slice, 0)?;
            match self.look(m, &place, rest)? {
                None => continue,
                Some(Look::Missing) => return Ok(None),
                Some(Look::Layer(below)) => {
                    (root, rest) = (below, rest.below());
                    continue;
                }
                Some(Look::Value(_)) => {}
            }
            let removed =
                hold(m, place.at, place.version(), |m, held| self.remove_here(m, held, rest));
            let Some(removed) = removed.transpose()? else { continue };
            if let Some(line) = removed.line {
                self.give_line(m, line);
            }
            if removed.emptied {
                self.join(m, root, rest.slice)?;
            }
            return Ok(removed.value);
        }
    }

    /// Removes `rest` from the locked border node.
    fn remove_here<M: FullMemory>(
        &self,
        m: &mut M,
        held: &mut Held,
        rest: Rest<'_>,
    ) -> Result<Removed, Corrupt> {
        let node = held.copy(m)?;
        let Ok(position) = node.position(rest.slice, rest.kind()) else {
            return Ok(Removed { value: None, line: None, emptied: false });
        };
        let entry = node.entry(node.slot(position));
        let (value, line) = match entry.kind {
            Kind::SUFFIX => {
                let at = Addr(entry.link);
                (Suffix::open(self, at, &m.line(at))?.value, Some(at))
            }
            _ => (entry.link, None),
        };
        let mut new = node.clone();
        new.remove(position);
        let emptied = new.len() == 0 && !held.version.is_root();
        self.publish(m, held, Change::Insert, &node, new);
        Ok(Removed { value: Some(value), line, emptied })
    }
}
