//! The CPU backend: weights packed into one mapping, and the threads and kernels that work on them.
//!
//! This file owns the memory of a model: matrices, vectors and rotary tables. `load` reads and packs weights,
//! `executor` executes ops, `kv` lays out KV caches, only `threads` starts threads, only `kernels` depends on
//! instruction sets, and `fastest` selects one.
#![allow(unsafe_code)]

pub mod adapter;
pub mod attention;
pub mod executor;
pub mod fastest;
pub mod kernels;
pub mod kv;
mod load;
pub mod matmul;
mod memory;
pub mod nan;
mod open_team;
pub mod ops;
pub mod recurrent_state;
pub mod sequence;
mod tensors;
pub mod threads;

use std::hash::Hasher;
use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Instant;

use twox_hash::XxHash64;

use self::kernels::Isa;
use self::load::{PackPlan, PlannedMatrix};
use self::matmul::matrix::WeightMatrix;
use self::matmul::packed_file::{PackedFile, stamp};
use self::threads::pool::Pool;
use crate::error::{Error, Result, try_vec};
use crate::graph::device_info::{DeviceInfo, DeviceKind};
use crate::graph::load_options::LoadOptions;
use crate::graph::op::{Vector, Weight};
use crate::graph::program::Program;
use crate::graph::weights::{MatrixSource, Progress, Rope, SharedBytes, Weights};
use crate::os::{self, Pages};
use crate::tensor::DType;

/// A processor with the weights of one model.
pub struct CpuBackend {
    info: DeviceInfo,
    pool: Arc<Pool>,
    isa: Isa,
    packed: PackedWeights,
    packed_bytes: usize,
    staging_bytes: usize,
    /// Matrices, indexed by `Weight`; next, vectors by `Vector` and rotary tables by `RopeTable`.
    matrices: Vec<StoredMatrix>,
    vectors: Vec<Vec<f32>>,
    ropes: Vec<Rope>,
    /// Digest of the packed matrices; next, of all weights, computed on first use.
    packed_digest: u64,
    digest: OnceLock<u64>,
    packed_file_error: Option<Error>,
}

/// A matrix and the location of its bytes.
struct StoredMatrix {
    matrix: WeightMatrix,
    location: WeightBytes,
}

enum WeightBytes {
    Packed(Range<usize>),
    Mapped(SharedBytes),
}

/// A matrix of a backend, whose rows can be read.
pub struct HeldMatrix<'a> {
    backend: &'a CpuBackend,
    weight: Weight,
}

impl MatrixSource for HeldMatrix<'_> {
    fn name(&self) -> &str {
        "a matrix of the host"
    }

    fn dtype(&self) -> DType {
        self.backend.shape(self.weight).dtype()
    }

    fn rows(&self) -> usize {
        self.backend.shape(self.weight).rows
    }

    fn cols(&self) -> usize {
        self.backend.shape(self.weight).cols()
    }

    fn read(&self, rows: Range<usize>, out: &mut [u8]) -> Result<()> {
        let (matrix, bytes) = self.backend.matrix(self.weight);
        matrix.layout.unpack(bytes, rows, out)
    }
}

/// The packed mapping.
enum PackedWeights {
    Memory(Pages),
    File(PackedFile),
}

impl PackedWeights {
    fn bytes(&self) -> &[u8] {
        match self {
            PackedWeights::Memory(pages) => pages,
            PackedWeights::File(file) => file.weights(),
        }
    }
}

/// Returns the number of bytes of memory of this machine: total and free; 0 if unknown.
pub fn memory() -> [u64; 2] {
    os::memory()
}

/// Returns the description of this machine for listings.
pub fn device(isa: Isa) -> DeviceInfo {
    let [memory_total, memory_free] = memory();
    DeviceInfo {
        name: os::processor(),
        id: "cpu".to_owned(),
        kind: DeviceKind::Cpu,
        isa: isa.name().to_owned(),
        memory_total,
        memory_free,
        unavailable: String::new(),
    }
}

/// Returns the bytes per second at which the threads of a pool read memory, measured once per number of threads.
pub fn read_rate(pool: &Arc<Pool>) -> Result<f64> {
    const BYTES: usize = 64 << 20;
    static MEASURED: Mutex<Vec<(usize, f64)>> = Mutex::new(Vec::new());
    let team = pool.enter()?;
    let mut measured = MEASURED.lock().unwrap_or_else(PoisonError::into_inner);
    let threads = team.threads();
    if let Some((_, rate)) = measured.iter().find(|(n, _)| *n == threads) {
        return Ok(*rate);
    }
    let mut memory = memory::map_huge("a measurement", BYTES)?;
    memory.fill(1);
    let share = BYTES / threads;
    let read = |i: usize| {
        let words = memory[i * share..][..share].as_chunks().0.iter().map(|bytes| u64::from_ne_bytes(*bytes));
        std::hint::black_box(words.fold(0u64, u64::wrapping_add));
    };
    team.run(read);
    let started = Instant::now();
    team.run(read);
    let rate = BYTES as f64 / started.elapsed().as_secs_f64().max(1e-9);
    measured.push((threads, rate));
    Ok(rate)
}

