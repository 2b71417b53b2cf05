//! Saved conversations: their state in JSON, with a head and a checksum, then the session as in `saved`.

use std::sync::Arc;

use twox_hash::XxHash64;

use super::conversation::Conversation;
use super::model::Model;
use super::saved::{self, PIECE, Read, RestoreParams, VERSION, Write, damaged};
use crate::error::{Error, Result, check_memory, secured};

/// Longest saved state of a conversation.
const MAX_STATE: u64 = 64 << 20;
const CONVERSATION: u64 = u64::from_le_bytes(*b"rz_talks");

/// Hands a conversation to `write`: its state in JSON, with its length and a checksum, then the session.
pub fn save(conversation: &Conversation, write: Write) -> Result<()> {
    let (session, state) = (conversation.idle()?, conversation.state());
    if state.len() as u64 > MAX_STATE {
        return Err(Error::TooComplex(format!("saving a conversation of {} bytes", state.len())));
    }
    let head = [CONVERSATION, VERSION, state.len() as u64, XxHash64::oneshot(0, state.as_bytes())];
    write(&head.map(u64::to_ne_bytes).concat())?;
    state.as_bytes().chunks(PIECE).try_for_each(&mut *write)?;
    saved::save(session, write)
}

/// A conversation as it was saved.
pub fn load(model: &Arc<Model>, params: &RestoreParams, read: Read) -> Result<Conversation> {
    let mut head = [[0; 8]; 4];
    read(head.as_flattened_mut())?;
    let [magic, version, len, checksum] = head.map(u64::from_ne_bytes);
    if magic != CONVERSATION {
        return Err(damaged("it does not begin like a conversation"));
    }
    if version != VERSION {
        return Err(Error::Version(format!("the conversation has version {version}, this library reads {VERSION}")));
    }
    if len > MAX_STATE {
        return Err(damaged(format!("a conversation of {len} bytes")));
    }
    let mut state = Vec::new();
    while (state.len() as u64) < len {
        check_memory("the saved conversation")?;
        let start = state.len();
        state.resize(start + (len - start as u64).min(PIECE as u64) as usize, 0);
        read(&mut state[start..])?;
    }
    if XxHash64::oneshot(0, &state) != checksum {
        return Err(damaged("the checksum of the conversation is wrong"));
    }
    let state = String::from_utf8(state).map_err(|_| damaged("the conversation is no text"))?;
    let session = saved::load(model, params, read)?;
    let state = secured("the conversation", 128 * state.len(), || Conversation::with_state(session, &state))?;
    state.ok_or_else(|| damaged("the conversation has another form"))
}
