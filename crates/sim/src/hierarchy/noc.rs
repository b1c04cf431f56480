//! [`Noc`]: the on-chip network, a mesh without contention.

use ebbtide_core::LINE_BYTES;
use serde::{Deserialize, Serialize};

use crate::config;

/// A mesh of tiles. A tile is a core and a slice of the last-level cache.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Noc {
    columns: usize,
    /// The column and the row of each tile.
    places: Vec<(u32, u32)>,
    hop_cycles: u64,
    line_cycles: u64,
}

impl Noc {
    /// The mesh of `tiles` tiles that `config` describes.
    pub(super) fn new(config: &config::Noc, tiles: usize) -> Noc {
        Noc {
            columns: config.columns,
            places: (0..tiles)
                .map(|tile| ((tile % config.columns) as u32, (tile / config.columns) as u32))
                .collect(),
            hop_cycles: config.hop_cycles,
            line_cycles: (LINE_BYTES as u64).div_ceil(config.link_bytes),
        }
    }

    /// The tile whose slice holds `line`.
    #[inline]
    pub(super) fn home(&self, line: u64) -> usize {
        // Multiplicative hashing spreads strided lines over the slices.
        ((line.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize * self.places.len()) >> 32
    }

    /// Cycles for a message of one flit from tile `from` to tile `to`.
    #[inline]
    pub(super) fn message_cycles(&self, from: usize, to: usize) -> u64 {
        let (from, to) = (self.places[from], self.places[to]);
        let hops = from.0.abs_diff(to.0) + from.1.abs_diff(to.1);
        u64::from(hops) * self.hop_cycles
    }

    /// Cycles for a request from tile `from` to tile `to` and a line back.
    #[inline]
    pub(super) fn round_trip_cycles(&self, from: usize, to: usize) -> u64 {
        if from == to { 0 } else { 2 * self.message_cycles(from, to) + self.line_cycles }
    }

    /// Cycles of three messages: a request from tile `from` to the line's `home`, on to the tile
    /// `owner`, and the line from `owner` to `from`.
    pub(super) fn forward_cycles(&self, from: usize, home: usize, owner: usize) -> u64 {
        let ways = [(from, home), (home, owner), (owner, from)];
        let messages: u64 = ways.iter().map(|(from, to)| self.message_cycles(*from, *to)).sum();
        messages + self.line_cycles
    }

    /// The tile of memory controller `controller`, at a corner of the mesh.
    #[inline]
    pub(super) fn controller_tile(&self, controller: usize) -> usize {
        let last = self.places.len() - 1;
        let last_row = self.places[last].1 as usize * self.columns;
        let corners = [0, self.columns - 1, last_row, last];
        corners[controller % 4].min(last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mesh(tiles: usize) -> Noc {
        Noc::new(&config::Noc { columns: 4, hop_cycles: 3, link_bytes: 16 }, tiles)
    }

    #[test]
    fn a_round_trip_takes_its_hops_twice_and_the_line_once() {
        let noc = mesh(16);
        assert_eq!(noc.round_trip_cycles(5, 5), 0);
        assert_eq!(noc.round_trip_cycles(0, 15), 2 * 6 * 3 + 4);
        assert_eq!(noc.round_trip_cycles(15, 0), noc.round_trip_cycles(0, 15));
    }

    #[test]
    fn a_line_from_its_owner_takes_three_ways() {
        let noc = mesh(16);
        // Two hops from corner 0 to tile 5, four to corner 15, six back, and the line.
        assert_eq!(noc.forward_cycles(0, 5, 15), (2 + 4 + 6) * 3 + 4);
        assert_eq!(noc.forward_cycles(0, 0, 1), (1 + 1) * 3 + 4);
    }

    #[test]
    fn lines_are_spread_over_all_slices() {
        for tiles in [1, 3, 16] {
            let noc = mesh(tiles);
            let mut lines = vec![0; tiles];
            (0..1u64 << 14).for_each(|i| lines[noc.home(i * 64)] += 1);
            let fair = (1 << 14) / tiles;
            assert!(lines.iter().all(|&n| n > fair / 2 && n < fair * 2), "{lines:?}");
        }
    }

    #[test]
    fn controllers_sit_at_corners_that_exist() {
        assert_eq!([0, 1, 2, 3].map(|c| mesh(16).controller_tile(c)), [0, 3, 12, 15]);
        assert_eq!([0, 1, 2, 3].map(|c| mesh(1).controller_tile(c)), [0; 4]);
    }
}
