//! [`Findings`] and [`Claims`] as tables of plain text, 100 columns wide, and findings as a table
//! of a page.

use std::fmt;

use ebbtide_report::{Page, RatioChart, Table};

use super::accept::{Accept, Verdict};
use super::finding::{Finding, Findings};
use super::list::Claims;

/// Characters in a line.
const COLUMNS: usize = 100;

/// The columns: their names and widths in characters. With two blanks between them they fill a
/// line.
const HEADER: [(&str, usize); 6] =
    [("id", 5), ("quantity", 29), ("theirs", 18), ("ours", 11), ("tolerance", 12), ("verdict", 15)];

/// Where the notes below a row begin: under the quantity.
const INDENT: usize = HEADER[0].1 + 2;

/// The heading of findings that count nowhere.
const ASIDES: &str = "Stand-ins and captured programs, which count nowhere";

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_findings(f, &self.claims)?;
        wrap(&self.summary(), COLUMNS).iter().try_for_each(|line| writeln!(f, "{line}"))?;
        if self.asides.is_empty() {
            return Ok(());
        }
        writeln!(f, "\n{ASIDES}")?;
        write_findings(f, &self.asides)
    }
}

/// Writes the header and the row of each of `findings`.
fn write_findings(f: &mut fmt::Formatter<'_>, findings: &[Finding]) -> fmt::Result {
    write_row(f, HEADER.map(|(name, _)| name))?;
    writeln!(f, "{}", "─".repeat(COLUMNS))?;
    for (index, finding) in findings.iter().enumerate() {
        let before = index.checked_sub(1).and_then(|before| findings.get(before));
        write_finding(f, finding, before)?;
        // Parts with the same source and note show them once, below the last part.
        let next = findings.get(index + 1);
        if next.is_none_or(|next| next.id != finding.id || next.note != finding.note) {
            for line in wrap(&remark(finding), COLUMNS - INDENT) {
                writeln!(f, "{:INDENT$}{line}", "")?;
            }
        }
    }
    Ok(())
}

/// The columns of the list of claims.
const LISTED: [(&str, usize); 5] =
    [("id", 5), ("source", 16), ("quantity", 33), ("theirs", 18), ("tested by", 20)];

impl fmt::Display for Claims {
    /// Every claim with its values and its test.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_columns(f, LISTED, LISTED.map(|(name, _)| name))?;
        writeln!(f, "{}", "─".repeat(COLUMNS))?;
        for claim in self.iter() {
            for (number, part) in claim.parts().iter().enumerate() {
                let tested = match (part.accept, claim.constructed(part)) {
                    (Accept::Input | Accept::Context, _) => "an input".to_string(),
                    (Accept::NotTestable(_), _) => Verdict::NotTestable.to_string(),
                    (_, Some(_)) => Verdict::ByConstruction.to_string(),
                    _ if part.aside => "aside: counts nowhere".to_string(),
                    _ => claim.experiment.to_string(),
                };
                let cells = match number {
                    0 if part.name.is_empty() => [claim.id, claim.source, claim.quantity],
                    0 => [claim.id, claim.source, &format!("{}: {}", claim.quantity, part.name)],
                    _ => ["", "", &format!("– {}", part.name)],
                };
                let [id, source, quantity] = cells;
                write_columns(f, LISTED, [id, source, quantity, part.theirs, &tested])?;
            }
        }
        Ok(())
    }
}

impl Findings {
    /// Returns `page` with the counts of verdicts, a chart of the numbers, and every finding.
    /// `about` is a paragraph on the runs; it may be empty.
    pub fn on_page(&self, page: Page, about: &str) -> Page {
        let page = page.paragraph(&self.summary());
        let chart = self.chart();
        let page = if chart.is_empty() { page } else { page.ratios(chart) };
        let page = if about.is_empty() { page } else { page.paragraph(about) };
        let page = page.section("Claims").table(table("Claims", &self.claims));
        match &self.asides[..] {
            [] => page,
            asides => page.section(ASIDES).table(table(ASIDES, asides)),
        }
    }

    /// Our numbers over the claimed ones. Statements, and values without a verdict, are left out.
    fn chart(&self) -> RatioChart {
        let decided = self.claims.iter().filter(|finding| !finding.compared.is_empty());
        let chart = RatioChart::new("Ours over claimed", "our number over the claimed one");
        decided.fold(chart, |chart, finding| {
            let (_, part) = finding.quantity.split_once(": ").unwrap_or(("", &finding.quantity));
            let name = format!("{} {part}", finding.id);
            let ours = finding.ours.as_deref().unwrap_or("–");
            let told = format!("{} → {ours}", finding.theirs);
            let numbers = finding.compared.iter().copied();
            chart.row(&name, &finding.verdict.to_string(), &told, numbers)
        })
    }
}

