//! Media from the rows of a caller, and the check of all media against the model that they are for.

use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest, Sha256};

use super::media::{Media, MediaHash, MediaKind, MediaLayout, MediaPart};
use super::model::Model;
use super::saved_parts::bytes_of;
use crate::error::{Error, Result, try_vec};

/// A medium for a model; `rows` as `layout` has them.
pub(super) fn make(
    model: &Model,
    kind: MediaKind,
    layout: MediaLayout,
    rows: Vec<f32>,
    hash: MediaHash,
    encoding: Duration,
) -> Result<Arc<Media>> {
    let network = model.network()?;
    let (row_dim, n_rows) = (network.program.media_width(), layout.n_rows());
    if row_dim == 0 {
        return Err(Error::unsupported("rows of media with a network that takes none"));
    }
    if n_rows == 0 || n_rows.checked_mul(row_dim) != Some(rows.len()) {
        return Err(Error::invalid(format!("{} numbers for {n_rows} rows of {row_dim}", rows.len())));
    }
    if let Some(i) = rows.iter().position(|x| !x.is_finite()) {
        return Err(Error::invalid(format!("number {} of row {} is {}", i % row_dim, i / row_dim, rows[i])));
    }
    let (is_mutual, most) = (network.is_mutual && kind == MediaKind::Image, network.limits.max_tokens);
    let is_too_long = |part: &&MediaPart| matches!(part, MediaPart::Rows(n) if *n > most);
    if is_mutual && let Some(MediaPart::Rows(n)) = layout.parts.iter().find(is_too_long) {
        return Err(Error::TooComplex(format!("{n} rows that see each other, a step of the model takes {most}")));
    }
    let bytes = 4 * rows.len() as u64;
    Ok(Arc::new(Media {
        kind,
        layout,
        row_dim,
        is_mutual,
        hash,
        encoding,
        program: network.program.clone(),
        _memory: model.runtime().reserve("a medium", bytes)?,
        rows,
    }))
}

/// A medium of rows that another encoder gave. `columns` and `lines`: as in `MediaLayout`; 0 for both: one line.
pub fn media_from_rows(
    model: &Model,
    kind: MediaKind,
    rows: &[f32],
    row_dim: usize,
    [columns, lines]: [usize; 2],
) -> Result<Arc<Media>> {
    let expected = model.network()?.program.media_width();
    if row_dim != expected {
        return Err(Error::invalid(format!("rows of {row_dim} numbers, the model takes {expected}")));
    }
    let n_rows = rows.len() / row_dim.max(1);
    let [columns, lines] = if [columns, lines] == [0, 0] { [n_rows, 1] } else { [columns, lines] };
    if columns.checked_mul(lines) != Some(n_rows) {
        return Err(Error::invalid(format!("{columns} columns and {lines} lines of {n_rows} rows")));
    }
    let mut hash = Sha256::new();
    hash.update(b"rows");
    for n in [kind as usize, row_dim, columns, lines] {
        hash.update((n as u64).to_le_bytes());
    }
    bytes_of(rows, f32::to_le_bytes, &mut |bytes| {
        hash.update(bytes);
        Ok(())
    })?;
    let mut copy = try_vec("a medium", rows.len())?;
    copy.extend_from_slice(rows);
    let layout = MediaLayout { columns, lines, parts: vec![MediaPart::Rows(n_rows)], ..MediaLayout::default() };
    make(model, kind, layout, copy, hash.finalize().into(), Duration::ZERO)
}
