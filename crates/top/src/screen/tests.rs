use super::*;
use crate::look::{ForecastRow, HistoryRow, MoveRow, StageRow};
use ratatui::Terminal;
use ratatui::backend::TestBackend;

/// Returns the state of a gate that has found its limit.
fn watch() -> GateWatch {
    let class = |name: &str, waiting, wait_p99_ms| ClassRow {
        class: name.to_owned(),
        slots: 2,
        waiting,
        wait_p50_ms: 0.2,
        wait_p99_ms,
        inside_p50_ms: 0.91,
        inside_p99_ms: 4.4,
        idle_p50_ms: 0.0,
        c2: 1.25,
        arrivals_per_second: Some(1_234.0),
        ..ClassRow::default()
    };
    let mpl = MplRow {
        mode: "auto".to_owned(),
        mpl: Some(8),
        phase: Some("holding".to_owned()),
        slots: 7,
        throughput: 8_000.0,
        response_ms: 12.5,
        lent_total: 3,
        dominating: Some("processor".to_owned()),
        ..MplRow::default()
    };
    let point = |ago: u32| HistoryRow {
        seconds_ago: ago.into(),
        seconds: 1.0,
        mpl: Some(8),
        waiting: 42.0,
        throughput: 8_123.0 - f64::from(ago),
        response_ms: Some(12.3),
        ..HistoryRow::default()
    };
    let expected =
        |mpl| ForecastRow { mpl, throughput: 900.0 * f64::from(mpl), response_ms: 11.0, ..ForecastRow::default() };
    let moved = MoveRow {
        seconds_ago: 75.0,
        mpl: 12,
        next_mpl: 8,
        reason: "the lowest that keeps the thresholds, by the curve".to_owned(),
        throughput: 8_200.0,
        response_ms: 12.0,
        ..MoveRow::default()
    };
    let stage = |stage: &str, is_waiting, total_ms| StageRow {
        class: "high".to_owned(),
        stage: stage.to_owned(),
        is_waiting,
        total_ms,
    };
    let look = Look {
        mpl: Some(mpl),
        classes: vec![class("high", 0, 0.5), class("normal", 40, 80.0), class("low", 2, 2_500.0)],
        moves: vec![moved],
        history: (0..200).rev().map(point).collect(),
        forecast: Some([1, 2, 4, 6, 8, 12, 16].map(expected).to_vec()),
        verdict: Some("MPL 8 is in force; MPL 6 would be the lowest that costs almost nothing.".to_owned()),
        stages: vec![
            stage("run", false, 6.0),
            stage("lock_wait", true, 2.99),
            stage("network_write", false, 1.0),
            stage("parse", false, 0.01),
        ],
    };
    let mut watch = GateWatch::new("postgres@127.0.0.1:5432");
    watch.see(200.0, look);
    watch
}

/// Returns the lines of a screen of this size.
fn drawn(screen: &Screen, watch: &GateWatch, now: f64, width: u16, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a test's backend does not fail");
    terminal.draw(|frame| screen.render(watch, now, frame)).expect("a test's backend does not fail");
    let buffer = terminal.backend().buffer();
    let line = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
    (0..height).map(line).collect()
}

fn row<'a>(lines: &'a [String], begin: &str) -> &'a str {
    lines.iter().find(|line| line.trim_start().starts_with(begin)).unwrap_or_else(|| panic!("no {begin} in {lines:#?}"))
}

