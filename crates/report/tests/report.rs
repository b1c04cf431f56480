//! A report is whole and safe to open. Values that it could only draw wrongly are refused.

use std::fs;

use ebbtide_report::{BarChart, LineChart, Page, Range, ReportError, Table};

fn sample() -> Page {
    let range = |min, median, max| Range { min, median, max };
    let bars = BarChart::new("Throughput by workload", "throughput relative to DRAM-only")
        .reference(1.0, "DRAM-only")
        .group(
            "hash table",
            [
                ("Ebbtide", range(0.88, 0.912, 0.93)),
                ("OS paging", range(0.41, 0.47, 0.50)),
                ("blocking reads", range(0.16, 0.17, 0.18)),
            ],
        )
        .group(
            "TATP",
            [
                ("Ebbtide", range(0.93, 0.95, 0.97)),
                ("OS paging", range(0.50, 0.54, 0.61)),
                ("blocking reads", Range::single(0.26)),
            ],
        );
    let lines = LineChart::new(
        "p99 response against throughput",
        "throughput (jobs/s)",
        "p99 response (µs)",
    )
    .log_y()
    .series("DRAM-only", [(27e3, 29.0), (45e3, 47.0), (63e3, 56.0), (86e3, 190.0)])
    .series("Ebbtide", [(27e3, 292.0), (45e3, 708.0), (63e3, 7582.0)])
    .series("OS paging", [(27e3, 1900.0), (40e3, 30_000.0)]);
    Page::new("Ebbtide bench")
        .paragraph("Linux 6.18, 2 cores; flash read 64 µs at queue depth 1, 410 µs at 32.")
        .section("Throughput")
        .bars(bars)
        .section("Response time")
        .lines(lines)
        .section("Machine")
        .table(
            Table::new("Flash reads", ["depth", "reads/s", "p99 µs"])
                .numbers(["1"], [15_384.0, 112.25]),
        )
        .preformatted("[bench]\nseconds = 10\n")
}

fn written(page: &Page) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let paths = page.write(&folder.path().join("new/nested")).expect("a report");
    let html = fs::read_to_string(&paths[0]).expect("a page");
    (folder, html)
}

#[test]
fn a_report_makes_its_folders_and_puts_the_numbers_beside_the_page() {
    // EBBTIDE_SAMPLE_REPORT=folder keeps the sample, to be looked at.
    if let Some(folder) = std::env::var_os("EBBTIDE_SAMPLE_REPORT") {
        sample().write(folder.as_ref()).expect("a report");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let nested = folder.path().join("new/nested");
    let paths = sample().write(&nested).expect("a report");
    let names: Vec<_> = paths.iter().filter_map(|path| path.file_name()?.to_str()).collect();
    let expected = [
        "report.html",
        "throughput-by-workload.csv",
        "throughput-by-workload.svg",
        "p99-response-against-throughput.csv",
        "p99-response-against-throughput.svg",
        "flash-reads.csv",
    ];
    assert_eq!(names, expected);
    assert_eq!(fs::read_dir(&nested).expect("a folder").count(), 6, "no temporary file is left");
    let csv = fs::read_to_string(nested.join("throughput-by-workload.csv")).expect("a file");
    assert!(csv.starts_with("group,series,min,median,max\nhash table,Ebbtide,0.88,0.912,0.93\n"));
}

#[test]
fn a_report_loads_nothing_from_elsewhere() {
    let (folder, html) = written(&sample());
    let html = html.replace("http://www.w3.org/2000/svg", "");
    for forbidden in ["http:", "https:", "src=", "<link", "@import", "url(", "<script"] {
        assert!(!html.contains(forbidden), "{forbidden}");
    }
    // What can be saved lies beside the page.
    for target in html.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next()) {
        assert!(!target.contains('/') && folder.path().join("new/nested").join(target).is_file());
    }
}

