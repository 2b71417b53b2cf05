//! The host's function that runs on each thread of the library as it starts and as it ends, for a host that attaches
//! threads to a virtual machine or a profiler, or gives them priorities and names.

use std::sync::Arc;

/// The work of a thread.
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

/// Called with the role of a thread, its number within the role, and whether it starts.
pub type OnThread = Arc<dyn Fn(Role, usize, bool) + Send + Sync>;

/// The function of the host, if it gave one, and the role of the threads on which it runs.
#[derive(Clone)]
pub struct Watch {
    call: Option<OnThread>,
    role: Role,
}

impl Watch {
    pub fn new(call: Option<OnThread>, role: Role) -> Watch {
        Watch { call, role }
    }

    /// For threads that nobody wants to know of.
    pub fn none() -> Watch {
        Watch::new(None, Role::Compute)
    }

    /// The same function for threads of another role.
    pub fn with(&self, role: Role) -> Watch {
        Watch { call: self.call.clone(), role }
    }

    /// Does the work of thread `index` between the calls for its start and its end.
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

/// Tells of the end, also if the work panics.
struct End<'a>(&'a Watch, usize);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.tell(self.1, false);
    }
}
