//! Saved sessions: a header of fixed size and its checksum, then the tokens, their media, the logits, the KV cache and
//! recurrent state in the order of `Sequence::save`, and a checksum at the end. Numbers are in native byte order, which
//! the first number identifies.
//!
//! The input may be damaged or hostile. Only the capacity in the header determines allocations, which count against the
//! memory limit.

use std::hash::Hasher;
use std::sync::Arc;

use twox_hash::XxHash64;

use super::media;
pub(super) use super::parts::{PIECE, damaged};
pub use super::parts::{Read, Write};
use super::parts::{bytes_of, read_floats};
use crate::device::Checkpoints;
use crate::device::sequence::Extent;
use crate::engine::cache::CacheParams;
use crate::engine::model::Model;
use crate::engine::runs::{MediaRuns, Text};
use crate::engine::session::{Logits, Session, SessionParts};
use crate::error::{Error, Result, try_vec};
use crate::graph::sequence_spec::SequenceSpec;
use crate::graph::step::MEDIA_ROW;
use crate::tensor::DType;

const MAGIC: u64 = u64::from_le_bytes(*b"rz_cache");
const VERSION: u64 = 3;

/// Number of recurrent state checkpoints.
const CHECKPOINTS: usize = 6;

/// Words of the header without its checksum. The header is the same in all versions.
const WORDS: usize = 10 + CHECKPOINTS;

/// Overrides for a restored session; `None`: as saved.
#[derive(Default)]
pub struct RestoreParams {
    /// Digest of the adapters that computed the KV cache.
    pub adapters: u64,
    pub capacity: Option<u32>,
    pub k_type: Option<DType>,
    pub v_type: Option<DType>,
}

fn head_checksum(words: &[u8]) -> u64 {
    XxHash64::oneshot(0, words)
}

/// Identifies a model with adapters.
fn fingerprint(model: &Model, adapters: u64) -> Result<u64> {
    let of_model = model.fingerprint()?;
    Ok(if adapters == 0 { of_model } else { XxHash64::oneshot(of_model, &adapters.to_ne_bytes()) })
}

/// Writes a session.
pub fn save(session: &Session, write: Write) -> Result<()> {
    if session.is_adapted() {
        return Err(Error::unsupported("saving a cache that has adapters"));
    }
    save_adapted(session, 0, write)
}

/// Writes a session computed with adapters of the given digest.
pub(in crate::engine) fn save_adapted(session: &Session, adapters: u64, write: Write) -> Result<()> {
    let (spec, extent) = (session.sequence().spec(), session.sequence().extent());
    let logits_at = match session.logits_at() {
        Logits::None => 0,
        Logits::OnHost => 1,
        Logits::OnDevice => 2,
    };
    let numbers = [
        MAGIC,
        VERSION,
        fingerprint(session.model(), adapters)?,
        spec.k_type.0.into(),
        spec.v_type.0.into(),
        spec.capacity as u64,
        session.len() as u64,
        extent.len as u64,
        extent.written as u64,
        logits_at,
    ];
    let checkpoints = extent.checkpoints.positions().iter().map(|p| p.map_or(u64::MAX, |p| p as u64));
    let mut head = Vec::with_capacity(8 * (WORDS + 1));
    head.extend(numbers.into_iter().chain(checkpoints).flat_map(u64::to_ne_bytes));
    head.extend(head_checksum(&head).to_ne_bytes());
    write(&head)?;
    let mut hash = XxHash64::with_seed(0);
    let mut counted = |bytes: &[u8]| {
        bytes.chunks(PIECE).try_for_each(|piece| {
            hash.write(piece);
            write(piece)
        })
    };
    bytes_of(session.tokens(), u32::to_ne_bytes, &mut counted)?;
    if session.tokens().contains(&MEDIA_ROW) {
        media::write_runs(session.runs(), &mut counted)?;
    }
    bytes_of(session.logits().unwrap_or(&[]), f32::to_ne_bytes, &mut counted)?;
    session.sequence().save(&mut counted)?;
    write(&hash.finish().to_ne_bytes())
}

/// The header of a saved session.
struct Head {
    /// Types of keys and values, as tensor type numbers.
    types: [u64; 2],
    capacity: usize,
    /// Number of tokens, and length of the sequence.
    n_tokens: usize,
    extent: Extent,
    logits_at: Logits,
}

