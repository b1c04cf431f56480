//! Random bytes that nobody can guess.

/// Fills `bytes` with random numbers of the kernel. Returns false if there are none.
pub(crate) fn fill(bytes: &mut [u8]) -> bool {
    rustls::crypto::ring::default_provider().secure_random.fill(bytes).is_ok()
}

/// Returns random hexadecimal digits; `None` if there are no random numbers.
pub(crate) fn digits(count: usize) -> Option<String> {
    let mut bytes = vec![0; count.div_ceil(2)];
    let filled = fill(&mut bytes);
    let mut digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    digits.truncate(count);
    filled.then_some(digits)
}
