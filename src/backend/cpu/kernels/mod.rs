//! Inner loops, written for one instruction set each. This file owns the choice of the instruction set: a value of
//! `Isa` exists only for what this machine was seen to have, so that holding one is the proof that its kernels may run.
#![allow(unsafe_code)]

pub mod attend;
mod avx2;
mod avx512vnni;
mod codec;
mod codec_iq;
pub mod elementwise;
pub mod lanes;
pub mod matmul;
mod neon;
pub mod prefetch;
mod scalar;
mod simd;
pub mod small;

use matmul::Kernels;

/// An instruction set that this machine has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Isa {
    /// Plain Rust; the twin that the others are compared with.
    Scalar,
    Avx2(Avx2),
    Avx512Vnni(Avx512Vnni),
    Neon(Neon),
}

/// Proof of AVX2, FMA and F16C.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Avx2 {
    /// AVX-VNNI as well: `vpdpbusd` on 256-bit registers.
    vnni: bool,
}

/// Proof of AVX-512 F, BW, DQ, VL and VNNI, and of everything that `Avx2` stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Avx512Vnni {
    /// VBMI as well: look-ups in tables of 128 bytes.
    vbmi: bool,
}

/// Proof of NEON with FP16 conversions, which every AArch64 processor has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Neon {
    /// The dot product instructions (`sdot`) as well.
    dotprod: bool,
}

#[cfg(target_arch = "x86_64")]
fn add_vector_isas(isas: &mut Vec<Isa>) {
    if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") && is_x86_feature_detected!("f16c") {
        isas.push(Isa::Avx2(Avx2 { vnni: false }));
        if is_x86_feature_detected!("avxvnni") {
            isas.push(Isa::Avx2(Avx2 { vnni: true }));
        }
        if is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512vnni")
        {
            isas.push(Isa::Avx512Vnni(Avx512Vnni { vbmi: false }));
            if is_x86_feature_detected!("avx512vbmi") {
                isas.push(Isa::Avx512Vnni(Avx512Vnni { vbmi: true }));
            }
        }
    }
}

#[cfg(target_arch = "aarch64")]
fn add_vector_isas(isas: &mut Vec<Isa>) {
    isas.push(Isa::Neon(Neon { dotprod: false }));
    if std::arch::is_aarch64_feature_detected!("dotprod") {
        isas.push(Isa::Neon(Neon { dotprod: true }));
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn add_vector_isas(_: &mut Vec<Isa>) {}

impl Isa {
    /// The fastest instruction set of this machine.
    pub fn detect() -> Isa {
        Isa::available().last().copied().unwrap_or(Isa::Scalar)
    }

    /// Every instruction set of this machine, slowest first.
    pub fn available() -> Vec<Isa> {
        let mut isas = vec![Isa::Scalar];
        add_vector_isas(&mut isas);
        isas
    }

    /// For listings.
    pub fn name(self) -> &'static str {
        match self {
            Isa::Scalar => "scalar",
            Isa::Avx2(Avx2 { vnni: false }) => "avx2",
            Isa::Avx2(Avx2 { vnni: true }) => "avx2-vnni",
            Isa::Avx512Vnni(Avx512Vnni { vbmi: false }) => "avx512-vnni",
            Isa::Avx512Vnni(Avx512Vnni { vbmi: true }) => "avx512-vbmi",
            Isa::Neon(Neon { dotprod: false }) => "neon",
            Isa::Neon(Neon { dotprod: true }) => "neon-dotprod",
        }
    }

    /// The matrix kernels.
    pub fn matmul(self) -> &'static Kernels {
        match self {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512Vnni(Avx512Vnni { vbmi: true }) => &avx512vnni::vbmi::KERNELS,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512Vnni(Avx512Vnni { vbmi: false }) => &avx512vnni::plain::KERNELS,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2(Avx2 { vnni: true }) => &avx2::vnni::KERNELS,
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2(Avx2 { vnni: false }) => &avx2::plain::KERNELS,
            #[cfg(target_arch = "aarch64")]
            Isa::Neon(Neon { dotprod: true }) => &neon::dotprod::KERNELS,
            #[cfg(target_arch = "aarch64")]
            Isa::Neon(Neon { dotprod: false }) => &neon::plain::KERNELS,
            _ => &scalar::KERNELS,
        }
    }
}
