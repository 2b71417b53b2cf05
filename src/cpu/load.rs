//! Loading of weights: the location of each matrix in one mapping, and the parts that threads read and pack. All worker
//! threads are joined before a load returns, whether it succeeds or fails.
#![allow(unsafe_code)]

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use twox_hash::XxHash64;

use super::kernels::{Isa, PANEL_ROWS};
use crate::cpu::matmul::matrix::WeightMatrix;
use crate::cpu::threads::disjoint::DisjointSlice;
use crate::cpu::threads::pool::Pool;
use crate::cpu::threads::workers::Workers;
use crate::error::{Error, Result, try_filled, try_vec};
use crate::graph::op::Weight;
use crate::graph::program::Program;
use crate::graph::weights::{MatrixSource, Progress};

/// Bytes of a file that a thread reads and packs at a time: large enough for a disk, small enough for the thread's
/// cache.
const PIECE: usize = 512 << 10;

/// Returns the number of rows of a piece: whole row panels, because a panel is packed at once.
fn piece_rows(matrix: &WeightMatrix) -> usize {
    (PIECE / (matrix.row_bytes() * PANEL_ROWS).max(1)).max(1) * PANEL_ROWS
}

/// Returns a digest of some rows of a matrix in a file. The digests of all pieces are added up, in any order.
fn digest(weight: usize, rows: &Range<usize>, raw: &[u8]) -> u64 {
    XxHash64::oneshot((weight as u64) << 40 ^ rows.start as u64, raw)
}

/// Returns the sum of the digests of mapped matrices; `mapped(i)` returns matrix `i` and its bytes if it is mapped.
pub fn digest_mapped<'a>(
    pool: &Arc<Pool>,
    n: usize,
    mapped: impl Fn(usize) -> Option<(&'a WeightMatrix, &'a [u8])> + Sync,
) -> u64 {
    let pieces = |weight: usize| {
        let (matrix, raw) = mapped(weight)?;
        let rows = piece_rows(matrix);
        let chunks = raw.chunks(rows * matrix.row_bytes()).enumerate();
        Some(chunks.map(move |(i, raw)| digest(weight, &(i * rows..matrix.rows), raw)))
    };
    let of_matrix = |weight: usize| pieces(weight).into_iter().flatten().fold(0u64, u64::wrapping_add);
    let all = || (0..n).fold(0u64, |sum, weight| sum.wrapping_add(of_matrix(weight)));
    // The host's threads may be waiting in a step for this digest.
    if pool.is_of_host() || (0..n).all(|weight| mapped(weight).is_none()) {
        return all();
    }
    let sum = AtomicU64::new(0);
    let add = |_, weight: usize| {
        sum.fetch_add(of_matrix(weight), Ordering::Relaxed);
        Ok(())
    };
    match Workers::with(pool, |workers| workers.for_each(n, add)) {
        Ok(()) => sum.into_inner(),
        // If there are no threads, or no memory for them, the caller computes it.
        Err(_) => all(),
    }
}

/// Number of pieces per thread between two progress reports.
const PIECES_PER_REPORT: usize = 8;

/// Alignment of packed matrices: a cache line.
const ALIGN: usize = 64;

/// A matrix and its byte range in the packed mapping, empty if the matrix stays in the file.
pub struct PlannedMatrix {
    pub matrix: WeightMatrix,
    pub range: Range<usize>,
}

/// Plans the location of each source; returns the locations and the size of the mapping in bytes.
pub fn plan(programs: &[&Program], sources: &[&dyn MatrixSource]) -> Result<(Vec<PlannedMatrix>, usize)> {
    plan_each(sources, |i| programs.iter().all(|program| program.is_table(Weight(i as u32))))
}

/// As `plan`; `is_table(i)` returns whether rows are looked up in matrix `i`.
pub fn plan_each(
    sources: &[&dyn MatrixSource],
    is_table: impl Fn(usize) -> bool,
) -> Result<(Vec<PlannedMatrix>, usize)> {
    let mut planned = try_vec("the list of weights", sources.len())?;
    let mut end = 0usize;
    for (i, source) in sources.iter().enumerate() {
        let (matrix, bytes) = plan_matrix(*source, is_table(i))?;
        let start = end;
        let too_large = || Error::OutOfMemory { what: "weights", bytes: u64::MAX };
        end = start.checked_add(bytes).and_then(|n| n.checked_next_multiple_of(ALIGN)).ok_or_else(too_large)?;
        planned.push(PlannedMatrix { matrix, range: start..start + bytes });
    }
    Ok((planned, end))
}

