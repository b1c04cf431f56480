//! [`PageReads`]: page reads of a file through a ring of their own, for measuring a device.
//!
//! Unlike a [`Queue`](super::Queue), it owns the memory that is read into, so that safe code can
//! use it.

use std::fs::File;
use std::io;
use std::mem;
use std::os::fd::AsRawFd;

use ebbtide_core::PAGE_BYTES;
use io_uring::{IoUring, opcode, types};

/// The memory of a page, aligned as direct I/O needs it.
#[derive(Clone)]
#[repr(C, align(4096))]
struct Page([u8; PAGE_BYTES]);

/// A ring, the pages that reads go to, and the file that they come from. Each slot has a page and
/// one read in flight at most.
pub struct PageReads<'f> {
    ring: IoUring,
    file: &'f File,
    pages: Vec<Page>,
    in_flight: Vec<bool>,
}

impl<'f> PageReads<'f> {
    /// A ring for up to `slots` reads of `file` in flight. The pages are written to beforehand, so
    /// that no read meets a page fault.
    ///
    /// # Errors
    /// When this kernel or container refuses io_uring.
    pub fn new(file: &'f File, slots: u32) -> io::Result<PageReads<'f>> {
        let ring = ring(slots.next_power_of_two())?;
        let pages = vec![Page([1; PAGE_BYTES]); slots as usize];
        Ok(PageReads { ring, file, pages, in_flight: vec![false; slots as usize] })
    }

    /// Queues a read of the page at byte `offset` into `slot`; [`wait`](PageReads::wait) submits
    /// it.
    ///
    /// # Errors
    /// When the ring is full.
    ///
    /// # Panics
    /// When the slot's previous read is still in flight.
    pub fn read(&mut self, slot: usize, offset: u64) -> io::Result<()> {
        assert!(!self.in_flight[slot], "slot {slot} has a read in flight");
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

    /// Submits the queued reads and waits until at least `count` reads are done, in one call.
    ///
    /// # Errors
    /// When the kernel refuses the submission.
    pub fn wait(&mut self, count: usize) -> io::Result<()> {
        loop {
            match self.ring.submit_and_wait(count) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                outcome => return outcome.map(drop),
            }
        }
    }

    /// Calls `done` with the slot of each read that has succeeded since the last call.
    ///
    /// # Errors
    /// The last error among the reads that have ended; a short read is one.
    pub fn finished(&mut self, mut done: impl FnMut(usize)) -> io::Result<()> {
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

impl Drop for PageReads<'_> {
    fn drop(&mut self) {
        while self.in_flight.contains(&true) {
            if self.wait(1).is_err() {
                // The kernel may still write to the pages: they are never freed.
                mem::forget(mem::take(&mut self.pages));
                return;
            }
            // The error of one read says nothing about the others.
            let _ = self.finished(drop);
        }
    }
}

/// Checks that a ring can be set up and completes an empty request.
///
/// # Errors
/// The step that the kernel refused.
pub fn try_ring() -> io::Result<()> {
    let mut ring = ring(8)?;
    // SAFETY: a no-op refers to no memory and no file.
    unsafe { ring.submission().push(&opcode::Nop::new().build()) }.map_err(io::Error::other)?;
    ring.submit_and_wait(1)?;
    match ring.completion().next() {
        Some(_) => Ok(()),
        None => Err(io::Error::other("a request was not completed")),
    }
}

/// A ring of one thread, with the cheapest settings that this kernel knows.
fn ring(entries: u32) -> io::Result<IoUring> {
    IoUring::builder()
        .setup_single_issuer()
        .setup_coop_taskrun()
        .build(entries)
        .or_else(|_| IoUring::new(entries))
}
