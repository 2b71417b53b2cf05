//! Saved conversations: state in JSON with a header and a checksum, then the session as in `saved` with its media, then
//! the media of messages not yet in the session.

use std::sync::Arc;

use twox_hash::XxHash64;

use super::cache::{self, PIECE, Read, RestoreParams, Write, damaged};
use super::media;
use crate::engine::conversation::Conversation;
use crate::engine::media::item::{Media, MediaHash};
use crate::engine::model::Model;
use crate::engine::session::Session;
use crate::error::{Error, Result, check_memory, secured, try_vec};

/// Maximum size of a conversation's saved state.
const MAX_STATE: u64 = 64 << 20;
const CONVERSATION: u64 = u64::from_le_bytes(*b"rz_talks");
const VERSION: u64 = 3;

/// Writes a conversation: the length and a checksum of its state in JSON, the state, the hashes of its media, the
/// session, and the media that the session lacks.
pub fn save(conversation: &Conversation, write: Write) -> Result<()> {
    let (session, state) = (conversation.idle()?, conversation.state());
    if state.len() as u64 > MAX_STATE {
        return Err(Error::TooComplex(format!(
            "the conversation has {} bytes, which is too many to save",
            state.len()
        )));
    }
    let head = [CONVERSATION, VERSION, state.len() as u64, XxHash64::oneshot(0, state.as_bytes())];
    write(&head.map(u64::to_ne_bytes).concat())?;
    state.as_bytes().chunks(PIECE).try_for_each(&mut *write)?;
    let media = conversation.view().past().media.clone();
    write(&(media.len() as u64).to_ne_bytes())?;
    media.iter().try_for_each(|media| write(media.hash()))?;
    cache::save(session, write)?;
    let others = media.iter().filter(|media| held(session, media.hash()).is_none());
    others.into_iter().try_for_each(|media| media::save(conversation.model(), media, write))
}

/// Finds a media item of the session by hash.
fn held<'s>(session: &'s Session, hash: &MediaHash) -> Option<&'s Arc<Media>> {
    session.runs().iter().map(|run| &run.media).find(|media| media.hash() == hash)
}

/// Restores a conversation.
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
        return Err(damaged(format!("the conversation has {len} bytes, which is too many")));
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
    let mut hashes: Vec<MediaHash> = Vec::new();
    let mut n = [0; 8];
    read(&mut n)?;
    for _ in 0..u64::from_ne_bytes(n) {
        hashes.try_reserve(1).map_err(|_| Error::OutOfMemory { what: "media", bytes: 32 })?;
        hashes.push([0; 32]);
        read(hashes.last_mut().map_or(&mut [], |hash| hash))?;
    }
    let session = cache::load(model, params, read)?;
    let mut media = try_vec("media", hashes.len())?;
    for hash in &hashes {
        let item = match held(&session, hash) {
            Some(item) => item.clone(),
            None => media::load(model, read)?,
        };
        if item.hash() != hash {
            return Err(damaged("the conversation and its messages have different media items"));
        }
        media.push(item);
    }
    let state = secured("the conversation", 128 * state.len(), || Conversation::with_state(session, media, &state))?;
    state.ok_or_else(|| damaged("the conversation has another form"))
}
