//! The status numbers, which never change, the error record of a caller, and the only mapping from the engine's errors
//! to both.

use std::ffi::{CStr, c_char};
use std::fmt;

use crate::error::Error;

use super::faults;
use super::field::write_message;

/// Result of a call: 0 is success, a positive number is progress, a negative number is failure.
pub type rz_status = i32;

/// Success.
pub const RZ_OK: rz_status = 0;
/// Progress: call again for more. A reply may have no new part after a step.
pub const RZ_AGAIN: rz_status = 1;
/// Completed: there is nothing more to come.
pub const RZ_DONE: rz_status = 2;
/// An argument is NULL, out of range, not UTF-8, or otherwise never valid.
pub const RZ_ERR_INVALID_ARGUMENT: rz_status = -1;
/// Another call is using the handle.
pub const RZ_ERR_BUSY: rz_status = -2;
/// Host memory is exhausted.
pub const RZ_ERR_OUT_OF_MEMORY: rz_status = -3;
/// Device memory is exhausted.
pub const RZ_ERR_DEVICE_OUT_OF_MEMORY: rz_status = -4;
/// The call would exceed a limit set by the caller, or a bound of this library.
pub const RZ_ERR_LIMIT: rz_status = -5;
/// A file could not be read or written.
pub const RZ_ERR_IO: rz_status = -6;
/// A file is damaged, or the weights of a model make a result NaN or infinite.
pub const RZ_ERR_FORMAT: rz_status = -7;
/// The request is valid, but this library does not implement it.
pub const RZ_ERR_UNSUPPORTED: rz_status = -8;
/// A field or a flag needs a newer library.
pub const RZ_ERR_VERSION: rz_status = -9;
/// An `rz_cancel` was fired, or a callback asked to stop.
pub const RZ_ERR_CANCELLED: rz_status = -10;
/// The deadline has passed.
pub const RZ_ERR_DEADLINE: rz_status = -11;
/// The tokens do not fit into the context window (the capacity of the cache).
pub const RZ_ERR_CONTEXT_FULL: rz_status = -12;
/// The buffer is too small; the needed count was written.
pub const RZ_ERR_BUFFER_TOO_SMALL: rz_status = -13;
/// The device cannot be used; the message says why.
pub const RZ_ERR_DEVICE_UNAVAILABLE: rz_status = -14;
/// The device failed, or did not answer for 60 seconds; its work is lost. The model is unusable, including its layers
/// on other devices. The CPU and other models continue to work, on the same device too, because each model has its own
/// context. According to NVIDIA's documentation some kernel faults, such as error 700 (illegal address), make CUDA
/// unusable in the whole process: then every model on a GPU returns this status, and only a new process can use the
/// devices again.
pub const RZ_ERR_DEVICE_LOST: rz_status = -15;
/// One call combines objects of different models.
pub const RZ_ERR_MISMATCH: rz_status = -16;
/// Caught bug of this library. Please report the message.
pub const RZ_ERR_PANIC: rz_status = -17;
/// An earlier call on this handle ended with RZ_ERR_PANIC, whose message this error repeats. Free the handle.
pub const RZ_ERR_POISONED: rz_status = -18;
/// Not found: a key, a device, an image, audio or video of a conversation, or an index beyond the last entry.
pub const RZ_ERR_NOT_FOUND: rz_status = -19;
/// Another call must come first: there are no logits before a prefill, and no rows of media before their encoding is
/// done.
pub const RZ_ERR_NOT_READY: rz_status = -20;
/// The system cannot create a thread or another resource; the same call may succeed later.
pub const RZ_ERR_RESOURCES: rz_status = -21;

/// Explicit zero (none) for 32-bit fields whose value 0 means the default. Only fields whose comments name RZ_NONE
/// accept it.
pub const RZ_NONE: u32 = u32::MAX;

