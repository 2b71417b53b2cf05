//! Memory of prefix cache entries.

use std::collections::HashMap;

use crate::cpu;
use crate::cpu::kv::CpuKv;
use crate::engine::session::Session;

/// Maximum of the default memory limit.
const MOST: u64 = 1 << 30;
/// The default limit is 1/`SHARE` of the free memory; if that is unknown, half as much of the total memory.
const SHARE: u64 = 10;
/// The default limit if nothing is known.
const UNKNOWN: u64 = 64 << 20;

/// Returns the default limit for the present state of this machine.
pub fn default_limit() -> u64 {
    share_of(cpu::memory())
}

/// Returns the default limit for bytes of total and free memory; 0: unknown.
fn share_of([total, free]: [u64; 2]) -> u64 {
    match (total, free) {
        (0, 0) => UNKNOWN,
        (total, 0) => (total / (2 * SHARE)).min(MOST),
        (_, free) => (free / SHARE).min(MOST),
    }
}

/// Memory of the entries that are not evicted. Entries share mappings by reference count, so a piece of a mapping
/// counts until the last entry with this mapping is removed.
#[derive(Default)]
pub struct Memory {
    /// By address of a mapping: number of entries that use it, and its counted pieces.
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

/// Returns the pieces of a session's memory, by mapping.
fn pieces_of(session: &Session) -> HashMap<usize, Vec<(usize, u64)>> {
    let mut mappings: HashMap<usize, Vec<_>> = HashMap::new();
    for (mapping, piece, bytes) in session.sequence().cpu_kv().into_iter().flat_map(CpuKv::memory_pieces) {
        mappings.entry(mapping).or_default().push((piece, bytes));
    }
    mappings
}

/// Returns the number of bytes of a session, as if it shared no memory.
pub fn bytes_of(session: &Session) -> u64 {
    session.own_bytes()
        + session.sequence().cpu_kv().into_iter().flat_map(CpuKv::memory_pieces).map(|p| p.2).sum::<u64>()
}

#[cfg(test)]
mod tests {
    use super::share_of;

    #[test]
    fn a_store_takes_a_tenth_of_what_is_free() {
        let gib = 1u64 << 30;
        assert_eq!(share_of([4 * gib, gib]), gib / 10);
        assert_eq!(share_of([4 * gib, 0]), 4 * gib / 20);
        assert_eq!(share_of([64 * gib, 50 * gib]), gib);
        assert_eq!(share_of([0, 0]), 64 << 20);
    }
}
