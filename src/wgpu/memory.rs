//! Buffers of device memory, and copies between them and the host.

use std::sync::{Arc, Mutex};

use ::wgpu::{Buffer, BufferDescriptor, BufferUsages, CommandEncoder, CommandEncoderDescriptor, MapMode};

use super::context::{Context, Held};
use crate::error::{Error, Result};
use crate::gpu::verdict::lock;

/// Maximum bytes that are written or read at a time.
pub const PIECE: usize = 8 << 20;

/// Maximum size of a host-visible buffer that is kept for later reads, in bytes; enough for the logits of one token.
const KEPT: u64 = 2 << 20;

/// Device memory that kernels read and write.
pub struct DeviceBuffer {
    held: Held<Buffer>,
    /// Host-visible buffer of the last read.
    via: Mutex<Option<Via>>,
}

impl DeviceBuffer {
    /// Allocates `words` words of 4 bytes; `what` names the buffer in error messages. The size is rounded up to a
    /// multiple of 16 bytes, and is at least 16 bytes.
    pub fn new(context: &Arc<Context>, what: &str, words: usize) -> Result<DeviceBuffer> {
        let bytes = checked_bytes(context, what, words)?;
        let usage = BufferUsages::STORAGE | BufferUsages::COPY_SRC | BufferUsages::COPY_DST;
        let descriptor = BufferDescriptor { label: None, size: bytes, usage, mapped_at_creation: false };
        let held = Held::new(context, what, bytes, |gpu| gpu.device.create_buffer(&descriptor));
        let held = held.map_err(|error| match error {
            Error::DeviceOutOfMemory { device, what, .. } => Error::DeviceOutOfMemory { device, what, bytes },
            error => error,
        })?;
        Ok(DeviceBuffer { held, via: Mutex::default() })
    }

    pub fn get(&self) -> Result<&Buffer> {
        self.held.get()
    }

    pub fn bytes(&self) -> u64 {
        self.held.bytes()
    }

    pub fn context(&self) -> &Arc<Context> {
        &self.held.context
    }

    /// Queues a write of whole words, starting at word `at`. The write takes effect before the next submission.
    pub fn write(&self, at: usize, bytes: &[u8]) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let buffer = self.get()?;
        self.context().within("a write", |gpu| gpu.queue.write_buffer(buffer, 4 * at as u64, bytes))
    }

    /// Copies ranges of words, given by start and length, to the host, after all submitted work; `to` receives the
    /// words in pieces, in order.
    pub fn read(&self, runs: &[(usize, usize)], to: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let (mut piece, mut bytes) = (Vec::new(), 0);
        for &(at, words) in runs {
            let (mut at, end) = (4 * at, 4 * (at + words));
            while at < end {
                let n = (end - at).min(PIECE - bytes);
                piece.push((at as u64, n as u64));
                (at, bytes) = (at + n, bytes + n);
                if bytes == PIECE {
                    self.read_piece(&piece, to)?;
                    piece.clear();
                    bytes = 0;
                }
            }
        }
        self.read_piece(&piece, to)
    }

    /// Copies ranges of bytes, together at most `PIECE` bytes, to the host in one submission.
    fn read_piece(&self, piece: &[(u64, u64)], to: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let bytes: u64 = piece.iter().map(|(_, n)| n).sum();
        if bytes == 0 {
            return Ok(());
        }
        let context = self.context();
        // Taken out, so that a copy that fails leaves no mapped buffer behind.
        let kept = lock(&self.via).take().filter(|via| via.size >= bytes);
        let via = kept.map_or_else(|| Via::new(context, bytes), Ok)?;
        let (source, target) = (self.get()?, via.held.get()?);
        let index = context.in_turn("a copy to the host", |gpu| {
            let (mut encoder, mut end) = (encoder(gpu), 0);
            for &(at, n) in piece {
                encoder.copy_buffer_to_buffer(source, at, target, end, n);
                end += n;
            }
            let index = gpu.queue.submit([encoder.finish()]);
            target.map_async(MapMode::Read, 0..bytes, |_| {});
            index
        })?;
        context.wait(&index, &|| false)?;
        let copied = context.within("a copy to the host", |_| {
            let mapped = target.get_mapped_range(0..bytes).map(|mapped| to(&mapped));
            target.unmap();
            mapped
        })?;
        copied.map_err(|error| context.lose(format!("memory cannot be mapped: {error}")))??;
        if via.size <= KEPT {
            *lock(&self.via) = Some(via);
        }
        Ok(())
    }
}

/// A buffer that the host can map.
struct Via {
    held: Held<Buffer>,
    size: u64,
}

impl Via {
    fn new(context: &Arc<Context>, bytes: u64) -> Result<Via> {
        let size = bytes.next_power_of_two().max(4096);
        let usage = BufferUsages::MAP_READ | BufferUsages::COPY_DST;
        let descriptor = BufferDescriptor { label: None, size, usage, mapped_at_creation: false };
        let held = Held::new(context, "a copy to the host", 0, |gpu| gpu.device.create_buffer(&descriptor))?;
        Ok(Via { held, size })
    }
}

/// Returns the size of a buffer of `words` words, in bytes.
pub fn bytes_of(words: usize) -> u64 {
    (4 * words as u64).next_multiple_of(16).max(16)
}

/// Returns the size of a buffer of `words` words, in bytes; fails if it is larger than the largest binding.
pub fn checked_bytes(context: &Context, what: &str, words: usize) -> Result<u64> {
    let (bytes, device) = (bytes_of(words), &context.info.name);
    let most = context.limits.max_storage_buffer_binding_size.min(context.limits.max_buffer_size);
    match bytes <= most {
        true => Ok(bytes),
        false => Err(Error::unsupported(format!("{what} takes {bytes} bytes on {device}; it must be at most {most}"))),
    }
}

pub fn encoder(gpu: &super::context::Gpu) -> CommandEncoder {
    gpu.device.create_command_encoder(&CommandEncoderDescriptor { label: None })
}

/// Copies f32 values to the host.
pub fn read_values(buffer: &DeviceBuffer, from: usize, out: &mut [f32]) -> Result<()> {
    let words = out.len();
    let mut out = out.iter_mut();
    buffer.read(&[(from, words)], &mut |piece| {
        piece.as_chunks().0.iter().zip(&mut out).for_each(|(bytes, to)| *to = f32::from_le_bytes(*bytes));
        Ok(())
    })
}

/// Returns values as bytes.
pub fn bytes_of_values(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}
