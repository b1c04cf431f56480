//! The study.

pub mod doctor;
pub mod report;
