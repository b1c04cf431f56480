//! Addresses, pages, lines and frames: one type each, so that they cannot be confused.

use std::fmt;
use std::ops::{Add, Sub};

use serde::{Deserialize, Serialize};

/// Bytes in a page, the unit that moves between flash and DRAM.
pub const PAGE_BYTES: usize = 4096;

/// Bytes in a line, the unit of one access: no access crosses a line.
pub const LINE_BYTES: usize = 64;

/// A byte address in the flat address space over flash.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, bytemuck::Pod, bytemuck::Zeroable,
)]
#[repr(transparent)]
pub struct Addr(pub u64);

impl Addr {
    /// The page this address lies in.
    #[inline]
    pub const fn page(self) -> PageId {
        PageId(self.0 / PAGE_BYTES as u64)
    }

    /// Bytes from the start of the page.
    #[inline]
    pub const fn page_offset(self) -> usize {
        (self.0 % PAGE_BYTES as u64) as usize
    }

    /// The first address of the line this address lies in.
    #[inline]
    pub const fn line_start(self) -> Addr {
        Addr(self.0 & !(LINE_BYTES as u64 - 1))
    }
}

impl Add<u64> for Addr {
    type Output = Addr;
    #[inline]
    fn add(self, bytes: u64) -> Addr {
        Addr(self.0 + bytes)
    }
}

impl Sub<Addr> for Addr {
    type Output = u64;
    #[inline]
    fn sub(self, other: Addr) -> u64 {
        self.0 - other.0
    }
}

impl fmt::Debug for Addr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// The number of a page in the address space: its address divided by [`PAGE_BYTES`].
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
pub struct PageId(pub u64);

impl PageId {
    /// The first address of the page.
    #[inline]
    pub const fn start(self) -> Addr {
        Addr(self.0 * PAGE_BYTES as u64)
    }

    /// The page number as an index into per-page arrays.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The number of a frame: a slot of the DRAM cache that holds one page.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
pub struct FrameId(pub u32);

impl FrameId {
    /// The frame number as an index into per-frame arrays.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_above_four_gibibytes_keep_every_bit() {
        let at = Addr(0xfedc_ba98_7654_3210);
        assert_eq!(at.page().0, 0x000f_edcb_a987_6543);
        assert_eq!(at.page_offset(), 0x210);
        assert_eq!(at.page().start() + 0x210, at);
        assert_eq!(Addr(0x1_0000_007f).line_start(), Addr(0x1_0000_0040));
    }
}
