//! Reads that suspend programs and erasures.

mod common;

use common::{Host, PROGRAM, READ, TRANSFER, about_to_collect, small, us};
use ebbtide_core::Span;
use ebbtide_flash::{GarbageCollection, SsdConfig, Suspend};

const SUSPEND: Span = Span::from_us(5);
const RESUME: Span = Span::from_us(2);

fn suspending(suspend: Suspend, config: SsdConfig) -> SsdConfig {
    SsdConfig { suspend, suspend_us: 5.0, resume_us: 2.0, suspensions_max: 2, ..config }
}

#[test]
fn a_suspended_program_loses_no_time_but_the_overhead() {
    let mut host = Host::new(suspending(Suspend::ProgramErase, small()));
    let write = host.write(us(0), 0);
    let reads = [4, 8].map(|page| host.read(us(50), page));
    host.finish();
    let reading = READ + TRANSFER;
    assert_eq!(host.done(reads[0]).at, us(50) + SUSPEND + reading);
    assert_eq!(host.done(reads[1]).at, us(50) + SUSPEND + reading + reading);
    let overhead = SUSPEND + reading + reading + RESUME;
    assert_eq!(host.done(write).at, us(0) + TRANSFER + PROGRAM + overhead);
    assert_eq!(host.done(write).queued, overhead);
    assert_eq!(host.flash.counters().suspensions, 1);
}

#[test]
fn a_program_is_suspended_no_more_often_than_allowed() {
    let mut host = Host::new(suspending(Suspend::ProgramErase, small()));
    host.write(us(0), 0);
    let reads = [20, 60, 100].map(|at| host.read(us(at), 4));
    host.finish();
    assert_eq!(host.flash.counters().suspensions, 2);
    assert_eq!(host.done(reads[1]).at, us(60) + SUSPEND + READ + TRANSFER);
    assert!(host.done(reads[2]).at > us(130), "{:?}", host.done(reads[2]));
}

#[test]
fn a_program_about_to_end_is_not_suspended() {
    let mut host = Host::new(suspending(Suspend::ProgramErase, small()));
    host.write(us(0), 0);
    let read = host.read(us(100), 4);
    host.finish();
    assert_eq!(host.flash.counters().suspensions, 0);
    assert_eq!(host.done(read).at, us(0) + TRANSFER + PROGRAM + READ + TRANSFER);
}

#[test]
fn an_erasure_is_suspended_where_copies_are_not() {
    let collecting = about_to_collect(GarbageCollection::PlaneBlocking, 11);
    let mut host = Host::new(suspending(Suspend::Erase, collecting));
    host.write(us(0), 0);
    let [copying, erasing] = [110, 900].map(|at| host.read(us(at), 4));
    host.finish();
    assert!((1..4).contains(&host.flash.counters().gc_pages_moved));
    let copies = Span::from_us(110 * host.flash.counters().gc_pages_moved);
    let copied = us(0) + TRANSFER + PROGRAM + copies;
    assert_eq!(host.done(copying).at, copied + SUSPEND + READ + TRANSFER);
    assert_eq!(host.done(erasing).at, us(900) + SUSPEND + READ + TRANSFER);
    assert_eq!([copying, erasing].map(|read| host.done(read).blocked_by_gc), [true, false]);
    assert_eq!(host.flash.counters().suspensions, 2);
}

#[test]
fn a_collection_is_suspended_as_its_programs_are() {
    let collecting = about_to_collect(GarbageCollection::PlaneBlocking, 11);
    let mut host = Host::new(suspending(Suspend::ProgramErase, collecting));
    host.write(us(0), 0);
    let read = host.read(us(200), 4);
    let late = host.read(us(3000), 4);
    host.finish();
    assert_eq!(host.done(read).at, us(200) + SUSPEND + READ + TRANSFER);
    assert_eq!(host.done(late).at, us(3000) + READ + TRANSFER);
}

#[test]
fn without_suspension_a_read_waits_for_the_program() {
    let mut host = Host::new(suspending(Suspend::None, small()));
    host.write(us(0), 0);
    let read = host.read(us(20), 4);
    host.finish();
    assert_eq!(host.done(read).at, us(0) + TRANSFER + PROGRAM + READ + TRANSFER);
}
