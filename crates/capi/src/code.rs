//! [`EbbtideCode`] and the text of the last failure.

use std::any::Any;
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

use ebbtide_engine::EngineError;
use ebbtide_engine::embedded::Error;
use ebbtide_engine::mapped::MappedError;
use ebbtide_engine::store::StoreError;

/// The outcome of a call.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(clippy::enum_variant_names, reason = "C has no names within an enum")]
pub enum EbbtideCode {
    /// The call succeeded.
    EbbtideOk = 0,
    /// An argument, an option or a file is at fault.
    EbbtideInput = 1,
    /// The device or the system failed, or a job did.
    EbbtideFailed = 2,
    /// The store is in use elsewhere.
    EbbtideBusy = 3,
    /// The handle is closed, or was never open.
    EbbtideClosed = 4,
    /// The handle belongs to the process that this one was forked from.
    EbbtideForked = 5,
    /// The call was made in the wrong place: inside a job, or with the memory of another job.
    EbbtideMisplaced = 6,
    /// The transaction that the call is part of cannot go on as it is. Its body must return, and
    /// may be called again.
    EbbtideAgain = 7,
    /// The body of a transaction or update did not return 0, so nothing of it took place.
    EbbtideAbandoned = 8,
    /// The map, the store or the region has no room for it.
    EbbtideFull = 9,
}

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// Why a call failed.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: EbbtideCode,
    pub(crate) text: String,
}

impl Failure {
    pub(crate) fn new(code: EbbtideCode, text: impl ToString) -> Failure {
        Failure { code, text: text.to_string() }
    }

    /// A failure of an argument, an option or a file.
    pub(crate) fn input(text: impl ToString) -> Failure {
        Failure::new(EbbtideCode::EbbtideInput, text)
    }

    /// A failure of the device or the system, or of a job.
    pub(crate) fn failed(text: impl ToString) -> Failure {
        Failure::new(EbbtideCode::EbbtideFailed, text)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Failure {
        match &error {
            StoreError::InUse(_) | StoreError::HasEngine(_) => {
                Failure::new(EbbtideCode::EbbtideBusy, error)
            }
            error if error.is_input() => Failure::input(error),
            error => Failure::failed(error),
        }
    }
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Failure {
        match error {
            EngineError::Store(error) => error.into(),
            EngineError::Io { .. } | EngineError::Stuck { .. } => Failure::failed(error),
            error => Failure::input(error),
        }
    }
}

impl From<MappedError> for Failure {
    fn from(error: MappedError) -> Failure {
        match error {
            MappedError::Store(error) => error.into(),
            MappedError::Engine(error) => error.into(),
            MappedError::Refused(_) | MappedError::Lacks(_) | MappedError::Io { .. } => {
                Failure::failed(error)
            }
            error => Failure::input(error),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        match error {
            Error::Engine(EngineError::Store(error)) => error.into(),
            Error::Engine(error) => error.into(),
            Error::Full => Failure::new(EbbtideCode::EbbtideFull, error),
            Error::Closed => Failure::new(EbbtideCode::EbbtideClosed, error),
            Error::Forked(_) => Failure::new(EbbtideCode::EbbtideForked, error),
            error if error.is_input() => Failure::input(error),
            error => Failure::failed(error),
        }
    }
}

/// Runs `work`, which may panic, and returns its code.
pub(crate) fn guarded(work: impl FnOnce() -> Result<(), Failure>) -> EbbtideCode {
    let failure = match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(())) => return EbbtideCode::EbbtideOk,
        Ok(Err(failure)) => failure,
        Err(payload) => Failure::failed(panic_text(&*payload)),
    };
    note(&failure.text);
    failure.code
}

/// Returns the message of a panic.
pub(crate) fn panic_text(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_string());
    let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
    format!("the call panicked: {}", text.as_deref().unwrap_or("without a message"))
}

/// Stores `text` for [`ebbtide_error`], as one line.
fn note(text: &str) {
    let line = text.bytes().map(|byte| if matches!(byte, 0 | b'\n') { b' ' } else { byte });
    let line = CString::new(line.collect::<Vec<u8>>()).unwrap_or_default();
    LAST.with_borrow_mut(|last| *last = line);
}

/// Checks that a pointer is not null.
pub(crate) fn given<T>(name: &str, pointer: *const T) -> Result<(), Failure> {
    if pointer.is_null() { Err(Failure::input(format!("{name} is null"))) } else { Ok(()) }
}

/// Returns a C string.
///
/// # Safety
/// `text` is null or ends in a zero byte.
pub(crate) unsafe fn string<'a>(name: &str, text: *const c_char) -> Result<&'a CStr, Failure> {
    given(name, text)?;
    // SAFETY: as the caller promises.
    Ok(unsafe { CStr::from_ptr(text) })
}

/// Returns a C string that is UTF-8.
///
/// # Safety
/// As of [`string`].
pub(crate) unsafe fn utf8<'a>(name: &str, text: *const c_char) -> Result<&'a str, Failure> {
    // SAFETY: as the caller promises.
    let text = unsafe { string(name, text)? };
    text.to_str().map_err(|_| Failure::input(format!("{name} is not UTF-8")))
}

/// Returns the error of the last failed call of this thread, in one line. Valid until the next
/// failed call of this thread. In a job, read it before the next call with the job's memory,
/// because other jobs may run during that call.
#[unsafe(no_mangle)]
pub extern "C" fn ebbtide_error() -> *const c_char {
    LAST.with_borrow(|last| last.as_ptr())
}

/// Returns the version of the library, such as "0.1.0".
#[unsafe(no_mangle)]
pub extern "C" fn ebbtide_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}