#[test]
fn everything_is_there_on_a_usual_terminal() {
    let lines = drawn(&Screen::default(), &watch(), 200.5, 120, 40);
    assert_eq!(lines[0], "overtake top  postgres@127.0.0.1:5432  ? help  q quit");
    assert_eq!(row(&lines, "MPL 8"), "MPL 8 (auto, holding)   active 7   waiting 42   8,123 tx/s   response 12.3 ms");
    assert!(
        row(&lines, "at this limit").contains("8,000 tx/s, 12.5 ms")
            && lines[2].ends_with(", lent 3, most time goes into processor"),
        "{}",
        lines[2]
    );
    assert!(lines[3].starts_with("MPL 8 is in force; MPL 6 would be"), "{}", lines[3]);
    // The maximum is of means over some seconds each.
    assert!(row(&lines, "tx/s ").ends_with("max 8,122"), "{}", row(&lines, "tx/s "));
    let normal: Vec<&str> = row(&lines, "normal").split_whitespace().collect();
    assert_eq!(normal[..9], ["normal", "2", "40", "0", "1,234", "-", "0", "200", "\u{b5}s"]);
    assert_eq!(normal[9..], ["80.0", "ms", "910", "\u{b5}s", "4.40", "ms", "0", "0", "1.2"]);
    let stages = lines.iter().position(|line| line.contains("where the time of statements goes")).expect("stages");
    let bar = ["\u{2588}".repeat(18), "\u{2591}".repeat(9), "\u{2593}".repeat(3)].concat();
    let words = "run 60 %, lock_wait 30 %, network_write 10 %";
    assert_eq!(lines[stages + 1], format!("high    {bar}  {words}"));
    let present = row(&lines, ">");
    assert!(
        present
            .split_whitespace()
            .collect::<Vec<_>>()
            .starts_with(&[">", "8", "7,200", "8,000", "11.0", "ms", "12.5", "ms"]),
        "{present}"
    );
    let observed = row(&lines, "12 ");
    assert!(observed.contains("10,800") && observed.contains("8,200"), "{observed}");
    assert!(lines.iter().any(|line| line.contains("75 s ago   12 \u{2192} 8   the lowest that keeps")), "{lines:#?}");
}

#[test]
fn a_small_terminal_shows_what_matters() {
    let lines = drawn(&Screen::default(), &watch(), 200.0, 80, 24);
    for begin in ["overtake top", "MPL 8", "tx/s", "high", "normal", "low", ">"] {
        row(&lines, begin);
    }
    assert!(row(&lines, "low").ends_with("1.2"), "C\u{b2} is the last column: {}", row(&lines, "low"));
    assert!(lines.iter().any(|line| line.contains("12 \u{2192} 8")), "{lines:#?}");
    // At any size, however small, nothing breaks.
    for (width, height) in [(20, 5), (1, 1), (300, 3)] {
        drawn(&Screen::default(), &watch(), 200.0, width, height);
    }
}

/// Goal: a narrow terminal drops whole columns, the least important first, and never cuts a number. Method: long numbers,
/// at every width from 40 to 200.
#[test]
fn a_narrow_terminal_drops_whole_columns() {
    let mut watch = watch();
    let look = watch.look.as_mut().expect("it has looked");
    let normal = &mut look.classes[1];
    normal.waiting = 12_345_678;
    normal.failed = 1_234_567;
    normal.arrivals_per_second = Some(1_234_567.0);
    normal.inside_p99_ms = 123_456_789.0;
    look.mpl.as_mut().expect("there is a gate").throughput = 7_654_321.0;
    // Names from the most important to the least, and the texts of class `normal`.
    let columns = [
        ("class", "normal"),
        ("waiting", "12345678"),
        ("slots", "2"),
        ("wait p99", "80.0 ms"),
        ("inside p99", "123457 s"),
        ("arr/s", "1,234,567"),
        ("inside p50", "910 \u{b5}s"),
        ("wait p50", "200 \u{b5}s"),
        ("idle p50", "0"),
        ("C\u{b2}", "1.2"),
        ("done/s", "-"),
        ("failed", "1234567"),
        ("lent", "0"),
        ("idle p99", "0"),
    ];
    let mut before = 0;
    for width in 40..=200 {
        let lines = drawn(&Screen::default(), &watch, 200.0, width, 40);
        let chars = |line: &str| line.chars().collect::<Vec<char>>();
        let (head, line) = (row(&lines, "class "), chars(row(&lines, "normal")));
        let shown = columns.iter().filter(|(name, _)| head.contains(name)).count();
        assert!(columns[..shown].iter().all(|(name, _)| head.contains(name)), "{width}: not by importance: {head}");
        assert!(before <= shown, "{width}: a wider terminal shows fewer columns: {head}");
        before = shown;
        for (name, text) in &columns[1..shown] {
            let end = chars(head.split_once(name).expect("it is shown").0).len() + chars(name).len();
            let cell: String = line[..end.min(line.len())].iter().collect();
            assert!(cell.ends_with(&format!(" {text}")), "{width}: {name} is not {text}: {line:?}");
        }
        // What was left out had no room.
        if let Some((name, text)) = columns.get(shown) {
            let next = chars(name).len().max(chars(text).len()) + 1;
            assert!(usize::from(width) < chars(head).len() + next, "{width}: {name} has room: {head}");
        }

        // The other parts cut nothing either.
        let whole = ["7,654,321 tx/s", "12.5 ms", "0.0 active", "somebody waits 0 %", "C\u{b2} 0.0", "lent 3"];
        let second = lines[2].strip_prefix("at this limit: ").expect("it is there").split(", ");
        assert!(second.clone().zip(whole).all(|(part, whole)| part == whole), "{width}: {}", lines[2]);
        let first = lines[1].strip_prefix("MPL 8 (auto, holding)").expect("it is there").trim_start().split("   ");
        let whole = ["active 7", "waiting 12345680", "8,123 tx/s", "response 12.3 ms"];
        assert!(first.filter(|part| !part.is_empty()).all(|part| whole.contains(&part)), "{width}: {}", lines[1]);
        let limit: Vec<&str> = row(&lines, "> ").split_whitespace().collect();
        let whole = [">", "8", "7,200", "7,654,321", "11.0", "ms", "12.5", "ms"];
        assert!(limit.iter().zip(whole).all(|(part, whole)| *part == whole), "{width}: {limit:?}");
    }
    assert_eq!(before, columns.len(), "a wide terminal shows every column");
}

