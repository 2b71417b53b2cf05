//! Hints to the caches. They may name any address, and a program cannot see that they were given.
#![allow(unsafe_code)]

/// Asks for the cache line at `p`, to be used at once.
#[inline(always)]
pub fn near(p: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: part of every x86-64, and no access.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(p.cast());
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: no access.
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{}]", in(reg) p, options(readonly, nostack, preserves_flags));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = p;
}

/// Asks for some bytes in the second-level cache, to be used later: what is in use stays in the first.
pub fn later(bytes: &[u8]) {
    for line in bytes.chunks(64) {
        let p = line.as_ptr();
        #[cfg(target_arch = "x86_64")]
        // SAFETY: part of every x86-64, and no access.
        unsafe {
            use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_T1>(p.cast());
        }
        #[cfg(target_arch = "aarch64")]
        // SAFETY: no access.
        unsafe {
            std::arch::asm!("prfm pldl2keep, [{}]", in(reg) p, options(readonly, nostack, preserves_flags));
        }
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        let _ = p;
    }
}
