//! Every pair of a stage and an event, by the table and in the memory of a real [`PageTable`].

use super::transitions::Step;
use super::*;

const PAGE: PageId = PageId(9);
const FRAME: FrameId = FrameId(1);
const FREE: FrameId = FrameId(2);
const SLOT: u32 = 70;
/// The core that moves the page.
const MOVER: usize = 1;
const WAITER: Waiter = Waiter { core: 0, fiber: 2 };
const EARLIER: Waiter = Waiter { core: 1, fiber: 0 };

const STAGES: [Stage; 13] = [
    Stage::Absent,
    Stage::Blank,
    Stage::Damaged,
    Stage::Starved,
    Stage::Reading,
    Stage::Coming,
    Stage::Late,
    Stage::Claimed,
    Stage::Ahead,
    Stage::Resident,
    Stage::Evicting,
    Stage::Unwritten,
    Stage::Writing,
];

/// One event for each cause.
fn events() -> Vec<Event> {
    let mut events = vec![
        Event::Asked { waiter: WAITER, frame: Some(FREE) },
        Event::Asked { waiter: WAITER, frame: None },
        Event::Expected { core: 0, frame: FREE },
        Event::Claimed { core: 0, frame: FREE },
        Event::Unclaimed,
        Event::Revealed,
        Event::FrameFound { core: MOVER, frame: FREE },
        Event::NoFrame,
        Event::Arrived,
        Event::Unreadable,
        Event::Used,
        Event::GivenUp { core: 0 },
        Event::Sent,
        Event::Kept { slot: Some(SLOT) },
    ];
    for stays in [false, true] {
        events.extend([false, true].map(|changed| Event::GraceOver { changed, stays }));
        events.extend([false, true].map(|changed| Event::GivenUpAtOnce { changed, stays }));
        events.push(Event::Written { slot: SLOT, stays });
    }
    events
}

/// A table whose page is in `stage`, and waited for by [`EARLIER`] or not. `None` if no fiber can
/// wait for a page in that stage, or one has to.
fn table_in(stage: Stage, waited_for: bool) -> Option<PageTable> {
    let mut table = PageTable::new(100, 4, (2, 4), false).expect("memory");
    let slot = match stage {
        Stage::Blank => BLANK,
        Stage::Damaged => POISONED,
        _ => SLOT,
    };
    table.place(PAGE, slot);
    let asked = Event::Asked { waiter: EARLIER, frame: None };
    let (core, frame) = (MOVER, FRAME);
    let over = Event::GraceOver { changed: true, stays: false };
    let resident = [Event::Claimed { core, frame }, Event::Unclaimed, Event::Arrived];
    let out = [Event::GivenUp { core }, over, Event::Sent];
    let steps: Vec<Event> = match stage {
        Stage::Absent | Stage::Blank | Stage::Damaged => vec![],
        Stage::Starved => vec![asked],
        Stage::Reading => resident[..2].to_vec(),
        Stage::Coming => vec![Event::Expected { core, frame }],
        Stage::Late => vec![Event::Expected { core, frame }, asked],
        Stage::Claimed => resident[..1].to_vec(),
        Stage::Ahead => vec![Event::Expected { core, frame }, Event::Arrived],
        Stage::Resident => resident.to_vec(),
        Stage::Evicting => [&resident[..], &out[..1]].concat(),
        Stage::Unwritten => [&resident[..], &out[..2]].concat(),
        Stage::Writing => [&resident[..], &out[..]].concat(),
    };
    let may_wait = matches!(
        stage,
        Stage::Reading | Stage::Claimed | Stage::Evicting | Stage::Unwritten | Stage::Writing
    );
    let must_wait = matches!(stage, Stage::Starved | Stage::Late);
    if waited_for && !may_wait && !must_wait || !waited_for && must_wait {
        return None;
    }
    let mut page = table.lock(PAGE);
    for event in steps {
        let _effects = page.apply(event);
    }
    if waited_for && may_wait {
        assert!(page.apply(asked).has(Effect::Join));
    }
    assert_eq!(stage_of(&page), stage);
    drop(page);
    Some(table)
}

