//! [`RatioChart`]: rows of found values over wanted values.

use std::fmt::Write;

use super::ReportError;
use super::chart::Chart;
use super::number::{readable, tick};
use super::scale::Scale;
use super::svg::{self, FONT, Width};
use super::table::Table;

/// A found value, the wanted value, and the range of found values that is tolerated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Compared {
    /// The wanted value. Must be above zero.
    pub wanted: f64,
    /// The found value, in the unit of `wanted`. Must be above zero.
    pub found: f64,
    /// The least tolerated value. Zero if there is no lower bound.
    pub least: f64,
    /// The greatest tolerated value. Infinite if there is no upper bound.
    pub most: f64,
}

/// A row: a name, a kind, the numbers in words, and one or several numbers.
#[derive(Clone, Debug)]
struct Row {
    name: String,
    kind: usize,
    told: String,
    numbers: Vec<Compared>,
}

/// A chart of found over wanted values on one logarithmic axis, each with a band of its tolerated
/// range. Ratios beyond 10 or 1/10 are drawn at the end of the axis.
#[derive(Clone, Debug)]
pub struct RatioChart {
    title: String,
    label: String,
    kinds: Vec<String>,
    rows: Vec<Row>,
}

/// Heights and distances in pixels of the drawing.
const TOP: f64 = 14.0;
const KEY: f64 = 18.0;
const ROW: f64 = 18.0;
const BOTTOM: f64 = 44.0;
const BAND: f64 = 9.0;

/// Quotients beyond this or its inverse are drawn at the end of the axis.
const MOST: f64 = 10.0;

impl RatioChart {
    /// Returns a chart without rows. `label` describes the ratio, such as "ours over claimed".
    pub fn new(title: &str, label: &str) -> RatioChart {
        let (title, label) = (title.to_string(), label.to_string());
        RatioChart { title, label, kinds: Vec::new(), rows: Vec::new() }
    }

    /// Adds a row with one or several values. Each `kind` has its own colour and mark. `told` is
    /// the text at the right of the row, such as the values with their units.
    pub fn row(
        mut self,
        name: &str,
        kind: &str,
        told: &str,
        numbers: impl IntoIterator<Item = Compared>,
    ) -> RatioChart {
        let known = self.kinds.iter().position(|known| known == kind);
        let kind = known.unwrap_or_else(|| {
            self.kinds.push(kind.to_string());
            self.kinds.len() - 1
        });
        let numbers = numbers.into_iter().collect();
        self.rows.push(Row { name: name.to_string(), kind, told: told.to_string(), numbers });
        self
    }

    /// Returns true if the chart has no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    fn numbers(&self) -> impl Iterator<Item = &Compared> {
        self.rows.iter().flat_map(|row| &row.numbers)
    }
}

/// `ratio` within the axis.
fn clamped(ratio: f64) -> f64 {
    ratio.clamp(1.0 / MOST, MOST)
}

/// `text` with at most `pixels` of width.
fn cut(text: &str, pixels: f64) -> String {
    if svg::text_width(text) <= pixels {
        return text.to_string();
    }
    let room = (pixels / (FONT * 0.56)) as usize;
    text.chars().take(room.saturating_sub(1)).chain(['…']).collect()
}

impl Chart for RatioChart {
    fn title(&self) -> &str {
        &self.title
    }

    fn label(&self) -> &str {
        &self.label
    }

    fn values(&self) -> Vec<f64> {
        self.numbers().map(|number| number.found / number.wanted).collect()
    }

    fn check(&self) -> Result<(), ReportError> {
        for row in &self.rows {
            for &value in row.numbers.iter().flat_map(|number| [&number.wanted, &number.found]) {
                let (chart, item) = (self.title.clone(), row.name.clone());
                if !value.is_finite() {
                    return Err(ReportError::NotFinite { chart, item, value });
                }
                if value <= 0.0 {
                    return Err(ReportError::NotPositive { chart, item, value });
                }
            }
        }
        Ok(())
    }

    fn table(&self) -> Table {
        let header = ["row", "kind", "wanted", "found", "least", "most"];
        let mut table = Table::new(&self.title, header);
        for Row { name, kind, numbers, .. } in &self.rows {
            for &Compared { wanted, found, least, most } in numbers {
                let bounds = [least, most].map(|bound| bound.is_finite().then_some(bound));
                let cells = [Some(wanted), Some(found)].into_iter().chain(bounds);
                table = table.cells([name, &self.kinds[*kind]], cells);
            }
        }
        table
    }

