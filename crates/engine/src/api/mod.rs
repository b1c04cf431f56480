//! What programs use: the engine, its options and budget, jobs from outside, and stores.

pub(crate) mod budget;
pub(crate) mod engine;
pub(crate) mod engine_error;
pub(crate) mod job_queue;
pub(crate) mod job_scope;
pub(crate) mod mapped_memory;
pub(crate) mod options;
pub(crate) mod rows;
pub(crate) mod store_copy;
pub(crate) mod store_growth;
pub(crate) mod ticket;
pub(crate) mod tuning;
