//! The host's thread callback, which runs on each thread of the library when the thread starts and ends. Hosts use it
//! to attach threads to a virtual machine or a profiler, or to set priorities and names.

use std::sync::Arc;

/// The purpose of a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// Computes tokens.
    Compute,
    /// Reads, packs or hashes weights during a call.
    Load,
    /// Renders chat templates and compiles grammars.
    Template,
    /// Writes the files of a store.
    Store,
}

/// Callback with the role of a thread, its number within the role, and true at its start, false at its end.
pub type OnThread = Arc<dyn Fn(Role, usize, bool) + Send + Sync>;

/// The host's callback, if any, and the role of the threads that call it.
#[derive(Clone)]
pub struct Watch {
    call: Option<OnThread>,
    role: Role,
}

impl Watch {
    pub fn new(call: Option<OnThread>, role: Role) -> Watch {
        Watch { call, role }
    }

    /// Returns a `Watch` without a callback.
    pub fn none() -> Watch {
        Watch::new(None, Role::Compute)
    }

    /// Returns a `Watch` with the same callback for threads of another role.
    pub fn with(&self, role: Role) -> Watch {
        Watch { call: self.call.clone(), role }
    }

    /// Does the work of thread `index` between the callbacks for its start and its end.
    pub fn during(&self, index: usize, work: impl FnOnce()) {
        let _end = End(self, index);
        self.tell(index, true);
        work();
    }

    fn tell(&self, index: usize, starts: bool) {
        if let Some(call) = &self.call {
            call(self.role, index, starts);
        }
    }
}

/// Calls the callback for the end, also if the work panics.
struct End<'a>(&'a Watch, usize);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.tell(self.1, false);
    }
}
