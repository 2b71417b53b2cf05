//! Inner loops, written once over `simd::Simd` and compiled for each instruction set. Owns the selection of the
//! instruction set: a value of `Isa` other than `Scalar` exists only for a set that was detected on this machine, and
//! kernel tables are reachable only through such a value.
#![allow(unsafe_code)]

pub(super) mod activation_functions;
pub(super) mod activations;
mod amx;
pub(super) mod attention;
mod avx2;
mod avx512vnni;
mod bf16;
mod codec;
mod codec_iq;
pub(super) mod elementwise;
mod float;
pub(super) mod float_gemm;
mod gemm;
mod grouped;
pub(super) mod hadamard;
pub(super) mod interleave;
mod math;
mod neon;
pub(super) mod prefetch;
pub(super) mod quantize;
pub(super) mod recurrent;
mod scalar;
pub(super) mod simd;
pub(super) mod small;
pub(super) mod table;
mod weight_group;

#[cfg(target_arch = "aarch64")]
use self::neon::{BASE, DOTPROD, I8MM, Neon};
use self::scalar::Scalar;
pub use self::simd::{GROUP, PANEL_ROWS};
use self::table::MatmulKernels;
#[cfg(target_arch = "x86_64")]
use self::{amx::Amx, avx2::Avx2, avx512vnni::Avx512Vnni};
#[cfg(target_arch = "x86_64")]
use crate::os;

/// An instruction set of this machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Isa {
    /// Plain Rust; the reference for the other instruction sets.
    Scalar,
    #[cfg(target_arch = "x86_64")]
    Avx2(Avx2<false>),
    /// With AVX-VNNI.
    #[cfg(target_arch = "x86_64")]
    Avx2Vnni(Avx2<true>),
    #[cfg(target_arch = "x86_64")]
    Avx512Vnni(Avx512Vnni<false>),
    /// With VBMI.
    #[cfg(target_arch = "x86_64")]
    Avx512Vbmi(Avx512Vnni<true>),
    /// With VBMI and AMX.
    #[cfg(target_arch = "x86_64")]
    Amx(Amx<amx::Processor>),
    /// The same, with products in BF16.
    #[cfg(target_arch = "x86_64")]
    AmxBf16(Amx<amx::Processor>),
    /// Scalar emulation of AMX; next, with products in BF16.
    #[cfg(all(test, target_arch = "x86_64"))]
    AmxEmulated(Amx<amx::emulation::EmulatedTiles>),
    #[cfg(all(test, target_arch = "x86_64"))]
    AmxBf16Emulated(Amx<amx::emulation::EmulatedTiles>),
    #[cfg(target_arch = "aarch64")]
    Neon(Neon<BASE>),
    /// With the dot-product instructions.
    #[cfg(target_arch = "aarch64")]
    NeonDotprod(Neon<DOTPROD>),
    /// Also with the integer matrix instructions.
    #[cfg(target_arch = "aarch64")]
    NeonI8mm(Neon<I8MM>),
}

impl Isa {
    /// Maximum number of instruction sets of a machine.
    pub const MOST: usize = 8;

    /// Returns the instruction set of this machine that is likely to be the fastest. Never AMX: AMX measured slower
    /// than AVX-512, and the system grants it to the whole process, whose signal handlers then need more stack.
    pub fn detect() -> Isa {
        Isa::common().last().copied().unwrap_or(Isa::Scalar)
    }

    /// Lists the candidates for the fastest instruction set, the likely ones last. Includes AMX if the process already
    /// has permission.
    pub fn candidates() -> Vec<Isa> {
        let mut isas = Isa::common();
        #[cfg(target_arch = "x86_64")]
        isas.extend(Amx::<amx::Processor>::detect(os::has_tiles).map(Isa::Amx));
        if isas.len() > 1 {
            isas.retain(|isa| *isa != Isa::Scalar);
        }
        isas
    }

    /// Lists the instruction sets of this machine with products in BF16, which are not bit-identical to the others.
    /// Requests AMX from the system.
    pub fn in_bf16() -> Vec<Isa> {
        let isas: &[Option<Isa>] = &[
            #[cfg(all(test, target_arch = "x86_64"))]
            Some(Isa::AmxBf16Emulated(Amx::<amx::emulation::EmulatedTiles>::TOKEN)),
            #[cfg(target_arch = "x86_64")]
            Amx::<amx::Processor>::detect(os::enable_tiles).map(Isa::AmxBf16),
        ];
        isas.iter().flatten().copied().collect()
    }

    /// True if products are in BF16.
    pub fn is_in_bf16(self) -> bool {
        match self {
            #[cfg(target_arch = "x86_64")]
            Isa::AmxBf16(_) => true,
            #[cfg(all(test, target_arch = "x86_64"))]
            Isa::AmxBf16Emulated(_) => true,
            _ => false,
        }
    }

    /// Lists every instruction set of this machine whose products are bit-identical.
    pub fn available() -> Vec<Isa> {
        let more: &[Option<Isa>] = &[
            #[cfg(all(test, target_arch = "x86_64"))]
            Some(Isa::AmxEmulated(Amx::<amx::emulation::EmulatedTiles>::TOKEN)),
            #[cfg(target_arch = "x86_64")]
            Amx::<amx::Processor>::detect(os::enable_tiles).map(Isa::Amx),
        ];
        Isa::common().into_iter().chain(more.iter().flatten().copied()).collect()
    }