/// A load of weights to the CPU.
#[derive(Clone, Copy)]
pub struct CpuLoad<'a> {
    pub pool: &'a Arc<Pool>,
    pub isa: Isa,
    pub options: &'a LoadOptions<'a>,
    /// Number that identifies the files of the weights, for the file of packed weights.
    pub files: u64,
    /// Maximum size of weights in memory, in bytes.
    pub host_bytes: u64,
}

impl<'a> CpuLoad<'a> {
    /// Returns a load with a caller's options and no limit on memory.
    pub fn new(pool: &'a Arc<Pool>, isa: Isa, options: &'a LoadOptions<'a>) -> CpuLoad<'a> {
        CpuLoad { pool, isa, options, files: 0, host_bytes: u64::MAX }
    }
}

/// Returns the packed file if found, or else the system's error, if any.
fn or_io(found: Result<Option<PackedFile>>) -> Result<(Option<PackedFile>, Option<Error>)> {
    match found {
        Err(e @ Error::Io { .. }) => Ok((None, Some(e))),
        found => Ok((found?, None)),
    }
}

impl CpuBackend {
    /// Loads the weights of some programs to the CPU.
    pub fn load(
        load: CpuLoad,
        programs: &[&Program],
        weights: &Weights,
        progress: &mut Progress,
    ) -> Result<CpuBackend> {
        let CpuLoad { pool, isa, options, host_bytes, .. } = load;
        let weights_follow = !options.plan;
        let (planned, bytes) = load::plan(programs, &weights.matrices)?;
        let file = match options.packed_path {
            Some(path) => Some((path, stamp(load.files, &weights.matrices, &planned)?)),
            None => None,
        };
        let find = || match file {
            Some((path, stamp)) => PackedFile::open(path, stamp, bytes, weights_follow.then_some(pool)),
            None => Ok(None),
        };
        // A packed file that cannot be read or written costs memory and packing time, but does not fail the load.
        let (mut found, mut packed_file_error) = or_io(find())?;
        // Memory in addition to the weights; weights written to a file do not stay in memory.
        let mut staging_bytes = 0;
        let (mut packed, mut packed_digest) = (memory::map("weights", 0)?, 0);
        if found.is_none() {
            if bytes as u64 > host_bytes {
                let (what, needed) = ("the model's weights", bytes as u64);
                return Err(Error::Limit { what, needed, left: host_bytes, limit: host_bytes });
            }
            staging_bytes = load::staging(&planned).saturating_mul(pool.threads());
            staging_bytes += if file.is_some() { bytes } else { 0 };
            if weights_follow {
                packed = memory::map_huge("weights", bytes)?;
                let plan = PackPlan { isa, sources: &weights.matrices, planned: &planned };
                packed_digest = load::pack(pool, plan, &mut packed, progress)?;
                if let Some((path, stamp)) = file.filter(|_| packed_file_error.is_none()) {
                    let written = PackedFile::write(path, stamp, &packed[..bytes], packed_digest, pool, progress);
                    (found, packed_file_error) = or_io(written.and_then(|()| find()))?;
                }
            }
        }
        let (packed, packed_digest, packed_bytes) = match found {
            Some(file) => {
                let digest = file.digest;
                (PackedWeights::File(file), digest, 0)
            }
            None if file.is_some() && packed_file_error.is_none() && !weights_follow => {
                (PackedWeights::Memory(packed), 0, 0)
            }
            None => (PackedWeights::Memory(packed), packed_digest, bytes),
        };
        let mut matrices = try_vec("the list of weights", planned.len())?;
        for (source, PlannedMatrix { matrix, range }) in weights.matrices.iter().zip(planned) {
            let place = match source.mapped() {
                Some(bytes) => WeightBytes::Mapped(bytes),
                None => WeightBytes::Packed(range),
            };
            matrices.push(StoredMatrix { matrix, location: place });
        }
        let mut vectors = try_vec("vectors", weights.vectors.len())?;
        for values in &weights.vectors {
            let mut vector = try_vec("a vector", values.len())?;
            vector.extend_from_slice(values);
            vectors.push(vector);
        }
        Ok(CpuBackend {
            info: device(isa),
            pool: pool.clone(),
            isa,
            packed,
            packed_bytes,
            staging_bytes,
            matrices,
            vectors,
            ropes: weights.ropes.clone(),
            packed_digest,
            digest: OnceLock::new(),
            packed_file_error,
        })
    }

