//! Turns `OVERTAKE_PLANT=conflict_check_skipped` into a `cfg`, so that a test run can prove that the lost-update test
//! sees the bug it is there for; and so for `absent_key_unchecked` and the test of two absent keys, and for
//! `recheck_skipped` and the test of keys that move between rows, for `pruned_early` and the test of old snapshots, and for
//! `dropped_early` and the test of a dropped table that is still used.

fn main() {
    println!("cargo:rerun-if-env-changed=OVERTAKE_PLANT");
    println!("cargo:rerun-if-changed=build.rs");
    if let Ok(plants) = std::env::var("OVERTAKE_PLANT") {
        for plant in plants.split(',').filter(|plant| !plant.is_empty()) {
            println!("cargo:rustc-cfg=overtake_plant=\"{plant}\"");
        }
    }
}
