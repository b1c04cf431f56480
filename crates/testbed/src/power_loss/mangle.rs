//! Stores whose superblocks, log and map were changed by an attacker who can compute checksums.

use std::panic::{AssertUnwindSafe, catch_unwind};

use ebbtide_core::Watch;
use ebbtide_core::durability::{Block, Page, inspect};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::damage::{Part, part_of};
use super::oracle::{Violation, bring_back};
use super::setting::Setting;
use super::{DiskModel, Kept, Tally, fresh};

/// Where the checksum lies in a superblock, in a log block and in a block of the map.
const CHECKSUM_BYTES: usize = 4;

/// The end of the headers of all three. Log records begin here.
const HEADER_BYTES: usize = 112;

/// Runs a history from `seed`, and then opens `inputs` copies of its disk with up to four changed
/// blocks. Words of their headers and records get values that are likely to be limits. Most blocks
/// get a checksum that is right again. Any such store must be opened, or refused with an error.
///
/// # Errors
/// When opening or inspecting one panics.
pub fn mangle(setting: &Setting, seed: u64, inputs: u64) -> Result<Tally, Violation> {
    let mut random = Pcg64Mcg::seed_from_u64(seed ^ 0x3a_4613);
    let mut world = fresh(setting, seed)?;
    for _ in 0..random.random_range(50..600) {
        world.step()?;
    }
    let disk = world.disk.after_power_loss(|_| Kept::Whole);
    let is_parsed = |block: &Block| part_of(&setting.geometry, *block) != Part::Slot;
    let blocks: Vec<Block> = disk.blocks().into_iter().filter(is_parsed).collect();
    let mut tally = Tally { histories: 1, ..Tally::default() };
    for input in 0..inputs {
        let mut mangled = disk.clone();
        for _ in 0..random.random_range(1..5) {
            let block = blocks[random.random_range(0..blocks.len())];
            mangled.damage(block, |page| change(setting, page, &mut random));
        }
        tally.faults += 1;
        let opened = catch_unwind(AssertUnwindSafe(|| open(setting, &mut mangled)));
        match opened {
            Ok(true) => {}
            Ok(false) => tally.refused += 1,
            Err(_) => {
                return Err(Violation::new(format!("seed {seed}, input {input}: it panics")));
            }
        }
    }
    Ok(tally)
}

/// Returns true if the store can be opened.
fn open(setting: &Setting, disk: &mut DiskModel) -> bool {
    // The findings of an inspection do not matter here, only that it ends.
    let _ = inspect(&setting.geometry, disk, true, Watch::unattended());
    bring_back(setting, disk).is_ok()
}

/// Changes a block.
fn change(setting: &Setting, page: &mut Page, random: &mut Pcg64Mcg) {
    for _ in 0..random.random_range(1..4) {
        let header = random.random_bool(0.6);
        let end = if header { HEADER_BYTES } else { page.len() };
        let bytes = [1, 2, 4, 8][random.random_range(0..4)];
        let at = random.random_range(CHECKSUM_BYTES..=end - bytes) / bytes * bytes;
        let mut word = [0; 8];
        word[..bytes].copy_from_slice(&page[at..at + bytes]);
        let before = u64::from_le_bytes(word);
        let value = match random.random_range(0..8) {
            0 => 0,
            1 => u64::MAX,
            2 => before.wrapping_add(1),
            3 => before.wrapping_sub(1),
            4 => before ^ 1 << random.random_range(0..64),
            5 => before.wrapping_add(setting.geometry.log_blocks),
            6 => u64::MAX >> random.random_range(0..64),
            _ => random.random(),
        };
        page[at..at + bytes].copy_from_slice(&value.to_le_bytes()[..bytes]);
    }
    if random.random_bool(0.9) {
        let checksum = setting.geometry.checksum(&page[CHECKSUM_BYTES..]);
        page[..CHECKSUM_BYTES].copy_from_slice(&checksum.to_le_bytes());
    }
}