/// Error record in caller-owned memory, which may be uninitialized (on the stack, for example). Its layout never
/// changes.
///
/// Every function whose last argument is an `rz_error *` accepts NULL there. Otherwise it fills in the record on every
/// return: on success with the status, zeros and an empty message. Since 0.1.0.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct rz_error {
    /// Returned status.
    pub code: i32,
    /// `errno` of the failed system call, on Windows the value of GetLastError; 0 if there is none.
    pub system_code: i32,
    /// Sufficient capacity: for RZ_ERR_BUFFER_TOO_SMALL the size of the buffer, for RZ_ERR_CONTEXT_FULL the capacity of
    /// the cache in tokens, not counting the reply; else 0.
    pub needed: u64,
    /// Message: the reason, followed by the name of the file. UTF-8, NUL-terminated, without control characters. The
    /// middle of a message that is too long is left out.
    pub message: [c_char; 496],
}

/// Returns the name of a status; `RZ_UNKNOWN` for any other number.
pub(super) fn name(status: rz_status) -> &'static CStr {
    match status {
        RZ_OK => c"RZ_OK",
        RZ_AGAIN => c"RZ_AGAIN",
        RZ_DONE => c"RZ_DONE",
        RZ_ERR_INVALID_ARGUMENT => c"RZ_ERR_INVALID_ARGUMENT",
        RZ_ERR_BUSY => c"RZ_ERR_BUSY",
        RZ_ERR_OUT_OF_MEMORY => c"RZ_ERR_OUT_OF_MEMORY",
        RZ_ERR_DEVICE_OUT_OF_MEMORY => c"RZ_ERR_DEVICE_OUT_OF_MEMORY",
        RZ_ERR_LIMIT => c"RZ_ERR_LIMIT",
        RZ_ERR_IO => c"RZ_ERR_IO",
        RZ_ERR_FORMAT => c"RZ_ERR_FORMAT",
        RZ_ERR_UNSUPPORTED => c"RZ_ERR_UNSUPPORTED",
        RZ_ERR_VERSION => c"RZ_ERR_VERSION",
        RZ_ERR_CANCELLED => c"RZ_ERR_CANCELLED",
        RZ_ERR_DEADLINE => c"RZ_ERR_DEADLINE",
        RZ_ERR_CONTEXT_FULL => c"RZ_ERR_CONTEXT_FULL",
        RZ_ERR_BUFFER_TOO_SMALL => c"RZ_ERR_BUFFER_TOO_SMALL",
        RZ_ERR_DEVICE_UNAVAILABLE => c"RZ_ERR_DEVICE_UNAVAILABLE",
        RZ_ERR_DEVICE_LOST => c"RZ_ERR_DEVICE_LOST",
        RZ_ERR_MISMATCH => c"RZ_ERR_MISMATCH",
        RZ_ERR_PANIC => c"RZ_ERR_PANIC",
        RZ_ERR_POISONED => c"RZ_ERR_POISONED",
        RZ_ERR_NOT_FOUND => c"RZ_ERR_NOT_FOUND",
        RZ_ERR_NOT_READY => c"RZ_ERR_NOT_READY",
        RZ_ERR_RESOURCES => c"RZ_ERR_RESOURCES",
        _ => c"RZ_UNKNOWN",
    }
}

