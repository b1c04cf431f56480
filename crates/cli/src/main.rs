//! The `ebbtide` command.
fn main() {}
