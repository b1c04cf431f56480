//! Replacement policies and prefetchers written in Python, adapted to the simulator.
//!
//! A run with one of them holds the interpreter's lock. It releases the lock between two calls
//! when another thread asks for it. Policies run on the thread's own stack, because stacks of
//! simulated jobs are small. The first exception stops the run. Until it has stopped, the policy
//! decides as FIFO would.

use std::sync::{Arc, Mutex, PoisonError};

use ebbtide_core::prefetch::{Demand, Metrics, Prefetcher};
use ebbtide_core::replacement::{Frames, Geometry, Replacement};
use ebbtide_core::{FrameId, PageId, Stop};
use ebbtide_fiber::on_the_threads_stack;
use pyo3::exceptions::PyValueError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyInt, PyList};

/// The first exception of a policy, which stops its run.
#[derive(Clone)]
pub(crate) struct Trouble(Arc<(Mutex<Option<PyErr>>, Arc<Stop>)>);

impl Trouble {
    pub(crate) fn new(stop: Arc<Stop>) -> Trouble {
        Trouble(Arc::new((Mutex::new(None), stop)))
    }

    /// Takes the exception, if there was one.
    pub(crate) fn take(&self) -> Option<PyErr> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Records the first exception and stops the run.
    pub(crate) fn note(&self, error: PyErr) {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        self.0.1.stop();
    }

    /// Calls Python on the thread's own stack.
    fn ask<T: Default>(&self, call: impl FnOnce(Python<'_>) -> PyResult<T>) -> T {
        let (mut call, mut answer) = (Some(call), T::default());
        on_the_threads_stack(&mut || {
            let Some(call) = call.take() else { return };
            match Python::attach(call) {
                Ok(value) => answer = value,
                Err(error) => self.note(error),
            }
        });
        answer
    }
}

/// Calls `callable` with one to three arguments, without building a tuple.
#[allow(unsafe_code)]
fn call<'py>(
    py: Python<'py>,
    callable: &Py<PyAny>,
    first: &Bound<'py, PyAny>,
    more: [Option<&Bound<'py, PyAny>>; 2],
) -> PyResult<Bound<'py, PyAny>> {
    let end = std::ptr::null_mut::<ffi::PyObject>();
    let [second, third] = more.map(|argument| argument.map_or(end, Bound::as_ptr));
    // SAFETY: the interpreter is attached, all objects live until the call returns, and the list of
    // arguments ends with a null pointer. The result is a new reference, or null with an exception.
    unsafe {
        let result = ffi::PyObject_CallFunctionObjArgs(
            callable.as_ptr(),
            first.as_ptr(),
            second,
            third,
            end,
        );
        Bound::from_owned_ptr_or_err(py, result)
    }
}

/// Maximum number of frames of a set that are passed to a policy one by one.
const WAYS_MAX: usize = 64;

/// A replacement policy written in Python.
pub(crate) struct PythonPolicy {
    policy: Py<PyAny>,
    insert: Py<PyAny>,
    victim: Py<PyAny>,
    remove: Py<PyAny>,
    ways: usize,
    /// True for each frame that the policy knows.
    known: Vec<bool>,
    trouble: Trouble,
}

impl PythonPolicy {
    /// Looks up the methods of `policy` once.
    ///
    /// # Errors
    /// Returns an error if it lacks a method, or `start` raises.
    pub(crate) fn new(
        py: Python<'_>,
        policy: &Py<PyAny>,
        geometry: Geometry,
        trouble: Trouble,
    ) -> PyResult<PythonPolicy> {
        if geometry.ways > WAYS_MAX {
            let given = format!("dram_cache.ways = {}", geometry.ways);
            let expected = format!("1 to {WAYS_MAX} with a policy written in Python");
            return Err(PyValueError::new_err(format!("{given}: expected {expected}")));
        }
        policy.call_method1(py, "start", (geometry.sets, geometry.ways))?;
        Ok(PythonPolicy {
            policy: policy.clone_ref(py),
            insert: policy.getattr(py, "insert")?,
            victim: policy.getattr(py, "victim")?,
            remove: policy.getattr(py, "remove")?,
            ways: geometry.ways,
            known: vec![false; geometry.frames()],
            trouble,
        })
    }
}

