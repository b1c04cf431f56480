//! One damaged block in a store that is otherwise whole.

use ebbtide_core::durability::{
    Block, Geometry, Lsn, RecoveryError, SUPERBLOCKS, Superblock, flushed_mark, named_generation,
};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::disk::DiskModel;
use super::oracle::{Violation, bring_back};
use super::setting::Setting;
use super::{Kept, Tally, fresh};

/// The part of the store that a block belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Part {
    Superblock,
    Log,
    Base,
    Slot,
}

pub(super) fn part_of(geometry: &Geometry, block: Block) -> Part {
    match block.0 {
        number if number < SUPERBLOCKS => Part::Superblock,
        number if number < SUPERBLOCKS + geometry.log_blocks => Part::Log,
        number if number < geometry.slots_start() => Part::Base,
        _ => Part::Slot,
    }
}

/// Runs a history of `steps` steps from `seed`, flushes it, and then damages each block of the disk
/// in turn. The kinds of damage are a flipped bit, zeros, the contents of another block, half of
/// one, and a read that fails. A superblock is damaged alone, and with the other copy of its
/// generation. Recovery must refuse the store with a named error. Otherwise it must name every page
/// that it lost and restore all others.
///
/// A store of an odd `seed` is closed first. No design can detect one kind of damage in the others:
/// to log blocks that nothing on the disk shows as flushed. It looks like the torn end of the log,
/// and recovery must return a prefix.
///
/// # Errors
/// At the first violation.
pub fn damage(setting: &Setting, seed: u64, steps: u64) -> Result<Tally, Violation> {
    let mut random = Pcg64Mcg::seed_from_u64(seed ^ 0xda_ba9e);
    let mut world = fresh(setting, seed)?;
    let mut tally = Tally { histories: 1, ..Tally::default() };
    for _ in 0..steps {
        world.step()?;
        tally.steps += 1;
    }
    let is_closed = seed % 2 == 1;
    while is_closed && world.close_step() {}
    let disk = world.disk.after_power_loss(|_| Kept::Whole);
    let blocks = disk.blocks();
    let superblocks = (0..SUPERBLOCKS).map(|copy| setting.geometry.superblock(copy));
    let pairs = superblocks.map(|block| (block, Some(Block(block.0 ^ 1))));
    for (block, twin) in blocks.iter().map(|block| (*block, None)).chain(pairs) {
        let mut damaged = disk.clone();
        if let Some(twin) = twin {
            damaged.damage(twin, |page| page.fill(0));
        }
        let other = blocks[random.random_range(0..blocks.len())];
        let others = *disk.contents(other);
        let how = random.random_range(0..5);
        if how == 4 {
            damaged.lose(block);
        }
        damaged.damage(block, |page| match how {
            4 => {}
            0 => page[random.random_range(0..4096)] ^= 1 << random.random_range(0..8),
            1 => page.fill(0),
            2 => page.copy_from_slice(&others),
            _ => page[2048..].copy_from_slice(&others[2048..]),
        });
        tally.faults += 1;
        let part = part_of(&setting.geometry, block);
        let wrong = |what: String| {
            Violation::new(format!("seed {seed}, {part:?} {block:?} damaged in way {how}: {what}"))
        };
        let named = names_newer(setting, &damaged);
        let back = bring_back(setting, &mut damaged);
        let old = matches!(back, Err(RecoveryError::OldSuperblock { .. }));
        if named && !old {
            return Err(wrong(
                "recovery does not report that the newest superblock is gone".into(),
            ));
        }
        let back = match back {
            Ok(back) => back,
            Err(_) if part == Part::Slot => {
                return Err(wrong("one damaged page prevents recovery".into()));
            }
            Err(_) => {
                tally.refused += 1;
                continue;
            }
        };
        tally.poisoned += back.recovered.poisoned.len() as u64;
        let acknowledged = match part {
            Part::Log if !is_closed => world.acknowledged.min(marked(setting, &damaged)),
            _ => world.acknowledged,
        };
        let first = world.states.partition_point(|(end, _)| *end <= acknowledged) - 1;
        let sound = |page| {
            let held = *damaged_page(&back, page);
            // A page that recovery did not touch is checked when it is read.
            back.recovered.poisoned.contains(&page) || back.journal.is_sound(page, &held)
        };
        let matches = |k: &usize| {
            let differing = world.states[*k].1.differences(&back.state);
            differing.iter().all(|page| back.recovered.poisoned.contains(page) || !sound(*page))
        };
        if (first..world.states.len()).rev().find(matches).is_none() {
            return Err(wrong("pages differ that recovery did not name".into()));
        }
    }
    Ok(tally)
}

/// Returns true if a block of the log names a newer superblock than there is.
fn names_newer(setting: &Setting, disk: &DiskModel) -> bool {
    let geometry = &setting.geometry;
    let in_part =
        |part| disk.blocks().into_iter().filter(move |block| part_of(geometry, *block) == part);
    let there = in_part(Part::Superblock)
        .filter_map(|block| Superblock::decode(geometry, disk.contents(block)))
        .map(|found| found.generation)
        .max();
    let named = in_part(Part::Log)
        .filter_map(|block| named_generation(geometry, disk.contents(block)))
        .max();
    there.is_some() && there < named
}

/// Returns the place up to which the disk shows the log as flushed.
fn marked(setting: &Setting, disk: &DiskModel) -> Lsn {
    let geometry = &setting.geometry;
    let marks = disk.blocks().into_iter().filter_map(|block| match part_of(geometry, block) {
        Part::Log => flushed_mark(geometry, disk.contents(block)),
        Part::Superblock => {
            Superblock::decode(geometry, disk.contents(block)).map(|found| found.log_end)
        }
        Part::Base | Part::Slot => None,
    });
    marks.max().unwrap_or(Lsn::ZERO)
}

fn damaged_page(back: &super::Back, page: ebbtide_core::PageId) -> &ebbtide_core::durability::Page {
    back.state.page(page)
}
