//! The CPU backend: weights packed into one mapping, and the threads and kernels that work on them.
//!
//! This file owns the memory of a model: matrices, vectors and rotary tables. `load` reads and packs weights, `exec` executes
//! ops, `kv` lays out caches, `thread` is the only place that starts threads, `kernels` the only one that knows instruction
//! sets.
#![allow(unsafe_code)]

pub mod attention;
mod disjoint;
mod exec;
pub mod kernels;
pub mod kv;
mod load;
pub mod matmul;
pub mod matmul_plan;
pub mod matrix;
mod memory;
mod packed;
mod partition;
pub mod pool;
mod thread;

use std::ops::Range;
use std::sync::Arc;

use memmap2::MmapMut;

use self::exec::CpuExec;
use self::kernels::Isa;
use self::kv::CpuKv;
use self::load::PlannedMatrix;
use self::matrix::WeightMatrix;
use self::pool::Pool;
use super::{
    Backend, DeviceInfo, DeviceKind, Exec, Kv, KvSpec, MatrixSource, Progress, Rope, RopeTable, SharedBytes, Vector,
    Weight, Widths,
};
use crate::error::{Error, Result, try_vec};

/// A processor with the weights of one model.
pub struct CpuBackend {
    info: DeviceInfo,
    pool: Arc<Pool>,
    isa: Isa,
    /// One mapping for each upload.
    packed: Vec<MmapMut>,
    matrices: Vec<Held>,
    vectors: Vec<Vec<f32>>,
    ropes: Vec<Rope>,
}

/// A matrix and the place of its bytes.
struct Held {
    matrix: WeightMatrix,
    place: WeightBytes,
}

enum WeightBytes {
    Packed { mapping: usize, range: Range<usize> },
    Mapped(SharedBytes),
}

/// Describes this machine for listings.
pub fn device(isa: Isa) -> DeviceInfo {
    let field = |file: &str, key: &str| -> Option<String> {
        let text = std::fs::read_to_string(file).ok()?;
        let line = text.lines().find(|line| line.starts_with(key))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    let kib = |key| -> Option<u64> { field("/proc/meminfo", key)?.strip_suffix(" kB")?.trim().parse().ok() };
    DeviceInfo {
        name: field("/proc/cpuinfo", "model name").unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
        kind: DeviceKind::Cpu,
        isa: isa.name().to_owned(),
        memory_total: kib("MemTotal").unwrap_or(0) * 1024,
        memory_free: kib("MemAvailable").unwrap_or(0) * 1024,
        unavailable: String::new(),
    }
}

impl CpuBackend {
    pub fn new(pool: Arc<Pool>, isa: Isa) -> CpuBackend {
        let (packed, matrices, vectors, ropes) = Default::default();
        CpuBackend { info: device(isa), pool, isa, packed, matrices, vectors, ropes }
    }

    /// Returns a matrix and its bytes.
    fn matrix(&self, weight: Weight) -> Result<(WeightMatrix, &[u8])> {
        let held = self.matrices.get(weight.0 as usize);
        let held = held.ok_or_else(|| Error::invalid(format!("{weight:?} was not uploaded")))?;
        let bytes = match &held.place {
            WeightBytes::Packed { mapping, range } => &self.packed[*mapping][range.clone()],
            // Safe to index: `upload` has compared the lengths.
            WeightBytes::Mapped(bytes) => &bytes.owner.as_ref().as_ref()[bytes.range.clone()],
        };
        Ok((held.matrix, bytes))
    }

    fn vector(&self, vector: Vector) -> Result<&[f32]> {
        let values = self.vectors.get(vector.0 as usize);
        values.map(Vec::as_slice).ok_or_else(|| Error::invalid(format!("{vector:?} was not uploaded")))
    }
}

impl Backend for CpuBackend {
    fn device(&self) -> &DeviceInfo {
        &self.info
    }

    fn upload_bytes(&self, sources: &[&dyn MatrixSource]) -> Result<u64> {
        Ok(load::plan(sources)?.1 as u64)
    }

    fn upload(&mut self, sources: &[&dyn MatrixSource], progress: &mut Progress) -> Result<Vec<Weight>> {
        let (planned, bytes) = load::plan(sources)?;
        let mut mapping = memory::map_huge("weights", bytes)?;
        load::pack(&self.pool, self.isa, sources, &planned, &mut mapping, progress)?;
        let mut weights = try_vec("the list of weights", sources.len())?;
        for (source, PlannedMatrix { matrix, range }) in sources.iter().zip(planned) {
            weights.push(Weight(self.matrices.len() as u32));
            let place = match source.mapped() {
                Some(bytes) => WeightBytes::Mapped(bytes),
                None => WeightBytes::Packed { mapping: self.packed.len(), range },
            };
            self.matrices.push(Held { matrix, place });
        }
        self.packed.push(mapping);
        Ok(weights)
    }

    fn upload_vector(&mut self, values: &[f32]) -> Result<Vector> {
        let mut vector = try_vec("a vector", values.len())?;
        vector.extend_from_slice(values);
        self.vectors.push(vector);
        Ok(Vector(self.vectors.len() as u32 - 1))
    }

    fn upload_rope(&mut self, rope: &Rope) -> Result<RopeTable> {
        self.ropes.push(rope.clone());
        Ok(RopeTable(self.ropes.len() as u32 - 1))
    }

    fn new_kv(&self, spec: &KvSpec) -> Result<Box<dyn Kv>> {
        Ok(Box::new(CpuKv::new(spec)?))
    }

    fn new_exec(
        self: Arc<Self>,
        widths: &Widths,
        head_dim: usize,
        max_tokens: usize,
        max_outputs: usize,
    ) -> Result<Box<dyn Exec>> {
        Ok(Box::new(CpuExec::new(self, widths, head_dim, max_tokens, max_outputs)?))
    }

    fn weight_bytes(&self) -> u64 {
        let packed: u64 = self.packed.iter().map(|m| m.len() as u64).sum();
        packed + self.vectors.iter().map(|v| 4 * v.len() as u64).sum::<u64>()
    }
}