impl Clone for PythonPolicy {
    fn clone(&self) -> PythonPolicy {
        Python::attach(|py| {
            let copied = py
                .import("copy")
                .and_then(|copy| copy.call_method1("deepcopy", (&self.policy,)))
                .map(Bound::unbind);
            let policy = copied.unwrap_or_else(|error| {
                self.trouble.note(error);
                self.policy.clone_ref(py)
            });
            let method = |name: &str| {
                policy.getattr(py, name).unwrap_or_else(|error| {
                    self.trouble.note(error);
                    py.None()
                })
            };
            PythonPolicy {
                insert: method("insert"),
                victim: method("victim"),
                remove: method("remove"),
                policy,
                ways: self.ways,
                known: self.known.clone(),
                trouble: self.trouble.clone(),
            }
        })
    }
}

impl Replacement for PythonPolicy {
    fn insert(&mut self, frame: FrameId, page: PageId) {
        self.known[frame.0 as usize] = true;
        self.trouble.ask(|py| {
            let (frame, page) = (PyInt::new(py, frame.0), PyInt::new(py, page.0));
            call(py, &self.insert, &frame, [Some(&page), None]).map(drop)
        });
    }

    fn victim(&mut self, set: usize, frames: &mut dyn Frames) -> Option<FrameId> {
        let (mut candidates, mut touches, mut dirty) =
            ([0; WAYS_MAX], [0; WAYS_MAX], [0; WAYS_MAX]);
        let mut count = 0;
        for frame in set * self.ways..(set + 1) * self.ways {
            let id = FrameId(frame as u32);
            if self.known[frame] && !frames.is_pinned(id) {
                candidates[count] = id.0;
                touches[count] = frames.take_touches(id);
                dirty[count] = u8::from(frames.is_dirty(id));
                count += 1;
            }
        }
        let candidates = &candidates[..count];
        let first = *candidates.first()?;
        let chosen = self.trouble.ask(|py| {
            let frames = PyList::new(py, candidates)?;
            let (touches, dirty) =
                (PyBytes::new(py, &touches[..count]), PyBytes::new(py, &dirty[..count]));
            let chosen = call(py, &self.victim, &frames, [Some(&touches), Some(&dirty)])?;
            match chosen.extract::<u32>() {
                Ok(frame) if candidates.contains(&frame) => Ok(Some(frame)),
                _ => {
                    let chosen = chosen.repr()?;
                    let text = format!("victim() gave {chosen}: expected one of {candidates:?}");
                    Err(PyValueError::new_err(text))
                }
            }
        });
        let chosen = chosen.unwrap_or(first);
        self.known[chosen as usize] = false;
        Some(FrameId(chosen))
    }

    fn remove(&mut self, frame: FrameId) {
        self.known[frame.0 as usize] = false;
        self.trouble
            .ask(|py| call(py, &self.remove, &PyInt::new(py, frame.0), [None, None]).map(drop));
    }
}

/// A prefetcher written in Python.
pub(crate) struct PythonPrefetcher {
    demand: Py<PyAny>,
    trouble: Trouble,
}

impl PythonPrefetcher {
    /// Looks up the method of `prefetcher` once.
    ///
    /// # Errors
    /// Returns an error if it lacks the method.
    pub(crate) fn new(
        py: Python<'_>,
        prefetcher: &Py<PyAny>,
        trouble: Trouble,
    ) -> PyResult<PythonPrefetcher> {
        Ok(PythonPrefetcher { demand: prefetcher.getattr(py, "demand")?, trouble })
    }
}

impl Prefetcher for PythonPrefetcher {
    fn demand(
        &mut self,
        page: PageId,
        demand: Demand,
        _metrics: &Metrics,
        candidates: &mut Vec<PageId>,
    ) {
        let found = match demand {
            Demand::Miss => "miss",
            Demand::Late => "late",
            Demand::FirstHit { .. } => "first hit",
            Demand::Hit => "hit",
        };
        let pages: Vec<u64> =
            self.trouble.ask(|py| self.demand.call1(py, (page.0, found))?.extract(py));
        candidates.extend(pages.into_iter().map(PageId));
    }
}