/// `findings` as a table of a page.
fn table(caption: &str, findings: &[Finding]) -> Table {
    let header = ["id", "source", "quantity", "theirs", "ours", "tolerance", "verdict", "note"];
    findings.iter().fold(Table::new(caption, header).notes_below(), |table, finding| {
        table.row([
            finding.id,
            finding.source,
            &finding.quantity,
            finding.theirs,
            finding.ours.as_deref().unwrap_or("–"),
            &finding.tolerance,
            &finding.verdict.to_string(),
            &finding.note,
        ])
    })
}

/// Writes the row of `finding`. If the row before has the same claim, it begins with the part.
fn write_finding(
    f: &mut fmt::Formatter<'_>,
    finding: &Finding,
    before: Option<&Finding>,
) -> fmt::Result {
    let again = before.is_some_and(|before| before.id == finding.id);
    let (id, quantity) = match finding.quantity.split_once(": ") {
        Some((_, part)) if again => ("", format!("– {part}")),
        _ => (finding.id, finding.quantity.clone()),
    };
    let verdict = finding.verdict.to_string();
    let ours = finding.ours.as_deref().unwrap_or("–");
    write_row(f, [id, &quantity, finding.theirs, ours, &finding.tolerance, &verdict])
}

fn remark(finding: &Finding) -> String {
    match finding.note.as_str() {
        "" => finding.source.to_string(),
        note => format!("{}. {note}", finding.source),
    }
}

/// One row of findings.
fn write_row(f: &mut fmt::Formatter<'_>, cells: [&str; HEADER.len()]) -> fmt::Result {
    write_columns(f, HEADER, cells)
}

/// One row. Each cell is wrapped in its column of `header`.
fn write_columns<const N: usize>(
    f: &mut fmt::Formatter<'_>,
    header: [(&str, usize); N],
    cells: [&str; N],
) -> fmt::Result {
    let mut cells = cells.into_iter().zip(header).map(|(cell, (_, width))| wrap(cell, width));
    let cells: [Vec<String>; N] = std::array::from_fn(|_| cells.next().unwrap_or_default());
    let height = cells.iter().map(Vec::len).max().unwrap_or(0);
    for row in 0..height {
        let mut line = String::new();
        for (cell, (_, width)) in cells.iter().zip(header) {
            let text = cell.get(row).map_or("", String::as_str);
            line += &format!("{text:width$}  ");
        }
        writeln!(f, "{}", line.trim_end())?;
    }
    Ok(())
}

/// `text` in lines of at most `width` characters, broken at blanks if possible.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let mut letters: Vec<char> = word.chars().collect();
        let used = lines.last().map_or(0, |line| line.chars().count());
        let blank = usize::from(used > 0);
        if used + blank + letters.len() > width && used > 0 {
            lines.push(String::new());
        } else if let (1, Some(line)) = (blank, lines.last_mut()) {
            line.push(' ');
        }
        while letters.len() > width {
            let rest = letters.split_off(width);
            lines.push(std::mem::replace(&mut letters, rest).into_iter().collect());
        }
        match lines.last_mut() {
            Some(line) if line.chars().count() + letters.len() <= width => line.extend(letters),
            _ => lines.push(letters.into_iter().collect()),
        }
    }
    lines.retain(|line| !line.is_empty());
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims::{Claim, claim};

    #[test]
    fn lines_are_full_but_never_too_long() {
        let text = "a few words and averyveryverylongone at last";
        let lines = wrap(text, 10);
        assert_eq!(lines, ["a few", "words and", "averyveryv", "erylongone", "at last"]);
        assert_eq!(wrap("exactly ten", 11), ["exactly ten"]);
        assert!(wrap("", 10).is_empty());
    }

    #[test]
    fn a_page_opens_with_the_score_and_a_chart_of_decided_numbers() {
        const GAIN: Claim = claim("X1", "§1", "gain").value("2×", "×", Accept::Near(2.0, 0.1));
        let findings = |findings: &[Finding]| findings.iter().cloned().collect::<Findings>();
        let page =
            |findings: &Findings| findings.on_page(Page::new("X"), "").html().expect("it fits");
        let decided = page(&findings(&[GAIN.finding("", 3.0), GAIN.finding("", 2.0)]));
        assert!(decided.contains("<p>2 parts of claims: 1 within, 1 outside"), "{decided}");
        assert!(decided.find("<figure>") < decided.find("<h2>Claims"), "{decided}");
        let undecided = page(&findings(&[GAIN.finding("", 3.0).stand_in("Needs a trace.")]));
        assert!(!undecided.contains("<figure>") && undecided.contains("count nowhere"));
    }

    #[test]
    fn columns_fill_the_line() {
        let width = |header: &[(&str, usize)]| -> usize {
            header.iter().map(|(_, width)| width + 2).sum::<usize>() - 2
        };
        assert_eq!((width(&HEADER), width(&LISTED)), (COLUMNS, COLUMNS));
    }
}
