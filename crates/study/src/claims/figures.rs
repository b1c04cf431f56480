//! [`Figures`]: a paper's figures and tables, written once and shown as plain text and as a page.

use ebbtide_report::statistics::Estimate;
use ebbtide_report::{BarChart, Page, Range, Table};

use super::finding::Findings;

/// A cell of a [`Grid`]: a number for the page, and its plain text.
#[derive(Clone, Debug)]
pub struct Cell {
    range: Option<Range>,
    text: String,
}

impl Cell {
    /// A cell without a number.
    pub const EMPTY: Cell = Cell { range: None, text: String::new() };

    /// Returns a cell with `value`, shown as `text` in plain text.
    pub fn new(value: f64, text: String) -> Cell {
        Cell { range: Some(Range::single(value)), text }
    }

    /// Returns a cell with `value`, shown with `decimals` decimals.
    pub fn number(value: f64, decimals: usize) -> Cell {
        Cell::new(value, format!("{value:.decimals$}"))
    }

    /// Returns a cell with `share`, shown in percent with `decimals` decimals. The page shows the
    /// share itself.
    pub fn percent(share: f64, decimals: usize) -> Cell {
        Cell::new(share, format!("{:.decimals$}", 100.0 * share))
    }

    /// Returns a cell with the mean of `estimate`, shown with `decimals` decimals. Half the width
    /// of the 95% interval follows after "±", if there is one.
    pub fn estimate(estimate: Estimate, decimals: usize) -> Cell {
        let Estimate { mean, ci95 } = estimate;
        let Some([min, max]) = ci95 else { return Cell::number(mean, decimals) };
        let half = (max - min) / 2.0;
        let range = Some(Range { min, median: mean, max });
        Cell { range, text: format!("{mean:.decimals$} ±{half:.decimals$}") }
    }

    /// Returns the cell with a space and `more` after its plain text.
    pub fn with(self, more: String) -> Cell {
        Cell { text: format!("{} {more}", self.text), ..self }
    }
}

/// A table of numbers. Each row begins with one label or several.
#[derive(Clone, Debug)]
pub struct Grid {
    caption: String,
    header: Vec<String>,
    rows: Vec<(Vec<String>, Vec<Cell>)>,
}

impl Grid {
    /// Returns an empty grid. `header` names all columns: labels first, then numbers.
    pub fn new<S: ToString>(caption: &str, header: impl IntoIterator<Item = S>) -> Grid {
        let header = header.into_iter().map(|name| name.to_string()).collect();
        Grid { caption: caption.to_string(), header, rows: Vec::new() }
    }

    /// Returns the grid with a further row. All rows need the same number of labels.
    pub fn row<S: ToString>(
        mut self,
        labels: impl IntoIterator<Item = S>,
        cells: impl IntoIterator<Item = Cell>,
    ) -> Grid {
        let labels = labels.into_iter().map(|label| label.to_string()).collect();
        self.rows.push((labels, cells.into_iter().collect()));
        self
    }

    /// Returns the grid as a table of a page.
    pub fn table(&self) -> Table {
        let table = Table::new(&self.caption, self.header.iter().map(String::as_str));
        self.rows.iter().fold(table, |table, (labels, cells)| {
            table.cells(labels, cells.iter().map(|cell| cell.range.map(|range| range.median)))
        })
    }

    /// Returns a bar chart with a group for each row and a bar for each number. `label` describes
    /// the numbers.
    pub fn bars(&self, label: &str) -> BarChart {
        let chart = BarChart::new(&self.caption, label);
        self.rows.iter().fold(chart, |chart, (labels, cells)| {
            let names = self.header[labels.len()..].iter().map(String::as_str);
            let bars = names.zip(cells).filter_map(|(name, cell)| Some((name, cell.range?)));
            chart.group(&labels.join(", "), bars.collect::<Vec<_>>())
        })
    }

