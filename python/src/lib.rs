//! The native half of the Python package `ebbtide`. It converts arguments and results between
//! Python and the other crates, and computes no result.
//!
//! * `arguments`: Python values as text, parsed by the parsers of the command line.
//! * `watched`: long runs on a separate thread, with progress and Ctrl-C.
//! * `report`: a result as text, JSON, pages and an Arrow table.
//! * `models`: the commands of `ebbtide` that simulate or compute.
//! * `policy`: replacement policies and prefetchers written in Python.
//! * `sweeps`: a sweep as points that any engine can run, and its table.
//! * `traces`: reads and writes traces as files and arrays.
//! * `arrays`: gathers rows of a file on flash into arrays.
//! * `store`: keys and values that survive crashes.
//! * `failure`: errors as exceptions.

mod arguments;
mod arrays;
mod failure;
mod models;
mod policy;
mod report;
mod store;
mod sweeps;
mod traces;
mod watched;

use pyo3::prelude::*;

/// The native half of `ebbtide`.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("VERSION", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<report::Report>()?;
    module.add_class::<sweeps::Sweep>()?;
    module.add_class::<arrays::RowFile>()?;
    module.add_class::<store::Store>()?;
    module.add_class::<store::Map>()?;
    module.add_function(wrap_pyfunction!(models::simulate, module)?)?;
    module.add_function(wrap_pyfunction!(models::compare, module)?)?;
    module.add_function(wrap_pyfunction!(models::size, module)?)?;
    module.add_function(wrap_pyfunction!(models::mrc, module)?)?;
    module.add_function(wrap_pyfunction!(models::reproduce, module)?)?;
    module.add_function(wrap_pyfunction!(models::designs_list, module)?)?;
    module.add_function(wrap_pyfunction!(models::workloads, module)?)?;
    module.add_function(wrap_pyfunction!(models::resolve, module)?)?;
    module.add_function(wrap_pyfunction!(sweeps::run_point, module)?)?;
    module.add_function(wrap_pyfunction!(traces::convert_trace, module)?)?;
    module.add_function(wrap_pyfunction!(traces::trace_info, module)?)?;
    module.add_function(wrap_pyfunction!(traces::write_trace, module)?)?;
    module.add_function(wrap_pyfunction!(traces::read_trace, module)?)?;
    Ok(())
}
