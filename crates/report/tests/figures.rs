//! Figures for a paper: each chart is a valid SVG and PDF file, with its letters inside.

use std::fs;

use ebbtide_report::{BarChart, LineChart, Page, Range, write_figures};
use lopdf::{Document, Object};

fn page(title: &str) -> Page {
    let bars = BarChart::new("Throughput", "relative to DRAM-only")
        .reference(1.0, "DRAM-only")
        .group("hash table", [("Ebbtide", Range { min: 0.88, median: 0.91, max: 0.93 })]);
    let lines = LineChart::new("p99 of response", "load", "p99 (µs)").log_y();
    let lines = lines.series("Ebbtide", [(0.2, 29.0), (0.9, 190.0)]);
    let flat = LineChart::new("Writes", "load", "pages").series("a", [(0.2, 0.0), (0.9, 0.0)]);
    Page::new(title).section("Charts").bars(bars).lines(lines).lines(flat)
}

#[test]
fn each_chart_is_a_pdf_with_its_letters_and_its_width_in_points() {
    let folder = tempfile::tempdir().expect("a folder");
    let written = write_figures(&[page("Bench")], &folder.path().join("new")).expect("figures");
    let names: Vec<_> = written.iter().filter_map(|path| path.file_name()?.to_str()).collect();
    let drawn = ["throughput.svg", "throughput.pdf", "p99-of-response.svg", "p99-of-response.pdf"];
    assert_eq!(names, drawn, "a chart of equal values is not drawn");
    for path in written.iter().filter(|path| path.extension().is_some_and(|end| end == "pdf")) {
        let bytes = fs::read(path).expect("a file");
        assert!(bytes.starts_with(b"%PDF"), "{}", path.display());
        let pdf = Document::load_mem(&bytes).expect("a valid PDF");
        let pages = pdf.get_pages();
        assert_eq!(pages.len(), 1);
        let size = pdf.get_dictionary(pages[&1]).and_then(|page| page.get(b"MediaBox"));
        let corners = size.and_then(Object::as_array).expect("a size");
        let width = corners[2].as_float().expect("a number");
        assert!(
            (width - 540.0).abs() < 0.1,
            "720 pixels at 96 an inch are 540 points, not {width}"
        );
        let fonts = pdf.objects.values().filter_map(|object| object.as_dict().ok());
        let embedded = fonts.filter(|font| font.has(b"FontFile3") || font.has(b"FontFile2"));
        assert!(embedded.count() >= 1, "{} has no font inside", path.display());
        let letters = pdf.extract_text(&[1]).expect("text").replace('\n', "");
        assert!(letters.contains("Ebbtide"), "{letters}");
        let colour = "0 0.44705883 0.69803923 scn";
        let streams = pdf.objects.values().filter_map(|object| object.as_stream().ok());
        let drawn = streams.filter_map(|stream| stream.decompressed_content().ok());
        let mut drawn = drawn.map(|drawn| String::from_utf8_lossy(&drawn).into_owned());
        assert!(drawn.any(|drawn| drawn.contains(colour)), "{} has no colours", path.display());
    }
}

#[test]
fn the_figures_of_several_pages_have_a_folder_a_page() {
    let folder = tempfile::tempdir().expect("a folder");
    let pages = [page("HAMS, ISCA 2021"), page("AstriFlash, HPCA 2023")];
    assert_eq!(write_figures(&pages, folder.path()).expect("figures").len(), 8);
    assert!(folder.path().join("hams-isca-2021/throughput.pdf").exists());
    assert!(folder.path().join("astriflash-hpca-2023/throughput.svg").exists());
}