    /// Lists the instruction sets of this machine except AMX, slowest first.
    fn common() -> Vec<Isa> {
        let isas = [
            Some(Isa::Scalar),
            #[cfg(target_arch = "x86_64")]
            Avx2::<false>::detect().map(Isa::Avx2),
            #[cfg(target_arch = "x86_64")]
            Avx2::<true>::detect().map(Isa::Avx2Vnni),
            #[cfg(target_arch = "x86_64")]
            Avx512Vnni::<false>::detect().map(Isa::Avx512Vnni),
            #[cfg(target_arch = "x86_64")]
            Avx512Vnni::<true>::detect().map(Isa::Avx512Vbmi),
            #[cfg(target_arch = "aarch64")]
            Neon::<BASE>::detect().map(Isa::Neon),
            #[cfg(target_arch = "aarch64")]
            Neon::<DOTPROD>::detect().map(Isa::NeonDotprod),
            #[cfg(target_arch = "aarch64")]
            Neon::<I8MM>::detect().map(Isa::NeonI8mm),
        ];
        isas.into_iter().flatten().collect()
    }

    /// Returns the name of the instruction set for listings.
    pub fn name(self) -> &'static str {
        match self {
            Isa::Scalar => "scalar",
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2(_) => "avx2",
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2Vnni(_) => "avx2-vnni",
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512Vnni(_) => "avx512-vnni",
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512Vbmi(_) => "avx512-vbmi",
            #[cfg(target_arch = "x86_64")]
            Isa::Amx(_) => "amx",
            #[cfg(target_arch = "x86_64")]
            Isa::AmxBf16(_) => "amx-bf16",
            #[cfg(all(test, target_arch = "x86_64"))]
            Isa::AmxEmulated(_) => "amx's emulation",
            #[cfg(all(test, target_arch = "x86_64"))]
            Isa::AmxBf16Emulated(_) => "amx-bf16's emulation",
            #[cfg(target_arch = "aarch64")]
            Isa::Neon(_) => "neon",
            #[cfg(target_arch = "aarch64")]
            Isa::NeonDotprod(_) => "neon-dotprod",
            #[cfg(target_arch = "aarch64")]
            Isa::NeonI8mm(_) => "neon-i8mm",
        }
    }

    /// Returns the matrix kernels of the instruction set.
    pub(super) fn matmul(self) -> &'static MatmulKernels {
        match self {
            Isa::Scalar => Scalar.matmul(),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2(token) => token.matmul(),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2Vnni(token) => token.matmul(),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512Vnni(token) => token.matmul(),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512Vbmi(token) => token.matmul(),
            #[cfg(target_arch = "x86_64")]
            Isa::Amx(token) => token.matmul(),
            #[cfg(target_arch = "x86_64")]
            Isa::AmxBf16(_) => const { &bf16::on_processor::KERNELS },
            #[cfg(all(test, target_arch = "x86_64"))]
            Isa::AmxEmulated(token) => token.matmul(),
            #[cfg(all(test, target_arch = "x86_64"))]
            Isa::AmxBf16Emulated(_) => const { &bf16::on_emulation::KERNELS },
            #[cfg(target_arch = "aarch64")]
            Isa::Neon(token) => token.matmul(),
            #[cfg(target_arch = "aarch64")]
            Isa::NeonDotprod(token) => token.matmul(),
            #[cfg(target_arch = "aarch64")]
            Isa::NeonI8mm(token) => token.matmul(),
        }
    }
}

/// Runs `body(token, args...)` compiled for the instruction set in `isa`. The extensions VNNI, VBMI, AMX, dot products
/// and I8MM apply to matrix products only and share the code of their base.
macro_rules! dispatch {
    ($isa:expr, $body:ident($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)?) => {{
        use $crate::cpu::kernels::{self, Isa};
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx2,fma,f16c")]
        fn avx2(token: kernels::avx2::Avx2<false>, $($arg: $ty),*) $(-> $ret)? {
            $body(token, $($arg),*)
        }
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
        fn avx512(token: kernels::avx512vnni::Avx512Vnni<false>, $($arg: $ty),*) $(-> $ret)? {
            $body(token, $($arg),*)
        }
        match $isa {
            Isa::Scalar => $body(kernels::scalar::Scalar, $($arg),*),
            // SAFETY: the token proves the features that the function enables.
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2(token) => unsafe { avx2(token, $($arg),*) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2Vnni(token) => unsafe { avx2(token.base(), $($arg),*) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512Vnni(token) => unsafe { avx512(token, $($arg),*) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512Vbmi(token) => unsafe { avx512(token.base(), $($arg),*) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Isa::Amx(token) | Isa::AmxBf16(token) => unsafe { avx512(token.base(), $($arg),*) },
            #[cfg(all(test, target_arch = "x86_64"))]
            Isa::AmxEmulated(_) | Isa::AmxBf16Emulated(_) => $body(kernels::scalar::Scalar, $($arg),*),
            #[cfg(target_arch = "aarch64")]
            Isa::Neon(token) => $body(token, $($arg),*),
            #[cfg(target_arch = "aarch64")]
            Isa::NeonDotprod(token) => $body(token.base(), $($arg),*),
            #[cfg(target_arch = "aarch64")]
            Isa::NeonI8mm(token) => $body(token.base(), $($arg),*),
        }
    }};
}
use dispatch;
