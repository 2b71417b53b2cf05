//! The batch step of some jobs, and each member's handle to it while it is paused.

use std::sync::{Arc, Mutex, PoisonError};

use crate::engine::network::pass::Pass;

/// The next tokens of a job in a pass.
#[derive(Clone, Copy)]
pub struct Member {
    pub id: u64,
    /// Number of recomputed tokens of the session, and number of appended tokens.
    pub again: usize,
    pub tokens: usize,
    /// Number of outputs: the last tokens whose results are needed.
    pub outputs: usize,
}

impl Member {
    /// Returns the number of all its tokens.
    pub fn len(&self) -> usize {
        self.again + self.tokens
    }
}

/// A member of a pass, with the indices of its first row and its first output.
#[derive(Clone, Copy)]
pub struct MemberPlace {
    pub member: Member,
    pub row: usize,
    pub output: usize,
}

/// A pass and its members, in lane order.
pub struct JobPass {
    pub pass: Pass,
    pub members: Vec<Member>,
    /// True if the pass has run and its results are not taken yet.
    pub has_run: bool,
}

impl JobPass {
    pub fn tokens(&self) -> usize {
        self.members.iter().map(Member::len).sum()
    }

    /// Clears the step and its members for the next pass.
    pub fn clear(&mut self) {
        self.pass.step().clear();
        self.members.clear();
        self.has_run = false;
    }
}

/// A member's handle to a paused pass. Dropping any handle discards the pass and its partial results; the sessions stay
/// as they were before it.
pub struct Parked(Arc<Mutex<Option<JobPass>>>);

impl Parked {
    /// Pauses a pass: returns a handle for each member, in any order.
    pub fn new(pass: JobPass) -> impl Iterator<Item = (u64, Parked)> {
        let members = pass.members.clone();
        let shared = Arc::new(Mutex::new(Some(pass)));
        members.into_iter().map(move |member| (member.id, Parked(shared.clone())))
    }

    /// Takes the pass. Returns `None` if the pass was taken or discarded, or if `here` is false for a member.
    pub fn take(self, here: impl Fn(u64) -> bool) -> Option<JobPass> {
        let pass = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        pass.filter(|pass| pass.members.iter().all(|member| here(member.id)))
    }
}

impl Drop for Parked {
    fn drop(&mut self) {
        drop(self.0.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}
