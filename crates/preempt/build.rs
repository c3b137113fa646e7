//! Build script: `OVERTAKE_PLANT=chosen` becomes a `cfg`, by which the build has the planted bugs.

fn main() {
    println!("cargo:rerun-if-env-changed=OVERTAKE_PLANT");
    match std::env::var("OVERTAKE_PLANT").as_deref() {
        Ok("chosen") => println!("cargo:rustc-cfg=overtake_plant=\"chosen\""),
        Ok("") | Err(std::env::VarError::NotPresent) => {}
        // A test of planted bugs would pass with a build that has none.
        other => panic!("OVERTAKE_PLANT must be \"chosen\", not {other:?}"),
    }
}
