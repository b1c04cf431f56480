//! The limits of a transaction's stores.

use ebbtide_core::durability::{Policy, TransactionError};
use ebbtide_core::{Addr, Memory};
use ebbtide_engine::JobError;

use super::{PAGES, create, folder, options, start, word};

#[test]
fn a_transaction_beyond_its_bound_says_the_bound_and_stores_nothing() {
    let folder = folder();
    let jobs = start(&create(&folder.path().join("store"), 1 << 20), &options(1, Policy::None));
    let store = |words: u64| {
        let job = move |memory: &mut ebbtide_engine::FlashMemory<'_>| {
            memory.transaction(|memory| {
                (0..words).for_each(|word| memory.store(Addr(word * 8), word + 1));
            })
        };
        jobs.submit(job).wait().unwrap()
    };
    let error = store(8193).unwrap_err();
    assert!(matches!(error, TransactionError::TooLarge { max: 65536, .. }), "{error}");
    assert_eq!(jobs.submit(|memory| memory.load::<u64>(Addr(0))).wait().unwrap(), 0);
    store(8192).unwrap();
    assert_eq!(jobs.submit(|memory| memory.load::<u64>(Addr(65528))).wait().unwrap(), 8192);
}

#[test]
fn bytes_beside_those_stored_in_a_transaction_keep_their_values() {
    let folder = folder();
    let jobs = start(&create(&folder.path().join("store"), 1 << 20), &options(1, Policy::None));
    let read = jobs.submit(|memory| {
        memory.write_bytes(Addr(0), &[7; 40]);
        memory.transaction(|memory| memory.write_bytes(Addr(5), &[9; 22])).unwrap();
        let mut bytes = [0; 40];
        memory.read_bytes(Addr(0), &mut bytes);
        bytes
    });
    let expected: Vec<u8> = [(7, 5), (9, 22), (7, 13)].map(|(byte, n)| vec![byte; n]).concat();
    assert_eq!(read.wait().unwrap()[..], expected);
}

#[test]
fn what_lies_beyond_the_end_is_an_error_in_a_transaction_as_well() {
    let folder = folder();
    let jobs = start(&create(&folder.path().join("store"), 1 << 20), &options(1, Policy::None));
    let bad: [fn(&mut ebbtide_engine::FlashMemory<'_>, Addr); 3] = [
        |memory, at| assert_ne!(memory.load::<u64>(at), 1),
        |memory, at| memory.store::<u64>(at, 1),
        |memory, at| assert!(memory.compare_exchange(at, 0, 1).is_ok()),
    ];
    for bad in bad {
        let ended = jobs.submit(move |memory| {
            memory.transaction(|memory| bad(memory, word(PAGES))).unwrap();
        });
        let ended = ended.wait();
        let beyond = |said: &str| said.contains("beyond the address space");
        assert!(matches!(&ended, Err(JobError::Panicked(said)) if beyond(said)), "{ended:?}");
    }
}

#[test]
fn a_transaction_may_store_to_as_many_pages_as_it_says_and_to_no_more() {
    let folder = folder();
    let jobs = start(&create(&folder.path().join("store"), 1 << 20), &options(1, Policy::None));
    let store = |pages: u64| {
        let job = move |memory: &mut ebbtide_engine::FlashMemory<'_>| {
            memory.transaction(|memory| (0..pages).for_each(|page| memory.store(word(page), 7u64)))
        };
        jobs.submit(job).wait().unwrap()
    };
    let error = store(1000).unwrap_err();
    let TransactionError::TooLarge { max, .. } = &error else { panic!("{error}") };
    assert!(error.to_string().contains("to 1000 pages"), "{error}");
    store(*max).unwrap();
    store(max + 1).unwrap_err();
}
