//! [`BarChart`]: groups of bars with their spread, one labelled row a bar.

use std::fmt::Write;

use super::ReportError;
use super::chart::Chart;
use super::number::{readable, tick};
use super::scale::{Scale, suits_log_axis};
use super::svg::{self, COLOURS, Width};
use super::table::Table;

/// The median of several rounds, with the least and the greatest value.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Range {
    /// The least value.
    pub min: f64,
    /// The median: the length of the bar.
    pub median: f64,
    /// The greatest value.
    pub max: f64,
}

impl Range {
    /// Returns the range of one value, measured once. Its bar has no whisker.
    pub fn single(value: f64) -> Range {
        Range { min: value, median: value, max: value }
    }
}

/// A chart of groups (such as workloads) of bars (such as modes). Each bar is a median, with a
/// whisker for its range.
#[derive(Clone, Debug)]
pub struct BarChart {
    title: String,
    label: String,
    reference: Option<(f64, String)>,
    groups: Vec<(String, Vec<(String, Range)>)>,
    by_group: bool,
    log: bool,
    /// Group and series of doubtful bars.
    doubtful: Vec<(String, String)>,
}

/// Heights in pixels of the drawing.
const ROW: f64 = 22.0;
const BAR: f64 = 14.0;
const HEADING: f64 = 26.0;
const TOP: f64 = 22.0;
const BOTTOM: f64 = 44.0;
/// Width of the column of medians, at the right of the bars and clear of every line.
const VALUES: f64 = 58.0;

impl BarChart {
    /// Returns a chart without bars. `label` is the meaning and unit of its values, such as
    /// "throughput relative to DRAM-only".
    pub fn new(title: &str, label: &str) -> BarChart {
        BarChart {
            title: title.to_string(),
            label: label.to_string(),
            reference: None,
            groups: Vec::new(),
            by_group: false,
            log: false,
            doubtful: Vec::new(),
        }
    }

    /// Makes the axis logarithmic. A length from zero means nothing there, so each bar becomes a
    /// mark. Every value must then be above zero, or the page fails with
    /// [`ReportError::NotPositive`].
    pub fn log(mut self) -> BarChart {
        self.log = true;
        self
    }

    /// Makes the axis logarithmic if the values [suit](crate::suits_log_axis) one.
    pub fn log_if_wide(self) -> BarChart {
        match suits_log_axis(self.values()) {
            true => self.log(),
            false => self,
        }
    }

    /// Colours bars by group instead of by series.
    pub fn colour_by_group(mut self) -> BarChart {
        self.by_group = true;
        self
    }

    /// Draws a line at `value`, named `name`.
    pub fn reference(mut self, value: f64, name: &str) -> BarChart {
        self.reference = Some((value, name.to_string()));
        self
    }

    /// Marks the bar of `series` in `group` as doubtful. It is pale, and a question mark follows
    /// its value.
    pub fn doubt(mut self, group: &str, series: &str) -> BarChart {
        self.doubtful.push((group.to_string(), series.to_string()));
        self
    }

    fn is_doubtful(&self, group: &str, series: &str) -> bool {
        self.doubtful.iter().any(|(its, own)| its == group && own == series)
    }

    /// Adds a group of bars, each with the name of its series. A series has the same colour in
    /// every group.
    pub fn group<S: Into<String>>(
        mut self,
        name: &str,
        bars: impl IntoIterator<Item = (S, Range)>,
    ) -> BarChart {
        let bars = bars.into_iter().map(|(series, range)| (series.into(), range)).collect();
        self.groups.push((name.to_string(), bars));
        self
    }

    /// Checks that `value` has a place on the axis.
    fn check_value(&self, value: f64, item: &str) -> Result<(), ReportError> {
        let (chart, item) = (self.title.clone(), item.to_string());
        match value {
            _ if !value.is_finite() => Err(ReportError::NotFinite { chart, item, value }),
            ..=0.0 if self.log => Err(ReportError::NotPositive { chart, item, value }),
            _ => Ok(()),
        }
    }

    /// The colour of each series: its place in order of first appearance.
    fn series(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for (name, _) in self.groups.iter().flat_map(|(_, bars)| bars) {
            if !names.contains(&name.as_str()) {
                names.push(name);
            }
        }
        names
    }

    fn description(&self) -> String {
        let mut text = format!("{}.", self.label);
        for (group, bars) in &self.groups {
            for (series, range) in bars {
                let doubtful = if self.is_doubtful(group, series) { ", doubtful" } else { "" };
                let _ = write!(text, " {group}, {series}: {}{doubtful}.", readable(range.median));
            }
        }
        text
    }
}

impl Chart for BarChart {
    fn title(&self) -> &str {
        &self.title
    }

    fn label(&self) -> &str {
        &self.label
    }

    fn values(&self) -> Vec<f64> {
        let ranges = self.groups.iter().flat_map(|(_, bars)| bars).map(|(_, range)| range);
        let ends = |range: &Range| match range.min == range.max {
            true => vec![range.min],
            false => vec![range.min, range.max],
        };
        let values = ranges.flat_map(ends);
        values.chain(self.reference.iter().map(|(value, _)| *value)).collect()
    }

