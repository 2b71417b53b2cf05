//! Prefetches: cache hints for any address, without effect on results.
#![allow(unsafe_code)]

/// Prefetches the cache line at `$p`, by the x86-64 hint and the AArch64 operation.
macro_rules! ask {
    ($p:expr, $hint:ident, $operation:literal) => {{
        let p: *const u8 = $p;
        #[cfg(target_arch = "x86_64")]
        // SAFETY: part of every x86-64, and no memory access.
        unsafe {
            std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::$hint }>(p.cast());
        }
        #[cfg(target_arch = "aarch64")]
        // SAFETY: no memory access.
        unsafe {
            std::arch::asm!(concat!("prfm ", $operation, ", [{}]"), in(reg) p, options(readonly, nostack, preserves_flags));
        }
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        let _ = p;
    }};
}

/// Prefetches the cache line at `p` into the L1 cache.
#[inline(always)]
pub fn near(p: *const u8) {
    ask!(p, _MM_HINT_T0, "pldl1keep");
}

/// Prefetches the cache line at `p` into the L2 cache.
#[inline(always)]
pub fn next(p: *const u8) {
    ask!(p, _MM_HINT_T1, "pldl2keep");
}

/// Prefetches some bytes into the L2 cache, so that bytes in use stay in L1.
pub fn later(bytes: &[u8]) {
    bytes.chunks(64).for_each(|line| next(line.as_ptr()));
}
