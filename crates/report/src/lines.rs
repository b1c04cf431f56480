//! [`LineChart`]: series of points joined by lines, each labelled where it ends.

use std::fmt::Write;

use super::ReportError;
use super::chart::Chart;
use super::number::{readable, tick};
use super::scale::{Scale, suits_log_axis};
use super::svg::{self, COLOURS, Width};
use super::table::Table;

/// A chart of series of points joined by lines. Both axes are linear by default.
#[derive(Clone, Debug)]
pub struct LineChart {
    title: String,
    x_label: String,
    y_label: String,
    log_x: bool,
    log_y: bool,
    series: Vec<Series>,
    marks: Vec<(f64, String)>,
}

/// Points joined by a line.
#[derive(Clone, Debug)]
struct Series {
    name: String,
    points: Vec<(f64, f64)>,
    /// The number that selects its colour and the shape of its marks.
    style: usize,
}

/// Heights and distances in pixels of the drawing.
const TOP: f64 = 32.0;
const BOTTOM: f64 = 46.0;
const LABEL_PITCH: f64 = 17.0;

impl LineChart {
    /// Returns a chart without series. The labels name the meaning and unit of each axis.
    pub fn new(title: &str, x_label: &str, y_label: &str) -> LineChart {
        LineChart {
            title: title.to_string(),
            x_label: x_label.to_string(),
            y_label: y_label.to_string(),
            log_x: false,
            log_y: false,
            series: Vec::new(),
            marks: Vec::new(),
        }
    }

    /// Marks the value `x` by a vertical line with a name, if it lies within the axis.
    pub fn mark_x(mut self, x: f64, name: &str) -> LineChart {
        self.marks.push((x, name.to_string()));
        self
    }

    /// Makes the x axis logarithmic. Every x must then be above zero, or the page fails with
    /// [`ReportError::NotPositive`].
    pub fn log_x(mut self) -> LineChart {
        self.log_x = true;
        self
    }

    /// Makes the y axis logarithmic. Every y must then be above zero, or the page fails with
    /// [`ReportError::NotPositive`].
    pub fn log_y(mut self) -> LineChart {
        self.log_y = true;
        self
    }

    /// Makes the y axis logarithmic if the values [suit](crate::suits_log_axis) one.
    pub fn log_y_if_wide(mut self) -> LineChart {
        self.log_y |= suits_log_axis(self.points().map(|(_, y)| y));
        self
    }

    /// Adds a series of `(x, y)` points, joined in the order given.
    pub fn series(self, name: &str, points: impl IntoIterator<Item = (f64, f64)>) -> LineChart {
        let style = self.series.len();
        self.styled(name, points, style)
    }

    /// Adds a series in the colour of group number `group`. Its marks differ from those of the
    /// group's other series.
    pub fn series_of(
        self,
        group: usize,
        name: &str,
        points: impl IntoIterator<Item = (f64, f64)>,
    ) -> LineChart {
        let colour = group % COLOURS;
        let of_group = self.series.iter().filter(|series| series.style % COLOURS == colour);
        let style = colour + COLOURS * of_group.count();
        self.styled(name, points, style)
    }

    fn styled(
        mut self,
        name: &str,
        points: impl IntoIterator<Item = (f64, f64)>,
        style: usize,
    ) -> LineChart {
        let points = points.into_iter().collect();
        self.series.push(Series { name: name.to_string(), points, style });
        self
    }

