//! System calls on bytes of a region, most of which are not in DRAM.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::net::UnixStream;

use ebbtide_engine::mapped::Region;

use super::{Fixture, PAGE, fixture, small, works_here};

/// Where a test puts its bytes: they span 100 pages and begin within one.
const AT: usize = 5 * PAGE + 100;
const BYTES: usize = 100 * PAGE;

fn expected() -> Vec<u8> {
    (0..BYTES).map(|n| (n % 251) as u8).collect()
}

/// Calls `call` with the offset and the number of bytes left, until all are moved.
fn all(mut call: impl FnMut(usize, usize) -> std::io::Result<usize>) {
    let mut done = 0;
    while done < BYTES {
        let moved = call(done, BYTES - done).expect("the call works");
        assert!(moved > 0, "the end after {done} bytes");
        done += moved;
    }
}

/// The address of the bytes, as a number, which jobs may take along.
fn place(region: &Region) -> usize {
    region.start().as_ptr() as usize + AT
}

/// Uses so many other pages that the bytes leave DRAM.
fn displace(region: &Region) {
    let start = region.start().as_ptr();
    for page in (AT + BYTES) / PAGE + 1..region.bytes() / PAGE {
        // SAFETY: a byte of the region, which nothing else uses.
        unsafe { start.add(page * PAGE).write_volatile(1) };
    }
}

#[test]
fn files_are_read_to_a_region_and_written_from_it() {
    if !works_here() {
        return;
    }
    let Fixture { store, _folder } = fixture(small);
    let region = store.mapped("16MiB").expect("it fits");
    let mut from = tempfile::tempfile_in(".").expect("a file");
    from.write_all(&expected()).expect("written");
    from.seek(SeekFrom::Start(0)).expect("a place");
    let to = tempfile::tempfile_in(".").expect("a file");
    let mut to_read: File = to.try_clone().expect("a handle");
    let (inside, at) = (region.clone(), place(&region));
    store
        .run(move || {
            // SAFETY: the bytes are in the region, and only this job uses them.
            all(|done, left| unsafe { inside.read(&from, (at + done) as *mut u8, left) });
            displace(&inside);
            // SAFETY: as above.
            all(|done, left| unsafe { inside.write(&to, (at + done) as *const u8, left) });
        })
        .expect("the job ends well");
    let mut found = Vec::new();
    to_read.seek(SeekFrom::Start(0)).expect("a place");
    to_read.read_to_end(&mut found).expect("read");
    assert!(found == expected(), "the file has other bytes");
}

#[test]
fn sockets_receive_to_a_region_and_send_from_it() {
    if !works_here() {
        return;
    }
    let Fixture { store, _folder } = fixture(small);
    let region = store.mapped("16MiB").expect("it fits");
    let (here, mut there) = UnixStream::pair().expect("sockets");
    let peer = std::thread::spawn(move || {
        there.write_all(&expected()).expect("sent");
        let mut back = vec![0; BYTES];
        there.read_exact(&mut back).expect("received");
        back
    });
    let (inside, at) = (region.clone(), place(&region));
    store
        .run(move || {
            // SAFETY: the bytes are in the region, and only this job uses them.
            all(|done, left| unsafe { inside.recv(&here, (at + done) as *mut u8, left, 0) });
            displace(&inside);
            // SAFETY: as above.
            all(|done, left| unsafe { inside.send(&here, (at + done) as *const u8, left, 0) });
        })
        .expect("the job ends well");
    assert!(peer.join().expect("no panic") == expected(), "other bytes came back");
}

#[test]
fn bytes_elsewhere_are_passed_on_and_those_across_the_end_are_refused() {
    if !works_here() {
        return;
    }
    let Fixture { store, _folder } = fixture(small);
    let region = store.mapped("1MiB").expect("it fits");
    let file = tempfile::tempfile_in(".").expect("a file");
    let bytes = *b"elsewhere";
    // SAFETY: the bytes are this array's.
    assert_eq!(unsafe { region.write(&file, bytes.as_ptr(), bytes.len()) }.expect("written"), 9);
    let near_end = region.start().as_ptr().wrapping_add(region.bytes() - 4);
    // SAFETY: the call refuses them.
    let refused = unsafe { region.write(&file, near_end, 8) }.expect_err("across the end");
    assert_eq!(refused.kind(), std::io::ErrorKind::InvalidInput);
    // SAFETY: the last bytes of the region.
    assert_eq!(unsafe { region.write(&file, near_end, 4) }.expect("written"), 4);
}

#[test]
fn bytes_that_enclose_a_region_are_refused() {
    if !works_here() {
        return;
    }
    let Fixture { store, _folder } = fixture(small);
    let region = store.mapped("64KiB").expect("it fits");
    let file = tempfile::tempfile_in(".").expect("a file");
    let before = region.start().as_ptr().wrapping_sub(8);
    // Below 256 KiB, so that one call would move them all.
    for bytes in [region.bytes() + 8, region.bytes() + 16] {
        // SAFETY: the call refuses them.
        let refused = unsafe { region.write(&file, before, bytes) }.expect_err("a part of them");
        assert_eq!(refused.kind(), std::io::ErrorKind::InvalidInput, "{bytes} bytes");
    }
    // SAFETY: no byte is written.
    assert_eq!(unsafe { region.write(&file, before, 0) }.expect("nothing to write"), 0);
}
