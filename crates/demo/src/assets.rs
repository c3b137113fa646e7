//! The page's files, compiled in.

use std::sync::LazyLock;

use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use web::kind::{CSS, HTML, SCRIPT};

/// Path, type and text of each file of the page.
pub const FILES: [(&str, &str, &str); 9] = [
    ("/", HTML, include_str!("page/index.html")),
    ("/style.css", CSS, include_str!("page/style.css")),
    ("/parts.css", CSS, include_str!("page/parts.css")),
    ("/main.js", SCRIPT, include_str!("page/main.js")),
    ("/state.js", SCRIPT, include_str!("page/state.js")),
    ("/results.js", SCRIPT, include_str!("page/results.js")),
    ("/timeline.js", SCRIPT, include_str!("page/timeline.js")),
    ("/explain.js", SCRIPT, include_str!("page/explain.js")),
    ("/format.js", SCRIPT, include_str!("page/format.js")),
];

/// Tag of the chart library, which changes with its version, so that a browser may keep the 4.6 MB.
const CHART_TAG: &str = concat!("\"plotly-3.0.1-", env!("CARGO_PKG_VERSION"), "\"");

/// Opening tag of each script in [`plotly::Plot::offline_js_sources`].
const SCRIPT_OPEN: &str = "<script type=\"text/javascript\">";

static CHART_LIBRARY: LazyLock<Bytes> = LazyLock::new(|| Bytes::from(chart_library()));

/// Serves plotly.js, as the `plotly` crate carries it.
pub async fn charts(headers: HeaderMap) -> Response {
    let tags = [(header::ETAG, CHART_TAG), (header::CACHE_CONTROL, "max-age=3600")];
    if headers.get(header::IF_NONE_MATCH).is_some_and(|tag| tag == CHART_TAG) {
        return (StatusCode::NOT_MODIFIED, tags).into_response();
    }
    (tags, [(header::CONTENT_TYPE, SCRIPT)], CHART_LIBRARY.clone()).into_response()
}

/// Returns the first of the two scripts in the crate's HTML (the second draws formulas, of which the page has none).
fn chart_library() -> String {
    let html = plotly::Plot::offline_js_sources();
    let script = html.split(SCRIPT_OPEN).nth(1).expect("the crate's HTML opens with a script; a unit test reads it");
    let end = script.rfind("</script>").expect("what opens is closed");
    script[..end].to_owned()
}

#[cfg(test)]
mod tests {
    use super::chart_library;

    /// Goal: an update of the crate cannot silently give another script. Method: look for the banner and the end.
    #[test]
    fn the_chart_library_is_whole_and_alone() {
        let script = chart_library();
        assert!(script.contains("plotly.js v3."), "banner");
        assert!(script.contains("Licensed under the MIT license"));
        assert!(4_000_000 < script.len());
        assert!(script.len() < 5_000_000);
        assert!(!script.contains("MathJax = "), "the formula script is left out");
    }
}
