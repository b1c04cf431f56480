//! What this machine permits and how fast its flash is.

pub mod probe;
mod ring;
