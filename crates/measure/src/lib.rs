//! Experiments on this machine: what it permits and what its flash does ([`doctor`]), and how good
//! flash is as memory here ([`bench`]).

#![forbid(unsafe_code)]

pub mod bench;
pub mod cgroup;
pub mod doctor;
