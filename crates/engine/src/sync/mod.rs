//! What cores share and meet at: epochs, mailboxes, wait queues, counters and the table of jobs.

pub(crate) mod counters;
pub(crate) mod departures;
pub(crate) mod epoch;
pub(crate) mod holds;
pub(crate) mod job_table;
pub(crate) mod mailbox;
pub(crate) mod wait_queues;
