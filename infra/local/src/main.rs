//! The `longhaul` program.
fn main() {}