    fn draw(&self, id: &str, width: Width) -> String {
        let mut out = String::new();
        for (kind, name) in self.kinds.iter().enumerate() {
            let y = TOP + KEY * kind as f64;
            svg::mark(&mut out, 10.0, y - 4.0, kind);
            svg::text(&mut out, 20.0, y, "", name);
        }
        let top = TOP + KEY * self.kinds.len() as f64 + 8.0;
        let axis = self.values().into_iter().map(clamped).chain([0.5, 2.0]);
        let scale = Scale::log(axis.collect::<Vec<_>>().into_iter(), 6);
        let names = width.pixels * 0.42;
        let told = width.pixels * 0.22;
        let (left, right) = (names + 8.0, width.pixels - told - 8.0);
        let bottom = top + ROW * self.rows.len() as f64;
        let place = |ratio: f64| left + scale.share(clamped(ratio)) * (right - left);
        for &value in &scale.ticks {
            svg::line(&mut out, (place(value), top), (place(value), bottom), "grid");
            svg::text(&mut out, place(value), bottom + 17.0, "middle soft", &tick(value));
        }
        svg::line(&mut out, (place(1.0), top), (place(1.0), bottom), "reference");
        svg::text(&mut out, (left + right) / 2.0, bottom + 36.0, "middle", &self.label);
        for (number, row) in self.rows.iter().enumerate() {
            let y = top + ROW * (number as f64 + 0.5);
            svg::text(&mut out, 0.0, y + 4.5, "", &cut(&row.name, names));
            for &Compared { wanted, least, most, .. } in &row.numbers {
                let (from, to) = (place(least / wanted), place(most / wanted));
                let _ = write!(
                    out,
                    r#"<rect x="{from:.1}" y="{:.1}" width="{:.1}" height="{BAND}" class="band"/>"#,
                    y - BAND / 2.0,
                    (to - from).max(1.0),
                );
            }
            for number in &row.numbers {
                svg::mark(&mut out, place(number.found / number.wanted), y, row.kind);
            }
            svg::text(&mut out, width.pixels - told, y + 4.5, "soft", &cut(&row.told, told));
        }
        svg::frame(id, width, bottom + BOTTOM, &self.title, &self.description(), &out)
    }
}

impl RatioChart {
    fn description(&self) -> String {
        let mut text = format!("{}.", self.label);
        for Row { name, numbers, .. } in &self.rows {
            for Compared { wanted, found, .. } in numbers {
                let _ = write!(text, " {name}: {}.", readable(found / wanted));
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::svg::WIDTHS;

    const EQUAL: Compared = Compared { wanted: 2.0, found: 2.0, least: 1.0, most: f64::INFINITY };

    #[test]
    fn every_row_has_its_band_and_its_mark_within_the_drawing() {
        let far = Compared { found: 2e9, least: 0.0, ..EQUAL };
        let chart = RatioChart::new("Claims", "ours over claimed")
            .row("X1 gain", "within", "2× 2×", [EQUAL])
            .row("X2 gain", "outside", "2× 2e9×", [far, EQUAL]);
        assert!(chart.check().is_ok());
        for width in WIDTHS {
            let drawing = chart.draw("c0", width);
            assert_eq!(drawing.matches("class=\"band\"").count(), 3);
            // Two marks of the key, and three of numbers.
            assert_eq!(drawing.matches("class=\"mark").count(), 5);
            assert!(!drawing.contains("inf") && !drawing.contains("NaN"), "{drawing}");
        }
    }

    #[test]
    fn a_number_without_a_logarithm_is_an_error() {
        let chart = |found| {
            let number = Compared { found, ..EQUAL };
            RatioChart::new("Claims", "ours over claimed").row("X1", "within", "", [number])
        };
        assert!(matches!(chart(0.0).check(), Err(ReportError::NotPositive { .. })));
        assert!(matches!(chart(f64::NAN).check(), Err(ReportError::NotFinite { .. })));
    }

    #[test]
    fn long_names_are_cut() {
        assert_eq!(cut("short", 100.0), "short");
        assert!(svg::text_width(&cut(&"long".repeat(50), 100.0)) <= 100.0);
    }
}
