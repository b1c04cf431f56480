//! [`ReadRing`]: page reads through io_uring, behind an interface that cannot be misused.
//!
//! The only unsafe code of the study is here: the kernel writes into buffers it was told of earlier.

use std::fs::File;
use std::io;
use std::mem;
use std::os::fd::AsRawFd;

use io_uring::{IoUring, opcode, types};

use super::probe::{PAGE_BYTES, Page};

/// A ring, the buffers that reads go to, and the file they come from. One read a slot at a time.
pub(super) struct ReadRing<'f> {
    ring: IoUring,
    file: &'f File,
    pages: Vec<Page>,
    in_flight: Vec<bool>,
}

impl<'f> ReadRing<'f> {
    /// A ring for up to `slots` reads of `file` at once.
    pub(super) fn new(file: &'f File, slots: u32) -> io::Result<ReadRing<'f>> {
        let ring = new_ring(slots.next_power_of_two())?;
        let pages = Page::touched(slots as usize);
        Ok(ReadRing { ring, file, pages, in_flight: vec![false; slots as usize] })
    }

    /// Queues a read of the page at byte `offset` into `slot`; [`wait`](ReadRing::wait) submits it.
    ///
    /// # Panics
    /// When the slot's last read has not been given back yet.
    pub(super) fn read(&mut self, slot: usize, offset: u64) -> io::Result<()> {
        assert!(!self.in_flight[slot], "slot {slot} is still being read into");
        let page = self.pages[slot].0.as_mut_ptr();
        let read = opcode::Read::new(types::Fd(self.file.as_raw_fd()), page, PAGE_BYTES as u32)
            .offset(offset)
            .build()
            .user_data(slot as u64);
        // SAFETY: `page` points to PAGE_BYTES bytes of a vector that is never resized, and nothing
        // reads or writes that page while `in_flight` says so. `drop` waits for every read or,
        // failing that, leaks the pages; the file is borrowed for as long as `self` lives.
        unsafe { self.ring.submission().push(&read) }.map_err(io::Error::other)?;
        self.in_flight[slot] = true;
        Ok(())
    }

    /// Submits what is queued and waits until at least `count` reads are done, in one call.
    pub(super) fn wait(&mut self, count: usize) -> io::Result<()> {
        loop {
            match self.ring.submit_and_wait(count) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                outcome => return outcome.map(drop),
            }
        }
    }

    /// Calls `done` with the slot and the outcome of each read that has finished.
    ///
    /// # Errors
    /// The first error of a read, or a read that came back short.
    pub(super) fn finished(&mut self, mut done: impl FnMut(usize)) -> io::Result<()> {
        let mut outcome = Ok(());
        for completion in self.ring.completion() {
            let slot = completion.user_data() as usize;
            self.in_flight[slot] = false;
            match completion.result() {
                bytes if bytes == PAGE_BYTES as i32 => done(slot),
                bytes if bytes >= 0 => outcome = Err(io::ErrorKind::UnexpectedEof.into()),
                errno => outcome = Err(io::Error::from_raw_os_error(-errno)),
            }
        }
        outcome
    }
}

impl Drop for ReadRing<'_> {
    fn drop(&mut self) {
        while self.in_flight.contains(&true) {
            if self.wait(1).is_err() {
                // The kernel may still write to the pages: never give them back.
                mem::forget(mem::take(&mut self.pages));
                return;
            }
            // An error of one read says nothing about the others.
            let _ = self.finished(drop);
        }
    }
}

/// Whether a request that does nothing is completed.
pub(super) fn complete_nothing(ring: &mut IoUring) -> io::Result<()> {
    // SAFETY: a no-op refers to no memory and no file.
    unsafe { ring.submission().push(&opcode::Nop::new().build()) }.map_err(io::Error::other)?;
    ring.submit_and_wait(1)?;
    match ring.completion().next() {
        Some(_) => Ok(()),
        None => Err(io::Error::other("a request was not completed")),
    }
}

/// A ring with the cheapest settings that this kernel knows.
pub(super) fn new_ring(entries: u32) -> io::Result<IoUring> {
    IoUring::builder()
        .setup_single_issuer()
        .setup_coop_taskrun()
        .build(entries)
        .or_else(|_| IoUring::new(entries))
}
