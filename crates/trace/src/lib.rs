//! Traces of memory accesses: formats, read and written as streams.

#![forbid(unsafe_code)]
