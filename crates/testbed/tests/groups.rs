//! How transactions share flushes and blocks of the log.

use ebbtide_core::PageId;
use ebbtide_core::durability::{Io, Journal, Lsn, WriteSet, format};
use ebbtide_testbed::power_loss::{DiskModel, Setting, bring_back};

fn journal() -> Journal {
    let mut disk = DiskModel::holding(format(&Setting::SMALL.geometry));
    bring_back(&Setting::SMALL, &mut disk).expect("it is whole").journal
}

fn commit(journal: &mut Journal) -> Lsn {
    let mut set = WriteSet::default();
    set.store(PageId(1).start(), &[7; 8]);
    assert!(journal.try_reserve(8).expect("it goes on"));
    let lsn = journal.commit(&set, || ()).expect("it goes on");
    journal.release(8);
    lsn
}

#[test]
fn what_is_committed_while_a_group_is_written_shares_the_next_flush_and_its_block() {
    let mut journal = journal();
    for _ in 0..3 {
        let first = commit(&mut journal);
        let written = journal.next(true);
        assert!(matches!(&written, Some(Io::Write(blocks)) if blocks.len() == 1), "{written:?}");
        let later = commit(&mut journal);
        journal.done(Ok(()));
        assert!(matches!(journal.next(true), Some(Io::Flush)), "the group is written");
        journal.done(Ok(()));
        assert!((first..later).contains(&journal.durable()));
    }
    assert!(matches!(journal.next(true), Some(Io::Write(_))), "the last group is left");
    journal.done(Ok(()));
    assert!(matches!(journal.next(true), Some(Io::Flush)));
    journal.done(Ok(()));
    assert_eq!(journal.durable(), journal.committed().max(journal.durable()));
    assert!(journal.next(true).is_none());
}
