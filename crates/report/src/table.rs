//! [`Table`]: rows of text and numbers, as plain text, HTML and CSV.

use std::fmt::{self, Display, Formatter, Write};
use std::io;

use super::ReportError;
use super::number::{figure, readable};
use super::svg::escape;

/// A table of text and numbers, described once and shown in three forms: `Display` writes aligned
/// plain text without the caption, a [`Page`](crate::Page) shows it as HTML and writes it as CSV.
///
/// Text, HTML and Markdown round numbers to three significant digits; CSV has all digits. A row
/// must have as many cells as the header. Otherwise the page fails with [`ReportError::Ragged`].
///
/// ```
/// use ebbtide_report::Table;
///
/// let table = Table::new("Reads", ["disk", "mean us"]);
/// let table = table.numbers(["a"], [88.04]).cells(["b"], [None]);
/// assert_eq!(table.to_string(), "disk  mean us\na        88.0\nb           –\n");
/// ```
#[derive(Clone, Debug)]
pub struct Table {
    caption: String,
    header: Vec<String>,
    rows: Vec<Vec<Cell>>,
    /// Whether the page shows the last cell of a row below the row.
    notes_below: bool,
}

#[derive(Clone, Debug)]
enum Cell {
    Text(String),
    Number(f64),
    None,
}

impl Cell {
    /// The cell as text for people.
    fn shown(&self) -> String {
        match self {
            Cell::Text(text) => text.clone(),
            Cell::Number(value) => figure(*value),
            Cell::None => "–".to_string(),
        }
    }
}

impl Cell {
    /// Writes the cell as HTML. `label` is an attribute with the name of its column, or nothing.
    fn html(&self, out: &mut String, label: &str) {
        let _ = match self {
            Cell::Text(text) if text.chars().count() <= 16 => {
                write!(out, "<td{label} class=\"short\">{}</td>", escape(text))
            }
            Cell::Text(text) => write!(out, "<td{label}>{}</td>", escape(text)),
            Cell::Number(value) => {
                write!(out, "<td{label} class=\"number\">{}</td>", readable(*value))
            }
            Cell::None => write!(out, "<td{label} class=\"number\">–</td>"),
        };
    }
}

/// Columns that fit side by side on a phone.
const COLUMNS_ON_A_PHONE: usize = 5;

impl Table {
    /// Returns a table without rows. `header` has the name of each column.
    pub fn new<'a>(caption: &str, header: impl IntoIterator<Item = &'a str>) -> Table {
        let header = header.into_iter().map(str::to_string).collect();
        Table { caption: caption.to_string(), header, rows: Vec::new(), notes_below: false }
    }

    /// Treats the last column as notes. HTML shows each note below its row, over the full width.
    /// Text, Markdown and CSV keep the column.
    pub fn notes_below(self) -> Table {
        Table { notes_below: true, ..self }
    }

    /// Adds a row of text.
    pub fn row<S: Into<String>>(mut self, cells: impl IntoIterator<Item = S>) -> Table {
        self.rows.push(cells.into_iter().map(|cell| Cell::Text(cell.into())).collect());
        self
    }

    /// Adds a row: first the text cells, then the numbers.
    pub fn numbers<S: AsRef<str>>(
        mut self,
        cells: impl IntoIterator<Item = S>,
        numbers: impl IntoIterator<Item = f64>,
    ) -> Table {
        let cells = cells.into_iter().map(|cell| Cell::Text(cell.as_ref().to_string()));
        self.rows.push(cells.chain(numbers.into_iter().map(Cell::Number)).collect());
        self
    }

    /// Adds a row like [`numbers`](Table::numbers). `None` is shown as a dash and is empty in CSV.
    pub fn cells<S: AsRef<str>>(
        mut self,
        cells: impl IntoIterator<Item = S>,
        numbers: impl IntoIterator<Item = Option<f64>>,
    ) -> Table {
        let cells = cells.into_iter().map(|cell| Cell::Text(cell.as_ref().to_string()));
        let numbers = numbers.into_iter().map(|number| number.map_or(Cell::None, Cell::Number));
        self.rows.push(cells.chain(numbers).collect());
        self
    }

    /// Whether a column holds a number anywhere.
    fn is_numeric(&self, column: usize) -> bool {
        self.rows.iter().any(|row| matches!(row.get(column), Some(Cell::Number(_))))
    }

    pub(super) fn caption(&self) -> &str {
        &self.caption
    }

    pub(super) fn check(&self) -> Result<(), ReportError> {
        let expected = self.header.len();
        match self.rows.iter().position(|row| row.len() != expected) {
            None => Ok(()),
            Some(index) => Err(ReportError::Ragged {
                table: self.caption.clone(),
                row: index + 1,
                found: self.rows[index].len(),
                expected,
            }),
        }
    }

    pub(super) fn html(&self) -> String {
        let beside = self.header.len() - usize::from(self.notes_below);
        // On a phone, each row of a wide table becomes a list, with the name of each column.
        let is_wide = beside > COLUMNS_ON_A_PHONE;
        let mut out = format!(
            "<div class=\"scroll{1}\" tabindex=\"0\" role=\"region\" aria-label=\"{0}\">\
             <table><caption>{0}</caption><thead><tr>",
            escape(&self.caption),
            if is_wide { " wide" } else { "" }
        );
        let label = |name: &String| match is_wide {
            true => format!(" data-label=\"{}\"", escape(name)),
            false => String::new(),
        };
        let labels: Vec<String> = self.header.iter().map(label).collect();
        for (column, name) in self.header[..beside].iter().enumerate() {
            let class = if self.is_numeric(column) { " class=\"number\"" } else { "" };
            let _ = write!(out, "<th scope=\"col\"{class}>{}</th>", escape(name));
        }
        out.push_str("</tr></thead><tbody>\n");
        for row in &self.rows {
            let (cells, note) = row.split_at(beside.min(row.len()));
            out.push_str("<tr>");
            cells.iter().zip(&labels).for_each(|(cell, label)| cell.html(&mut out, label));
            out.push_str("</tr>\n");
            if let [Cell::Text(note)] = note
                && !note.is_empty()
            {
                let (note, columns) = (escape(note), beside - 1);
                let _ = writeln!(
                    out,
                    "<tr class=\"note\"><td></td><td colspan=\"{columns}\">{note}</td></tr>"
                );
            }
        }
        if self.rows.is_empty() {
            let _ = write!(out, "<tr><td colspan=\"{}\">no data</td></tr>", self.header.len());
        }
        out.push_str("</tbody></table></div>\n");
        out
    }

    /// Returns the table as Markdown for GitHub and pandoc, without the caption.
    pub fn markdown(&self) -> String {
        // A bar would end its cell.
        let line = |cells: Vec<String>| {
            let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
            format!("| {} |\n", cells.join(" | "))
        };
        let rule = |column| if self.is_numeric(column) { "---:" } else { "---" };
        let rules = (0..self.header.len()).map(|column| rule(column).to_string()).collect();
        let rows = self.rows.iter().map(|row| line(row.iter().map(Cell::shown).collect()));
        [line(self.header.clone()), line(rules)].into_iter().chain(rows).collect()
    }

    pub(super) fn csv(&self) -> io::Result<Vec<u8>> {
        let plain = |cell: &Cell| match cell {
            Cell::Text(text) => text.clone(),
            Cell::Number(value) => value.to_string(),
            Cell::None => String::new(),
        };
        let rows: Vec<Vec<String>> =
            self.rows.iter().map(|row| row.iter().map(plain).collect()).collect();
        csv_text(&self.header, &rows)
    }
}

