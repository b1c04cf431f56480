//! Elements of both kinds of chart: text, sizes and the frame around a drawing.

use std::fmt::Write;

/// Each chart is drawn twice, and the page shows the drawing that fits. Letters keep their size.
pub(super) const WIDTHS: [Width; 2] =
    [Width { pixels: 330.0, class: "narrow" }, Width { pixels: 720.0, class: "wide" }];

/// Letters are set in this size, in pixels of the drawing.
pub(super) const FONT: f64 = 13.0;

/// The number of colours and marks the page's style knows; see `page.css`.
pub(super) const COLOURS: usize = 7;

/// One of the two sizes a chart is drawn in.
#[derive(Clone, Copy)]
pub(super) struct Width {
    /// Width of the drawing.
    pub(super) pixels: f64,
    /// The class that the page's style shows or hides.
    pub(super) class: &'static str,
}

/// Text that is safe between tags and in quoted attributes. Control characters, which XML forbids,
/// become the replacement character.
pub(super) fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            '\n' | '\t' => safe.push(letter),
            control if control.is_control() => safe.push('\u{fffd}'),
            other => safe.push(other),
        }
    }
    safe
}

/// Returns about how wide `text` is at `FONT` in a common sans-serif font, in pixels; on the
/// generous side.
pub(super) fn text_width(text: &str) -> f64 {
    text.chars().count() as f64 * FONT * 0.56
}

/// `text` at `(x, y)`; `class` sets colour and anchor.
pub(super) fn text(out: &mut String, x: f64, y: f64, class: &str, text: &str) {
    let _ = write!(out, r#"<text x="{x:.1}" y="{y:.1}" class="{class}">{}</text>"#, escape(text));
}

/// A straight line.
pub(super) fn line(out: &mut String, from: (f64, f64), to: (f64, f64), class: &str) {
    let ((x1, y1), (x2, y2)) = (from, to);
    let _ = write!(
        out,
        r#"<line x1="{x1:.1}" y1="{y1:.1}" x2="{x2:.1}" y2="{y2:.1}" class="{class}"/>"#
    );
}

/// Draws a mark with the shape and colour of series `index`, so series differ not only by colour.
/// When all colours are used, they repeat with other shapes, for up to 49 different series.
pub(super) fn mark(out: &mut String, x: f64, y: f64, index: usize) {
    let class = format!("mark fill{}", index % COLOURS);
    let path = match (index + index / COLOURS) % COLOURS {
        0 => "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z",
        1 => "M-3.6 -3.6h7.2v7.2h-7.2z",
        2 => "M0 -5L4.6 3.4H-4.6z",
        3 => "M0 -5L5 0L0 5L-5 0z",
        4 => "M0 5L4.6 -3.4H-4.6z",
        5 => "M-1.5 -4.5h3v3h3v3h-3v3h-3v-3h-3v-3h3z",
        _ => "M-4.5 -2.5h9v5h-9z",
    };
    let _ =
        write!(out, r#"<path d="{path}" transform="translate({x:.1} {y:.1})" class="{class}"/>"#);
}

/// A drawing of the given height, with the title and description that screen readers speak.
pub(super) fn frame(
    id: &str,
    width: Width,
    height: f64,
    title: &str,
    description: &str,
    body: &str,
) -> String {
    let (pixels, class) = (width.pixels, width.class);
    let (title, description) = (escape(title), escape(description));
    format!(
        "<svg class=\"chart {class}\" role=\"img\" aria-labelledby=\"{id}-{class}-t {id}-{class}-d\" \
         viewBox=\"0 0 {pixels} {height:.0}\" width=\"{pixels}\" height=\"{height:.0}\" \
         xmlns=\"http://www.w3.org/2000/svg\"><title id=\"{id}-{class}-t\">{title}</title>\
         <desc id=\"{id}-{class}-d\">{description}</desc>{body}</svg>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twenty_series_have_marks_of_their_own() {
        let marks: std::collections::HashSet<String> = (0..20)
            .map(|index| {
                let mut out = String::new();
                mark(&mut out, 0.0, 0.0, index);
                out
            })
            .collect();
        assert_eq!(marks.len(), 20);
    }

    #[test]
    fn what_could_be_markup_is_escaped() {
        assert_eq!(
            escape("<b a=\"x\" b='y'>&amp;\u{1}"),
            "&lt;b a=&quot;x&quot; b=&#39;y&#39;&gt;&amp;amp;\u{fffd}"
        );
        assert_eq!(escape("µs ≤ 5\n"), "µs ≤ 5\n");
    }
}
