//! Media from the caller's rows and from source texts, and the validation of all media against their model.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};

use super::item::{Media, MediaHash, MediaKind, MediaLayout, MediaPart};
use crate::engine::cancel::Cancel;
use crate::engine::embed::EmbedParams;
use crate::engine::metrics::Phase;
use crate::engine::model::Model;
use crate::engine::saved::parts::bytes_of;
use crate::error::{Error, Result, try_vec};
use crate::model::pooling::Pooling;

/// Rows that become a media item.
pub(in crate::engine) struct MediaRows {
    pub kind: MediaKind,
    pub layout: MediaLayout,
    /// Rows in the order of `layout`.
    pub rows: Vec<f32>,
    pub hash: MediaHash,
    /// Encoding time.
    pub encoding: Duration,
}

/// Creates a media item for a model.
pub(in crate::engine) fn make(model: &Model, made: MediaRows) -> Result<Arc<Media>> {
    let MediaRows { kind, layout, rows, hash, encoding } = made;
    let network = model.network()?;
    if network.reads_source != (kind == MediaKind::Text) {
        return Err(Error::unsupported(match network.reads_source {
            true => "cannot take a picture or a sound: the network reads a source",
            false => "cannot take a source: the network reads none",
        }));
    }
    let (row_dim, n_rows) = (row_dim(model, kind)?, layout.n_rows());
    if row_dim == 0 || network.text_only_weights && kind == MediaKind::Image {
        return Err(Error::unsupported("cannot take rows of media: the network reads none"));
    }
    if n_rows == 0 || n_rows.checked_mul(row_dim) != Some(rows.len()) {
        return Err(Error::invalid(format!(
            "the rows have {} numbers; they must be {n_rows} rows of {row_dim}",
            rows.len()
        )));
    }
    if let Some(i) = rows.iter().position(|x| !x.is_finite()) {
        return Err(Error::invalid(format!(
            "number {} of row {} is {}; it must be finite",
            i % row_dim,
            i / row_dim,
            rows[i]
        )));
    }
    let (is_mutual, most) = (network.is_mutual && kind == MediaKind::Image, network.limits.max_tokens);
    let is_too_long = |part: &&MediaPart| matches!(part, MediaPart::Rows(n) if *n > most);
    if is_mutual && let Some(MediaPart::Rows(n)) = layout.parts.iter().find(is_too_long) {
        return Err(Error::TooComplex(format!("{n} rows see each other; a step of the model takes {most}")));
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
        _memory: model.runtime().reserve("a media item", bytes)?,
        rows,
    }))
}

/// Number of values of a media row.
pub(in crate::engine) fn row_dim(model: &Model, kind: MediaKind) -> Result<usize> {
    let network = model.network()?;
    Ok(match kind {
        MediaKind::Vector => network.embedder.width(Pooling::Last),
        _ => network.program.media_width(),
    })
}

/// Returns a media item of rows from another encoder. `columns` and `lines`: as in `MediaLayout`; both 0: one line.
pub fn media_from_rows(
    model: &Model,
    kind: MediaKind,
    rows: &[f32],
    row_dim: usize,
    [columns, lines]: [usize; 2],
) -> Result<Arc<Media>> {
    let expected = model.network()?.program.media_width();
    if row_dim != expected {
        return Err(Error::invalid(format!("rows have {row_dim} numbers; the model takes {expected}")));
    }
    let n_rows = rows.len() / row_dim.max(1);
    let [columns, lines] = if [columns, lines] == [0, 0] { [n_rows, 1] } else { [columns, lines] };
    if columns.checked_mul(lines) != Some(n_rows) {
        return Err(Error::invalid(format!("the grid is {columns} x {lines}; it must have {n_rows} rows")));
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
    let mut copy = try_vec("a media item", rows.len())?;
    copy.extend_from_slice(rows);
    let layout = MediaLayout { columns, lines, parts: vec![MediaPart::Rows(n_rows)], ..MediaLayout::default() };
    make(model, MediaRows { kind, layout, rows: copy, hash: hash.finalize().into(), encoding: Duration::ZERO })
}

/// Returns a source for a decoder: the encoder's output for `tokens`, followed by the decoder's start token.
pub fn media_from_tokens(model: &Model, tokens: &[u32], cancel: Option<&Cancel>) -> Result<Arc<Media>> {
    let network = model.network()?;
    let architecture = &model.info().architecture;
    if !network.reads_source {
        return Err(Error::unsupported(format!("cannot take a source: the network of {architecture:?} reads none")));
    }
    let started = Instant::now();
    let params = EmbedParams { pooling: Some(Pooling::None), raw: true };
    let rows = model.embed(&[tokens], params, cancel)?;
    let encoding = started.elapsed();
    model.metrics().record_phase(Phase::Encode, encoding);
    let mut hash = Sha256::new();
    hash.update(format!("source {:016x} {}", model.fingerprint()?, tokens.len()));
    bytes_of(tokens, u32::to_le_bytes, &mut |bytes| {
        hash.update(bytes);
        Ok(())
    })?;
    let start = model.metadata().i64(&format!("{architecture}.decoder_start_token_id"))?.unwrap_or(0);
    let parts = vec![MediaPart::Rows(tokens.len()), MediaPart::Token(u32::try_from(start).unwrap_or(0))];
    let layout = MediaLayout { columns: tokens.len(), lines: 1, parts, ..MediaLayout::default() };
    make(model, MediaRows { kind: MediaKind::Text, layout, rows, hash: hash.finalize().into(), encoding })
}