    fn points(&self) -> impl Iterator<Item = (f64, f64)> + Clone + '_ {
        self.series.iter().flat_map(|series| &series.points).copied()
    }

    fn draw_key(&self, out: &mut String) {
        for (index, Series { name, style, .. }) in self.series.iter().enumerate() {
            let y = 12.0 + LABEL_PITCH * index as f64;
            svg::line(out, (4.0, y - 4.0), (28.0, y - 4.0), &stroke(*style));
            svg::mark(out, 16.0, y - 4.0, *style);
            svg::text(out, 34.0, y, "", name);
        }
    }

    /// Labels each series at the right of the plot, as near to its last point as the other labels
    /// permit.
    fn draw_end_labels(
        &self,
        out: &mut String,
        right: f64,
        (top, bottom): (f64, f64),
        place: &impl Fn((f64, f64)) -> (f64, f64),
    ) {
        let ends = self.series.iter();
        let mut ends: Vec<(&Series, (f64, f64))> =
            ends.filter_map(|series| Some((series, place(*series.points.last()?)))).collect();
        ends.sort_by(|a, b| a.1.1.total_cmp(&b.1.1));
        let x = right + 10.0;
        let points: Vec<_> = ends.iter().map(|(_, end)| (end.0 + 6.0, end.1)).collect();
        let wanted: Vec<f64> = points.iter().map(|point| point.1).collect();
        let mut labels = spread(&wanted, top, bottom);
        uncross(&points, x, &mut labels);
        for ((Series { name, style, .. }, end), y) in ends.into_iter().zip(labels) {
            svg::line(out, (end.0 + 6.0, end.1), (x, y), "leader");
            svg::mark(out, right + 15.0, y, *style);
            svg::text(out, right + 23.0, y + 4.5, "", name);
        }
    }

    fn description(&self) -> String {
        let mut text = format!("{} over {}.", self.y_label, self.x_label);
        for Series { name, points, .. } in &self.series {
            match (points.first(), points.last()) {
                (Some(first), Some(last)) => {
                    let [a, b, c, d] = [first.0, first.1, last.0, last.1].map(readable);
                    let _ = write!(text, " {name}: from {b} at {a} to {d} at {c}.");
                }
                _ => {
                    let _ = write!(text, " {name}: no points.");
                }
            }
        }
        text
    }
}

impl Chart for LineChart {
    fn title(&self) -> &str {
        &self.title
    }

    fn label(&self) -> &str {
        &self.y_label
    }

    fn values(&self) -> Vec<f64> {
        self.points().map(|(_, y)| y).collect()
    }

    fn check(&self) -> Result<(), ReportError> {
        for Series { name, points, .. } in &self.series {
            for (index, (x, y)) in points.iter().enumerate() {
                let place = || (self.title.clone(), format!("{name}, point {}", index + 1));
                if let Some(&value) = [x, y].into_iter().find(|value| !value.is_finite()) {
                    let (chart, item) = place();
                    return Err(ReportError::NotFinite { chart, item, value });
                }
                for (value, log) in [(*x, self.log_x), (*y, self.log_y)] {
                    if log && value <= 0.0 {
                        let (chart, item) = place();
                        return Err(ReportError::NotPositive { chart, item, value });
                    }
                }
            }
        }
        Ok(())
    }

    fn table(&self) -> Table {
        let mut table = Table::new(&self.title, ["series", &self.x_label, &self.y_label]);
        for Series { name, points, .. } in &self.series {
            for (x, y) in points {
                table = table.numbers([name], [*x, *y]);
            }
        }
        table
    }

