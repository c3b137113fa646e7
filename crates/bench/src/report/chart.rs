//! Charts of latency distributions, of figures side by side, of parts of wholes and of figures over a number, as SVG that is readable in light and in dark.
//!
//! plotters writes a colour into each element. The style sheet at the top of the file overrides these colours where the
//! reader prefers dark, by selecting the elements that have them; viewers without style sheets show the light chart.

mod bars;
mod lines;
mod panels;
mod stacks;

pub use bars::BarChart;
pub use lines::LineChart;
pub use panels::PanelChart;
pub use stacks::StackChart;

use plotters::coord::combinators::IntoLogRange;
use plotters::prelude::*;
use stage::Histogram;

const WIDTH: u32 = 860;
const HEIGHT: u32 = 440;
const FONT: &str = "system-ui, sans-serif";

const PAPER: RGBColor = RGBColor(0xFF, 0xFF, 0xFF);
const INK: RGBColor = RGBColor(0x1F, 0x23, 0x28);
const FAINT: RGBColor = RGBColor(0xD8, 0xDE, 0xE4);
/// Colours that people with any colour vision tell apart (Okabe and Ito), for light and for dark backgrounds.
const LINES: [(RGBColor, &str); 8] = [
    (RGBColor(0x00, 0x72, 0xB2), "#56B4E9"),
    (RGBColor(0xD5, 0x5E, 0x00), "#FF9248"),
    (RGBColor(0x00, 0x9E, 0x73), "#2FD6A6"),
    (RGBColor(0xCC, 0x79, 0xA7), "#F0A3CB"),
    (RGBColor(0xB5, 0x89, 0x00), "#F0E442"),
    (RGBColor(0x5B, 0x4F, 0xB5), "#A79CFF"),
    (RGBColor(0x6E, 0x77, 0x81), "#9198A1"),
    (RGBColor(0x88, 0x1F, 0x3C), "#FF7A90"),
];

/// Number of points of a line: enough that it looks smooth, and all quantiles that reports name are among them.
const POINTS: i32 = 200;
/// Rarity at which the chart ends: the quantile that one in this many exceeds.
const RARITY_MAX: f64 = 10_000.0;

/// Picture of a report.
pub enum Chart {
    /// Distributions.
    Percentiles(PercentileChart),
    /// Figures side by side.
    Bars(BarChart),
    /// Figures over a number.
    Lines(LineChart),
    /// Parts of wholes.
    Stacks(StackChart),
    /// Measures side by side.
    Panels(PanelChart),
}

impl From<PanelChart> for Chart {
    fn from(chart: PanelChart) -> Chart {
        Chart::Panels(chart)
    }
}

impl From<PercentileChart> for Chart {
    fn from(chart: PercentileChart) -> Chart {
        Chart::Percentiles(chart)
    }
}

impl From<BarChart> for Chart {
    fn from(chart: BarChart) -> Chart {
        Chart::Bars(chart)
    }
}

impl From<StackChart> for Chart {
    fn from(chart: StackChart) -> Chart {
        Chart::Stacks(chart)
    }
}

impl From<LineChart> for Chart {
    fn from(chart: LineChart) -> Chart {
        Chart::Lines(chart)
    }
}

/// Chart of distributions of times, one line each: the time (logarithmic) over the percentage of values (99 % as far
/// from 90 % as 99.9 % from 99 %).
pub struct PercentileChart {
    title: String,
    unit: &'static str,
    series: Vec<Series>,
}

struct Series {
    name: String,
    /// Points of the line: (one in this many takes longer, microseconds).
    points: Vec<(f64, f64)>,
}

impl PercentileChart {
    /// Creates a chart without lines.
    pub fn new(title: impl Into<String>, unit: &'static str) -> PercentileChart {
        PercentileChart { title: title.into(), unit, series: Vec::new() }
    }

    /// Adds a distribution; one without values is left out.
    pub fn series(&mut self, name: impl Into<String>, histogram: &Histogram) {
        let count = histogram.count() as f64;
        let points: Vec<(f64, f64)> = (0..=POINTS)
            .map(|at| RARITY_MAX.powf(f64::from(at) / f64::from(POINTS)))
            // A rarity beyond the number of values is not known.
            .filter(|rarity| *rarity <= count)
            .map(|rarity| (rarity, histogram.quantile_us(1.0 - 1.0 / rarity).max(1e-3)))
            .collect();
        if !points.is_empty() {
            self.series.push(Series { name: name.into(), points });
        }
    }
}

/// Draws the charts, one below the other.
pub fn draw(charts: &[Chart], subtitle: &str) -> anyhow::Result<String> {
    let mut svg = String::new();
    {
        let count = charts.len().max(1);
        let area = SVGBackend::with_string(&mut svg, (WIDTH, HEIGHT * count as u32)).into_drawing_area();
        area.fill(&PAPER).map_err(plain)?;
        for (chart, area) in charts.iter().zip(area.split_evenly((count, 1))) {
            match chart {
                Chart::Percentiles(chart) => draw_one(chart, subtitle, &area)?,
                Chart::Bars(chart) => chart.draw(subtitle, &area)?,
                Chart::Lines(chart) => chart.draw(subtitle, &area)?,
                Chart::Stacks(chart) => chart.draw(subtitle, &area)?,
                Chart::Panels(chart) => chart.draw(subtitle, &area)?,
            }
        }
        area.present().map_err(plain)?;
    }
    let body = svg.find('>').map_or(0, |end| end + 1);
    svg.insert_str(body, &style());
    Ok(svg)
}

