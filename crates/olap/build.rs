//! Turns `OVERTAKE_PLANT=same_call_merged` into a `cfg`, and so for the other planted bugs of this crate, so that a test run can
//! prove that the tests see the bugs that they are there for. They are listed in crate `xtask`.

fn main() {
    println!("cargo:rerun-if-env-changed=OVERTAKE_PLANT");
    println!("cargo:rerun-if-changed=build.rs");
    if let Ok(plants) = std::env::var("OVERTAKE_PLANT") {
        for plant in plants.split(',').filter(|plant| !plant.is_empty()) {
            println!("cargo:rustc-cfg=overtake_plant=\"{plant}\"");
        }
    }
}
