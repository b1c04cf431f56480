//! The simulated machine, and the published systems as compositions of its parts.

#![forbid(unsafe_code)]
