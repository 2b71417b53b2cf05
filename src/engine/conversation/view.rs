//! The state of a conversation for other threads: its messages with their media, and its progress.
//!
//! *Invariant:* only the call that works on the conversation writes, and holds a lock only for the change itself.

use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::engine::job::progress::{JobInfo, JobProgress};
use crate::engine::media::item::Media;
use crate::text::Chat;

/// The messages of a conversation.
pub struct Past {
    pub chat: Chat,
    /// Media of the messages, distinct by hash.
    pub media: Vec<Arc<Media>>,
}

/// The state of a conversation at one time.
#[derive(Clone, Debug)]
pub struct ConversationInfo {
    pub messages: usize,
    pub media: usize,
    /// Index of the first message whose turn is in prompts.
    pub first_in_prompt: usize,
    /// Number of prompt tokens, and number of them found in the KV cache.
    pub prompt: usize,
    pub reused: usize,
    /// The job of the last reply; `None` before the first one.
    pub job: Option<JobInfo>,
    /// True if the reply was given up.
    pub is_given_up: bool,
    pub capacity: usize,
    pub held: usize,
}

pub struct ConversationView {
    past: RwLock<Past>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    info: Option<ConversationInfo>,
    /// The progress of an unfinished reply.
    progress: Option<Arc<JobProgress>>,
}

impl ConversationView {
    pub(super) fn new(chat: Chat) -> ConversationView {
        ConversationView { past: RwLock::new(Past { chat, media: Vec::new() }), state: Mutex::default() }
    }

    /// Returns the messages. Calls that add messages wait for readers.
    pub fn past(&self) -> RwLockReadGuard<'_, Past> {
        self.past.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn change(&self) -> RwLockWriteGuard<'_, Past> {
        self.past.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the last published state, with the present progress of an unfinished reply.
    pub fn info(&self) -> Option<ConversationInfo> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let mut info = state.info.clone()?;
        if let Some(now) = state.progress.as_ref().map(|progress| progress.info()) {
            info.held = now.cache_len;
            // A reply has ended only once its message is published.
            info.job = Some(JobInfo { end: None, failure: None, ..now });
        }
        Some(info)
    }

    pub(super) fn publish(&self, info: ConversationInfo, progress: Option<Arc<JobProgress>>) {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = State { info: Some(info), progress };
    }
}
