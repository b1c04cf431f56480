//! The figures and tables of the paper's page and text.

mod page;
mod text;