#[test]
fn every_chart_has_a_title_a_description_and_a_table() {
    let (_folder, html) = written(&sample());
    assert_eq!(html.matches("<svg").count(), 4, "each chart in two widths");
    assert_eq!(html.matches("<desc ").count(), 4);
    assert_eq!(html.matches("<table>").count(), 3);
    for id in html.split(" id=\"").skip(1).filter_map(|rest| rest.split('"').next()) {
        assert_eq!(html.matches(&format!(" id=\"{id}\"")).count(), 1, "{id} is used twice");
    }
}

#[test]
fn text_is_text_whatever_it_holds() {
    let evil = "<script>alert(\"1\")</script>&'";
    let page = Page::new(evil)
        .section(evil)
        .paragraph(evil)
        .preformatted(evil)
        .table(Table::new(evil, [evil]).row([evil]))
        .bars(
            BarChart::new(evil, evil)
                .reference(1.0, evil)
                .group(evil, [(evil, Range::single(1.0))]),
        )
        .lines(LineChart::new(evil, evil, evil).series(evil, [(1.0, 1.0)]));
    let html = page.html().expect("a page");
    assert!(!html.contains("<script") && !html.contains("alert(\""));
}

#[test]
fn charts_without_data_or_with_one_point_are_drawn() {
    let page = Page::new("sparse")
        .bars(BarChart::new("no groups", "x"))
        .bars(BarChart::new("no bars", "x").group("g", Vec::<(String, Range)>::new()))
        .bars(BarChart::new("zero", "x").group("g", [("s", Range::single(0.0))]))
        .lines(LineChart::new("no series", "x", "y"))
        .lines(LineChart::new("empty series", "x", "y").log_y().series("s", []))
        .lines(LineChart::new("one point", "x", "y").series("s", [(0.0, 0.0)]))
        .lines(LineChart::new("one point, log", "x", "y").log_y().series("s", [(3.0, 10.0)]))
        .table(Table::new("no rows", ["a", "b"]));
    let html = page.html().expect("a page");
    assert!(!html.contains("NaN") && !html.contains("inf\"") && !html.contains("inf,"));
    assert!(html.contains("no data"));
}

#[test]
fn numbers_that_cannot_be_drawn_are_refused_and_nothing_is_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let inside = folder.path().join("report");
    for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let bars = BarChart::new("b", "x").group("g", [("s", Range::single(bad))]);
        let error = Page::new("t").bars(bars).write(&inside).unwrap_err();
        assert!(matches!(error, ReportError::NotFinite { .. }), "{error}");
        let lines = LineChart::new("l", "x", "y").series("s", [(1.0, 1.0), (bad, 1.0)]);
        let error = Page::new("t").lines(lines).write(&inside).unwrap_err();
        assert!(error.to_string().contains("chart 'l', s, point 2"), "{error}");
    }
    let zero = LineChart::new("l", "x", "y").log_y().series("s", [(1.0, 0.0)]);
    let error = Page::new("t").lines(zero).html().unwrap_err();
    assert!(matches!(error, ReportError::NotPositive { .. }), "{error}");
    let range = Range { min: 2.0, median: 1.0, max: 3.0 };
    let error = Page::new("t").bars(BarChart::new("b", "x").group("g", [("s", range)])).html();
    assert!(matches!(error, Err(ReportError::Disordered { .. })));
    let ragged = Table::new("r", ["a", "b"]).row(["1"]);
    assert!(matches!(Page::new("t").table(ragged).html(), Err(ReportError::Ragged { .. })));
    assert!(!inside.exists());
}

#[test]
fn a_folder_that_cannot_be_made_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("in-the-way");
    fs::write(&file, b"").expect("a file");
    let error = Page::new("t").write(&file.join("deeper")).unwrap_err();
    assert!(error.to_string().contains("in-the-way"), "{error}");
}

