//! Build script: `OVERTAKE_PLANT=chosen` becomes a `cfg`, by which the build has the planted bugs.

fn main() {
    println!("cargo:rerun-if-env-changed=OVERTAKE_PLANT");
    if std::env::var("OVERTAKE_PLANT").is_ok_and(|plants| plants == "chosen") {
        println!("cargo:rustc-cfg=overtake_plant=\"chosen\"");
    }
}
