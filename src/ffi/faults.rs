//! The messages of the last caught panics, by number. Later calls on a handle that a panic has left unusable repeat the
//! message. Allocates nothing, because the error may be a failed allocation.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

/// Number of messages that are kept.
const KEPT: usize = 8;

/// Bytes of a message that are kept.
const LENGTH: usize = 400;

/// The beginning of a panic's message.
#[derive(Clone, Copy)]
pub(super) struct Message {
    /// The number of the panic; 0: none yet.
    fault: u32,
    len: usize,
    bytes: [u8; LENGTH],
}

static MESSAGES: Mutex<[Message; KEPT]> = Mutex::new([Message { fault: 0, len: 0, bytes: [0; LENGTH] }; KEPT]);

/// The number of the next panic.
static NEXT: AtomicU32 = AtomicU32::new(1);

thread_local! {
    /// The number of the panic that unwinds this thread; 0 if no number was requested. It has no destructor.
    static CURRENT: Cell<u32> = const { Cell::new(0) };
}

impl Message {
    pub(super) fn text(&self) -> &str {
        let bytes = self.bytes.get(..self.len).unwrap_or_default();
        let valid = str::from_utf8(bytes).map_or_else(|e| e.valid_up_to(), str::len);
        bytes.get(..valid).and_then(|valid| str::from_utf8(valid).ok()).unwrap_or_default()
    }
}

/// Returns the number of the panic that unwinds this thread.
pub(super) fn current() -> u32 {
    if CURRENT.get() == 0 {
        CURRENT.set(NEXT.fetch_add(1, Ordering::Relaxed));
    }
    CURRENT.get()
}

/// Stores the message of the panic that has unwound this thread, if a handle has requested its number.
pub(super) fn end(text: &str) {
    let fault = CURRENT.replace(0);
    if fault == 0 {
        return;
    }
    let mut message = Message { fault, len: text.len().min(LENGTH), bytes: [0; LENGTH] };
    message.bytes.iter_mut().zip(text.bytes()).for_each(|(to, byte)| *to = byte);
    let mut kept = MESSAGES.lock().unwrap_or_else(PoisonError::into_inner);
    kept.iter_mut().skip(fault as usize % KEPT).take(1).for_each(|place| *place = message);
}

/// Returns the message of the panic with a number, if it is still stored.
pub(super) fn message(fault: u32) -> Option<Message> {
    let kept = MESSAGES.lock().unwrap_or_else(PoisonError::into_inner);
    kept.iter().find(|message| fault != 0 && message.fault == fault).copied()
}
