//! Prints the tables of docs/scale.md.

use longhaul_scale::{report, setting};

fn main() {
    println!("{}", report::tables(setting::all(), setting::neighbours()));
}
