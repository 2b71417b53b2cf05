//! Uploads of host values to the device.

use super::launch::{Current, DeviceBuffer, PinnedBuffer, Place, Stream};
use crate::error::Result;

/// Bytes of values that the host may queue before it synchronizes.
const BYTES: usize = 256 << 10;

/// Pinned memory through which values are queued.
pub struct UploadQueue {
    pinned: PinnedBuffer,
    /// Bytes used since the last synchronization.
    used: usize,
}

impl UploadQueue {
    pub fn new(current: &Current) -> Result<UploadQueue> {
        Ok(UploadQueue { pinned: current.alloc_pinned(BYTES)?, used: 0 })
    }

    /// Queues a copy of `values`; synchronizes the stream whenever the memory is full.
    pub fn queue(&mut self, current: &Current, stream: &Stream, to: Place<DeviceBuffer>, values: &[f32]) -> Result<()> {
        let mut done = 0;
        for piece in values.chunks(BYTES / 4) {
            let bytes = size_of_val(piece);
            if self.used + bytes > BYTES {
                current.synchronize(stream)?;
                self.used = 0;
            }
            let room = &mut self.pinned.bytes_mut()[self.used..][..bytes];
            room.as_chunks_mut().0.iter_mut().zip(piece).for_each(|(to, v)| *to = v.to_le_bytes());
            current.upload(stream, to.after(done), self.pinned.at(self.used), bytes)?;
            self.used += bytes;
            done += bytes;
        }
        Ok(())
    }

    /// Marks the memory as unused after a synchronization of the stream.
    pub fn restart(&mut self) {
        self.used = 0;
    }

    /// Returns the memory, for other copies while none is queued.
    pub fn memory(&mut self) -> &mut PinnedBuffer {
        &mut self.pinned
    }
}
