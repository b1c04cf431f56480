//! Random combinations of all choices. Every word must be right under each. The example of the same
//! name runs for any time.

use crate::common::swarm::Choices;

const SEEDS: u64 = 60;

#[test]
fn every_word_is_right_under_drawn_choices() {
    let mut failed = 0;
    for seed in 0..SEEDS {
        let outcome = Choices::draw(seed).run();
        assert!(outcome.accesses > 0);
        failed += outcome.failed;
    }
    println!("{failed} jobs met an injected error");
}

#[test]
fn a_seed_draws_the_same_choices_every_time_and_another_seed_others() {
    let text = |seed| format!("{:?}", Choices::draw(seed));
    assert_eq!(text(7), text(7));
    assert_ne!(text(7), text(8));
}
