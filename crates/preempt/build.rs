//! Build script of every crate that has planted bugs: each name in `OVERTAKE_PLANT`, separated by commas, becomes a `cfg`.
//!
//! `cargo xtask plants` and `cargo xtask differential --plant` build with one, to show that a test or a query detects
//! it.

fn main() {
    println!("cargo:rerun-if-env-changed=OVERTAKE_PLANT");
    if let Ok(plants) = std::env::var("OVERTAKE_PLANT") {
        for plant in plants.split(',').filter(|plant| !plant.is_empty()) {
            println!("cargo:rustc-cfg=overtake_plant=\"{plant}\"");
        }
    }
}