/// Returns the matrix of a source, and its size in the packed mapping in bytes.
fn plan_matrix(source: &dyn MatrixSource, is_table: bool) -> Result<(WeightMatrix, usize)> {
    let (dtype, rows, cols) = (source.dtype(), source.rows(), source.cols());
    let Some(mapped) = source.mapped() else {
        let matrix = match is_table {
            true => WeightMatrix::mapped(dtype, rows, cols)?,
            false => WeightMatrix::packed(dtype, rows, cols)?,
        };
        return Ok((matrix, matrix.bytes()));
    };
    let matrix = WeightMatrix::mapped(dtype, rows, cols)?;
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

/// Returns the staging bytes of a file per packing thread.
pub fn staging(planned: &[PlannedMatrix]) -> usize {
    let packed = planned.iter().filter(|place| !place.range.is_empty());
    packed.map(|p| piece_rows(&p.matrix).min(p.matrix.rows) * p.matrix.row_bytes()).max().unwrap_or(0)
}

/// Matrices of a file, with the packed form and location of each.
#[derive(Clone, Copy)]
pub struct PackPlan<'a> {
    pub isa: Isa,
    pub sources: &'a [&'a dyn MatrixSource],
    pub planned: &'a [PlannedMatrix],
}

/// Reads matrices on all threads, piece by piece, and packs each piece directly into its location. Returns the sum of
/// all digests.
pub fn pack(pool: &Arc<Pool>, plan: PackPlan, mapping: &mut [u8], progress: &mut Progress) -> Result<u64> {
    let total: u64 = plan.planned.iter().map(|place| place.range.len() as u64).sum();
    progress(0, total)?;
    match staging(plan.planned) {
        0 => Ok(0),
        bytes => Workers::with(pool, |workers| pack_on(workers, plan, bytes, mapping, progress)),
    }
}

/// As `pack`, on some threads, each of which holds `staging` bytes of a file.
fn pack_on(
    workers: &Workers,
    plan: PackPlan,
    staging: usize,
    mapping: &mut [u8],
    progress: &mut Progress,
) -> Result<u64> {
    let PackPlan { isa, sources, planned } = plan;
    let all = || sources.iter().zip(planned).enumerate();
    let packed = || all().map(|(i, (source, place))| (i, source, place)).filter(|(.., place)| !place.range.is_empty());
    let total: u64 = packed().map(|(.., place)| place.range.len() as u64).sum();
    let digests = AtomicU64::new(0);
    let mut done = 0;
    let threads = workers.threads();
    let mut staged = try_vec("staging", threads)?;
    for _ in 0..threads {
        staged.push(try_filled("staging", staging, 0u8)?);
    }
    let (staged, mapping) = (DisjointSlice::new(&mut staged), DisjointSlice::new(mapping));

    let mut pieces = packed().flat_map(|(i, source, place)| {
        let rows = piece_rows(&place.matrix);
        let end = place.matrix.rows;
        (0..end).step_by(rows).map(move |from| (i, *source, place, from..end.min(from + rows)))
    });
    let mut wave = try_vec("the list of pieces", PIECES_PER_REPORT * threads)?;
    loop {
        wave.clear();
        wave.extend(pieces.by_ref().take(wave.capacity()));
        if wave.is_empty() {
            return Ok(digests.into_inner());
        }
        let pack = |thread, (i, source, place, rows): &(usize, &dyn MatrixSource, &PlannedMatrix, Range<usize>)| {
            let PlannedMatrix { matrix, range: place } = place;
            // SAFETY: a thread does not begin a piece within another one.
            let staged = &mut unsafe { staged.slice_mut(thread..thread + 1) }[0];
            let raw = &mut staged[..rows.len() * matrix.row_bytes()];
            let range = matrix.range(rows.clone());
            // SAFETY: pieces have different rows, and `plan` gives matrices disjoint locations.
            let out = unsafe { mapping.slice_mut(place.start + range.start..place.start + range.end) };
            source.read(rows.clone(), raw)?;
            digests.fetch_add(digest(*i, rows, raw), Ordering::Relaxed);
            matrix.pack(isa, raw, out);
            Ok(())
        };
        // One call per wave, so that steps on the host's threads can run in between.
        workers.for_each(wave.len(), |thread, i| pack(thread, &wave[i]))?;
        done += wave.iter().map(|(_, _, place, rows)| place.matrix.range(rows.clone()).len() as u64).sum::<u64>();
        progress(done, total)?;
    }
}
