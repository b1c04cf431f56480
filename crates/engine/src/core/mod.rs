//! A core of the engine: the loop that runs jobs on fibers, and the memory that a job sees.

pub(crate) mod engine_state;
pub(crate) mod flash_memory;
pub(crate) mod job;
pub(crate) mod job_error;
pub(crate) mod log_writer;
pub(crate) mod worker;