impl Display for Table {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let rows = self.rows.iter().map(|row| row.iter().map(Cell::shown).collect());
        let rows: Vec<Vec<String>> = [self.header.clone()].into_iter().chain(rows).collect();
        let width = |column: usize| {
            let cells = rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.header.len()).map(width).collect();
        for row in &rows {
            let mut line = String::new();
            for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
                let gap = if column == 0 { "" } else { "  " };
                match self.is_numeric(column) {
                    true => write!(line, "{gap}{cell:>width$}")?,
                    false => write!(line, "{gap}{cell:<width$}")?,
                }
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// CSV text of a header and rows. Lines end in a line feed; numbers are not rounded.
pub(super) fn csv_text(header: &[String], rows: &[Vec<String>]) -> io::Result<Vec<u8>> {
    let mut writer = csv::WriterBuilder::new().flexible(true).from_writer(Vec::new());
    writer.write_record(header)?;
    for row in rows {
        writer.write_record(row)?;
    }
    writer.into_inner().map_err(|error| io::Error::other(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markdown_has_a_rule_and_no_loose_bars() {
        let table = Table::new("t", ["name", "us"]).numbers(["a|b"], [1.5]).cells(["c"], [None]);
        let expected = "| name | us |\n| --- | ---: |\n| a\\|b | 1.50 |\n| c | – |\n";
        assert_eq!(table.markdown(), expected);
    }

    #[test]
    fn notes_stand_below_their_rows_on_a_page_and_in_a_column_of_the_file() {
        let table = Table::new("t", ["id", "value", "note"]).notes_below();
        let table = table.row(["a", "1", "Long."]).row(["b", "2", ""]);
        let html = table.html();
        assert!(!html.contains(">note<"), "{html}");
        let below = "<tr class=\"note\"><td></td><td colspan=\"1\">Long.</td></tr>";
        assert_eq!(html.matches(below).count(), 1, "{html}");
        assert_eq!(html.matches("class=\"note\"").count(), 1, "{html}");
        let csv = String::from_utf8(table.csv().expect("text")).expect("UTF-8");
        assert_eq!(csv, "id,value,note\na,1,Long.\nb,2,\n");
    }

    #[test]
    fn a_cell_of_a_wide_table_has_the_name_of_its_column() {
        let names = ["a", "b", "c", "d", "e", "<f>"];
        let wide = Table::new("t", names).cells(["x"], [Some(1.0), None, None, None, Some(2.0)]);
        let html = wide.html();
        assert!(html.contains("<div class=\"scroll wide\""), "{html}");
        assert!(html.contains("<td data-label=\"&lt;f&gt;\" class=\"number\">2"), "{html}");
        let narrow = Table::new("t", ["a", "b"]).numbers(["x"], [1.0]).html();
        assert!(!narrow.contains("wide") && !narrow.contains("data-label"), "{narrow}");
    }

    #[test]
    fn what_could_be_a_separator_is_quoted() {
        let cells = |row: &[&str]| row.iter().map(|cell| cell.to_string()).collect::<Vec<_>>();
        let rows = [cells(&["a,b", "say \"hi\"", "two\nlines"]), cells(&["", "µs", "1.5"])];
        let text = csv_text(&cells(&["x", "y", "z"]), &rows).expect("text");
        assert_eq!(
            String::from_utf8(text).expect("UTF-8"),
            "x,y,z\n\"a,b\",\"say \"\"hi\"\"\",\"two\nlines\"\n,µs,1.5\n"
        );
    }
}
