//! Every mistake that a patch plants in the protocol is found.

// The tests of the protocol, over the copy of it that has the mistakes.
extern crate ebbtide_planted as ebbtide_core;

#[path = "../../testbed/src/power_loss/mod.rs"]
#[expect(dead_code, unused_imports, reason = "these tests use a part of it")]
mod power_loss;

use ebbtide_planted::{MISTAKES, plant};
use power_loss::{Setting, copies, damage, first_violation, sample};

#[test]
fn every_patch_applies_and_has_a_test() {
    let mut patches = 0;
    for patch in std::fs::read_dir("mistakes").expect("the folder of patches") {
        let path = patch.expect("a patch").path();
        let name = path.file_stem().expect("a name").to_string_lossy();
        assert!(MISTAKES.contains(&&*name), "mistakes/{name}.patch does not apply");
        assert!(include_str!("found.rs").contains(&format!("\"{name}\"")), "{name} has no test");
        patches += 1;
    }
    assert!(patches > 0, "there are no patches");
}

#[test]
fn without_a_mistake_nothing_is_found() {
    assert_eq!(first_violation(&Setting::SMALL, 3).map(|found| found.to_string()), None);
}

/// Searches for a mistake by damage, which [`first_violation`] does not try.
fn finds_damage(mistake: &'static str) -> bool {
    plant(mistake);
    (0..200).any(|seed| damage(&Setting::SMALL, seed, 300).is_err())
}

macro_rules! planted {
    ($($name:ident: $mistake:literal,)*) => {$(
        #[test]
        fn $name() {
            plant($mistake);
            let found = first_violation(&Setting::SMALL, 200);
            assert!(found.is_some(), "the mistake {} goes unnoticed", $mistake);
        }
    )*};
}

#[test]
fn transactions_that_take_the_room_of_map_records_are_noticed() {
    // This needs a long transaction when the log is almost full.
    plant("spends-room-of-maps");
    assert!((0..2_000).any(|seed| sample(&Setting::SMALL, seed, 2_000, 0.0).is_err()));
}

planted! {
    an_acknowledgement_before_the_flush_is_noticed: "acknowledges-before-flush",
    a_slot_that_is_free_before_its_record_is_durable_is_noticed: "frees-slot-at-once",
    a_page_forgotten_before_its_record_is_durable_is_noticed: "forgets-stores-at-map",
    a_copy_that_is_said_to_cover_more_than_it_does_is_noticed: "covers-too-much",
    a_superblock_that_names_an_unflushed_base_map_is_noticed: "names-base-before-flush",
    a_log_reused_before_its_superblock_is_durable_is_noticed: "reuses-log-early",
    a_checkpoint_that_is_too_eager_is_noticed: "horizon-too-late",
    a_map_record_that_outlives_its_copy_is_noticed: "trusts-unflushed-maps",
    recovery_over_the_last_copy_is_noticed: "recovers-in-place",
    a_log_block_of_an_older_boot_is_noticed: "accepts-old-boot",
    records_that_are_applied_twice_are_noticed: "applies-old-lap",
    half_a_record_is_noticed: "applies-half-record",
}

macro_rules! planted_in_copies {
    ($($name:ident: $mistake:literal,)*) => {$(
        #[test]
        fn $name() {
            plant($mistake);
            let found = (0..200).any(|seed| copies(&Setting::ROOMY, seed, 2_000).is_err());
            assert!(found, "the mistake {} goes unnoticed", $mistake);
        }
    )*};
}

planted_in_copies! {
    slots_that_are_released_while_the_store_is_copied_are_noticed: "releases-held-slots",
    a_log_that_is_reused_while_it_is_copied_is_noticed: "reuses-log-of-copy",
    a_copy_that_is_named_before_its_pages_are_durable_is_noticed: "names-copy-before-flush",
}

#[test]
fn a_flush_that_is_tried_again_is_noticed() {
    let setting = Setting { errors: 0.02, ..Setting::SMALL };
    plant("retries-flush");
    assert!(first_violation(&setting, 200).is_some());
}

#[test]
fn damage_taken_for_the_end_of_the_log_is_noticed() {
    assert!(finds_damage("takes-damage-for-end"));
}

#[test]
fn a_store_closed_without_a_word_on_where_its_log_ends_is_noticed() {
    assert!(finds_damage("forgets-log-end"));
}

#[test]
fn checksums_that_nobody_looks_at_are_noticed() {
    assert!(finds_damage("ignores-checksums"));
}

#[test]
fn an_old_superblock_that_is_believed_is_noticed() {
    assert!(finds_damage("believes-old-superblock"));
}
