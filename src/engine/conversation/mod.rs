//! Conversations: messages with their KV cache, and replies.

mod conversation;
pub(super) mod grammar;
pub(super) mod reply;
pub(super) mod reply_state;
pub(super) mod view;

pub use conversation::{Conversation, ConversationParams, step_conversations};
