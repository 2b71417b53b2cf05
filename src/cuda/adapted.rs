//! The LoRA adapters of a step.
//!
//! A table holds the scale of each adapter for each sequence of a step (0: not used), so that one launch serves rows
//! with and without an adapter. An executor has memory for common cases; a step with more adapters or a higher rank
//! allocates memory that no plan includes.

use std::hash::Hasher;
use std::sync::Arc;

use twox_hash::XxHash64;

use super::adapter::CudaAdapter;
use super::args::MAX_SEGMENTS;
use super::launch::{Current, DeviceBuffer, Stream};
use super::sequence::CudaSequence;
use crate::error::{Result, try_vec};
use crate::gpu::Address;
use crate::gpu::arena::Arena;
use crate::gpu::{GpuAdapter, GpuSequence};
use crate::graph::step::Sequences;

/// Number and rank of adapters per step for which every executor has memory.
pub const ADAPTERS: usize = 8;
pub const RANK: usize = 64;

/// The adapters of a step.
pub struct Adapted {
    /// Maximum number of tokens of a step.
    max_tokens: usize,
    pub adapters: Vec<Arc<CudaAdapter>>,
    /// `[adapters, slots]`, as on the device.
    factors: Vec<f32>,
    more: Option<More>,
    /// Identifies the set of adapters in the key of a CUDA graph; 0 without adapters.
    pub key: u64,
}

/// Memory for more adapters or a higher rank than an executor starts with.
struct More {
    buffer: DeviceBuffer,
    /// Capacity: number of adapters, and rank.
    room: [usize; 2],
    places: AdapterPlaces,
}

/// Addresses of the adapters' inputs and intermediate results.
#[derive(Clone, Copy)]
pub struct AdapterPlaces {
    /// `[adapters, slots]`
    pub factors: Address,
    /// `[MAX_SEGMENTS, max_tokens, rank]`, `A x`, one product after the other.
    pub inner: Address,
    /// Distance between products in `inner`, in values.
    pub stride: usize,
}

impl AdapterPlaces {
    /// Lays out memory for `adapters` adapters of rank `rank`; `add(count, bytes)` returns the address of new values.
    pub fn new(
        max_tokens: usize,
        [adapters, rank]: [usize; 2],
        mut add: impl FnMut(usize, usize) -> Result<Address>,
    ) -> Result<AdapterPlaces> {
        // A sequence of a step has at least one token.
        let factors = add(adapters.saturating_mul(max_tokens), 4)?;
        let stride = max_tokens.saturating_mul(rank);
        Ok(AdapterPlaces { factors, inner: add(stride.saturating_mul(MAX_SEGMENTS), 4)?, stride })
    }
}

impl Adapted {
    /// Returns no adapters, for steps of at most `max_tokens` tokens.
    pub fn new(max_tokens: usize) -> Adapted {
        Adapted { max_tokens, adapters: Vec::new(), factors: Vec::new(), more: None, key: 0 }
    }

    /// Sets the adapters of a step's `n` sequences; padding sequences are not in `sequences`. `send` queues the copy of
    /// the factor table to the given buffer, or to the executor's memory if there is none.
    pub fn begin(
        &mut self,
        current: &Current,
        stream: &Stream,
        sequences: &dyn Sequences<dyn GpuSequence>,
        n: usize,
        send: impl FnOnce(Option<&DeviceBuffer>, &[f32]) -> Result<()>,
    ) -> Result<()> {
        let set = |i: usize| sequences.get(i).and_then(CudaSequence::of).map(CudaSequence::adapters);
        if (0..n).all(|i| set(i).is_none_or(|set| set.is_empty())) {
            (self.key, self.factors) = (0, Vec::new());
            self.adapters.clear();
            return Ok(());
        }
        let mut adapters: Vec<Arc<CudaAdapter>> = Vec::new();
        for (adapter, _) in (0..n).filter_map(set).flat_map(|set| set.iter()) {
            let adapter = CudaAdapter::own(adapter)?;
            if !adapters.iter().any(|known| known.number() == adapter.number()) {
                adapters.push(adapter);
            }
        }
        let mut factors = try_vec("the factors of adapters", adapters.len().saturating_mul(n))?;
        for adapter in &adapters {
            // A sequence may list an adapter twice.
            let sum = |i: usize| {
                let is_it = |a: &Arc<dyn GpuAdapter>| std::ptr::addr_eq(Arc::as_ptr(a), Arc::as_ptr(adapter));
                let own = set(i).into_iter().flat_map(|set| set.iter()).filter(|(a, _)| is_it(a));
                own.map(|(_, factor)| factor).sum::<f32>()
            };
            factors.extend((0..n).map(sum));
        }
        let rank = adapters.iter().map(|adapter| adapter.rank()).max().unwrap_or(0);
        let room = self.more.as_ref().map_or([ADAPTERS, RANK], |more| more.room);
        if adapters.len() > room[0] || rank > room[1] {
            // Steps in flight still use the memory that is freed here.
            current.synchronize(stream)?;
            (self.more, self.factors) = (None, Vec::new());
            // Never smaller than the previous memory, because all later steps use the new one.
            let room = [adapters.len().max(room[0]), rank.max(room[1])];
            self.more = Some(More::new(current, self.max_tokens, room)?);
        }
        let more = self.more.as_ref().map(|more| &more.buffer);
        let mut hash = XxHash64::with_seed(more.map_or(0, DeviceBuffer::address));
        adapters.iter().for_each(|adapter| hash.write_u64(adapter.number()));
        (self.key, self.adapters) = (hash.finish().max(1), adapters);
        if self.factors != factors {
            send(more, &factors)?;
            self.factors = factors;
        }
        Ok(())
    }

    /// Returns the addresses for the step's adapters; `own` are the executor's.
    pub fn places(&self, own: AdapterPlaces) -> AdapterPlaces {
        self.more.as_ref().map_or(own, |more| more.places)
    }
}

impl More {
    fn new(current: &Current, max_tokens: usize, room: [usize; 2]) -> Result<More> {
        let mut arena = Arena::default();
        let mut places = AdapterPlaces::new(max_tokens, room, |count, size| Ok(arena.add(count, size)? as Address))?;
        let buffer = current.alloc("products of adapters", arena.bytes())?;
        places.factors += buffer.address();
        places.inner += buffer.address();
        Ok(More { buffer, room, places })
    }
}
