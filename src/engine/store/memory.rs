//! The memory that entries of a store take.

use std::collections::HashMap;

use crate::cpu::kv::CpuKv;
use crate::engine::session::Session;

/// The memory of the entries that stay. A mapping lasts as long as one of them has a piece of it, so all its pieces
/// count that one of them had.
#[derive(Default)]
pub struct Memory {
    /// Number of the entries that have a mapping, and its pieces, by its address.
    mappings: HashMap<usize, (usize, HashMap<usize, u64>)>,
    pub bytes: u64,
}

impl Memory {
    pub fn add(&mut self, session: &Session) {
        self.bytes += session.own_bytes();
        for (mapping, pieces) in pieces_of(session) {
            let (n, known) = self.mappings.entry(mapping).or_default();
            *n += 1;
            for (piece, bytes) in pieces {
                self.bytes += if known.insert(piece, bytes).is_none() { bytes } else { 0 };
            }
        }
    }

    pub fn remove(&mut self, session: &Session) {
        self.bytes -= session.own_bytes();
        for mapping in pieces_of(session).into_keys() {
            let Some((n, known)) = self.mappings.get_mut(&mapping) else { continue };
            *n -= 1;
            if *n == 0 {
                self.bytes -= known.values().sum::<u64>();
                self.mappings.remove(&mapping);
            }
        }
    }
}

/// The pieces of a session's memory, by their mappings.
fn pieces_of(session: &Session) -> HashMap<usize, Vec<(usize, u64)>> {
    let mut mappings: HashMap<usize, Vec<_>> = HashMap::new();
    for (mapping, piece, bytes) in session.sequence().cpu_kv().into_iter().flat_map(CpuKv::pieces) {
        mappings.entry(mapping).or_default().push((piece, bytes));
    }
    mappings
}

/// Bytes of a session alone.
pub fn bytes_of(session: &Session) -> u64 {
    session.own_bytes() + session.sequence().cpu_kv().into_iter().flat_map(CpuKv::pieces).map(|p| p.2).sum::<u64>()
}
