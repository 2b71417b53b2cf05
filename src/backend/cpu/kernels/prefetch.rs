//! Hints to the caches. They may name any address, and a program cannot see that they were given.
#![allow(unsafe_code)]

/// Asks for the cache line at `$p`, by the hint of x86-64 and the operation of AArch64.
macro_rules! ask {
    ($p:expr, $hint:ident, $operation:literal) => {{
        let p: *const u8 = $p;
        #[cfg(target_arch = "x86_64")]
        // SAFETY: part of every x86-64, and no access.
        unsafe {
            std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::$hint }>(p.cast());
        }
        #[cfg(target_arch = "aarch64")]
        // SAFETY: no access.
        unsafe {
            std::arch::asm!(concat!("prfm ", $operation, ", [{}]"), in(reg) p, options(readonly, nostack, preserves_flags));
        }
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        let _ = p;
    }};
}

/// Asks for the cache line at `p`, to be used at once.
#[inline(always)]
pub fn near(p: *const u8) {
    ask!(p, _MM_HINT_T0, "pldl1keep");
}

/// Asks for some bytes in the second-level cache, to be used later: what is in use stays in the first.
pub fn later(bytes: &[u8]) {
    for line in bytes.chunks(64) {
        ask!(line.as_ptr(), _MM_HINT_T1, "pldl2keep");
    }
}