    /// The grid in aligned columns of plain text.
    fn text(&self) -> String {
        let labels = self.rows.first().map_or(1, |(labels, _)| labels.len());
        let rows = self.rows.iter().map(|(labels, cells)| {
            let cells = cells.iter().map(|cell| cell.text.clone());
            labels.iter().cloned().chain(cells).collect()
        });
        let lines: Vec<Vec<String>> = [self.header.clone()].into_iter().chain(rows).collect();
        let letters = |line: &Vec<String>, column| {
            line.get(column).map_or(0, |cell: &String| cell.chars().count())
        };
        let width = |column| lines.iter().map(|line| letters(line, column)).max().unwrap_or(0);
        let widths: Vec<usize> = (0..self.header.len()).map(width).collect();
        let mut text = String::new();
        for line in &lines {
            let cells = line.iter().zip(&widths).enumerate().map(|(column, (cell, width))| {
                if column < labels { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
            });
            text += cells.collect::<Vec<_>>().join("  ").trim_end();
            text.push('\n');
        }
        text
    }
}

/// A paper's figures and tables. The page begins with the claims, and plain text ends with them.
pub struct Figures {
    text: String,
    page: Page,
}

impl Figures {
    /// Returns figures under `title`, with the paragraph `about` on the runs.
    pub fn new(title: &str, about: &str, findings: &Findings) -> Figures {
        let page = findings.on_page(Page::new(title), about);
        Figures { text: format!("{title}\n{about}\n"), page }
    }

    /// Adds a heading.
    pub fn section(mut self, title: &str) -> Figures {
        self.text += &format!("\n{title}\n");
        self.page(|page| page.section(title))
    }

    /// Adds a paragraph.
    pub fn paragraph(mut self, text: &str) -> Figures {
        self.text += &format!("{text}\n");
        self.page(|page| page.paragraph(text))
    }

    /// Adds a table.
    pub fn grid(self, grid: &Grid) -> Figures {
        self.text(&grid.text()).page(|page| page.table(grid.table()))
    }

    /// Adds a table. The page has it only as a CSV file.
    pub fn data(self, grid: &Grid) -> Figures {
        self.text(&grid.text()).page(|page| page.data(grid.table()))
    }

    /// Adds a table to the plain text. `draw` adds its form on the page.
    pub fn drawn(self, grid: &Grid, draw: impl FnOnce(Page) -> Page) -> Figures {
        self.text(&grid.text()).page(draw)
    }

    /// Adds the parameters of the shipped design called `design` to the page.
    pub fn parameters(self, design: &str) -> Figures {
        let config = ebbtide_sim::designs::find(design).map_or("", |design| design.config);
        self.page(|page| page.section(&format!("Parameters: {design}")).preformatted(config))
    }

    /// Adds to the plain text only.
    pub fn text(mut self, text: &str) -> Figures {
        self.text += text;
        self
    }

    /// Adds to the page only.
    pub fn page(self, add: impl FnOnce(Page) -> Page) -> Figures {
        Figures { page: add(self.page), ..self }
    }

    /// Returns the plain text, with the findings at its end, and the page.
    pub fn finish(self, findings: &Findings) -> (String, Page) {
        (format!("{}\n{findings}", self.text), self.page)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let grid = Grid::new("Speed", ["program", "one", "another"])
            .row(["a"], [Cell::number(1.25, 1), Cell::percent(0.5, 0)])
            .row(["longest"], [Cell::EMPTY, Cell::number(1000.0, 2)]);
        let expected = "program  one  another\na        1.2       50\nlongest       1000.00\n";
        assert_eq!(grid.text(), expected);
    }

    #[test]
    fn an_estimate_shows_half_of_its_interval() {
        let cell = Cell::estimate(Estimate { mean: 2.0, ci95: Some([1.5, 2.5]) }, 2);
        assert_eq!(cell.text, "2.00 ±0.50");
        assert_eq!(cell.range, Some(Range { min: 1.5, median: 2.0, max: 2.5 }));
        assert_eq!(Cell::estimate(Estimate { mean: 2.0, ci95: None }, 0).text, "2");
    }
}
