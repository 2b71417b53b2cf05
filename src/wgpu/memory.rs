//! Buffers of device memory, and copies between them and the host.

use std::sync::Arc;

use ::wgpu::{Buffer, BufferDescriptor, BufferUsages, CommandEncoder, CommandEncoderDescriptor, MapMode};

use super::context::{Context, Held};
use crate::error::{Error, Result};

/// Maximum bytes that are written or read at a time.
pub const PIECE: usize = 8 << 20;

/// Device memory that kernels read and write.
pub struct DeviceBuffer {
    held: Held<Buffer>,
}

impl DeviceBuffer {
    /// Allocates `words` words of 4 bytes; `what` names the buffer in error messages. The size is rounded up to a
    /// multiple of 16 bytes, and is at least 16 bytes.
    pub fn new(context: &Arc<Context>, what: &str, words: usize) -> Result<DeviceBuffer> {
        let bytes = bytes_of(words);
        let most = context.limits.max_storage_buffer_binding_size.min(context.limits.max_buffer_size);
        if bytes > most {
            let device = context.info.name.clone();
            return Err(Error::unsupported(format!(
                "{what} takes {bytes} bytes on {device}; it must be at most {most}"
            )));
        }
        let usage = BufferUsages::STORAGE | BufferUsages::COPY_SRC | BufferUsages::COPY_DST;
        let descriptor = BufferDescriptor { label: None, size: bytes, usage, mapped_at_creation: false };
        let held = Held::new(context, what, bytes, |gpu| gpu.device.create_buffer(&descriptor));
        let held = held.map_err(|error| match error {
            Error::DeviceOutOfMemory { device, what, .. } => Error::DeviceOutOfMemory { device, what, bytes },
            error => error,
        })?;
        Ok(DeviceBuffer { held })
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

    /// Copies words to the host, starting at word `from`, after all submitted work; `to` receives the words in pieces,
    /// in order.
    pub fn read(&self, from: usize, words: usize, to: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let context = self.context();
        let (mut at, end) = (from, from + words);
        let piece = PIECE.min(4 * words).next_multiple_of(16);
        let usage = BufferUsages::MAP_READ | BufferUsages::COPY_DST;
        let descriptor = BufferDescriptor { label: None, size: piece as u64, usage, mapped_at_creation: false };
        let via = Held::new(context, "a copy to the host", 0, |gpu| gpu.device.create_buffer(&descriptor))?;
        let (source, via) = (self.get()?, via.get()?);
        while at < end {
            let bytes = (4 * (end - at)).min(piece) as u64;
            let index = context.within("a copy to the host", |gpu| {
                let mut encoder = encoder(gpu);
                encoder.copy_buffer_to_buffer(source, 4 * at as u64, via, 0, bytes);
                let index = gpu.queue.submit([encoder.finish()]);
                via.map_async(MapMode::Read, 0..bytes, |_| {});
                index
            })?;
            context.wait(&index, &|| false)?;
            let copied = context.within("a copy to the host", |_| {
                let mapped = via.get_mapped_range(0..bytes).map(|mapped| to(&mapped));
                via.unmap();
                mapped
            })?;
            copied.map_err(|error| context.lose(format!("memory cannot be mapped: {error}")))??;
            at += bytes as usize / 4;
        }
        Ok(())
    }
}

/// Returns the size of a buffer of `words` words, in bytes.
pub fn bytes_of(words: usize) -> u64 {
    (4 * words as u64).next_multiple_of(16).max(16)
}

pub fn encoder(gpu: &super::context::Gpu) -> CommandEncoder {
    gpu.device.create_command_encoder(&CommandEncoderDescriptor { label: None })
}

/// Copies f32 values to the host.
pub fn read_values(buffer: &DeviceBuffer, from: usize, out: &mut [f32]) -> Result<()> {
    let words = out.len();
    let mut out = out.iter_mut();
    buffer.read(from, words, &mut |piece| {
        piece.as_chunks().0.iter().zip(&mut out).for_each(|(bytes, to)| *to = f32::from_le_bytes(*bytes));
        Ok(())
    })
}

/// Returns values as bytes.
pub fn bytes_of_values(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}
