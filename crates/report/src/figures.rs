//! [`write_figures`]: the charts of pages as files for a paper, each as SVG and as PDF.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use svg2pdf::usvg::{Options, Tree, fontdb::Database};
use svg2pdf::{ConversionOptions, PageOptions};

use crate::page::{Page, file_stem};
use crate::{ReportError, write_whole};

/// The family of the letters in a PDF.
const FONT: &str = "Noto Sans";

/// Pixels of a drawing in an inch, as CSS has it.
const PIXELS_PER_INCH: f32 = 96.0;

/// Writes each chart of `pages` as an SVG and a PDF file, named after its title. Makes `folder` if
/// it is missing. With several pages, each page has a folder of its own below `folder`. A PDF
/// embeds its fonts. Returns the paths written.
///
/// # Errors
/// A [`ReportError`] if a chart cannot be drawn, converted or written.
pub fn write_figures(pages: &[Page], folder: &Path) -> Result<Vec<PathBuf>, ReportError> {
    let options =
        Options { font_family: FONT.to_string(), fontdb: Arc::new(fonts()), ..Options::default() };
    let mut written = Vec::new();
    for page in pages {
        let own = match pages {
            [_] => folder.to_path_buf(),
            _ => folder.join(file_stem(page.title())),
        };
        for (name, svg) in page.drawings()? {
            let pdf = pdf(&svg, &options)
                .map_err(|reason| ReportError::NoPdf { chart: name.clone(), reason })?;
            for (ending, contents) in [("svg", svg.as_bytes()), ("pdf", &pdf)] {
                let name = format!("{name}.{ending}");
                write_whole(&own, &name, contents)?;
                written.push(own.join(name));
            }
        }
    }
    Ok(written)
}

/// The letters of figures.
fn fonts() -> Database {
    let mut fonts = Database::new();
    for font in [notosans::REGULAR_TTF, notosans::BOLD_TTF] {
        fonts.load_font_data(font.to_vec());
    }
    fonts.set_sans_serif_family(FONT);
    fonts
}

fn pdf(svg: &str, options: &Options<'_>) -> Result<Vec<u8>, String> {
    let tree = Tree::from_str(svg, options).map_err(|error| error.to_string())?;
    let page = PageOptions { dpi: PIXELS_PER_INCH };
    svg2pdf::to_pdf(&tree, ConversionOptions::default(), page).map_err(|error| error.to_string())
}
