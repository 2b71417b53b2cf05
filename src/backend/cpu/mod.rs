//! The CPU backend: weights packed into one mapping, and the threads and kernels that work on them.
//!
//! This file owns what a model keeps: matrices, vectors and rotary tables. `exec` performs verbs, `kv` lays out
//! caches, `pool` is the only user of threads, `kernels` the only place that knows instruction sets.
#![allow(unsafe_code)]

pub mod attention;
pub mod executor;
pub mod kernels;
pub mod kv;
pub mod matmul;
mod memory;
pub mod packed;
pub mod pool;

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use memmap2::MmapMut;

use self::kernels::Isa;
use self::kernels::matmul::GROUP;
use self::matmul::Matrix;
use self::pool::{Pool, Shared};
use super::op::{Vector, Weight};
use super::program::Program;
use super::weights::{MatrixSource, Progress, Rope, SharedBytes, Weights};
use super::{DeviceInfo, DeviceKind};
use crate::error::{Error, Result, try_filled, try_vec};

/// Bytes of a file that a thread reads and packs at a time: large enough for a disk, small enough for its cache.
const PIECE: usize = 512 << 10;

/// Pieces a thread between two reports of progress. The pool is free for others in between.
const PIECES_PER_REPORT: usize = 8;

/// Packed matrices begin on cache lines.
const ALIGN: usize = 64;

/// A processor with the weights of one model.
pub struct CpuBackend {
    info: DeviceInfo,
    pool: Arc<Pool>,
    isa: Isa,
    packed: MmapMut,
    /// By `Weight`, `Vector` and `RopeTable`.
    matrices: Vec<Held>,
    vectors: Vec<Vec<f32>>,
    ropes: Vec<Rope>,
}

/// A matrix and where its bytes are.
struct Held {
    matrix: Matrix,
    place: Place,
}

enum Place {
    Packed(Range<usize>),
    Mapped(SharedBytes),
}

/// What this machine is, for listings.
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
    /// Packs the weights of a program. `host_bytes`: the ceiling on their bytes.
    pub fn load(
        pool: &Arc<Pool>,
        program: &Program,
        weights: &Weights,
        host_bytes: u64,
        progress: &mut Progress,
    ) -> Result<CpuBackend> {
        let isa = Isa::detect();
        let (places, bytes) = plan(program, &weights.matrices)?;
        if bytes as u64 > host_bytes {
            let (what, needed) = ("the model's weights", bytes as u64);
            return Err(Error::Limit { what, needed, allowed: host_bytes });
        }
        let mut packed = memory::map_huge("weights", bytes)?;
        pack(pool, isa, &weights.matrices, &places, &mut packed, progress)?;
        let mut matrices = try_vec("the list of weights", places.len())?;
        for (source, Placed { matrix, range }) in weights.matrices.iter().zip(places) {
            let place = match source.mapped() {
                Some(bytes) => Place::Mapped(bytes),
                None => Place::Packed(range),
            };
            matrices.push(Held { matrix, place });
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
            matrices,
            vectors,
            ropes: weights.ropes.clone(),
        })
    }

    pub fn device(&self) -> &DeviceInfo {
        &self.info
    }

    /// Bytes held for weights.
    pub fn weight_bytes(&self) -> u64 {
        self.packed.len() as u64 + self.vectors.iter().map(|v| 4 * v.len() as u64).sum::<u64>()
    }

    /// A matrix and its bytes.
    fn matrix(&self, weight: Weight) -> (Matrix, &[u8]) {
        let held = &self.matrices[weight.0 as usize];
        let bytes = match &held.place {
            Place::Packed(range) => &self.packed[range.clone()],
            // `plan` has compared the lengths.
            Place::Mapped(bytes) => &bytes.owner.as_ref().as_ref()[bytes.range.clone()],
        };
        (held.matrix, bytes)
    }

    fn vector(&self, vector: Vector) -> &[f32] {
        &self.vectors[vector.0 as usize]
    }
}

