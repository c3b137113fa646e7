//! Reference of views: the page of the book is made from the descriptions that SQL returns.

use crate::real::Real;
use std::fmt::Write;
use std::path::Path;

const HEAD: &str = "# Views

The schema `overtake` has these views. The descriptions are those that `\\d+` of psql, `obj_description` and
`col_description` return; this page is generated from them. Counts and sums begin with the start of the server.

Before an upstream, the views of the gate are commands of the [administration database](admin.md).
";

const QUERY: &str = "select c.relname, obj_description(c.oid, 'pg_class'), a.attname,
        format_type(a.atttypid, a.atttypmod), col_description(c.oid, a.attnum)
    from pg_class c join pg_attribute a on a.attrelid = c.oid
    where c.relnamespace = (select oid from pg_namespace where nspname = 'overtake') and 0 < a.attnum
    order by c.relname, a.attnum";

/// The page says of each view and column what the server says. `OVERTAKE_BLESS=1` writes the page anew.
pub fn the_page_of_views_is_what_the_server_says() {
    let real = Real::new();
    let rows = real.runtime.block_on(async { real.client().await.query(QUERY, &[]).await.unwrap() });
    assert!(100 < rows.len(), "{} columns", rows.len());
    let mut page = HEAD.to_owned();
    let mut last = String::new();
    for row in rows {
        let [view, about, column, kind, meaning]: [String; 5] = std::array::from_fn(|at| row.get(at));
        if view != last {
            write!(page, "\n## `overtake.{view}`\n\n{about}\n\n| column | type | meaning |\n|---|---|---|\n").unwrap();
            last = view;
        }
        writeln!(page, "| `{column}` | `{kind}` | {meaning} |").unwrap();
    }
    let place = Path::new("../../docs/views.md");
    if std::env::var_os("OVERTAKE_BLESS").is_some() {
        std::fs::write(place, page).unwrap();
    } else {
        let written = std::fs::read_to_string(place).unwrap();
        assert!(written == page, "docs/views.md is not what the server says: run this test with OVERTAKE_BLESS=1");
    }
}
