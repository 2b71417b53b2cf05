//! Anonymous memory in whole pages: zeroed, and where the system can, without pages where nothing was written.

use std::io;
use std::ops::{Deref, DerefMut};

#[cfg(any(unix, windows))]
type Memory = memmap2::MmapMut;
#[cfg(not(any(unix, windows)))]
type Memory = allocated::Allocated;

/// Bytes of fixed length at an address that is a multiple of 4096.
pub struct Pages(Memory);

impl Pages {
    /// Maps `bytes` zeros.
    pub fn new(bytes: usize) -> io::Result<Pages> {
        if bytes > isize::MAX as usize {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        Memory::map_anon(bytes.max(1)).map(Pages)
    }

    /// Asks for huge pages, which a system without them does not give.
    pub fn prefer_huge(&self) {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        let _ = self.0.advise(memmap2::Advice::HugePage);
    }
}

impl Deref for Pages {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl DerefMut for Pages {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

/// Stands in for mappings where there are none.
#[cfg(not(any(unix, windows)))]
mod allocated {
    use std::alloc::{Layout, alloc_zeroed, dealloc};
    use std::io;
    use std::ops::{Deref, DerefMut};
    use std::ptr::NonNull;

    pub struct Allocated {
        start: NonNull<u8>,
        layout: Layout,
    }

    // SAFETY: memory that this value alone owns.
    unsafe impl Send for Allocated {}
    // SAFETY: as above; a shared reference only reads.
    unsafe impl Sync for Allocated {}

    impl Allocated {
        pub fn map_anon(bytes: usize) -> io::Result<Allocated> {
            let layout = Layout::from_size_align(bytes, 4096).map_err(|_| io::ErrorKind::OutOfMemory)?;
            // SAFETY: callers ask for at least one byte.
            let start = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or(io::ErrorKind::OutOfMemory)?;
            Ok(Allocated { start, layout })
        }
    }

    impl Deref for Allocated {
        type Target = [u8];

        fn deref(&self) -> &[u8] {
            // SAFETY: as many bytes as were allocated, zeroed.
            unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.layout.size()) }
        }
    }

    impl DerefMut for Allocated {
        fn deref_mut(&mut self) -> &mut [u8] {
            // SAFETY: as above.
            unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.layout.size()) }
        }
    }

    impl Drop for Allocated {
        fn drop(&mut self) {
            // SAFETY: allocated with this layout.
            unsafe { dealloc(self.start.as_ptr(), self.layout) }
        }
    }
}
