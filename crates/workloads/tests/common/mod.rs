//! Programs and their images for the tests.
#![allow(dead_code, unreachable_pub, reason = "each test file uses some of it")]

use ebbtide_core::{PAGE_BYTES, PageId};
use ebbtide_testbed::{Plain, Sparse, words_of_page, words_of_pages};
use ebbtide_workloads::{Kind, Program, Scatter, Shape, Workload};

/// A program of `pages` pages at most, or as few as it needs, with the rest of the shape as usual.
pub fn program(name: &str, pages: u64, scatter: Scatter) -> Program {
    let least_bytes = name.parse::<Kind>().unwrap().min_bytes();
    let dataset_bytes = least_bytes.max(pages * PAGE_BYTES as u64);
    Program::new(name, &Shape { dataset_bytes, scatter, ..Shape::default() }).unwrap()
}

/// The page of a workload's image as words.
pub fn page(workload: &impl Workload, page: PageId) -> Vec<u64> {
    words_of_page(page, |page, out| workload.image(page, out))
}

/// A workload's whole image as words.
pub fn image(workload: &impl Workload) -> Vec<u64> {
    let pages = workload.size_bytes() / PAGE_BYTES as u64;
    words_of_pages(pages, |page, out| workload.image(page, out))
}

/// A workload's image in a memory of one job.
pub fn plain(workload: &impl Workload) -> Plain {
    Plain::new(image(workload))
}

/// A workload's image, made page by page when a job accesses it.
pub fn sparse(workload: &impl Workload) -> Sparse<'_> {
    Sparse::new(workload.size_bytes(), |page, out| workload.image(page, out))
}
