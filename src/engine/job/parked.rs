//! The pass of some jobs, and what its members keep of it while it is paused.

use std::sync::{Arc, Mutex, PoisonError};

use crate::engine::network::pass::Pass;

/// The next tokens of a job in a pass.
#[derive(Clone, Copy)]
pub struct Member {
    pub id: u64,
    /// Tokens of its session that are computed again, and those that are appended.
    pub again: usize,
    pub tokens: usize,
    /// Number of the last of them whose results are wanted.
    pub outputs: usize,
}

impl Member {
    /// Number of all its tokens.
    pub fn len(&self) -> usize {
        self.again + self.tokens
    }
}

/// A member of a pass with the numbers of its first row and of its first output there.
#[derive(Clone, Copy)]
pub struct MemberPlace {
    pub member: Member,
    pub row: usize,
    pub output: usize,
}

/// A pass, and its members in the order of its lanes.
pub struct JobPass {
    pub pass: Pass,
    pub members: Vec<Member>,
    /// It has run, and its results wait for somebody to take them.
    pub has_run: bool,
}

impl JobPass {
    /// Number of tokens.
    pub fn tokens(&self) -> usize {
        self.members.iter().map(Member::len).sum()
    }

    /// Empties it for the next one.
    pub fn clear(&mut self) {
        self.pass.step().clear();
        self.members.clear();
        self.has_run = false;
    }
}

/// A part in a paused pass. The first member that leaves takes the pass apart: what was computed so far is lost, the
/// sessions are as they were before it.
pub struct Parked(Arc<Mutex<Option<JobPass>>>);

impl Parked {
    /// Pauses a pass: a part for each member, in any order.
    pub fn new(pass: JobPass) -> impl Iterator<Item = (u64, Parked)> {
        let members = pass.members.clone();
        let shared = Arc::new(Mutex::new(Some(pass)));
        members.into_iter().map(move |member| (member.id, Parked(shared.clone())))
    }

    /// The pass, unless it was taken or taken apart meanwhile, or has a member that is not `here`.
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