fn stage_of(page: &LockedPage<'_>) -> Stage {
    page.stage_in(page.state())
}

fn can_happen(stage: Stage, event: Event, waited_for: bool) -> Option<Step> {
    step(stage, event.cause(), waited_for)
}

/// The pairs that can happen. All others are impossible. Written by hand, to find a row of the
/// table that is changed by mistake.
fn expected(event: Event) -> Vec<Stage> {
    use Stage::*;
    match event {
        Event::Asked { .. } | Event::Expected { .. } | Event::Claimed { .. } | Event::Used => {
            STAGES.to_vec()
        }
        Event::Unclaimed | Event::Revealed => vec![Claimed],
        Event::FrameFound { .. } | Event::NoFrame => vec![Starved],
        Event::Arrived | Event::Unreadable => vec![Reading, Coming, Late],
        Event::GivenUp { .. } | Event::GivenUpAtOnce { .. } => vec![Ahead, Resident],
        Event::GraceOver { .. } => vec![Evicting],
        Event::Sent => vec![Unwritten],
        Event::Written { .. } => vec![Writing],
        Event::Kept { .. } => vec![Unwritten, Writing],
    }
}

#[test]
fn every_pair_of_stage_and_event_is_defined_or_impossible() {
    for event in events() {
        for waited_for in [false, true] {
            let happens =
                STAGES.into_iter().filter(|&stage| can_happen(stage, event, waited_for).is_some());
            assert_eq!(happens.collect::<Vec<_>>(), expected(event), "{event:?}");
        }
    }
}

/// The stage that a page of `slot` has once it is absent.
fn settled(to: Stage, slot: u32) -> Stage {
    match (to, slot) {
        (Stage::Absent, BLANK) => Stage::Blank,
        (Stage::Absent, POISONED) => Stage::Damaged,
        _ => to,
    }
}

#[test]
fn a_page_is_in_the_stage_of_the_table_after_every_event_that_can_happen() {
    let mut pairs = 0;
    for event in events() {
        for stage in STAGES {
            for waited_for in [false, true] {
                let Some(table) = table_in(stage, waited_for) else { continue };
                let Some(row) = can_happen(stage, event, waited_for) else { continue };
                let mut page = table.lock(PAGE);
                let change = page.apply(event);
                let context = format!("{stage:?}, {event:?}, waited for: {waited_for}");
                assert_eq!(stage_of(&page), settled(row.to, page.slot()), "{context}");
                assert_eq!(change.effects, row.effects, "{context}");
                check_data(&table, &page, &change, waited_for, &context);
                pairs += 1;
            }
        }
    }
    assert!(pairs > 80, "{pairs}");
}

/// The data of a change agree with the memory of the page.
fn check_data(table: &PageTable, page: &LockedPage<'_>, change: &Change, waited: bool, at: &str) {
    let woken = || {
        let mut woken = Vec::new();
        table.waiting.wake(change.waiting, |waiter| woken.push(waiter));
        woken
    };
    for effect in change.effects.iter() {
        match effect {
            Effect::Fill | Effect::FillAhead | Effect::Take => {
                assert_eq!(page.state(), PageState::Arriving(change.frame), "{at}");
                assert_eq!(page.slot(), change.slot, "{at}");
            }
            Effect::Install => {
                assert_eq!(page.state().frame(), Some(change.frame), "{at}");
                assert_eq!(woken(), if waited { vec![EARLIER] } else { vec![] }, "{at}");
            }
            Effect::Fail => {
                assert_eq!(page.state(), PageState::Absent(change.slot), "{at}");
                assert_eq!(woken(), if waited { vec![EARLIER] } else { vec![] }, "{at}");
            }
            Effect::Free => assert_eq!((page.state().frame(), change.frame), (None, FRAME), "{at}"),
            Effect::Join => assert_eq!(change.mover, MOVER as u32, "{at}"),
            Effect::Write | Effect::AwaitGrace | Effect::Rescue => {
                assert_eq!(page.state(), PageState::Leaving(FRAME), "{at}");
            }
            Effect::Use | Effect::NoteFirstUse => {
                assert_eq!(page.state(), PageState::Resident(FRAME), "{at}");
            }
            Effect::FindFrame | Effect::Refuse | Effect::NoteLate => {}
        }
    }
}

