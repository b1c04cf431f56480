//! Versions of the protocol of Redis.

/// A version of the protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Protocol {
    /// RESP2, which every client speaks.
    #[default]
    Two,
    /// RESP3, chosen by `HELLO 3`.
    Three,
}
