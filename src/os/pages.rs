//! Zeroed memory in whole pages: anonymous mappings, whose untouched pages take no memory on most systems, or blocks of
//! the host's allocator.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::io;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

#[cfg(any(unix, windows))]
use crate::memory;

/// Bytes of fixed length, aligned to 4096.
pub enum Pages {
    #[cfg(any(unix, windows))]
    Mapped(Mapped),
    Allocated(Allocated),
}

impl Pages {
    /// Maps or allocates `bytes` zeros.
    pub fn new(bytes: usize) -> io::Result<Pages> {
        let layout = Layout::from_size_align(bytes.max(1), 4096).map_err(|_| io::ErrorKind::OutOfMemory)?;
        #[cfg(any(unix, windows))]
        if memory::host().is_none() {
            let pages = memmap2::MmapMut::map_anon(layout.size())?;
            memory::count(pages.len() as i64);
            return Ok(Pages::Mapped(Mapped(pages)));
        }
        // SAFETY: the layout is not empty.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Pages::Allocated(Allocated { start, layout }))
    }

    /// Requests huge pages, which the system may not have. Not on Android, for which memmap2 lacks this advice.
    pub fn prefer_huge(&self) {
        #[cfg(target_os = "linux")]
        if let Pages::Mapped(pages) = self {
            let _ = pages.0.advise(memmap2::Advice::HugePage);
        }
    }
}

impl Deref for Pages {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            #[cfg(any(unix, windows))]
            Pages::Mapped(pages) => &pages.0,
            // SAFETY: the bytes were allocated with this length and zeroed.
            Pages::Allocated(block) => unsafe { std::slice::from_raw_parts(block.start.as_ptr(), block.layout.size()) },
        }
    }
}

impl DerefMut for Pages {
    fn deref_mut(&mut self) -> &mut [u8] {
        match self {
            #[cfg(any(unix, windows))]
            Pages::Mapped(pages) => &mut pages.0,
            // SAFETY: as above, and borrowed mutably.
            Pages::Allocated(block) => unsafe {
                std::slice::from_raw_parts_mut(block.start.as_ptr(), block.layout.size())
            },
        }
    }
}

/// A mapping, included in the memory statistics.
#[cfg(any(unix, windows))]
pub struct Mapped(memmap2::MmapMut);

#[cfg(any(unix, windows))]
impl Drop for Mapped {
    fn drop(&mut self) {
        memory::count(-(self.0.len() as i64));
    }
}

/// A block from the allocator.
pub struct Allocated {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: memory owned only by this value.
unsafe impl Send for Allocated {}
// SAFETY: as above; a shared reference only reads.
unsafe impl Sync for Allocated {}

impl Drop for Allocated {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout.
        unsafe { dealloc(self.start.as_ptr(), self.layout) }
    }
}