    /// Returns the reason why the packed weights are not in a file although one was requested.
    pub fn packed_file_error(&self) -> Option<&Error> {
        self.packed_file_error.as_ref()
    }

    pub fn device(&self) -> &DeviceInfo {
        &self.info
    }

    /// Returns the number of bytes of memory for weights.
    pub fn weight_bytes(&self) -> u64 {
        self.packed_bytes as u64 + self.vector_bytes()
    }

    pub fn vector_bytes(&self) -> u64 {
        self.vectors.iter().map(|v| 4 * v.len() as u64).sum()
    }

    /// Returns the name of the instruction set of the backend's products.
    pub fn isa(&self) -> &'static str {
        self.isa.name()
    }

    /// Returns a number that identifies these weights as their files have them, whether packed or mapped; products in
    /// BF16 change the number. Reads all mapped weights once.
    pub fn digest(&self) -> u64 {
        *self.digest.get_or_init(|| {
            let mut hash = XxHash64::with_seed(0);
            for StoredMatrix { matrix, .. } in &self.matrices {
                [matrix.dtype().0 as usize, matrix.rows, matrix.cols()].iter().for_each(|n| hash.write_u64(*n as u64));
            }
            let mapped = load::digest_mapped(&self.pool, self.matrices.len(), |i| match &self.matrices[i] {
                StoredMatrix { matrix, location: WeightBytes::Mapped(bytes) } => {
                    Some((matrix, &bytes.owner.as_ref().as_ref()[bytes.range.clone()]))
                }
                StoredMatrix { location: WeightBytes::Packed(_), .. } => None,
            });
            hash.write_u64(self.packed_digest.wrapping_add(mapped));
            if self.isa.is_in_bf16() {
                hash.write(b"products in BF16");
            }
            for vector in &self.vectors {
                hash.write_u64(vector.len() as u64);
                vector.iter().for_each(|x| hash.write_u32(x.to_bits()));
            }
            for rope in &self.ropes {
                hash.write_u64(rope.inv_freq.len() as u64);
                rope.inv_freq.iter().for_each(|x| hash.write_u64(x.to_bits()));
                hash.write_u32(rope.magnitude.to_bits());
                hash.write_u32(rope.position_offset);
            }
            hash.finish()
        })
    }

    /// Returns the number of bytes of memory, in addition to the weights, while they are packed.
    pub fn staging_bytes(&self) -> u64 {
        self.staging_bytes as u64
    }

    /// Returns a matrix and its bytes.
    fn matrix(&self, weight: Weight) -> (WeightMatrix, &[u8]) {
        let held = &self.matrices[weight.0 as usize];
        let bytes = match &held.location {
            WeightBytes::Packed(range) => &self.packed.bytes()[range.clone()],
            // `load::plan` has compared the lengths.
            WeightBytes::Mapped(bytes) => &bytes.owner.as_ref().as_ref()[bytes.range.clone()],
        };
        (held.matrix, bytes)
    }

    /// Returns a matrix with the values of its file, except that packed 16-bit floats have the values that products
    /// use.
    pub fn source(&self, weight: Weight) -> HeldMatrix<'_> {
        HeldMatrix { backend: self, weight }
    }

    /// Returns the size of a matrix in bytes, in memory or in a file.
    pub fn bytes_of(&self, weight: Weight) -> u64 {
        let bytes = match &self.matrices[weight.0 as usize].location {
            WeightBytes::Packed(range) => range,
            WeightBytes::Mapped(bytes) => &bytes.range,
        };
        bytes.len() as u64
    }

    /// Returns all matrices, by `Weight`.
    pub fn sources(&self) -> Vec<HeldMatrix<'_>> {
        (0..self.matrices.len() as u32).map(|weight| self.source(Weight(weight))).collect()
    }

    /// Returns all weights; `matrices` are the result of `sources`.
    pub fn weights<'a>(&self, matrices: &'a [HeldMatrix]) -> Weights<'a> {
        let matrices = matrices.iter().map(|matrix| matrix as &dyn MatrixSource).collect();
        Weights { matrices, vectors: self.vectors.clone(), ropes: self.ropes.clone() }
    }

    /// Returns the shape of a matrix, whose bytes may be missing, as during the planning of a load.
    fn shape(&self, weight: Weight) -> WeightMatrix {
        self.matrices[weight.0 as usize].matrix
    }

    fn vector(&self, vector: Vector) -> &[f32] {
        &self.vectors[vector.0 as usize]
    }
}
