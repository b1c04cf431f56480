//! [`reserve`]: how the buffers of requests and replies grow.

/// The bytes up to which a full buffer doubles. A longer one grows by a quarter, so that little of
/// its memory is unused.
pub(super) const DOUBLED_BYTES_MAX: usize = 64 << 10;

/// Makes room for `more` bytes in `buffer`.
pub(crate) fn reserve(buffer: &mut Vec<u8>, more: usize) {
    let length = buffer.len();
    if more > buffer.capacity() - length && length + more > DOUBLED_BYTES_MAX {
        buffer.reserve_exact(more.max(length / 4));
    }
}
