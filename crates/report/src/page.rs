//! [`Page`]: sections of text, tables and charts, written as one HTML file and its CSV files.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use super::atomic_file::write_whole;
use super::chart::Chart;
use super::number::readable;
use super::svg::{WIDTHS, escape};
use super::{BarChart, LineChart, RatioChart, ReportError, Table};

/// Name of the page in its folder.
const FILE_NAME: &str = "report.html";

/// Checks, before a long run, that a report can be written into `folder`, which may be missing.
/// Makes a file in it, or in the nearest existing folder above, and removes the file.
///
/// # Errors
/// [`ReportError::Write`], as writing the report would.
pub fn check_folder(folder: &Path) -> Result<(), ReportError> {
    let failed = |path: &Path, source| ReportError::Write { path: path.to_path_buf(), source };
    let page = folder.join(FILE_NAME);
    if page.is_dir() {
        return Err(failed(&page, io::ErrorKind::IsADirectory.into()));
    }
    let exists = |path: &&Path| path.as_os_str().is_empty() || path.symlink_metadata().is_ok();
    let nearest = folder.ancestors().find(exists).unwrap_or(Path::new(""));
    let nearest = if nearest.as_os_str().is_empty() { Path::new(".") } else { nearest };
    let probe = nearest.join(format!(".ebbtide-{}", std::process::id()));
    let made = fs::File::create_new(&probe).and_then(|_| fs::remove_file(&probe));
    made.map_err(|source| failed(folder, source))
}

#[derive(Clone, Debug)]
enum Element {
    Section(String),
    Paragraph(String),
    Preformatted(String),
    Table(Table),
    Chart(Arc<dyn Chart>),
    Data(Table),
}

/// A page of a report. Its elements appear in the order of the calls that add them.
#[derive(Clone, Debug)]
pub struct Page {
    title: String,
    elements: Vec<Element>,
}

impl Page {
    /// Returns an empty page.
    pub fn new(title: &str) -> Page {
        Page { title: title.to_string(), elements: Vec::new() }
    }

    fn with(mut self, element: Element) -> Page {
        self.elements.push(element);
        self
    }

    /// Adds the heading of a section.
    pub fn section(self, heading: &str) -> Page {
        self.with(Element::Section(heading.to_string()))
    }

    /// Adds a paragraph of plain text.
    pub fn paragraph(self, text: &str) -> Page {
        self.with(Element::Paragraph(text.to_string()))
    }

    /// Adds text whose lines and spaces are kept, such as a configuration.
    pub fn preformatted(self, text: &str) -> Page {
        self.with(Element::Preformatted(text.to_string()))
    }

    /// Adds a table.
    pub fn table(self, table: Table) -> Page {
        self.with(Element::Table(table))
    }

    /// Adds a bar chart, and a table of its numbers.
    pub fn bars(self, chart: BarChart) -> Page {
        self.with(Element::Chart(Arc::new(chart)))
    }

    /// Adds a line chart, and a table of its numbers.
    pub fn lines(self, chart: LineChart) -> Page {
        self.with(Element::Chart(Arc::new(chart)))
    }

    /// Adds a chart of ratios, and a table of its numbers.
    pub fn ratios(self, chart: RatioChart) -> Page {
        self.with(Element::Chart(Arc::new(chart)))
    }

    /// Adds a table that is too wide to show. It is written as a CSV file, and the page names the
    /// file.
    pub fn data(self, table: Table) -> Page {
        self.with(Element::Data(table))
    }

    /// Returns the page with only its title and charts.
    pub fn charts(&self) -> Page {
        let is_chart = |element: &&Element| matches!(element, Element::Chart(_));
        let elements = self.elements.iter().filter(is_chart).cloned().collect();
        Page { title: self.title.clone(), elements }
    }

    /// Returns the page as one HTML document, which loads nothing from elsewhere.
    ///
    /// # Errors
    /// A [`ReportError`] if a value cannot be drawn or a table's row has the wrong number of cells.
    pub fn html(&self) -> Result<String, ReportError> {
        let mut body = String::new();
        for (index, (element, name)) in self.elements.iter().zip(self.file_names()).enumerate() {
            body.push_str(&element.html(&format!("c{index}"), &name)?);
        }
        let title = escape(&self.title);
        Ok(format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" \
             content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n\
             <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n\
             <h1>{title}</h1>\n{body}</main>\n</body>\n</html>\n"
        ))
    }

    /// Writes the page as `report.html` into `folder`, and makes `folder` if it is missing. Writes
    /// every table and chart as a CSV file named after its title. Writes every chart also as SVG,
    /// unless all its values are equal. Returns the paths written, the page first. Nothing is
    /// written unless everything can be drawn.
    ///
    /// # Errors
    /// As [`html`](Page::html), and [`ReportError::Write`] if a file cannot be written.
    pub fn write(&self, folder: &Path) -> Result<Vec<PathBuf>, ReportError> {
        let html = self.html()?;
        let mut written = vec![folder.join(FILE_NAME)];
        for (element, name) in self.elements.iter().zip(self.file_names()) {
            let Some(table) = element.numbers() else { continue };
            let path = folder.join(format!("{name}.csv"));
            let text =
                table.csv().map_err(|source| ReportError::Write { path: path.clone(), source })?;
            write_whole(folder, &format!("{name}.csv"), &text)?;
            written.push(path);
            if let Some(drawing) = element.drawing() {
                write_whole(folder, &format!("{name}.svg"), drawing.as_bytes())?;
                written.push(folder.join(format!("{name}.svg")));
            }
        }
        // The page is written last: when it exists, its data files do.
        write_whole(folder, FILE_NAME, html.as_bytes())?;
        Ok(written)
    }
}