    fn check(&self) -> Result<(), ReportError> {
        if let Some((value, name)) = &self.reference {
            self.check_value(*value, name)?;
        }
        for (group, bars) in &self.groups {
            for (series, Range { min, median, max }) in bars {
                let item = format!("{group}, {series}");
                for value in [*min, *median, *max] {
                    self.check_value(value, &item)?;
                }
                if !(min <= median && median <= max) {
                    let (min, median, max) = (*min, *median, *max);
                    let chart = self.title.clone();
                    return Err(ReportError::Disordered { chart, item, min, median, max });
                }
            }
        }
        Ok(())
    }

    fn table(&self) -> Table {
        let mut table = Table::new(&self.title, ["group", "series", "min", "median", "max"]);
        for (group, bars) in &self.groups {
            for (series, range) in bars {
                let numbers = [range.min, range.median, range.max];
                table = table.numbers([group, series], numbers);
            }
        }
        table
    }

    fn draw(&self, id: &str, width: Width) -> String {
        let series = self.series();
        let longest = series.iter().map(|name| svg::text_width(name)).fold(0.0, f64::max);
        // Where labels would take half of the drawing, each stands above its bar instead.
        let above = longest > width.pixels * 0.4;
        let left = if above { 4.0 } else { longest + 10.0 };
        let right = width.pixels - VALUES;
        let row = if above { ROW + 17.0 } else { ROW };
        let values = self.values();
        let ticks = (width.pixels / 110.0) as usize;
        let scale = match self.log {
            true => Scale::log(values.iter().copied(), ticks),
            false => Scale::linear(values.iter().copied(), ticks),
        };
        let x = |value: f64| left + scale.share(value) * (right - left);
        let rows: usize = self.groups.iter().map(|(_, bars)| bars.len()).sum();
        let bottom = TOP + self.groups.len() as f64 * HEADING + rows as f64 * row + 8.0;

        // Labels come last, so that no line is drawn through them.
        let (mut out, mut labels) = (String::new(), String::new());
        for &value in &scale.ticks {
            svg::line(&mut out, (x(value), TOP), (x(value), bottom), "grid");
            svg::text(&mut out, x(value), bottom + 17.0, "middle soft", &tick(value));
        }
        svg::text(&mut out, (left + right) / 2.0, bottom + 36.0, "middle", &self.label);
        let mut y = TOP;
        for (number, (group, bars)) in self.groups.iter().enumerate() {
            svg::text(&mut out, 4.0, y + 18.0, "strong", group);
            y += HEADING;
            for (name, range) in bars {
                let own = series.iter().position(|known| known == name).unwrap_or(0);
                let colour = if self.by_group { number } else { own } % COLOURS;
                if above {
                    svg::text(&mut labels, left, y + 12.0, "halo", name);
                } else {
                    svg::text(&mut out, left - 6.0, y + 14.5, "end", name);
                }
                let top = y + row - ROW + (ROW - BAR) / 2.0;
                let doubtful = self.is_doubtful(group, name);
                if self.log {
                    draw_mark(&mut out, &x, range, (left, top), colour);
                } else {
                    draw_bar(&mut out, &x, range, top, colour, doubtful);
                }
                let value = readable(range.median) + if doubtful { " ?" } else { "" };
                svg::text(&mut out, width.pixels - 2.0, top + 11.5, "end", &value);
                y += row;
            }
        }
        if let Some((value, name)) = &self.reference {
            svg::line(&mut out, (x(*value), TOP - 4.0), (x(*value), bottom), "reference");
            let anchor = if x(*value) > width.pixels * 0.75 { "end" } else { "middle" };
            let place = if anchor == "end" { x(*value) + 4.0 } else { x(*value) };
            svg::text(&mut out, place, TOP - 8.0, anchor, name);
        }
        out.push_str(&labels);
        svg::frame(id, width, bottom + BOTTOM, &self.title, &self.description(), &out)
    }
}

fn draw_bar(
    out: &mut String,
    x: &impl Fn(f64) -> f64,
    range: &Range,
    top: f64,
    colour: usize,
    doubtful: bool,
) {
    let (from, to) = (x(range.median.min(0.0)), x(range.median.max(0.0)));
    let width = (to - from).max(1.0);
    let pale = if doubtful { " pale" } else { "" };
    let _ = write!(
        out,
        r#"<rect x="{from:.1}" y="{top:.1}" width="{width:.1}" height="{BAR}" class="fill{colour}{pale}"/>"#
    );
    draw_whisker(out, x, range, top + BAR / 2.0);
}

/// Draws the median as a mark, with a line to it from the label at `left`.
fn draw_mark(
    out: &mut String,
    x: &impl Fn(f64) -> f64,
    range: &Range,
    (left, top): (f64, f64),
    colour: usize,
) {
    let (at, middle) = (x(range.median), top + BAR / 2.0);
    svg::line(out, (left, middle), (at, middle), "leader");
    draw_whisker(out, x, range, middle);
    svg::mark(out, at, middle, colour);
}

fn draw_whisker(out: &mut String, x: &impl Fn(f64) -> f64, range: &Range, middle: f64) {
    if range.max > range.min {
        svg::line(out, (x(range.min), middle), (x(range.max), middle), "whisker");
        for end in [range.min, range.max] {
            svg::line(out, (x(end), middle - 4.0), (x(end), middle + 4.0), "whisker");
        }
    }
}