fn draw_one(chart: &PercentileChart, subtitle: &str, area: &Area<'_>) -> anyhow::Result<()> {
    let times = || chart.series.iter().flat_map(|series| &series.points).map(|point| point.1);
    let lowest = times().fold(f64::INFINITY, f64::min).min(RARITY_MAX).log10().floor();
    let highest = times().fold(0.0, f64::max).max(1e-3).log10().floor() + 1.0;
    let range = 10_f64.powf(lowest)..10_f64.powf(highest.max(lowest + 1.0));
    let mut plot = builder(&chart.title, subtitle, area)?
        .build_cartesian_2d((1.0..RARITY_MAX).log_scale(), range.log_scale())
        .map_err(plain)?;
    plot.configure_mesh()
        .x_desc("percentile")
        .y_desc(chart.unit)
        .x_label_formatter(&|rarity| percentile(*rarity))
        .y_label_formatter(&|time| crate::report::number(*time))
        .x_labels(5)
        .y_labels(8)
        .label_style(ink(13))
        .axis_style(INK)
        .bold_line_style(FAINT)
        .light_line_style(TRANSPARENT)
        .draw()
        .map_err(plain)?;
    for (series, (colour, _)) in chart.series.iter().zip(LINES.iter().cycle()) {
        plot.draw_series(LineSeries::new(series.points.iter().copied(), colour.stroke_width(2))).map_err(plain)?;
    }
    legend(chart.series.iter().map(|series| series.name.as_str()), area)
}

/// Returns a builder with title and subtitle, and room for them, for labels and for a legend.
fn builder<'a, 'b, 's>(
    title: &str,
    subtitle: &str,
    area: &'a Area<'s>,
) -> anyhow::Result<ChartBuilder<'a, 'b, SVGBackend<'s>>> {
    area.draw(&Text::new(title.to_owned(), (24, 16), ink(20))).map_err(plain)?;
    area.draw(&Text::new(subtitle.to_owned(), (24, 42), ink(13))).map_err(plain)?;
    let mut builder = ChartBuilder::on(area);
    builder.margin(16).margin_top(64).margin_right(140).x_label_area_size(44).y_label_area_size(72);
    Ok(builder)
}

/// Draws the legend beside the plot, in the order of the series: the library's own legend would lie on the lines.
fn legend<'n>(names: impl Iterator<Item = &'n str>, area: &Area<'_>) -> anyhow::Result<()> {
    for (at, (name, (colour, _))) in names.zip(LINES.iter().cycle()).enumerate() {
        let (x, y) = (WIDTH as i32 - 132, 80 + 22 * at as i32);
        area.draw(&PathElement::new(vec![(x, y + 7), (x + 18, y + 7)], colour.stroke_width(3))).map_err(plain)?;
        area.draw(&Text::new(name.to_owned(), (x + 26, y), ink(13))).map_err(plain)?;
    }
    Ok(())
}

fn ink(size: i32) -> TextStyle<'static> {
    (FONT, size).into_font().color(&INK)
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

/// Returns the name of the quantile that one in `rarity` exceeds.
fn percentile(rarity: f64) -> String {
    let percent = 100.0 - 100.0 / rarity;
    format!("p{}", (percent * 1e4).round() / 1e4)
}

fn style() -> String {
    let mut style = String::from("\n<style>@media (prefers-color-scheme: dark) {\n");
    let named = [(PAPER, "#0D1117"), (INK, "#E6EDF3"), (FAINT, "#30363D")];
    for (RGBColor(red, green, blue), dark) in named.into_iter().chain(LINES) {
        let light = format!("#{red:02X}{green:02X}{blue:02X}");
        style += &format!("[fill=\"{light}\"] {{ fill: {dark} }} [stroke=\"{light}\"] {{ stroke: {dark} }}\n");
    }
    style + "}</style>\n"
}

/// Converts an error of drawing into a string: its type is not an `Error` that can be sent between threads.
fn plain(error: impl std::fmt::Display) -> anyhow::Error {
    anyhow::anyhow!("cannot draw a chart: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rarities_are_named_as_percentiles() {
        for (rarity, name) in [(1.0, "p0"), (10.0, "p90"), (100.0, "p99"), (1_000.0, "p99.9"), (10_000.0, "p99.99")] {
            assert_eq!(percentile(rarity), name);
        }
    }

    #[test]
    fn a_line_ends_where_its_values_end() {
        let mut histogram = Histogram::new();
        (1..=100).for_each(|us| histogram.record_ns(us * 1_000));
        let mut chart = PercentileChart::new("t", "µs");
        chart.series("some", &histogram);
        chart.series("none", &Histogram::new());
        assert_eq!(chart.series.len(), 1);
        let last = chart.series[0].points.last().expect("it has points");
        assert!(last.0 <= 100.0);
        let svg = draw(&[chart.into()], "machine").expect("it can be drawn");
        assert!(svg.contains("polyline"));
        assert!(svg.contains("some"));
    }

    #[test]
    fn a_report_without_charts_is_an_empty_picture() {
        assert!(draw(&[], "machine").expect("it can be drawn").contains("</svg>"));
    }
}
