//! The time of commands, from which the mean queue depth follows.

use ebbtide_core::{PageId, Span, Time};
use ebbtide_flash::{Command, Config, Flash, Kind};

/// Submits a read each `every_us`, a hundred of them, and waits for all. Gives the time of
/// commands, and the sum of what each took.
fn commands_time(preset: &str, every_us: u64) -> (Span, Span) {
    let mut flash = Flash::new(&Config::preset(preset).expect("shipped")).expect("possible");
    let (mut done, submitted) =
        (Vec::new(), |number: u64| Time::from_ns(number * every_us * 1_000));
    for number in 0..100 {
        let now = submitted(number);
        flash.advance(now, &mut done);
        flash.submit(now, Command { tag: number, kind: Kind::Read, page: PageId(number * 64) });
    }
    while let Some(at) = flash.next_event() {
        flash.advance(at, &mut done);
    }
    let took = done.iter().map(|done| done.at.since(submitted(done.tag)).as_ps()).sum();
    (flash.counters().commands_time, Span::from_ps(took))
}

#[test]
fn the_time_of_commands_is_what_each_took() {
    // Flat flash takes 50 us for each; on one die of the other they queue.
    let (counted, took) = commands_time("flat", 10);
    assert_eq!((counted, counted), (took, Span::from_us(100 * 50)));
    let (counted, took) = commands_time("ull", 2);
    assert_eq!(counted, took);
    assert!(took > Span::from_us(100 * 20), "{took:?}");
}
