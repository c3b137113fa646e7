//! Plants one deliberate bug, named by `OVERTAKE_PLANT`, so that `cargo xtask plants` can show that a test notices it.

fn main() {
    println!("cargo:rerun-if-env-changed=OVERTAKE_PLANT");
    if let Ok(plant) = std::env::var("OVERTAKE_PLANT") {
        println!("cargo:rustc-cfg=overtake_plant=\"{plant}\"");
    }
}
