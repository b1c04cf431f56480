//! The figures and tables of the paper's page and text.

pub(crate) mod page;
