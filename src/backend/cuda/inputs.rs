//! Inputs of a step: token ids, positions, sequences, outputs, tiles of attention and caches.
//!
//! They are written into page-locked memory and copied to one place on the device before the step, so that a recorded step
//! serves every token, position and cache. Refuses to know how a batch was checked and what is computed from it.

use super::kv::CudaKv;
use super::launch::{Current, DeviceBuffer, PinnedBuffer, Stream};
use super::module::{DeviceKv, DeviceTile, StepArgs};
use super::probe::Address;
use crate::backend::batch::{Batch, StepLimits};
use crate::error::Result;

/// Alignment of every array in bytes.
const ALIGN: usize = 16;

/// Memory for the inputs of steps: a share of the host's side for each slot, and one side on the device.
pub struct InputStaging {
    staging: PinnedBuffer,
    device: DeviceBuffer,
}

impl InputStaging {
    /// Bytes of the inputs of one step: the address of the answers and nine arrays.
    pub fn bytes(StepLimits { max_tokens, max_outputs }: StepLimits) -> usize {
        let (token, output) =
            (3 * 4 + size_of::<DeviceTile>() + size_of::<DeviceKv>(), 3 * 4 + size_of::<DeviceTile>());
        ALIGN + max_tokens * token + max_outputs * output + 9 * ALIGN
    }

    pub fn new(current: &Current, slots: usize, limits: StepLimits) -> Result<InputStaging> {
        let bytes = InputStaging::bytes(limits);
        let device = current.alloc("a step's inputs", bytes)?;
        Ok(InputStaging { staging: current.alloc_pinned(slots * bytes)?, device })
    }

    /// Address on the device of the address that the arg-maxes are written to.
    pub fn answers(&self) -> Address {
        self.device.address()
    }

    /// Writes a checked batch into the host's side of `slot`, whose last copy has ended, and queues the copy to the device.
    /// Returns the arguments for all tokens and for the outputs alone, whose sequences are `kept_slots`; a tile has at most
    /// `tile_tokens` tokens.
    pub fn send(
        &mut self,
        (current, stream): (&Current, &Stream),
        (slot, answers): (usize, Address),
        batch: &Batch,
        kept_slots: &[u32],
        caches: &[&CudaKv],
        tile_tokens: usize,
    ) -> Result<(StepArgs, StepArgs)> {
        let first = slot * self.device.len();
        let bytes = &mut self.staging.bytes_mut()[first..][..self.device.len()];
        let mut writer = Writer { bytes, base: self.device.address(), at: 0 };
        // At the same address in every step.
        writer.put(answers.to_le_bytes());
        let (tiles, n_tiles) = writer.tiles(batch.slots, tile_tokens);
        let step = StepArgs {
            ids: writer.words(batch.ids),
            positions: writer.words(batch.positions),
            slots: writer.words(batch.slots),
            outputs: writer.words(batch.outputs),
            tiles,
            kvs: writer.kvs(caches),
            n: batch.ids.len() as u32,
            n_outputs: batch.outputs.len() as u32,
            n_tiles,
            pad: 0,
        };
        let mut kept = step;
        if step.n_outputs < step.n {
            kept.positions = writer.array();
            batch.outputs.iter().for_each(|&t| writer.put(batch.positions[t as usize].to_le_bytes()));
            kept.slots = writer.words(kept_slots);
            (kept.tiles, kept.n_tiles) = writer.tiles(kept_slots, tile_tokens);
            kept.n = step.n_outputs;
        }
        let written = writer.at;
        current.upload(stream, &self.device, 0, &self.staging, first, written)?;
        Ok((step, kept))
    }
}

/// Writes arrays one after another and returns their addresses on the device.
struct Writer<'a> {
    bytes: &'a mut [u8],
    base: Address,
    at: usize,
}

impl Writer<'_> {
    /// Begins an array and returns its address.
    fn array(&mut self) -> Address {
        self.at = self.at.next_multiple_of(ALIGN);
        self.base + self.at as Address
    }

    fn put<const N: usize>(&mut self, bytes: [u8; N]) {
        self.bytes[self.at..self.at + N].copy_from_slice(&bytes);
        self.at += N;
    }

    fn words(&mut self, words: &[u32]) -> Address {
        let address = self.array();
        words.iter().for_each(|w| self.put(w.to_le_bytes()));
        address
    }

    /// Writes tiles of up to `most` consecutive tokens of one sequence; returns their address and number.
    fn tiles(&mut self, slots: &[u32], most: usize) -> (Address, u32) {
        let (address, mut first, mut n) = (self.array(), 0, 0);
        for run in slots.chunk_by(|a, b| a == b) {
            for tile in run.chunks(most) {
                let count = tile.len() as u32;
                let tile = DeviceTile { first, count, slot: tile[0], pad: 0 };
                [tile.first, tile.count, tile.slot, tile.pad].iter().for_each(|w| self.put(w.to_le_bytes()));
                (first, n) = (first + count, n + 1);
            }
        }
        (address, n)
    }

    fn kvs(&mut self, caches: &[&CudaKv]) -> Address {
        let address = self.array();
        for view in caches.iter().map(|kv| kv.view()) {
            [view.k, view.v, view.k_scales, view.v_scales].iter().for_each(|a| self.put(a.to_le_bytes()));
            let words = [view.capacity, view.ring, view.stride, view.k_type, view.v_type, view.pad];
            words.iter().for_each(|w| self.put(w.to_le_bytes()));
        }
        address
    }
}
