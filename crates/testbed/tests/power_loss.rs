//! Power goes at every moment, and nothing acknowledged is lost. Mistakes of the engine are found.

use ebbtide_testbed::power_loss::{
    EngineMistake, Setting, Tally, Violation, copies, damage, explore, first_violation, mangle,
    recover_with_less, sample,
};

fn all(seeds: u64, run: impl Fn(u64) -> Result<Tally, Violation>) -> Tally {
    let mut tally = Tally::default();
    for seed in 0..seeds {
        tally.add(&run(seed).unwrap_or_else(|violation| panic!("{violation}")));
    }
    tally
}

#[test]
fn after_every_event_every_subset_of_what_was_not_flushed_recovers() {
    let tally = all(8, |seed| explore(&Setting::SMALL, seed, 250));
    assert!(tally.crashes > 1_000, "{tally:?}");
}

#[test]
fn long_histories_survive_many_losses_of_power_also_during_recovery() {
    let tally = all(8, |seed| sample(&Setting::SMALL, seed, 4_000, 0.01));
    assert!(tally.crashes > 100 && tally.crashes_in_recovery > 20, "{tally:?}");
}

#[test]
fn however_full_the_log_is_there_is_room_to_empty_it() {
    all(40, |seed| sample(&Setting::SMALL, seed, 4_000, 0.0));
}

#[test]
fn a_device_that_fails_midway_loses_nothing_acknowledged() {
    let setting = Setting { errors: 0.01, ..Setting::SMALL };
    let tally = all(8, |seed| sample(&setting, seed, 4_000, 0.001));
    assert!(tally.faults > 8, "{tally:?}");
}

#[test]
fn a_damaged_block_is_named_and_nothing_else_is_lost() {
    let tally = all(60, |seed| damage(&Setting::SMALL, seed, 300));
    assert!(tally.refused > 100 && tally.poisoned > 20, "{tally:?}");
}

#[test]
fn recovery_says_how_much_it_reads_and_needs_no_more_dram_than_it_gets() {
    all(200, |seed| recover_with_less(&Setting::SMALL, seed, 100 + seed * 5));
}

#[test]
fn whatever_superblocks_log_and_map_say_a_store_is_opened_or_refused() {
    let tally = all(110, |seed| mangle(&Setting::SMALL, seed, 1_000));
    assert!(tally.faults >= 100_000 && tally.refused > 10_000, "{tally:?}");
}

#[test]
fn a_copy_of_a_store_in_use_has_all_that_was_durable_and_a_part_of_one_is_refused() {
    let tally = all(40, |seed| copies(&Setting::ROOMY, seed, 3_000));
    assert!(tally.copies > 150 && tally.refused > 10_000, "{tally:?}");
}

macro_rules! planted_in_engine {
    ($($name:ident: $mistake:ident,)*) => {$(
        #[test]
        fn $name() {
            let engine_mistake = Some(EngineMistake::$mistake);
            let setting = Setting { engine_mistake, ..Setting::SMALL };
            let found = first_violation(&setting, 200);
            assert!(found.is_some(), "the mistake {:?} goes unnoticed", EngineMistake::$mistake);
        }
    )*};
}

planted_in_engine! {
    stores_that_reach_memory_after_their_record_are_noticed: AppliesLater,
    stores_that_reach_memory_in_another_order_are_noticed: AppliesOutOfOrder,
    latches_that_are_released_before_the_commit_are_noticed: ReleasesLatchesEarly,
    a_read_without_a_latch_that_nobody_looks_at_again_is_noticed: SkipsSecondLook,
    a_page_that_is_stored_to_while_it_is_written_is_noticed: WritesLivePages,
}