/// Returns the status of an error of the engine.
fn status_of(error: &Error) -> rz_status {
    match error {
        Error::InvalidArgument(_) => RZ_ERR_INVALID_ARGUMENT,
        Error::NotFound(_) => RZ_ERR_NOT_FOUND,
        Error::NotReady(_) => RZ_ERR_NOT_READY,
        Error::Busy(_) => RZ_ERR_BUSY,
        Error::OutOfMemory { .. } | Error::TooLarge(_) => RZ_ERR_OUT_OF_MEMORY,
        Error::DeviceOutOfMemory { .. } => RZ_ERR_DEVICE_OUT_OF_MEMORY,
        Error::Limit { .. } | Error::TooComplex(_) => RZ_ERR_LIMIT,
        Error::Io { .. } => RZ_ERR_IO,
        Error::Resources { .. } => RZ_ERR_RESOURCES,
        Error::Format { .. } => RZ_ERR_FORMAT,
        Error::Unsupported(_) => RZ_ERR_UNSUPPORTED,
        Error::Version(_) => RZ_ERR_VERSION,
        Error::Cancelled => RZ_ERR_CANCELLED,
        Error::Deadline => RZ_ERR_DEADLINE,
        Error::ContextFull { .. } => RZ_ERR_CONTEXT_FULL,
        Error::BufferTooSmall { .. } => RZ_ERR_BUFFER_TOO_SMALL,
        Error::DeviceUnavailable { .. } => RZ_ERR_DEVICE_UNAVAILABLE,
        Error::DeviceLost { .. } => RZ_ERR_DEVICE_LOST,
        Error::Mismatch(_) => RZ_ERR_MISMATCH,
        Error::Poisoned { .. } => RZ_ERR_POISONED,
    }
}

impl rz_error {
    /// Returns the record of a call that has returned `status` without a failure.
    pub(super) fn success(status: rz_status) -> rz_error {
        rz_error { code: status, system_code: 0, needed: 0, message: [0; 496] }
    }

    pub(super) fn failure(error: &Error) -> rz_error {
        let system_code = match error {
            Error::Io { system_code, .. } | Error::Resources { system_code, .. } => *system_code,
            _ => 0,
        };
        if let Error::Poisoned { fault, .. } = error
            && let Some(first) = faults::message(*fault)
        {
            return rz_error::describe(status_of(error), 0, format_args!("{error}: {}", first.text()));
        }
        let needed = match error {
            Error::ContextFull { held, more, .. } => held.saturating_add(*more) as u64,
            Error::BufferTooSmall { needed, .. } => *needed as u64,
            _ => 0,
        };
        rz_error { needed, ..rz_error::describe(status_of(error), system_code, format_args!("{error}")) }
    }

    /// Allocates nothing, because the error may be a failed allocation.
    pub(super) fn describe(status: rz_status, system_code: i32, text: fmt::Arguments) -> rz_error {
        let mut record = rz_error { system_code, ..rz_error::success(status) };
        write_message(&mut record.message, text);
        record
    }

    /// Returns the message.
    pub(super) fn text(&self) -> String {
        let bytes: Vec<u8> = self.message.iter().map(|&c| c.to_ne_bytes()[0]).take_while(|&b| b != 0).collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_of_any_length_leaves_the_reason_readable() {
        let path = format!("/{}model.gguf", "folder/".repeat(130));
        let source = std::io::Error::from_raw_os_error(2);
        let text = rz_error::failure(&Error::io(std::path::Path::new(&path), "open", &source)).text();
        assert!(text.starts_with(&format!("open: {source}")) && text.ends_with("/folder/model.gguf"), "{text}");
        assert_eq!(text.len(), 495);
    }

    #[test]
    fn control_characters_do_not_reach_the_caller() {
        let record = rz_error::failure(&Error::InvalidArgument("a\0b\x1b[2Jc\n".into()));
        assert_eq!(record.text(), "a b [2Jc ");
    }

    #[test]
    fn the_system_code_is_kept() {
        let source = std::io::Error::from_raw_os_error(2);
        let record = rz_error::failure(&Error::io(std::path::Path::new("/a/b"), "open", &source));
        assert_eq!((record.code, record.system_code), (RZ_ERR_IO, 2));
        assert!(record.text().starts_with("open: ") && record.text().ends_with(": /a/b"), "{}", record.text());
    }

    #[test]
    fn every_status_has_its_own_name() {
        let names: std::collections::HashSet<_> = (-21..=2).map(name).collect();
        assert_eq!(names.len(), 24);
        assert_eq!(name(3), c"RZ_UNKNOWN");
        assert_eq!(name(i32::MIN), c"RZ_UNKNOWN");
    }
}