/// The matrix that a source becomes, and its bytes in the packed mapping.
fn plan_one(source: &dyn MatrixSource, is_table: bool) -> Result<(Matrix, usize)> {
    let (dtype, rows, cols) = (source.dtype(), source.rows(), source.cols());
    let Some(mapped) = source.mapped() else {
        let matrix = if is_table { Matrix::mapped(dtype, rows, cols) } else { Matrix::packed(dtype, rows, cols) }?;
        return Ok((matrix, matrix.bytes()));
    };
    let matrix = Matrix::mapped(dtype, rows, cols)?;
    if mapped.owner.as_ref().as_ref().get(mapped.range.clone()).is_none_or(|bytes| bytes.len() != matrix.bytes()) {
        return Err(Error::invalid(format!(
            "{} has bytes {:?}, {} expected",
            source.name(),
            mapped.range,
            matrix.bytes()
        )));
    }
    Ok((matrix, 0))
}

/// A matrix and its bytes in the packed mapping, none where it stays in the file.
struct Placed {
    matrix: Matrix,
    range: Range<usize>,
}

/// The place of each source, and the bytes of all.
fn plan(program: &Program, sources: &[&dyn MatrixSource]) -> Result<(Vec<Placed>, usize)> {
    let mut places = try_vec("the list of weights", sources.len())?;
    let mut end = 0usize;
    for (i, source) in sources.iter().enumerate() {
        let (matrix, bytes) = plan_one(*source, program.is_table(Weight(i as u32)))?;
        let start = end;
        let too_large = || Error::OutOfMemory { what: "weights", bytes: u64::MAX };
        end = start.checked_add(bytes).and_then(|n| n.checked_next_multiple_of(ALIGN)).ok_or_else(too_large)?;
        places.push(Placed { matrix, range: start..start + bytes });
    }
    Ok((places, end))
}

/// Reads matrices on all threads, piece by piece, and packs each piece straight into its place.
fn pack(
    pool: &Arc<Pool>,
    isa: Isa,
    sources: &[&dyn MatrixSource],
    places: &[Placed],
    mapping: &mut [u8],
    progress: &mut Progress,
) -> Result<()> {
    /// Rows of a piece: whole groups, because a group is packed as one.
    fn piece_rows(matrix: &Matrix) -> usize {
        (PIECE / (matrix.row_bytes() * GROUP).max(1)).max(1) * GROUP
    }
    let packed = || sources.iter().zip(places).filter(|(_, place)| !place.range.is_empty());
    let staging = packed().map(|(_, p)| piece_rows(&p.matrix).min(p.matrix.rows) * p.matrix.row_bytes()).max();
    let mut rooms = try_vec("staging", pool.threads())?;
    for _ in 0..pool.threads() {
        rooms.push(try_filled("staging", staging.unwrap_or(0), 0u8)?);
    }
    let (rooms, mapping) = (Shared::new(&mut rooms), Shared::new(mapping));
    let total: u64 = packed().map(|(_, place)| place.range.len() as u64).sum();
    let mut done = 0;
    progress(done, total)?;

    let mut pieces = packed().flat_map(|(source, place)| {
        let rows = piece_rows(&place.matrix);
        let end = place.matrix.rows;
        (0..end).step_by(rows).map(move |from| (*source, place, from..end.min(from + rows)))
    });
    let mut wave = try_vec("the list of pieces", PIECES_PER_REPORT * pool.threads())?;
    loop {
        wave.clear();
        wave.extend(pieces.by_ref().take(wave.capacity()));
        if wave.is_empty() {
            return Ok(());
        }
        let (failed, error) = (AtomicBool::new(false), Mutex::new(None));
        pool.enter().for_each_with(wave.len(), |share, i| {
            if failed.load(Ordering::Relaxed) {
                return;
            }
            let (source, Placed { matrix, range: place }, rows) = &wave[i];
            // SAFETY: a share runs on one thread at a time.
            let room = &mut unsafe { rooms.slice_mut(share..share + 1) }[0];
            let raw = &mut room[..rows.len() * matrix.row_bytes()];
            let range = matrix.range(rows.clone());
            // SAFETY: pieces are of different rows, and `plan` gives matrices different places.
            let out = unsafe { mapping.slice_mut(place.start + range.start..place.start + range.end) };
            match source.read(rows.clone(), raw) {
                Ok(()) => matrix.pack(isa, raw, out),
                Err(e) => {
                    failed.store(true, Ordering::Relaxed);
                    error.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(e);
                }
            }
        });
        if let Some(error) = error.into_inner().unwrap_or_else(PoisonError::into_inner) {
            return Err(error);
        }
        done += wave.iter().map(|(_, place, rows)| place.matrix.range(rows.clone()).len() as u64).sum::<u64>();
        progress(done, total)?;
    }
}
