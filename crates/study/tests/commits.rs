//! Tests that predictions of durable transactions depend on the SSD, the flush and the policy as
//! they must.

use ebbtide_core::durability::Policy;
use ebbtide_core::{Bytes, Span, Watch};
use ebbtide_study::commits::{CommitError, CommitOptions, Predicted, predict};

fn options() -> CommitOptions {
    CommitOptions {
        device: "astriflash-256g".into(),
        dataset: Bytes(64 << 20),
        dram: Bytes(8 << 20),
        log: Bytes(4 << 20),
        jobs: 32,
        cpu: Span::from_us(10),
        policies: vec![Policy::Always],
        flushes: vec![Span::from_us(20)],
        transactions: 8_000,
        seed: 1,
    }
}

fn predicted(options: &CommitOptions) -> Vec<Predicted> {
    predict(options, Watch::unattended()).unwrap().predicted
}

#[test]
fn a_flush_that_takes_long_serves_many_and_bounds_what_one_job_commits() {
    let flushes = vec![Span::from_us(20), Span::from_us(8_000)];
    let all = predicted(&CommitOptions { flushes: flushes.clone(), ..options() });
    let [fast, slow] = [&all[0], &all[2]];
    assert!(fast.capacitors && slow.capacitors && slow.flush_us == 8_000.0);
    assert!(slow.commits_per_flush > fast.commits_per_flush, "{fast:?} {slow:?}");
    assert!(slow.p50_us >= 8_000.0 && slow.p99_us >= slow.p50_us, "{slow:?}");
    assert!(slow.commits_per_s < fast.commits_per_s);
    // 32 jobs commit at most once a flush each.
    assert!(slow.commits_per_s <= 32.0 / 8e-3, "{slow:?}");
    assert!(slow.log_bytes < fast.log_bytes, "a flush ends a block");
    let alone = predicted(&CommitOptions { flushes, jobs: 1, ..options() });
    assert!((0.9..1.1).contains(&alone[2].commits_per_flush), "{:?}", alone[2]);
    assert!(alone[2].commits_per_s < 1.0 / 8e-3);
}

#[test]
fn capacitors_and_weaker_policies_never_cost_commits() {
    let every = Policy::Every(Span::from_us(1_000_000));
    let policies = vec![Policy::None, every, Policy::Always];
    let all = predicted(&CommitOptions { policies, ..options() });
    for pair in all.chunks(2) {
        assert!(pair[0].commits_per_s >= 0.98 * pair[1].commits_per_s, "{pair:?}");
        assert!(pair[0].years.is_finite() && pair[0].flash_bytes > 104.0);
    }
    let [none, every, always] = [&all[1], &all[3], &all[5]];
    assert!(none.commits_per_s >= 0.98 * every.commits_per_s);
    assert!(every.commits_per_s > 1.5 * always.commits_per_s, "{every:?} {always:?}");
    assert!(always.p50_us > every.p50_us);
    assert!(every.commits_per_flush > 10.0 * always.commits_per_flush);
}

#[test]
fn the_core_bounds_what_is_computed_and_the_same_options_give_the_same() {
    let policies = vec![Policy::None];
    let options = CommitOptions { policies, dram: Bytes(64 << 20), ..options() };
    let one = predicted(&options);
    assert!(one[0].commits_per_s <= 1e5 * 1.001, "10 us each: {:?}", one[0]);
    assert!(one[0].commits_per_s > 0.5e5, "{:?}", one[0]);
    let again = predicted(&options);
    assert_eq!(one[0].commits_per_s, again[0].commits_per_s);
    assert_eq!(one[1].flash_bytes, again[1].flash_bytes);
}

#[test]
fn what_is_impossible_is_refused_with_what_was_expected() {
    let refused = |options: &CommitOptions| predict(options, Watch::unattended()).unwrap_err();
    let flat = refused(&CommitOptions { device: "flat".into(), ..options() });
    assert!(matches!(flat, CommitError::Flat(_)), "{flat}");
    let small = refused(&CommitOptions { log: Bytes(4096), ..options() });
    assert!(small.to_string().starts_with("the log is 4.00 KiB: expected 1.25 MiB"), "{small}");
    assert!(matches!(
        refused(&CommitOptions { dataset: Bytes(0), ..options() }),
        CommitError::Size { .. }
    ));
    assert!(matches!(
        refused(&CommitOptions { dram: Bytes(4096), ..options() }),
        CommitError::Size { .. }
    ));
    assert!(matches!(
        refused(&CommitOptions { device: "no".into(), ..options() }),
        CommitError::Device(_)
    ));
}
