//! The weights of one group of 32 columns as operands of products: in registers while they are unpacked, or in a tile.
#![allow(unsafe_code)]

use std::marker::PhantomData;

use super::activations::InputType;
use super::codec::{Codec, Kind};
use super::simd::Simd;

/// Returns the size of a row panel in one group of a tile in bytes: integers, scales, mins.
pub const fn tile_bytes<K: Kind>() -> usize {
    64 * (K::INPUT.registers() + K::SUBS * (1 + K::MIN as usize))
}

/// True if `S` multiplies weights with activations of this type for two tokens at once, with woven tiles.
pub const fn woven<S: Simd>(input: InputType) -> bool {
    S::PAIRS_OF_TOKENS && matches!(input, InputType::I8)
}

/// The weights of one group of 32 columns and `R` row panels, packed or unpacked.
pub trait WeightGroup<S: Simd> {
    /// Zero point of the bytes.
    const ZERO: i32;
    /// True if vectors of integers are woven in pairs.
    const WOVEN: bool;
    /// Returns vector `j` of the integers of panel `r`.
    ///
    /// # Safety
    /// `r` must be below the number of panels, and the memory of the group must be readable, also for the methods
    /// below.
    unsafe fn quants(&self, s: S, r: usize, j: usize) -> S::I;
    /// Returns the scales of the group or of one of its halves.
    ///
    /// # Safety
    /// As for `quants`.
    unsafe fn scale(&self, s: S, r: usize, half: usize) -> S::F;
    /// Returns the mins of the group or of one of its halves.
    ///
    /// # Safety
    /// As for `quants`; the kind must have mins.
    unsafe fn min(&self, s: S, r: usize, half: usize) -> S::F;
}

/// Group `b` of a block of one row panel, in registers.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub struct RegisterGroup<'a, S: Simd, Q> {
    pub quants: [S::I; 16],
    pub scale: &'a [S::F; 16],
    pub min: &'a [S::F; 16],
    pub b: usize,
    pub codec: PhantomData<Q>,
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
impl<S: Simd, Q: Codec> WeightGroup<S> for RegisterGroup<'_, S, Q> {
    const ZERO: i32 = if Q::Kind::WIDE { S::WIDE_ZERO } else { Q::ZERO };
    const WOVEN: bool = false;
    #[inline(always)]
    unsafe fn quants(&self, _: S, _: usize, j: usize) -> S::I {
        self.quants[j]
    }
    #[inline(always)]
    unsafe fn scale(&self, _: S, _: usize, half: usize) -> S::F {
        self.scale[Q::Kind::SUBS * self.b + half]
    }
    #[inline(always)]
    unsafe fn min(&self, _: S, _: usize, half: usize) -> S::F {
        self.min[Q::Kind::SUBS * self.b + half]
    }
}

/// A group of one row panel of a grouped format, in registers.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub struct CodeGroup<S: Simd, K> {
    pub quants: [S::I; 16],
    pub scale: S::F,
    pub min: S::F,
    pub kind: PhantomData<K>,
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
impl<S: Simd, K: Kind> WeightGroup<S> for CodeGroup<S, K> {
    const ZERO: i32 = <TileGroup<K, 1> as WeightGroup<S>>::ZERO;
    const WOVEN: bool = false;
    #[inline(always)]
    unsafe fn quants(&self, _: S, _: usize, j: usize) -> S::I {
        self.quants[j]
    }
    #[inline(always)]
    unsafe fn scale(&self, _: S, _: usize, _: usize) -> S::F {
        self.scale
    }
    #[inline(always)]
    unsafe fn min(&self, _: S, _: usize, _: usize) -> S::F {
        self.min
    }
}

/// A group of a tile made by `unpack`.
pub struct TileGroup<K, const R: usize>(pub *const u8, pub PhantomData<K>);

impl<S: Simd, K: Kind, const R: usize> WeightGroup<S> for TileGroup<K, R> {
    const ZERO: i32 = match (K::INPUT, K::WIDE) {
        (InputType::I16, _) => 0,
        (_, true) => S::WIDE_ZERO,
        _ => K::ZERO,
    };
    const WOVEN: bool = woven::<S>(K::INPUT);
    #[inline(always)]
    unsafe fn quants(&self, s: S, r: usize, j: usize) -> S::I {
        // SAFETY: inside the group.
        unsafe { s.load_bytes(self.0.add(64 * (R * j + r))) }
    }
    #[inline(always)]
    unsafe fn scale(&self, s: S, r: usize, half: usize) -> S::F {
        // SAFETY: inside the group.
        unsafe { s.load_f32(self.0.add(64 * (R * (K::INPUT.registers() + half) + r)).cast()) }
    }
    #[inline(always)]
    unsafe fn min(&self, s: S, r: usize, half: usize) -> S::F {
        // SAFETY: inside the group, for kinds that have mins.
        unsafe { s.load_f32(self.0.add(64 * (R * (K::INPUT.registers() + K::SUBS + half) + r)).cast()) }
    }
}

/// Returns the zero point of the bytes of a tile.
#[cfg(target_arch = "x86_64")]
pub const fn zero_of_tile<S: Simd, K: Kind>() -> i32 {
    <TileGroup<K, 1> as WeightGroup<S>>::ZERO
}
