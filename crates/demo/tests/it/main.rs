//! Integration tests: the interface over sockets and the page in a browser, both against a fake.

mod fake;
mod http;
mod page;

fn main() {
    let tests: [(&str, fn()); 9] = [
        ("http::every_file_is_served", http::every_file_is_served),
        ("http::commands_reach_the_demo", http::commands_reach_the_demo),
        ("http::bad_requests_are_refused_in_words", http::bad_requests_are_refused_in_words),
        ("http::foreign_pages_are_refused", http::foreign_pages_are_refused),
        ("http::the_stream_tells_and_ends", http::the_stream_tells_and_ends),
        ("http::a_slow_page_holds_up_nobody", http::a_slow_page_holds_up_nobody),
        ("http::pages_are_limited", http::pages_are_limited),
        ("page::the_page_works", page::the_page_works),
        ("page::the_page_loads_and_comes_back", page::the_page_loads_and_comes_back),
    ];
    let wanted = std::env::args().nth(1).filter(|argument| !argument.starts_with('-')).unwrap_or_default();
    for (name, run) in tests.iter().filter(|(name, _)| name.contains(&wanted)) {
        eprintln!("test {name}");
        run();
    }
}
