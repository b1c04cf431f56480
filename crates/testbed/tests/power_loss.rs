//! Power goes at every moment, and nothing acknowledged is lost. Every planted mistake is found.

use ebbtide_core::durability::{Mistake, Planted};
use ebbtide_testbed::power_loss::{
    EngineMistake, Setting, Tally, Violation, copies, damage, explore, finds, finds_in_copies,
    finds_in_engine, mangle, recover_with_less, sample,
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

/// Searches for a mistake by damage, which `finds` does not try.
fn finds_damage(mistake: Mistake) -> bool {
    let setting = Setting { planted: Planted::one(mistake), ..Setting::SMALL };
    (0..200).any(|seed| damage(&setting, seed, 300).is_err())
}

macro_rules! planted {
    ($($name:ident: $mistake:ident,)*) => {$(
        #[test]
        fn $name() {
            let found = finds(&Setting::SMALL, Mistake::$mistake, 200);
            assert!(found.is_some(), "the mistake {:?} goes unnoticed", Mistake::$mistake);
        }
    )*};
}

#[test]
fn transactions_that_take_the_room_of_map_records_are_noticed() {
    // This needs a long transaction when the log is almost full.
    let planted = Planted::one(Mistake::SpendsRoomOfMaps);
    let setting = Setting { planted, ..Setting::SMALL };
    assert!((0..2_000).any(|seed| sample(&setting, seed, 2_000, 0.0).is_err()));
}

planted! {
    an_acknowledgement_before_the_flush_is_noticed: AcknowledgesBeforeFlush,
    a_slot_that_is_free_before_its_record_is_durable_is_noticed: FreesSlotAtOnce,
    a_page_forgotten_before_its_record_is_durable_is_noticed: ForgetsStoresAtMap,
    a_copy_that_is_said_to_cover_more_than_it_does_is_noticed: CoversTooMuch,
    a_superblock_that_names_an_unflushed_base_map_is_noticed: NamesBaseBeforeFlush,
    a_log_reused_before_its_superblock_is_durable_is_noticed: ReusesLogEarly,
    a_checkpoint_that_is_too_eager_is_noticed: HorizonTooLate,
    a_map_record_that_outlives_its_copy_is_noticed: TrustsUnflushedMaps,
    recovery_over_the_last_copy_is_noticed: RecoversInPlace,
    a_log_block_of_an_older_boot_is_noticed: AcceptsOldBoot,
    records_that_are_applied_twice_are_noticed: AppliesOldLap,
    half_a_record_is_noticed: AppliesHalfRecord,
}

macro_rules! planted_in_engine {
    ($($name:ident: $mistake:ident,)*) => {$(
        #[test]
        fn $name() {
            let found = finds_in_engine(&Setting::SMALL, EngineMistake::$mistake, 200);
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

macro_rules! planted_in_copies {
    ($($name:ident: $mistake:ident,)*) => {$(
        #[test]
        fn $name() {
            let found = finds_in_copies(&Setting::ROOMY, Mistake::$mistake, 200);
            assert!(found.is_some(), "the mistake {:?} goes unnoticed", Mistake::$mistake);
        }
    )*};
}

planted_in_copies! {
    slots_that_are_released_while_the_store_is_copied_are_noticed: ReleasesHeldSlots,
    a_log_that_is_reused_while_it_is_copied_is_noticed: ReusesLogOfCopy,
    a_copy_that_is_named_before_its_pages_are_durable_is_noticed: NamesCopyBeforeFlush,
}

#[test]
fn a_flush_that_is_tried_again_is_noticed() {
    let setting = Setting { errors: 0.02, ..Setting::SMALL };
    assert!(finds(&setting, Mistake::RetriesFlush, 200).is_some());
}

#[test]
fn damage_taken_for_the_end_of_the_log_is_noticed() {
    assert!(finds_damage(Mistake::TakesDamageForEnd));
}

#[test]
fn a_store_closed_without_a_word_on_where_its_log_ends_is_noticed() {
    assert!(finds_damage(Mistake::ForgetsLogEnd));
}

#[test]
fn checksums_that_nobody_looks_at_are_noticed() {
    assert!(finds_damage(Mistake::IgnoresChecksums));
}

#[test]
fn an_old_superblock_that_is_believed_is_noticed() {
    assert!(finds_damage(Mistake::BelievesOldSuperblock));
}