#[test]
fn a_chart_can_be_taken_as_a_drawing_and_as_data() {
    let (folder, html) = written(&sample());
    let links: Vec<&str> =
        html.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    assert_eq!(links.len(), 4, "two charts");
    for link in links {
        let text =
            fs::read_to_string(folder.path().join("new/nested").join(link)).expect("the file");
        assert!(!link.ends_with(".svg") || text.contains(".fill0 { fill: #0072b2; }"));
        assert!(!link.ends_with(".svg") || text.starts_with("<svg") && !text.contains("var("));
    }
}

#[test]
fn a_mark_is_drawn_where_the_axis_has_it() {
    let chart =
        |x| LineChart::new("t", "x", "y").series("s", [(1.0, 1.0), (9.0, 2.0)]).mark_x(x, "knee");
    assert!(Page::new("t").lines(chart(5.0)).html().expect("a page").contains(">knee<"));
    assert!(!Page::new("t").lines(chart(50.0)).html().expect("a page").contains(">knee<"));
}

#[test]
fn the_numbers_of_a_chart_are_folded() {
    let (_folder, html) = written(&sample());
    assert_eq!(html.matches("<details><summary>").count(), 2);
}

/// A page with a chart of each kind. All values are `value`.
fn flat(value: f64) -> Page {
    let bars = BarChart::new("Flash traffic", "MB a second")
        .group("dram-only", [("read", Range::single(value)), ("written", Range::single(value))]);
    let lines = LineChart::new("Writes to flash", "DRAM in GiB", "bytes a job")
        .series("lru", [(1.0, value), (2.0, value)]);
    Page::new("Read only").bars(bars).lines(lines)
}

#[test]
fn a_chart_whose_values_are_all_the_same_is_told_in_a_sentence() {
    let folder = tempfile::tempdir().expect("a folder");
    let written = flat(0.0).write(folder.path()).expect("a report");
    let html = fs::read_to_string(&written[0]).expect("a page");
    assert!(!html.contains("<svg") && !html.contains(".svg"), "{html}");
    assert!(html.contains("Every value is 0 (bytes a job)."), "{html}");
    assert!(html.contains("Every value is 0 (MB a second)."), "{html}");
    let names: Vec<_> = written.iter().map(|path| path.file_name().unwrap()).collect();
    assert_eq!(names, ["report.html", "flash-traffic.csv", "writes-to-flash.csv"]);
    assert!(flat(0.5).html().unwrap().contains("Every value is 0.500 (bytes a job)."));
    let alone = BarChart::new("One", "MB").group("", [("bar", Range::single(0.0))]);
    assert!(Page::new("One bar").bars(alone).html().unwrap().contains("<svg"), "it is compared");
}

#[test]
fn bars_on_a_logarithmic_axis_are_marks_and_must_be_above_zero() {
    let chart = |least: f64| {
        let bars = [("a", Range::single(least)), ("b", Range::single(1_000.0))];
        BarChart::new("p99", "microseconds").group("", bars).log()
    };
    let html = Page::new("P").bars(chart(1.0)).html().expect("a page");
    assert!(!html.contains("<rect") && html.contains("class=\"mark fill0\""), "{html}");
    let error = Page::new("P").bars(chart(0.0)).html().expect_err("zero has no place");
    assert!(matches!(error, ReportError::NotPositive { .. }), "{error}");
    // Without a wide range the axis stays linear.
    let bars = [("a", Range::single(1.0)), ("b", Range::single(2.0))];
    let html = Page::new("P").bars(BarChart::new("t", "x").group("", bars).log_if_wide()).html();
    assert!(html.expect("a page").contains("<rect"));
}

#[test]
fn a_doubtful_bar_is_pale_and_has_a_question_mark() {
    let bars = [("a", Range::single(1.0)), ("b", Range::single(2.0))];
    let chart = BarChart::new("t", "x").group("g", bars).doubt("g", "b");
    let html = Page::new("P").bars(chart).html().expect("a page");
    assert!(
        html.contains("class=\"fill0\"/>") && html.contains("class=\"fill1 pale\"/>"),
        "{html}"
    );
    assert!(html.contains(" ?</text>") && html.contains(", doubtful."), "{html}");
}
