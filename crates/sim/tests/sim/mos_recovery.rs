//! Tests HAMS's state across hazards and power cuts. In persist mode no store is lost.
//!
//! A model of the data moves bytes only when a command does, in any order that the commands in
//! flight allow. So the test detects a page that is read before it was written, or overwritten
//! before it was copied.

use std::collections::VecDeque;

use ebbtide_sim::config::Mode;
use ebbtide_sim::memory_side::mos::{Command, Copy, Found, Kind, Manager, MosPage, Sizes};
use proptest::prelude::*;

const FRAMES: usize = 3;
const PAGES: u64 = 9;

/// The source of an eviction's data.
#[derive(Clone, Copy, PartialEq)]
enum Source {
    /// The copy in the PRP pool.
    Pool,
    /// The frame itself. A device without a pool would use it.
    Frame,
}

/// The device's side of a command, lost in a power cut.
struct UnderWay {
    command: Command,
    moved: bool,
}

/// The data. The content of a page is the number of the store that last changed it.
struct Data {
    manager: Manager<(MosPage, Option<u64>)>,
    frames: [u64; FRAMES],
    pool: [u64; 2],
    flash: [u64; PAGES as usize],
    /// The required content of each page.
    latest: [u64; PAGES as usize],
    copies: VecDeque<Copy>,
    under_way: Vec<UnderWay>,
    under_way_peak: usize,
    /// Commands issued since power came up, in their order.
    issued: Vec<u64>,
    finished: Vec<u64>,
    stores: u64,
    source: Source,
}

/// The next step. Its numbers choose among the possible ones.
#[derive(Debug, Clone, Copy)]
enum Step {
    Access { page: u64, store: bool },
    Copy,
    Move(usize),
    Finish(usize),
}

impl Data {
    fn new(mode: Mode, source: Source) -> Data {
        let sizes = Sizes { frames: FRAMES, queue: 6, pool: 2, wait_queue: 8 };
        Data {
            manager: Manager::new(mode, sizes),
            frames: [0; FRAMES],
            pool: [0; 2],
            flash: [0; PAGES as usize],
            latest: [0; PAGES as usize],
            copies: VecDeque::new(),
            under_way: Vec::new(),
            under_way_peak: 0,
            issued: Vec::new(),
            finished: Vec::new(),
            stores: 0,
            source,
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Access { page, store } => {
                let value = store.then(|| {
                    self.stores += 1;
                    self.stores
                });
                self.access(MosPage(page), value);
            }
            Step::Copy => self.copy(),
            Step::Move(number) => {
                let count = self.under_way.len();
                if count > 0 {
                    self.move_data(number % count);
                }
            }
            Step::Finish(number) => {
                let moved =
                    |(index, under_way): (usize, &UnderWay)| under_way.moved.then_some(index);
                let moved: Vec<usize> =
                    self.under_way.iter().enumerate().filter_map(moved).collect();
                if !moved.is_empty() {
                    self.finish(moved[number % moved.len()]);
                }
            }
        }
        self.pump();
    }

    fn access(&mut self, page: MosPage, value: Option<u64>) {
        if self.manager.access(page, value.is_some(), (page, value)) == Found::Hit {
            self.stored(page, value);
        }
    }

    fn stored(&mut self, page: MosPage, value: Option<u64>) {
        let Some(value) = value else { return };
        let frame = self.manager.frame_of(page);
        self.frames[frame.index()] = value;
        self.latest[page.0 as usize] = value;
    }

    fn copy(&mut self) {
        if let Some(Copy { id, frame, slot }) = self.copies.pop_front() {
            self.pool[slot as usize] = self.frames[frame.index()];
            self.manager.copied(id);
        }
    }

    fn move_data(&mut self, index: usize) {
        let Command { page, kind, .. } = self.under_way[index].command;
        match kind {
            Kind::Fill { frame } => {
                // Nothing lands in a frame before its copy is made.
                if self.copies.iter().any(|copy| copy.frame == frame) {
                    return;
                }
                self.frames[frame.index()] = self.flash[page.0 as usize];
            }
            Kind::Evict { slot } => {
                self.flash[page.0 as usize] = match self.source {
                    Source::Pool => self.pool[slot as usize],
                    Source::Frame => self.frames[self.manager.frame_of(page).index()],
                };
            }
        }
        self.under_way[index].moved = true;
    }

    fn finish(&mut self, index: usize) {
        let UnderWay { command, .. } = self.under_way.remove(index);
        self.finished.push(command.id);
        let mut arrived = Vec::new();
        self.manager.complete(command.id, |waiter| arrived.push(waiter));
        // The waiting accesses go first, even if another access has started in their frame.
        for (page, value) in arrived {
            self.stored(page, value);
        }
    }