/// Reads the header, and rejects foreign data and other models.
fn read_head(fingerprint: u64, read: &mut dyn FnMut(&mut [u8]) -> Result<()>) -> Result<Head> {
    let mut head = [0; 8 * (WORDS + 1)];
    read(&mut head)?;
    let (words, checksum) = head.split_at(8 * WORDS);
    let mut numbers = [0; WORDS];
    for (number, bytes) in numbers.iter_mut().zip(words.as_chunks().0) {
        *number = u64::from_ne_bytes(*bytes);
    }
    let [magic, version, model_was, k_type, v_type, capacity, len, held, written, logits_at, checkpoints @ ..] =
        numbers;
    if magic != MAGIC {
        return Err(damaged("it does not begin like one"));
    }
    if checksum != head_checksum(words).to_ne_bytes() {
        return Err(damaged("the checksum of its head is wrong"));
    }
    if version != VERSION {
        return Err(Error::Version(format!("the saved cache has version {version}, this library reads {VERSION}")));
    }
    if model_was != fingerprint {
        let what = "the cache was saved by another model, or by this one with weights of another type";
        return Err(Error::Mismatch(what.to_owned()));
    }
    let position = |n: u64, most: usize| usize::try_from(n).ok().filter(|&n| n <= most);
    let (Some(was), Some(len)) = (position(capacity, u32::MAX as usize), position(len, capacity as usize)) else {
        return Err(damaged(format!("{len} tokens exceed the capacity of {capacity}")));
    };
    let (Some(held), Some(written)) = (position(held, len), position(written, was)) else {
        return Err(damaged(format!("{held} of {len} tokens are held, {written} were written")));
    };
    let logits_at = match logits_at {
        0 => Logits::None,
        1 if len > 0 => Logits::OnHost,
        2 if len > 0 => Logits::OnDevice,
        _ => {
            return Err(damaged(format!(
                "the kind of logits is {logits_at} after {len} tokens; it must be 0, or 1 or 2 after a token"
            )));
        }
    };
    let mut positions = [None; CHECKPOINTS];
    for (position, &saved) in positions.iter_mut().zip(&checkpoints) {
        *position = usize::try_from(saved).ok().filter(|_| saved != u64::MAX);
        if position.is_some_and(|position| position > held) {
            return Err(damaged(format!("recurrent state is of position {saved}; at most {held} are held")));
        }
    }
    let extent = Extent { len: held, written, checkpoints: Checkpoints::restored(positions) };
    Ok(Head { types: [k_type, v_type], capacity: was, n_tokens: len, extent, logits_at })
}

/// Returns the cache parameters for the saved data, with the caller's types and capacity if given.
fn cache_params(model: &Arc<Model>, params: &RestoreParams, head: &Head) -> Result<CacheParams> {
    let wanted = [("keys", params.k_type), ("values", params.v_type)];
    for ((name, wanted), saved) in wanted.into_iter().zip(head.types) {
        if let Some(wanted) = wanted.filter(|wanted| u64::from(wanted.0) != saved) {
            let what = format!("the {name} of the saved cache have type {saved}, {} was asked for", wanted.0);
            return Err(Error::Mismatch(what));
        }
    }
    let (was, capacity) = (head.capacity, params.capacity.map_or(head.capacity, |n| n as usize));
    if capacity < head.n_tokens {
        return Err(Error::ContextFull { what: "the saved text", held: 0, more: head.n_tokens, capacity });
    }
    let network = model.network()?;
    if network.program.is_long(was) != network.program.is_long(capacity) {
        return Err(Error::Mismatch(format!(
            "capacities of {was} and {capacity} are on different sides of the context length that the model was trained for"
        )));
    }
    let [k_type, v_type] = head.types.map(|t| DType(u32::try_from(t).unwrap_or(u32::MAX)));
    Ok(CacheParams { capacity: capacity as u32, k_type, v_type })
}

/// Reads only `Text::keys`, the types of keys and values, and the capacity of a saved session.
pub(in crate::engine) fn peek(model: &Model, adapters: u64, read: Read) -> Result<(Vec<u64>, [u64; 2], usize)> {
    let head = read_head(fingerprint(model, adapters)?, read)?;
    let mut tokens = try_vec("the tokens of a prefix", head.n_tokens)?;
    read_tokens(&mut tokens, head.n_tokens, read)?;
    let mut runs = MediaRuns::default();
    if tokens.contains(&MEDIA_ROW) {
        runs = media::read_runs(model, &tokens, read)?;
    }
    Ok((Text { tokens: &tokens, runs: &runs, from: 0 }.keys()?, head.types, head.capacity))
}

fn read_tokens(tokens: &mut Vec<u32>, n: usize, read: Read) -> Result<()> {
    let mut piece = [0; 4096];
    while tokens.len() < n {
        let piece = &mut piece[..4 * (n - tokens.len()).min(1024)];
        read(piece)?;
        tokens.extend(piece.as_chunks().0.iter().map(|bytes| u32::from_ne_bytes(*bytes)));
    }
    Ok(())
}

/// Restores a session.
pub fn load(model: &Arc<Model>, params: &RestoreParams, read: Read) -> Result<Session> {
    let head = read_head(fingerprint(model, params.adapters)?, read)?;
    let params = cache_params(model, params, &head)?;
    Session::filled(model, &params, |session| fill(model, head, session, read))
}

/// Fills an empty session with the data after the header.
fn fill(model: &Model, head: Head, session: SessionParts, read: Read) -> Result<Logits> {
    let SessionParts { tokens, runs, logits, sequence } = session;
    let Head { capacity: was, n_tokens, extent, logits_at, .. } = head;
    let mut hash = XxHash64::with_seed(0);
    let mut counted = |bytes: &mut [u8]| {
        bytes.chunks_mut(PIECE).try_for_each(|piece| {
            read(piece)?;
            hash.write(piece);
            Ok(())
        })
    };
    let vocab = logits.len();
    read_tokens(tokens, n_tokens, &mut counted)?;
    if let Some(token) = tokens.iter().find(|token| **token as usize >= vocab && **token != MEDIA_ROW) {
        return Err(damaged(format!("token {token} is outside the vocabulary of {vocab}")));
    }
    if tokens.contains(&MEDIA_ROW) {
        *runs = media::read_runs(model, tokens, &mut counted)?;
    }
    read_floats(if logits_at == Logits::OnHost { logits } else { &mut [] }, &mut counted)?;
    let saved = SequenceSpec { capacity: was, ..sequence.spec().clone() };
    sequence.load(&saved, extent, &mut counted)?;
    let computed = hash.finish().to_ne_bytes();
    let mut checksum = [0; 8];
    read(&mut checksum)?;
    if checksum != computed {
        return Err(damaged("the checksum is wrong"));
    }
    Ok(logits_at)
}
