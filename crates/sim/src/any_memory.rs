//! [`AnyMemory`]: a memory behind a pointer, over which each program is compiled once.

use ebbtide_core::{Addr, FullMemory, Hint, Memory, PageId, Value, check_access};
use ebbtide_workloads::{Accesses, Corrupt, Program, Workload};

use crate::contents::Contents;

/// A [`Memory`] whose type is not known when a program is compiled. A value is the bytes of whole
/// words within one line, which the caller has checked.
///
/// By default no job waits, because one job runs at a time, and computing takes no time.
pub(crate) trait AnyMemory {
    /// Size of the address space in bytes.
    fn size_bytes(&self) -> u64;

    /// Loads the value at `at` into `out`.
    fn load(&mut self, at: Addr, out: &mut [u8]);

    /// Loads the values at `at` into `out`, one after the other. All have one size, and `at` is not
    /// empty.
    fn load_all(&mut self, at: &[Addr], out: &mut [u8]) {
        let bytes = out.len() / at.len();
        for (at, out) in at.iter().zip(out.chunks_exact_mut(bytes)) {
            self.load(*at, out);
        }
    }

    /// Stores `value` at `at`.
    fn store(&mut self, at: Addr, value: &[u8]);

    /// As [`Memory::compare_exchange`].
    fn compare_exchange(&mut self, at: Addr, current: u64, new: u64) -> Result<u64, u64>;

    /// As [`FullMemory::work`].
    fn work(&mut self, _instructions: u64) {}

    /// As [`Memory::wait`].
    fn wait(&mut self, _at: Addr, _seen: u64) {}

    /// As [`Memory::wake`].
    fn wake(&mut self, _at: Addr) {}

    /// As [`Memory::hint`].
    fn hint(&mut self, _hint: Hint) {}
}

impl Memory for &mut (dyn AnyMemory + '_) {
    fn size_bytes(&self) -> u64 {
        (**self).size_bytes()
    }

    #[inline]
    fn load<T: Value>(&mut self, at: Addr) -> T {
        check_access::<T>(at);
        let mut value = T::zeroed();
        (**self).load(at, bytemuck::bytes_of_mut(&mut value));
        value
    }

    #[inline]
    fn store<T: Value>(&mut self, at: Addr, value: T) {
        check_access::<T>(at);
        (**self).store(at, bytemuck::bytes_of(&value));
    }

    fn compare_exchange(&mut self, at: Addr, current: u64, new: u64) -> Result<u64, u64> {
        check_access::<u64>(at);
        (**self).compare_exchange(at, current, new)
    }

    fn wait(&mut self, at: Addr, seen: u64) {
        (**self).wait(at, seen);
    }

    fn wake(&mut self, at: Addr) {
        (**self).wake(at);
    }

    fn hint(&mut self, hint: Hint) {
        (**self).hint(hint);
    }
}

impl FullMemory for &mut (dyn AnyMemory + '_) {
    fn load_all<T: Value>(&mut self, at: &[Addr], out: &mut [T]) {
        assert_eq!(at.len(), out.len(), "a value for each address");
        at.iter().for_each(|at| check_access::<T>(*at));
        if !at.is_empty() {
            (**self).load_all(at, bytemuck::cast_slice_mut(out));
        }
    }

    fn work(&mut self, instructions: u64) {
        (**self).work(instructions);
    }
}

/// A program of any [`Workload`] type, as the machine runs it.
pub(crate) trait Jobs {
    /// Runs a job.
    fn run(&self, job: u64, memory: &mut dyn AnyMemory) -> Result<(), Corrupt>;

    /// As [`Workload::accesses`].
    fn accesses(&self, job: u64, accesses: &mut Accesses) -> bool;

    /// As [`Workload::writes`].
    fn writes(&self) -> bool;
}

impl<W: Workload> Jobs for W {
    fn run(&self, job: u64, mut memory: &mut dyn AnyMemory) -> Result<(), Corrupt> {
        Workload::run(self, job, &mut memory)
    }

    fn accesses(&self, job: u64, accesses: &mut Accesses) -> bool {
        Workload::accesses(self, job, accesses)
    }

    fn writes(&self) -> bool {
        Workload::writes(self)
    }
}

/// Runs a job of `program` over `contents` alone, where accesses take no time. Calls `touch` with
/// the page of each access and whether the access is a store.
///
/// # Errors
/// [`Corrupt`] if the program reads a value that it cannot have stored.
pub fn run_traced(
    program: &Program,
    job: u64,
    contents: &mut Contents,
    touch: &mut dyn FnMut(PageId, bool),
) -> Result<(), Corrupt> {
    Jobs::run(program, job, &mut TracedMemory { contents, touch })
}

/// The contents of a program's memory, and a function to call at each access.
struct TracedMemory<'a> {
    contents: &'a mut Contents,
    touch: &'a mut dyn FnMut(PageId, bool),
}

impl AnyMemory for TracedMemory<'_> {
    fn size_bytes(&self) -> u64 {
        self.contents.size_bytes()
    }

    fn load(&mut self, at: Addr, out: &mut [u8]) {
        (self.touch)(at.page(), false);
        self.contents.read(at, out);
    }

    fn store(&mut self, at: Addr, value: &[u8]) {
        (self.touch)(at.page(), true);
        self.contents.write(at, value);
    }

    fn compare_exchange(&mut self, at: Addr, current: u64, new: u64) -> Result<u64, u64> {
        (self.touch)(at.page(), true);
        self.contents.compare_exchange(at, current, new)
    }
}