#[test]
fn every_event_that_is_impossible_is_refused() {
    let refused = |table: &PageTable, event| {
        let apply = std::panic::AssertUnwindSafe(|| table.lock(PAGE).apply(event));
        std::panic::catch_unwind(apply).is_err()
    };
    for event in events() {
        for stage in STAGES {
            for waited_for in [false, true] {
                let Some(table) = table_in(stage, waited_for) else { continue };
                let possible = can_happen(stage, event, waited_for).is_some();
                assert_eq!(refused(&table, event), !possible, "{stage:?}, {event:?}");
            }
        }
    }
}

#[test]
fn a_waiting_fiber_is_woken_once_by_whatever_ends_its_wait() {
    for stage in STAGES {
        for event in events() {
            let Some(table) = table_in(stage, true) else { continue };
            let Some(row) = can_happen(stage, event, true) else { continue };
            let _effects = table.lock(PAGE).apply(event);
            let moves = !matches!(
                row.to,
                Stage::Absent | Stage::Blank | Stage::Damaged | Stage::Ahead | Stage::Resident
            );
            let ends = [Effect::Install, Effect::Fail].iter().any(|e| row.effects.has(*e));
            assert_eq!(ends, !moves, "{stage:?}, {event:?}: the wait goes on or ends");
        }
    }
}

#[test]
fn a_page_is_in_the_table_of_hits_exactly_while_it_is_resident() {
    for stage in STAGES {
        for event in events() {
            let Some(table) = table_in(stage, false) else { continue };
            if can_happen(stage, event, false).is_none() {
                continue;
            }
            let mut page = table.lock(PAGE);
            let _effects = page.apply(event);
            let resident = stage_of(&page) == Stage::Resident;
            let found = table.hits.lookup().find_in_line(PAGE).is_ok();
            assert_eq!(found, resident, "{stage:?}, {event:?}");
        }
    }
}

#[test]
fn only_a_page_that_is_newer_than_its_copy_is_marked_as_changed_when_it_comes() {
    for (stage, event, changed) in [
        (Stage::Reading, Event::Arrived, false),
        (Stage::Claimed, Event::Revealed, true),
        (Stage::Unwritten, Event::Kept { slot: None }, true),
        (Stage::Writing, Event::Kept { slot: Some(5) }, true),
        (Stage::Writing, Event::Written { slot: 5, stays: true }, false),
        (Stage::Evicting, Event::GraceOver { changed: false, stays: true }, false),
    ] {
        let table = table_in(stage, false).expect("no fiber has to wait");
        table.dirty[FRAME.index()].store(u8::from(!changed), Ordering::Relaxed);
        table.touches[FRAME.index()].store(1, Ordering::Relaxed);
        let change = table.lock(PAGE).apply(event);
        assert!(change.has(Effect::Install), "{stage:?}");
        let marks =
            [&table.dirty, &table.touches].map(|m| m[FRAME.index()].load(Ordering::Relaxed));
        assert_eq!(marks, [u8::from(changed), 0], "{stage:?}");
    }
}

#[test]
fn a_slot_changes_without_a_change_of_the_stage() {
    for stage in [Stage::Evicting, Stage::Unwritten, Stage::Writing] {
        let table = table_in(stage, true).expect("a fiber may wait");
        let mut page = table.lock(PAGE);
        for slot in [0, 3, SLOTS_MAX as u32 - 1, BLANK] {
            page.set_slot(slot);
            assert_eq!((page.slot(), stage_of(&page)), (slot, stage));
        }
    }
}

#[test]
fn the_core_that_asked_first_moves_a_page_that_starves() {
    let table = table_in(Stage::Starved, true).expect("a fiber waits");
    let change = table.lock(PAGE).apply(Event::Asked { waiter: WAITER, frame: Some(FREE) });
    assert_eq!((change.has(Effect::Join), change.mover), (true, EARLIER.core));
}
