//! [`Chart`]: what a page needs of a chart of either kind.

use std::fmt::Debug;

use super::ReportError;
use super::svg::Width;
use super::table::Table;

/// A chart of either kind.
pub(super) trait Chart: Debug + Send + Sync {
    /// Its title.
    fn title(&self) -> &str;

    /// The meaning and unit of its values.
    fn label(&self) -> &str;

    /// The values that are drawn along its axis.
    fn values(&self) -> Vec<f64>;

    /// Checks that it can be drawn.
    ///
    /// # Errors
    /// [`ReportError`].
    fn check(&self) -> Result<(), ReportError>;

    /// The same numbers, to be read and copied.
    fn table(&self) -> Table;

    /// Returns the drawing as SVG. `id` differs from the ids of the page's other drawings.
    fn draw(&self, id: &str, width: Width) -> String;

    /// Returns the value if all values are the same. Such a chart is replaced by a sentence.
    fn only_value(&self) -> Option<f64> {
        match &self.values()[..] {
            [first, others @ ..] if !others.is_empty() => {
                others.iter().all(|value| value == first).then_some(*first)
            }
            _ => None,
        }
    }
}
