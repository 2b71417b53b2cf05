//! The adapters of a step.
//!
//! A table has the factor of each adapter for each sequence of a step, 0 for those without it, so that one launch
//! serves rows with and without an adapter. Memory for it is taken by the first step with adapters, and no plan counts
//! it.

use std::hash::Hasher;
use std::sync::Arc;

use twox_hash::XxHash64;

use super::adapter::CudaAdapter;
use super::arena::Arena;
use super::launch::{Current, DeviceBuffer, Stream};
use super::probe::Address;
use super::scratch::MAX_SEGMENTS;
use super::sequence::CudaSequence;
use crate::error::{Result, try_vec};
use crate::graph::program::Program;
use crate::graph::step::Sequences;

/// The adapters of a step.
#[derive(Default)]
pub struct Adapted {
    pub adapters: Vec<Arc<CudaAdapter>>,
    /// `[adapters, slots]`, as the device has it.
    factors: Vec<f32>,
    room: Option<Room>,
    /// A number that tells the launches of the step from those with other adapters; 0 without any.
    pub key: u64,
}

/// Memory of the device for steps with adapters.
struct Room {
    buffer: DeviceBuffer,
    adapters: usize,
    rank: usize,
    places: Places,
}

/// Addresses in it.
#[derive(Clone, Copy)]
pub struct Places {
    /// `[adapters, slots]`
    pub factors: Address,
    /// `[max_tokens, widest input]`, the norm of an input.
    pub input: Address,
    /// `[MAX_SEGMENTS, max_tokens, rank]`, `A x`, one product after the other.
    pub inner: Address,
    /// Values of a product there.
    pub stride: usize,
}

impl Adapted {
    /// Takes note of the adapters of a step's sequences. `send` queues the table of factors.
    pub fn begin(
        &mut self,
        (current, stream): (&Current, &Stream),
        (program, max_tokens): (&Program, usize),
        sequences: &dyn Sequences<CudaSequence>,
        send: impl FnOnce(&DeviceBuffer, &[f32]) -> Result<()>,
    ) -> Result<()> {
        let set = |i: usize| sequences.get(i).map(CudaSequence::adapters);
        let n = sequences.len();
        if (0..n).all(|i| set(i).is_none_or(|set| set.is_empty())) {
            (self.key, self.factors) = (0, Vec::new());
            self.adapters.clear();
            return Ok(());
        }
        let mut adapters: Vec<Arc<CudaAdapter>> = Vec::new();
        for (adapter, _) in (0..n).filter_map(set).flat_map(|set| set.iter()) {
            if !adapters.iter().any(|known| known.number() == adapter.number()) {
                adapters.push(adapter.clone());
            }
        }
        let mut factors = try_vec("the factors of adapters", adapters.len().saturating_mul(n))?;
        for adapter in &adapters {
            // The same adapter may be there twice.
            let sum = |i: usize| {
                let own = set(i).into_iter().flat_map(|set| set.iter()).filter(|(a, _)| a.number() == adapter.number());
                own.map(|(_, factor)| factor).sum::<f32>()
            };
            factors.extend((0..n).map(sum));
        }
        let rank = adapters.iter().map(|adapter| adapter.rank()).max().unwrap_or(0);
        let fits = |room: &&Room| room.adapters >= adapters.len() && room.rank >= rank;
        if self.room.as_ref().filter(fits).is_none() {
            // Steps under way compute in what is freed.
            current.synchronize(stream)?;
            self.room = None;
            self.room = Some(Room::new(current, program, max_tokens, adapters.len(), rank)?);
            self.factors.clear();
        }
        let Some(room) = &self.room else { return Ok(()) };
        let mut hash = XxHash64::with_seed(room.buffer.address());
        adapters.iter().for_each(|adapter| hash.write_u64(adapter.number()));
        (self.key, self.adapters) = (hash.finish().max(1), adapters);
        if self.factors != factors {
            send(&room.buffer, &factors)?;
            self.factors = factors;
        }
        Ok(())
    }

    pub fn places(&self) -> Option<Places> {
        self.room.as_ref().filter(|_| self.key != 0).map(|room| room.places)
    }
}

impl Room {
    fn new(current: &Current, program: &Program, max_tokens: usize, adapters: usize, rank: usize) -> Result<Room> {
        let mut arena = Arena::default();
        // A sequence of a step has a token at least.
        let factors = arena.add(adapters.saturating_mul(max_tokens), 4)?;
        let input = arena.add(max_tokens.saturating_mul(program.widest_input()), 4)?;
        let stride = max_tokens.saturating_mul(rank);
        let inner = arena.add(stride.saturating_mul(MAX_SEGMENTS), 4)?;
        let buffer = current.alloc("products of adapters", arena.bytes())?;
        let at = |offset: usize| buffer.address() + offset as Address;
        let places = Places { factors: at(factors), input: at(input), inner: at(inner), stride };
        Ok(Room { buffer, adapters, rank, places })
    }
}