    fn draw(&self, id: &str, width: Width) -> String {
        let longest = self.series.iter().map(|series| svg::text_width(&series.name));
        let longest = longest.fold(0.0, f64::max);
        // Where labels at the end of the lines would take too much room, a key stands above.
        let key_above = longest > width.pixels * 0.25;
        let key_height =
            if key_above { LABEL_PITCH * self.series.len() as f64 + 10.0 } else { 0.0 };
        // The labels at the end of the lines need a line of text each.
        let labels = if key_above { 0 } else { self.series.len().saturating_sub(1) };
        let plot_height = (width.pixels * 0.5).clamp(230.0, 340.0).max(LABEL_PITCH * labels as f64);
        let y_scale = if self.log_y {
            Scale::log(self.points().map(|(_, y)| y), 6)
        } else {
            Scale::linear(self.points().map(|(_, y)| y), 5)
        };
        let xs = (width.pixels / 110.0) as usize;
        let x_scale = if self.log_x {
            Scale::log(self.points().map(|(x, _)| x), xs)
        } else {
            Scale::linear(self.points().map(|(x, _)| x), xs)
        };
        let ticks = y_scale.ticks.iter().map(|&value| svg::text_width(&tick(value)));
        let left = ticks.fold(0.0, f64::max) + 12.0;
        let right = width.pixels - if key_above { 14.0 } else { longest + 28.0 };
        let (top, bottom) = (TOP + key_height, TOP + key_height + plot_height);
        let place = |(x, y): (f64, f64)| {
            let x = left + x_scale.share(x) * (right - left);
            (x, bottom - y_scale.share(y) * (bottom - top))
        };

        let mut out = String::new();
        if key_above {
            self.draw_key(&mut out);
        }
        svg::text(&mut out, 4.0, top - 16.0, "", &self.y_label);
        for &value in &y_scale.ticks {
            let y = bottom - y_scale.share(value) * (bottom - top);
            svg::line(&mut out, (left, y), (right, y), "grid");
            svg::text(&mut out, left - 6.0, y + 4.5, "end soft", &tick(value));
        }
        for &value in &x_scale.ticks {
            let x = left + x_scale.share(value) * (right - left);
            svg::line(&mut out, (x, bottom), (x, bottom + 4.0), "grid");
            svg::text(&mut out, x, bottom + 19.0, "middle soft", &tick(value));
        }
        svg::text(&mut out, (left + right) / 2.0, bottom + 38.0, "middle", &self.x_label);
        let (least, most) = self
            .points()
            .fold((f64::MAX, f64::MIN), |(least, most), (x, _)| (least.min(x), most.max(x)));
        let within = |(x, _): &&(f64, String)| (least..=most).contains(x);
        for (row, (x, name)) in self.marks.iter().filter(within).enumerate() {
            let x = left + x_scale.share(*x) * (right - left);
            svg::line(&mut out, (x, top), (x, bottom), "reference");
            let (at, anchor) =
                if x > (left + right) / 2.0 { (x - 5.0, "end ") } else { (x + 5.0, "") };
            let y = top + 12.0 + LABEL_PITCH * row as f64;
            svg::text(&mut out, at, y, &format!("{anchor}halo"), name);
        }
        for series in &self.series {
            let points: Vec<_> = series.points.iter().copied().map(place).collect();
            draw_series(&mut out, &points, series.style);
        }
        if !key_above {
            self.draw_end_labels(&mut out, right, (top, bottom), &place);
        }
        svg::frame(id, width, bottom + BOTTOM, &self.title, &self.description(), &out)
    }
}

fn stroke(style: usize) -> String {
    format!("series stroke{}", style % COLOURS)
}