#[test]
fn a_text_takes_as_many_lines_as_its_words_do() {
    for (text, width, lines) in
        [("", 9, 0), ("one two", 7, 1), ("one two", 6, 2), ("one two three", 7, 2), ("1234 6", 3, 2)]
    {
        assert_eq!(parts::lines_of(text, width), lines, "{text}");
    }
}

#[test]
fn keys_order_help_and_end() {
    let (mut screen, watch) = (Screen::default(), watch());
    let order = |screen: &Screen| {
        let lines = drawn(screen, &watch, 200.0, 120, 40);
        let at = |name: &str| lines.iter().position(|line| line.starts_with(name)).expect("it is there");
        let mut classes = ["high", "normal", "low"];
        classes.sort_by_key(|name| at(name));
        classes
    };
    assert_eq!(order(&screen), ["high", "normal", "low"]);
    assert!(!screen.key('s'));
    assert_eq!(order(&screen), ["normal", "low", "high"]);
    assert!(!screen.key('>') && !screen.key('>'));
    assert_eq!(order(&screen), ["low", "normal", "high"]);
    assert!(!screen.key('?'));
    assert!(drawn(&screen, &watch, 200.0, 80, 24).iter().any(|line| line.contains("order of classes")));
    // Escape closes the help first.
    assert!(!screen.key('\u{1b}') && screen.key('\u{1b}') && screen.key('q'));
}

#[test]
fn what_is_wrong_is_said() {
    let screen = Screen::default();
    let title = |watch: &GateWatch, now| drawn(&screen, watch, now, 120, 10).remove(0);
    assert!(title(&GateWatch::new("x"), 0.0).ends_with("connecting"));
    let mut watch = watch();
    assert!(title(&watch, 210.0).ends_with("no answer for 10 s"));
    watch.lose("connection closed");
    let lines = drawn(&screen, &watch, 210.0, 120, 40);
    assert!(lines[0].ends_with("connection lost, trying again: connection closed"), "{}", lines[0]);
    assert!(lines[1].starts_with("MPL 8"), "what was seen last stays");
    let mut none = GateWatch::new("x");
    none.see(0.0, Look::default());
    let lines = drawn(&screen, &none, 0.0, 80, 10);
    assert!(lines[1].starts_with("There is no gate: overtake.mpl is off."), "{}", lines[1]);
    assert!(!lines.iter().any(|line| line.contains("where the time")), "{lines:#?}");
}

#[test]
fn stages_are_shown_without_a_gate() {
    let mut watch = watch();
    let look = watch.look.as_mut().expect("it has looked");
    (look.mpl, look.classes) = (None, Vec::new());
    for (width, height) in [(120, 40), (80, 24), (80, 8)] {
        let lines = drawn(&Screen::default(), &watch, 200.0, width, height);
        assert!(lines[1].starts_with("There is no gate: overtake.mpl is off."), "{}", lines[1]);
        let high = row(&lines, "high ");
        assert!(high.contains("\u{2588}\u{2591}") && high.contains("run 60 %, lock_wait 30 %"), "{high}");
    }
    for (width, height) in [(20, 5), (1, 1), (300, 3)] {
        drawn(&Screen::default(), &watch, 200.0, width, height);
    }
}
