//! Loss of power at every moment: the durability protocol over a disk model, and an oracle.
//!
//! A [`World`] is a running store: jobs that interleave, a cache, the journal of
//! `ebbtide_core::durability`, and a [`DiskModel`] with a volatile cache. After each device event
//! power goes: the disk is copied, and a subset of the unflushed writes survives. Recovery must
//! then return a state after a whole number of transactions, with all acknowledged ones. Recovery
//! itself loses power as well. Then the world goes on.
//!
//! * [`explore`]: short histories; every event, and every subset of the named kinds.
//! * [`sample`]: long histories with drawn subsets, over many boots.
//! * [`copies`]: long histories. The store is copied while it is used.
//! * [`damage`]: whole stores with one damaged block.
//! * [`mangle`]: whole stores with changed blocks whose checksums are right.

mod copies;
mod damage;
mod disk;
mod mangle;
mod oracle;
mod setting;
mod world;

use ebbtide_core::durability::format;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

pub use copies::copies;
pub use damage::damage;
pub use disk::{DiskModel, Kept};
pub use mangle::mangle;
pub use oracle::{Back, State, Violation, bring_back, check_back};
pub use setting::{EngineMistake, Setting};
pub use world::World;

/// Counts of the cases that were tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Runs from a blank store.
    pub histories: u64,
    /// Scheduling decisions and device events.
    pub steps: u64,
    /// Losses of power that were recovered from and checked.
    pub crashes: u64,
    /// Losses of power when recovery lost power as well.
    pub crashes_in_recovery: u64,
    /// Faults of the device: writes and flushes that failed, blocks that were damaged.
    pub faults: u64,
    /// Damaged stores, and unfinished copies, that recovery refused with a named error.
    pub refused: u64,
    /// Damaged pages that recovery named and kept from the rest.
    pub poisoned: u64,
    /// Copies of a store in use that were made and checked.
    pub copies: u64,
}

impl Tally {
    /// Adds the counts of another run.
    pub fn add(&mut self, other: &Tally) {
        self.histories += other.histories;
        self.steps += other.steps;
        self.crashes += other.crashes;
        self.crashes_in_recovery += other.crashes_in_recovery;
        self.faults += other.faults;
        self.refused += other.refused;
        self.poisoned += other.poisoned;
        self.copies += other.copies;
    }
}

/// A store that was just made, recovered once.
fn fresh(setting: &Setting, seed: u64) -> Result<World, Violation> {
    let mut disk = DiskModel::holding(format(&setting.geometry));
    let back = bring_back(setting, &mut disk).map_err(|error| Violation::new(error.to_string()))?;
    let state = State::blank(setting.geometry.pages);
    Ok(World::new(*setting, disk, back.journal, state, seed))
}

/// Recovers what is left on `disk`, and checks it against the world that it comes from.
fn check(
    world: &World,
    setting: &Setting,
    disk: &mut DiskModel,
) -> Result<(Back, usize), Violation> {
    let back = bring_back(setting, disk).map_err(|error| Violation::new(error.to_string()))?;
    let found = oracle::check_back(&back, &world.states, world.acknowledged)?;
    Ok((back, found))
}

/// Runs one short history of at most `steps` steps from `seed`. After each device event, power goes
/// with several subsets of the unflushed writes. These are nothing, everything, each prefix, and
/// each write alone kept, lost or torn.
///
/// # Errors
/// At the first violation, with the step.
pub fn explore(setting: &Setting, seed: u64, steps: u64) -> Result<Tally, Violation> {
    let mut world = fresh(setting, seed)?;
    let mut tally = Tally { histories: 1, ..Tally::default() };
    for step in 0..steps {
        let events = world.device_events;
        let at_step =
            |violation: Violation| Violation::new(format!("seed {seed}, step {step}: {violation}"));
        world.step().map_err(at_step)?;
        tally.steps += 1;
        if world.device_events != events {
            every_subset(&world, setting, &mut tally).map_err(at_step)?;
        }
    }
    world.settle()?;
    while world.close_step() {
        every_subset(&world, setting, &mut tally)
            .map_err(|violation| Violation::new(format!("seed {seed}, closing: {violation}")))?;
    }
    Ok(tally)
}

fn every_subset(world: &World, setting: &Setting, tally: &mut Tally) -> Result<(), Violation> {
    let count = world.disk.unflushed();
    let mut try_subset = |name: &str, kept: &dyn Fn(usize) -> Kept| {
        let mut disk = world.disk.after_power_loss(kept);
        check(world, setting, &mut disk).map_err(|violation| {
            Violation::new(format!("power lost with {count} writes unflushed, {name}: {violation}"))
        })?;
        tally.crashes += 1;
        Ok(())
    };
    try_subset("nothing kept", &|_| Kept::Lost)?;
    if count > 0 {
        try_subset("everything kept", &|_| Kept::Whole)?;
    }
    for which in 0..count {
        let if_is = |this, kept, other| move |index| if index == this { kept } else { other };
        try_subset(&format!("{which} kept alone"), &if_is(which, Kept::Whole, Kept::Lost))?;
        try_subset(&format!("{which} lost alone"), &if_is(which, Kept::Lost, Kept::Whole))?;
        try_subset(&format!("{which} torn"), &if_is(which, Kept::Torn, Kept::Whole))?;
        let prefix = |index| if index < which { Kept::Whole } else { Kept::Lost };
        try_subset(&format!("the first {which} kept"), &prefix)?;
    }
    Ok(())
}