fn draw_series(out: &mut String, points: &[(f64, f64)], style: usize) {
    if points.len() > 1 {
        let path: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let _ = write!(out, r#"<polyline points="{}" class="{}"/>"#, path.join(" "), stroke(style));
    }
    for (x, y) in points {
        svg::mark(out, *x, *y, style);
    }
}

/// Returns positions at least a line of text apart, near the wanted ones (ascending), within the
/// bounds if there is room.
fn spread(wanted: &[f64], top: f64, bottom: f64) -> Vec<f64> {
    let mut places: Vec<f64> = wanted.to_vec();
    for index in 1..places.len() {
        places[index] = places[index].max(places[index - 1] + LABEL_PITCH);
    }
    let mut limit = bottom;
    for place in places.iter_mut().rev() {
        *place = place.min(limit);
        limit = *place - LABEL_PITCH;
    }
    let short = (top - places.first().copied().unwrap_or(top)).max(0.0);
    places.iter().map(|place| place + short).collect()
}

/// Swaps `labels`, the heights of labels at `x`, until no straight line from a point of `ends` to
/// its label crosses another.
///
/// Each swap makes the lines shorter in total, so the loop ends. The bound is for rounding.
fn uncross(ends: &[(f64, f64)], x: f64, labels: &mut [f64]) {
    let crossing = |labels: &[f64]| {
        let pairs =
            (0..ends.len()).flat_map(|one| (one + 1..ends.len()).map(move |two| (one, two)));
        let line = |index: usize| (ends[index], (x, labels[index]));
        pairs.into_iter().find(|&(one, two)| crosses(line(one), line(two)))
    };
    for _ in 0..ends.len().pow(3) {
        let Some((one, two)) = crossing(labels) else { return };
        labels.swap(one, two);
    }
}

/// Whether two pieces of straight lines have a point inside of both in common.
fn crosses(one: ((f64, f64), (f64, f64)), two: ((f64, f64), (f64, f64))) -> bool {
    // The side of the line through `from` and `to` on which `point` lies.
    let side = |(from, to): ((f64, f64), (f64, f64)), point: (f64, f64)| {
        (to.0 - from.0) * (point.1 - from.1) - (to.1 - from.1) * (point.0 - from.0)
    };
    side(one, two.0) * side(one, two.1) < 0.0 && side(two, one.0) * side(two, one.1) < 0.0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Points as of a comparison of designs: many at the same cost, some far from the labels.
    fn crowd() -> Vec<(f64, f64)> {
        let near = (0..9).map(|index| (200.0, 60.0 + 7.0 * f64::from(index)));
        near.chain([(40.0, 95.0), (420.0, 61.0), (420.0, 180.0), (60.0, 64.0)]).collect()
    }

    #[test]
    fn lines_to_labels_do_not_cross() {
        let mut ends = crowd();
        ends.sort_by(|a, b| a.1.total_cmp(&b.1));
        let wanted: Vec<f64> = ends.iter().map(|end| end.1).collect();
        let mut labels = spread(&wanted, 0.0, 300.0);
        let line = |labels: &[f64], index: usize| (ends[index], (500.0, labels[index]));
        let any = |labels: &[f64]| {
            (0..ends.len()).any(|a| (0..a).any(|b| crosses(line(labels, a), line(labels, b))))
        };
        assert!(any(&labels), "the order of heights alone crosses");
        let before = labels.clone();
        uncross(&ends, 500.0, &mut labels);
        assert!(!any(&labels));
        labels.sort_by(f64::total_cmp);
        assert_eq!(labels, before, "the same places");
    }

    #[test]
    fn labels_of_many_series_are_not_cut() {
        let chart = (0..40).fold(LineChart::new("t", "x", "y"), |chart, series| {
            chart.series("name", [(1.0, f64::from(series) / 1e3), (2.0, f64::from(series) / 1e3)])
        });
        let svg = chart.draw("c", svg::WIDTHS[1]);
        let number = |text: &str| text.split('"').next().and_then(|n| n.parse::<f64>().ok());
        let height = svg.split("viewBox=\"0 0 720 ").nth(1).and_then(number).expect("a height");
        let places = svg.split(" y=\"").skip(1).filter_map(number);
        assert!(places.clone().count() > 40 && places.into_iter().all(|y| y < height), "{svg}");
    }

    #[test]
    fn series_of_a_group_share_its_colour_and_differ_in_their_marks() {
        let chart = LineChart::new("t", "x", "y").series_of(3, "a", [(1.0, 1.0)]);
        let chart = chart.series_of(3, "b", [(2.0, 1.0)]).series_of(1, "c", [(3.0, 1.0)]);
        let styles: Vec<usize> = chart.series.iter().map(|series| series.style).collect();
        assert_eq!(styles, [3, 3 + COLOURS, 1]);
        let svg = chart.draw("c", svg::WIDTHS[1]);
        assert_eq!(svg.matches("mark fill3").count(), 4, "two points and two labels: {svg}");
    }

    #[test]
    fn labels_never_overlap_and_stay_inside() {
        let places = spread(&[95.0, 96.0, 97.0, 99.0], 0.0, 100.0);
        assert!(places.windows(2).all(|pair| pair[1] - pair[0] >= LABEL_PITCH - 1e-9));
        assert!(places[0] >= 0.0 && places[3] <= 100.0, "{places:?}");
        assert_eq!(spread(&[10.0, 60.0], 0.0, 100.0), [10.0, 60.0]);
        assert!(spread(&[], 0.0, 100.0).is_empty());
    }
}
