//! Copies of a store that is in use: what they recover to, also after a loss of power.

use std::cell::RefCell;

use ebbtide_core::durability::{
    Block, CopyPoint, Disk, DiskError, InUse, Journal, Lsn, Page, RecoveryError, copy_log,
    copy_pages,
};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::disk::DiskModel;
use super::oracle::{Violation, bring_back, check_back};
use super::setting::Setting;
use super::world::World;
use super::{Tally, check, draw_kept, fresh, restart};

/// A copy begins within this many steps of the end of the last.
const STEPS_BETWEEN_MAX: u64 = 60;

/// The most steps of the store between two reads of a copy, for a fast and for a slow copy.
const STEPS_A_READ_MAX: [u64; 2] = [3, 40];

/// A copy that cannot begin within this many steps would never begin.
const STEPS_BEFORE_MAX: u64 = 5_000;

/// Runs a history of `steps` steps from `seed`. The store is copied again and again while it is
/// used. The copy loses power at every write and flush, and the store now and then. The incomplete
/// copy must be refused, or recover to a prefix with all that was durable when the copy began. So
/// must a complete copy. The store itself loses nothing.
///
/// # Errors
/// At the first violation, with the step.
pub fn copies(setting: &Setting, seed: u64, steps: u64) -> Result<Tally, Violation> {
    let mut random = Pcg64Mcg::seed_from_u64(seed ^ 0xc0_99);
    let mut world = fresh(setting, seed)?;
    let mut tally = Tally { histories: 1, ..Tally::default() };
    let mut next = random.random_range(0..STEPS_BETWEEN_MAX);
    while tally.steps < steps && !world.has_ended() {
        let step = tally.steps;
        let at_step =
            |violation: Violation| Violation::new(format!("seed {seed}, step {step}: {violation}"));
        if next > 0 {
            next -= 1;
            tally.steps += 1;
            world.step().map_err(at_step)?;
            continue;
        }
        world = copy(world, setting, &mut random, &mut tally).map_err(at_step)?;
        if random.random_bool(0.1) {
            world = restart(&world, setting, &mut random, &mut tally).map_err(at_step)?;
        }
        next = random.random_range(0..STEPS_BETWEEN_MAX);
    }
    if !world.has_ended() {
        world.settle()?;
    }
    Ok(tally)
}

/// The store while it is copied.
struct Copied<'a> {
    world: World,
    setting: &'a Setting,
    steps_max: u64,
    random: Pcg64Mcg,
    tally: Tally,
    violation: Option<Violation>,
}

impl Copied<'_> {
    /// Lets jobs and the device go on for a few steps. Power may go there.
    fn go_on(&mut self) {
        for _ in 0..self.random.random_range(0..=self.steps_max) {
            self.tally.steps += 1;
            let stepped = self.world.step();
            self.note(stepped);
        }
        if self.random.random_bool(0.02) {
            let mut left = self.world.disk.after_power_loss(draw_kept(&mut self.random));
            self.tally.crashes += 1;
            let checked = check(&self.world, self.setting, &mut left);
            self.note(checked.map(drop));
        }
    }

    fn note(&mut self, result: Result<(), Violation>) {
        self.violation = self.violation.take().or(result.err());
    }
}

/// The store, as the copy reads it.
struct Source<'a, 'b>(&'a RefCell<Copied<'b>>);

impl Disk for Source<'_, '_> {
    fn read_block(&mut self, block: Block, into: &mut Page) -> Result<(), DiskError> {
        let mut copied = self.0.borrow_mut();
        copied.go_on();
        into.copy_from_slice(copied.world.disk.contents(block));
        Ok(())
    }

    fn write_block(&mut self, block: Block, _: &Page) -> Result<(), DiskError> {
        unreachable!("a copy writes nothing to {block:?} of the store")
    }

    fn flush(&mut self) -> Result<(), DiskError> {
        unreachable!("a copy flushes nothing of the store")
    }
}

/// The copy, which loses power with every write and flush.
struct Target<'a, 'b> {
    disk: &'a RefCell<DiskModel>,
    copied: &'a RefCell<Copied<'b>>,
    /// The place up to which the log was durable when the copy began.
    durable: Lsn,
}

