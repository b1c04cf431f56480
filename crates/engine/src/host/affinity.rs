//! Which CPU a thread runs on.

use std::io;

/// Confines the calling thread to `cpu`.
///
/// # Errors
/// When there is no such CPU, or this process may not use it.
pub fn pin(cpu: usize) -> io::Result<()> {
    confine(&[cpu])
}

/// Confines the calling thread, and all it starts from now on, to `cpus`.
///
/// # Errors
/// When the kernel lets this process run on none of them, or a number is out of range.
pub fn confine(cpus: &[usize]) -> io::Result<()> {
    if cpus.iter().any(|&cpu| cpu >= libc::CPU_SETSIZE as usize) {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    // SAFETY: an all-zero CPU set is a valid empty one; the macro stays within it, as just checked.
    let set = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        cpus.iter().for_each(|&cpu| libc::CPU_SET(cpu, &mut set));
        set
    };
    // SAFETY: `set` outlives the call; 0 is the calling thread.
    let result = unsafe { libc::sched_setaffinity(0, size_of_val(&set), &raw const set) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The CPUs the calling thread may run on.
///
/// # Errors
/// When the kernel does not say.
pub fn allowed() -> io::Result<Vec<usize>> {
    // SAFETY: an all-zero CPU set is a valid one, and the kernel writes at most its size.
    let (result, set) = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        (libc::sched_getaffinity(0, size_of_val(&set), &raw mut set), set)
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: every number is below the size of the set.
    Ok((0..libc::CPU_SETSIZE as usize)
        .filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) })
        .collect())
}