    fn pump(&mut self) {
        while let Some(copy) = self.manager.take_copy() {
            self.copies.push_back(copy);
        }
        while let Some(command) = self.manager.issue() {
            self.issued.push(command.id);
            self.under_way.push(UnderWay { command, moved: false });
        }
        self.under_way_peak = self.under_way_peak.max(self.under_way.len());
    }

    /// Completes all commands.
    fn drain(&mut self) {
        while !self.under_way.is_empty() || !self.copies.is_empty() {
            self.copy();
            self.pump();
            if !self.under_way.is_empty() {
                self.move_data(0);
                if self.under_way[0].moved {
                    self.finish(0);
                }
            }
            self.pump();
        }
    }

    /// Cuts the power. The NVDIMM and flash keep their contents; the host and the device lose
    /// everything.
    fn power_cut(&mut self) {
        self.copies.clear();
        self.under_way.clear();
        self.issued.clear();
        self.manager.power_up();
        self.pump();
    }

    /// The first page with a wrong content.
    fn wrong(&self) -> Option<u64> {
        (0..PAGES).find(|page| {
            let at = self.manager.frame_of(MosPage(*page)).index();
            let resident = self.manager.resident(MosPage(*page)).is_some();
            let held = if resident { self.frames[at] } else { self.flash[*page as usize] };
            held != self.latest[*page as usize]
        })
    }
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..PAGES, any::<bool>()).prop_map(|(page, store)| Step::Access { page, store }),
        1 => Just(Step::Copy),
        2 => any::<usize>().prop_map(Step::Move),
        2 => any::<usize>().prop_map(Step::Finish),
    ]
}

proptest! {
    #[test]
    fn no_store_is_lost_however_commands_overtake_each_other(
        steps in prop::collection::vec(step(), 1..200),
        mode in prop::sample::select(vec![Mode::Extend, Mode::Persist]),
    ) {
        let mut data = Data::new(mode, Source::Pool);
        steps.into_iter().for_each(|step| data.step(step));
        data.drain();
        prop_assert_eq!(data.wrong(), None);
        prop_assert!(mode == Mode::Extend || data.under_way_peak <= 1);
    }

    #[test]
    fn persist_mode_loses_no_store_in_a_power_cut_and_replays_each_unfinished_command_once(
        before in prop::collection::vec(step(), 1..150),
        between in prop::collection::vec(step(), 0..50),
    ) {
        let mut data = Data::new(Mode::Persist, Source::Pool);
        before.into_iter().for_each(|step| data.step(step));
        for steps in [between, Vec::new()] {
            let unfinished: Vec<u64> =
                data.under_way.iter().map(|under_way| under_way.command.id).collect();
            let finished = data.finished.clone();
            data.power_cut();
            steps.into_iter().for_each(|step| data.step(step));
            data.drain();
            prop_assert_eq!(data.wrong(), None);
            for id in unfinished {
                prop_assert_eq!(data.issued.iter().filter(|issued| **issued == id).count(), 1);
            }
            prop_assert!(data.issued.iter().all(|issued| !finished.contains(issued)));
        }
        // Everything is finished, so another cut replays nothing.
        data.power_cut();
        prop_assert!(data.issued.is_empty());
    }
}

#[test]
fn the_prp_copy_avoids_the_eviction_hazard() {
    // Page 0 is dirty in its frame. Page 3 takes the frame, and arrives before the eviction of page
    // 0 has moved a byte.
    let run = |source| {
        let mut data = Data::new(Mode::Extend, source);
        data.step(Step::Access { page: 0, store: true });
        data.drain();
        data.step(Step::Access { page: 3, store: false });
        data.step(Step::Copy);
        let fill = |under_way: &UnderWay| matches!(under_way.command.kind, Kind::Fill { .. });
        let fill = data.under_way.iter().position(fill).unwrap();
        data.step(Step::Move(fill));
        data.drain();
        data.wrong()
    };
    assert_eq!(run(Source::Pool), None);
    assert_eq!(run(Source::Frame), Some(0), "the checker finds what the copy is for");
}

#[test]
fn an_unfinished_tagged_command_is_replayed_after_power_loss_exactly_once() {
    let mut data = Data::new(Mode::Persist, Source::Pool);
    data.step(Step::Access { page: 1, store: true });
    assert_eq!(data.issued, [0]);
    data.power_cut();
    assert_eq!(data.issued, [0]);
    data.drain();
    assert_eq!((data.manager.resident(MosPage(1)), &data.issued[..]), (Some(true), &[0][..]));
    data.power_cut();
    assert!(data.issued.is_empty());
}

#[test]
fn extend_mode_starts_empty_after_a_power_cut() {
    let mut data = Data::new(Mode::Extend, Source::Pool);
    data.step(Step::Access { page: 1, store: true });
    data.step(Step::Access { page: 2, store: false });
    data.drain();
    data.step(Step::Access { page: 0, store: false });
    data.power_cut();
    assert!(data.issued.is_empty());
    assert!((0..PAGES).all(|page| data.manager.resident(MosPage(page)).is_none()));
}
