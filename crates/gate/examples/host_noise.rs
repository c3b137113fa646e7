//! Records the speed at which this host lets one thread run: the noise that the controller's tests replay.
//!
//!     cargo run --release -p gate --example host_noise -- 300 > crates/gate/tests/reference/host_noise.csv
//!
//! Prints one line for each tenth of a second: the work done in it, over the most done in any. Run it beside the load
//! whose noise is to be recorded.

use std::time::{Duration, Instant};

/// Length of one sample.
const SAMPLE: Duration = Duration::from_millis(100);

fn main() {
    let seconds: u64 = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(60);
    let begun = Instant::now();
    let mut done = Vec::new();
    for at in 1.. {
        let (mut count, mut value) = (0u64, 1u64);
        while begun.elapsed() < SAMPLE * at {
            for _ in 0..1_000 {
                value = std::hint::black_box(value.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
            }
            count += 1;
        }
        done.push(count);
        if Duration::from_secs(seconds) <= begun.elapsed() {
            break;
        }
    }
    let most = done.iter().copied().max().unwrap_or(1).max(1);
    println!("speed");
    done.iter().for_each(|count| println!("{:.3}", *count as f64 / most as f64));
}