impl Target<'_, '_> {
    fn lose_power(&mut self) {
        let mut copied = self.copied.borrow_mut();
        let mut left = self.disk.borrow().after_power_loss(draw_kept(&mut copied.random));
        copied.tally.crashes += 1;
        match bring_back(copied.setting, &mut left) {
            Err(_) => copied.tally.refused += 1,
            Ok(back) => {
                let checked = check_back(&back, &copied.world.states, self.durable);
                copied.note(checked.map(drop).map_err(|violation| {
                    Violation::new(format!("power lost in the middle of a copy: {violation}"))
                }));
            }
        }
    }
}

impl Disk for Target<'_, '_> {
    fn read_block(&mut self, block: Block, into: &mut Page) -> Result<(), DiskError> {
        self.disk.borrow_mut().read_block(block, into)
    }

    fn write_block(&mut self, block: Block, page: &Page) -> Result<(), DiskError> {
        let number = self.disk.borrow_mut().submit(block, page);
        self.lose_power();
        self.disk.borrow_mut().complete(number);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), DiskError> {
        self.disk.borrow_mut().begin_flush();
        self.lose_power();
        self.disk.borrow_mut().end_flush();
        Ok(())
    }
}

/// Copies the store while it goes on, as an engine does, and checks the copy. Returns the store.
fn copy(
    mut world: World,
    setting: &Setting,
    random: &mut Pcg64Mcg,
    tally: &mut Tally,
) -> Result<World, Violation> {
    if !world.journal.hold() {
        return Err(Violation::new("a copy is under way though the last has ended"));
    }
    let (durable, committed) = (world.journal.durable(), world.journal.committed());
    let mut waited = 0;
    let point = loop {
        match world.journal.copy_point() {
            Some(point) if world.journal.durable() >= committed => break point,
            _ => {}
        }
        if world.has_ended() {
            world.journal.let_go();
            return Ok(world);
        }
        if waited == STEPS_BEFORE_MAX {
            return Err(Violation::new("the store can never be copied"));
        }
        (waited, tally.steps) = (waited + 1, tally.steps + 1);
        world.step()?;
    };
    let steps_max = STEPS_A_READ_MAX[usize::from(random.random_bool(0.3))];
    let (random, tried) = (Pcg64Mcg::seed_from_u64(random.random()), Tally::default());
    let copied = Copied { world, setting, steps_max, random, tally: tried, violation: None };
    let (copied, disk) = (RefCell::new(copied), RefCell::new(DiskModel::default()));
    let is_whole = make(&point, durable, &copied, &disk);
    let Copied { mut world, tally: tried, violation, .. } = copied.into_inner();
    world.journal.let_go();
    tally.add(&tried);
    if let Some(violation) = violation {
        return Err(violation);
    }
    if is_whole.map_err(|error| Violation::new(format!("a copy cannot be made: {error}")))? {
        tally.copies += 1;
        let mut left = disk.into_inner().after_power_loss(|_| super::Kept::Lost);
        let back = bring_back(setting, &mut left)
            .map_err(|error| Violation::new(format!("a copy is refused: {error}")))?;
        check_back(&back, &world.states, committed)
            .map_err(|violation| Violation::new(format!("a copy: {violation}")))?;
    }
    Ok(world)
}

/// Copies the store at `point` to `disk`, while `copied` goes on. Returns true if the copy is
/// whole.
fn make(
    point: &CopyPoint,
    durable: Lsn,
    copied: &RefCell<Copied<'_>>,
    disk: &RefCell<DiskModel>,
) -> Result<bool, RecoveryError> {
    let geometry = copied.borrow().setting.geometry;
    let source = || Box::new(Source(copied)) as Box<dyn Disk + '_>;
    let target = || Box::new(Target { disk, copied, durable }) as Box<dyn Disk + '_>;
    copy_log(&geometry, point, &mut source(), &mut target())?;
    copied.borrow_mut().world.journal.unpin();
    let disks = (&mut target(), &mut source(), &mut target());
    copy_pages(&geometry, point, disks, &mut InUseBy(copied))
}

/// The store, as the copy uses its journal.
struct InUseBy<'a, 'b>(&'a RefCell<Copied<'b>>);

impl InUse for InUseBy<'_, '_> {
    fn journal(&mut self, body: &mut dyn FnMut(&mut Journal)) {
        body(&mut self.0.borrow_mut().world.journal);
    }

    fn goes_on(&mut self) -> bool {
        true
    }

    fn after_part(&mut self, _: bool) {}
}