/// Runs a history of `steps` steps from `seed`. At every step power goes with a chance of `crash`,
/// with a drawn subset of the unflushed writes. The store then goes on from what recovery returns.
/// Recovery may have lost power itself, several times.
///
/// # Errors
/// At the first violation, with the step.
pub fn sample(setting: &Setting, seed: u64, steps: u64, crash: f64) -> Result<Tally, Violation> {
    let mut random = Pcg64Mcg::seed_from_u64(seed ^ 0x5eed);
    let mut world = fresh(setting, seed)?;
    let mut tally = Tally { histories: 1, ..Tally::default() };
    for step in 0..steps {
        let at_step =
            |violation: Violation| Violation::new(format!("seed {seed}, step {step}: {violation}"));
        world.step().map_err(at_step)?;
        tally.steps += 1;
        if world.has_ended() || random.random_bool(crash) {
            tally.faults += u64::from(world.has_ended());
            // Power may go while the store is closed.
            let closing = if random.random_bool(0.3) { random.random_range(1..16) } else { 0 };
            for _ in 0..closing {
                world.close_step();
            }
            world = restart(&world, setting, &mut random, &mut tally).map_err(at_step)?;
        }
    }
    world.settle()?;
    Ok(tally)
}

/// Runs a history of `steps` steps from `seed` and lets power go. Then recovers copies of the disk
/// with DRAM for one page, for two, and for all. The results must be equal, and none may read more
/// than it estimated.
///
/// # Errors
/// At the first violation.
pub fn recover_with_less(setting: &Setting, seed: u64, steps: u64) -> Result<Tally, Violation> {
    let mut random = Pcg64Mcg::seed_from_u64(seed ^ 0x1e55);
    let mut world = fresh(setting, seed)?;
    for _ in 0..steps {
        world.step()?;
    }
    let disk = world.disk.after_power_loss(draw_kept(&mut random));
    let mut first: Option<Back> = None;
    for pages_at_once in [setting.geometry.pages as usize, 2, 1] {
        let mut copy = disk.clone();
        let back = oracle::bring_back_with(setting, &mut copy, pages_at_once);
        let back = back.map_err(|error| Violation::new(format!("seed {seed}: {error}")))?;
        oracle::check_back(&back, &world.states, world.acknowledged)?;
        let (reads, said) = (copy.reads(), back.recovered.work);
        if reads > said.reads_max() {
            return Err(Violation::new(format!("seed {seed}: {reads} reads, but it said {said}")));
        }
        if let Some(first) = &first
            && !first.state.differences(&back.state).is_empty()
        {
            return Err(Violation::new(format!("seed {seed}: less DRAM gives another state")));
        }
        first.get_or_insert(back);
    }
    Ok(Tally { histories: 1, steps, crashes: 3, ..Tally::default() })
}

/// Draws the writes that a loss of power keeps.
fn draw_kept(random: &mut Pcg64Mcg) -> impl FnMut(usize) -> Kept + '_ {
    let share = [0.0, 0.3, 0.7, 0.95, 1.0][random.random_range(0..5)];
    let torn = [0.0, 0.3][random.random_range(0..2)];
    move |_| match (random.random_bool(share), random.random_bool(torn)) {
        (_, true) => Kept::Torn,
        (true, _) => Kept::Whole,
        (false, _) => Kept::Lost,
    }
}

fn restart(
    world: &World,
    setting: &Setting,
    random: &mut Pcg64Mcg,
    tally: &mut Tally,
) -> Result<World, Violation> {
    let mut disk = world.disk.after_power_loss(draw_kept(random));
    // Recovery may lose power, again and again. Its earlier work must not matter.
    while random.random_bool(0.3) {
        let calls = random.random_range(0..8);
        let mut copy = disk.clone();
        copy.lose_power_after(calls);
        if bring_back(setting, &mut copy).is_ok() {
            break;
        }
        disk = copy.after_power_loss(draw_kept(random));
        tally.crashes_in_recovery += 1;
    }
    let (back, found) = check(world, setting, &mut disk)?;
    tally.crashes += 1;
    let state = world.states[found].1.clone();
    Ok(World::new(*setting, disk, back.journal, state, random.random()))
}

/// Runs [`explore`] and [`sample`] from `seeds` seeds. Returns the first violation.
pub fn first_violation(setting: &Setting, seeds: u64) -> Option<Violation> {
    (0..seeds).find_map(|seed| {
        let short = explore(setting, seed, 150).err();
        let long = |crash| sample(setting, seed, 2_000, crash).err();
        short.or_else(|| long(0.02)).or_else(|| long(0.0))
    })
}