impl Page {
    /// The title of the page.
    #[cfg(feature = "pdf")]
    pub(super) fn title(&self) -> &str {
        &self.title
    }

    /// Each chart as an SVG file: its name without an ending, and its text.
    ///
    /// # Errors
    /// When a chart cannot be drawn; see [`ReportError`].
    #[cfg(feature = "pdf")]
    pub(super) fn drawings(&self) -> Result<Vec<(String, String)>, ReportError> {
        let mut drawings = Vec::new();
        for (element, name) in self.elements.iter().zip(self.file_names()) {
            if let Element::Chart(chart) = element {
                chart.check()?;
                drawings.extend(element.drawing().map(|svg| (name, svg)));
            }
        }
        Ok(drawings)
    }

    /// The name of each element's files, without an ending; empty for one that has none.
    fn file_names(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for element in &self.elements {
            let name = element.numbers().map(|table| unused_name(table.caption(), &names));
            names.push(name.unwrap_or_default());
        }
        names
    }
}

/// Returns a drawing as a file of its own, with the page's style for light paper. Colours are
/// written out, because drawing programs do not know CSS variables.
fn standalone(drawing: &str) -> String {
    let of_drawings = |line: &&str| line.starts_with("svg ") || line.starts_with(".fill");
    let rules = STYLE.lines().filter(of_drawings).collect::<Vec<_>>().join("\n");
    let (colours, _) = STYLE.split_once("@media").unwrap_or((STYLE, ""));
    let colours =
        colours.split(';').filter_map(|setting| setting.split_once("--")?.1.split_once(": "));
    let rules = colours
        .fold(rules, |rules, (name, colour)| rules.replace(&format!("var(--{name})"), colour));
    let style = format!("<style>\n{rules}\n</style>");
    match drawing.split_once('>') {
        Some((start, rest)) => format!("{start}>{style}{rest}"),
        None => drawing.to_string(),
    }
}

impl Element {
    fn html(&self, id: &str, name: &str) -> Result<String, ReportError> {
        Ok(match self {
            Element::Section(heading) => format!("<h2>{}</h2>\n", escape(heading)),
            Element::Paragraph(text) => format!("<p>{}</p>\n", escape(text)),
            Element::Preformatted(text) => {
                format!("<pre class=\"scroll\" tabindex=\"0\">{}</pre>\n", escape(text))
            }
            Element::Table(table) => {
                table.check()?;
                table.html()
            }
            Element::Data(table) => {
                table.check()?;
                format!("<p>All figures are in <code>{name}.csv</code>, beside this page.</p>\n")
            }
            Element::Chart(chart) => {
                chart.check()?;
                figure(&**chart, id, name)
            }
        })
    }

    /// Returns the wide drawing of a chart as a file, unless it has nothing to show.
    fn drawing(&self) -> Option<String> {
        let wide = WIDTHS[WIDTHS.len() - 1];
        match self {
            Element::Chart(chart) if chart.only_value().is_none() => {
                Some(standalone(&chart.draw("c", wide)))
            }
            _ => None,
        }
    }

    /// The numbers that go into a CSV file of their own.
    fn numbers(&self) -> Option<Table> {
        match self {
            Element::Table(table) | Element::Data(table) => Some(table.clone()),
            Element::Chart(chart) => Some(chart.table()),
            Element::Section(_) | Element::Paragraph(_) | Element::Preformatted(_) => None,
        }
    }
}

/// Returns a chart with its numbers for download. If all values are the same, returns a sentence
/// instead.
fn figure(chart: &dyn Chart, id: &str, name: &str) -> String {
    let (title, table) = (escape(chart.title()), chart.table().html());
    let (shown, svg) = match chart.only_value() {
        Some(value) => {
            let (value, label) = (readable(value), escape(chart.label()));
            (format!("<p>Every value is {value} ({label}).</p>\n"), String::new())
        }
        None => {
            let link = format!("<a href=\"{name}.svg\" download>SVG</a> ");
            (WIDTHS.map(|width| chart.draw(id, width)).concat(), link)
        }
    };
    format!(
        "<figure><figcaption>{title}</figcaption>\n{shown}<details><summary>Numbers</summary>\n\
         {table}</details><p class=\"files\">{svg}\
         <a href=\"{name}.csv\" download>CSV</a></p></figure>\n"
    )
}

/// A file name without an ending, made of the letters of `title`.
pub(super) fn file_stem(title: &str) -> String {
    let plain: String = title
        .chars()
        .map(
            |letter| {
                if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { '-' }
            },
        )
        .collect();
    let parts: Vec<&str> = plain.split('-').filter(|part| !part.is_empty()).collect();
    let stem: String = parts.join("-").chars().take(60).collect();
    if stem.is_empty() { "table".to_string() } else { stem }
}

/// The [`file_stem`] of `title`, with a number if it is taken.
fn unused_name(title: &str, taken: &[String]) -> String {
    let stem = file_stem(title);
    let numbered = (2..).map(|number| format!("{stem}-{number}"));
    let mut names = std::iter::once(stem.clone()).chain(numbered);
    names.find(|name| !taken.contains(name)).unwrap_or_default()
}

const STYLE: &str = include_str!("page.css");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_are_plain_and_distinct() {
        assert_eq!(unused_name("p99 response / throughput", &[]), "p99-response-throughput");
        assert_eq!(unused_name("../../etc", &["etc".to_string()]), "etc-2");
        assert_eq!(unused_name("µ", &[]), "table");
    }
}
