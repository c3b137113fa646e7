//! Turns `OVERTAKE_PLANT=array_append_null` into a `cfg`, so that the differential generator can prove that it finds the
//! faults it is there for; and so for `srf_under_distinct_on`, `unused_output_raises` and `guard_ignored`.

fn main() {
    println!("cargo:rerun-if-env-changed=OVERTAKE_PLANT");
    println!("cargo:rerun-if-changed=build.rs");
    if let Ok(plants) = std::env::var("OVERTAKE_PLANT") {
        for plant in plants.split(',').filter(|plant| !plant.is_empty()) {
            println!("cargo:rustc-cfg=overtake_plant=\"{plant}\"");
        }
    }
}
