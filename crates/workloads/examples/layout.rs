//! Row images against columns: `cargo run --release -p workloads --example layout -- [ROWS] [SECONDS]`.

#[global_allocator]
static HEAP: preempt::Heap = preempt::Heap::HEAP;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let rows = arguments.get(1).and_then(|text| text.parse().ok()).unwrap_or(500_000);
    let seconds_each = arguments.get(2).and_then(|text| text.parse().ok()).unwrap_or(1.0);
    for figure in workloads::layout::run(rows, seconds_each) {
        println!("{:<9} row {:>8.2} ns   columns {:>8.2} ns", figure.name, figure.row_ns, figure.column_ns);
    }
}
