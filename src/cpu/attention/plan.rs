//! The division of attention: tokens into spans of one sequence and tiles of spans that read the same memory, positions
//! into chunks and segments with fixed boundaries.

use std::cmp::Ordering;
use std::ops::Range;

use crate::cpu::kernels::attention::CHUNK;
use crate::cpu::matmul::plan::OpChunk;
use crate::graph::op::Mask;

/// Maximum number of query rows of a tile: whole register blocks, and scratch that fits in the L2 cache together with a
/// chunk of keys and values.
pub(super) const TILE_ROWS: usize = 96;

/// Smallest number of query rows for which products, not reading keys and values, dominate the time of a shared chunk.
const ENOUGH_ROWS: usize = 24;

/// Number of chunks in a segment: large enough for long sequential reads of keys and values, small enough that threads
/// can divide a context of some hundred tokens.
pub(super) const SEGMENT: usize = 2;

/// Number of query-key products below which one thread is done before another has started.
pub(super) const SMALL: usize = 32 * 1024;

/// The heads of a layer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Heads {
    pub queries: usize,
    pub kv: usize,
    /// Width of a query and of a key.
    pub dim: usize,
    /// Width of a value.
    pub value_dim: usize,
    /// True if values are the first numbers of their keys.
    pub is_latent: bool,
}

impl Heads {
    /// Returns heads whose keys and values have the same width.
    pub const fn new(queries: usize, kv: usize, dim: usize) -> Heads {
        Heads { queries, kv, dim, value_dim: dim, is_latent: false }
    }

    /// Returns the query heads that read KV head `kv`: query head i reads `i * kv / queries`.
    pub fn sharing(self, kv: usize) -> Range<usize> {
        (kv * self.queries).div_ceil(self.kv)..((kv + 1) * self.queries).div_ceil(self.kv)
    }

    /// Returns the largest number of query heads per KV head.
    pub(super) fn most_sharing(self) -> usize {
        self.queries.div_ceil(self.kv)
    }
}

/// The rules by which queries score keys: see `op::Attend`.
#[derive(Clone, Copy, Debug)]
pub struct Scoring<'a> {
    pub scale: f32,
    pub softcap: f32,
    pub mask: Mask,
    pub slopes: Option<&'a [f32]>,
    pub distances: Option<&'a [f32]>,
    pub sinks: Option<&'a [f32]>,
    /// `[n, top]`
    pub among: Option<&'a [f32]>,
    /// `[n]`, or empty.
    pub spans: &'a [[u32; 2]],
    /// Number of positions that share a key.
    pub pool: usize,
    /// True if the pass continues from the results and sums of another layer.
    pub continues: bool,
}

impl Scoring<'_> {
    /// Scores all earlier keys by their products with the query, times `scale`.
    pub fn new(scale: f32) -> Self {
        let (slopes, distances, sinks, among) = (None, None, None, None);
        let (pool, continues, mask) = (1, false, Mask::Causal);
        Scoring { scale, softcap: 0.0, mask, slopes, distances, sinks, among, spans: &[], pool, continues }
    }
}

/// Consecutive tokens of one sequence.
#[derive(Clone, Debug)]
pub(super) struct Span {
    pub tokens: Range<usize>,
    pub sequence: u32,
    /// Number of positions of the sequence, including this step's.
    pub len: usize,
    /// Positions that any of the tokens sees.
    pub sees: Range<usize>,
}

/// Spans that are computed together. Spans of several sequences must share the memory of the first chunk that they see.
#[derive(Clone, Debug)]
pub(super) struct QueryTile {
    pub spans: Range<usize>,
    /// Number of tokens.
    pub tokens: usize,
    /// Positions that any of the tokens sees.
    pub sees: Range<usize>,
}

/// A segment of positions of one KV head, for the queries of a tile.
#[derive(Clone, Copy, Debug)]
pub(super) struct SegmentTask {
    pub tile: usize,
    pub kv: usize,
    pub segment: usize,
}

/// Number of products in a short chunk of attention, per thread.
const OP_CHUNK_PRODUCTS: usize = 4 << 20;

/// Progress of an attention: the number of parts that are done.
#[derive(Default)]
pub struct AttendCursor {
    pub done: usize,
    /// Length of the chunk that a call computes.
    pub op_chunk: OpChunk,
}

impl AttendCursor {
    /// Takes the next of `parts` parts of similar length.
    pub(super) fn take(&mut self, parts: usize, products: usize, threads: usize) -> Range<usize> {
        let each = products / parts.max(1) + 1;
        let taken = threads.saturating_mul((self.op_chunk.of(OP_CHUNK_PRODUCTS) / each).max(1));
        let start = self.done;
        self.done = parts.min(start.saturating_add(taken));
        start..self.done
    }

    /// Resets the cursor to the first part if `all` parts are done; returns `all`.
    pub(super) fn ends(&mut self, all: bool) -> bool {
        if all {
            self.done = 0;
        }
        all
    }
}

/// Divides the tokens into spans, and spans into tiles, at least two parts per thread if there is enough work. `memory`
/// is as in `KvSource::memory`.
pub(super) fn divide(
    heads: Heads,
    scoring: &Scoring,
    positions: &[u32],
    sequences: &[u32],
    memory: &impl Fn(u32, usize) -> usize,
    threads: usize,
    spans: &mut Vec<Span>,
    tiles: &mut Vec<QueryTile>,
) {
    let most = (TILE_ROWS / heads.most_sharing()).max(1);
    spans.clear();
    let mut t = 0;
    for tokens in sequences.chunk_by(|a, b| a == b) {
        let (first, sequence) = (t, tokens[0]);
        let len = keys_of(positions[first + tokens.len() - 1], scoring.pool);
        while t < first + tokens.len() {
            let tokens = t..first + tokens.len().min(t - first + most);
            let all = tokens.clone().map(|t| visible(scoring, t, positions[t], len));
            let sees = all.reduce(union).unwrap_or_default();
            t = tokens.end;
            spans.push(Span { tokens, sequence, len, sees });
        }
    }
    // Sequences with a common prefix become neighbors, ordered by the length of the prefix.
    spans.sort_unstable_by(|a, b| by_memory(memory, a, b));

    let longest = spans.iter().map(|span| segments(&span.sees).len()).max().unwrap_or(1);
    let tokens_of = |parts: usize| positions.len() / (2 * threads).div_ceil(parts.max(1)).max(1);
    let by_segment = tokens_of(heads.kv * longest).min(ENOUGH_ROWS.div_ceil(heads.most_sharing()));
    let together = tokens_of(heads.kv).max(by_segment).min(most);
    tiles.clear();
    for (i, span) in spans.iter().enumerate() {
        if let Some(tile) = tiles.last_mut()
            && tile.tokens + span.tokens.len() <= together
            && shares_first(memory, &spans[i - 1], span)
        {
            tile.spans.end = i + 1;
            tile.tokens += span.tokens.len();
            tile.sees = union(tile.sees.clone(), span.sees.clone());
            continue;
        }
        tiles.push(QueryTile { spans: i..i + 1, tokens: span.tokens.len(), sees: span.sees.clone() });
    }
}

/// Returns the range from the first to the last position of two.
fn union(a: Range<usize>, b: Range<usize>) -> Range<usize> {
    a.start.min(b.start)..a.end.max(b.end)
}

/// Compares the memory of two spans chunk by chunk, from the first that each sees.
fn by_memory(memory: &impl Fn(u32, usize) -> usize, a: &Span, b: &Span) -> Ordering {
    let of_chunks = |span: &Span| {
        let sequence = span.sequence;
        chunks(&span.sees).map(move |chunk| memory(sequence, chunk))
    };
    let of_sequences = match a.sequence == b.sequence {
        true => Ordering::Equal,
        false => chunks(&a.sees).start.cmp(&chunks(&b.sees).start).then_with(|| of_chunks(a).cmp(of_chunks(b))),
    };
    of_sequences.then(a.tokens.start.cmp(&b.tokens.start))
}

/// True if two spans begin with the same memory.
fn shares_first(memory: &impl Fn(u32, usize) -> usize, a: &Span, b: &Span) -> bool {
    let first = chunks(&a.sees).start;
    first == chunks(&b.sees).start && memory(a.sequence, first) == memory(b.sequence, first)
}

/// Returns the number of keys up to a position, `pool` of which share one.
pub(super) fn keys_of(position: u32, pool: usize) -> usize {
    (position as usize + 1) / pool
}

/// Returns the keys of `len` that are visible to token `t` of the step, at `position`.
pub(super) fn visible(scoring: &Scoring, t: usize, position: u32, len: usize) -> Range<usize> {
    let end = keys_of(position, scoring.pool);
    let span =
        scoring.spans.get(t).map_or(0..0, |[from, to]| *from as usize / scoring.pool..*to as usize / scoring.pool);
    match scoring.mask {
        Mask::Causal => 0..end.max(span.end),
        Mask::Source if !span.is_empty() => span,
        Mask::Past | Mask::Source => 0..end,
        Mask::AfterSpan => span.end.min(position as usize)..end,
        Mask::Window(n) => end.saturating_sub(n as usize)..end.max(span.end),
        Mask::Spans if !span.is_empty() => span,
        Mask::Chunk(n) => (position / n * n) as usize..end,
        Mask::All | Mask::Spans => 0..len,
        Mask::Around(n) => end.saturating_sub(n as usize + 1)..len.min(end + n as usize),
    }
}

/// Returns a bit mask of the selected positions among the 256 positions from `from` on. `chosen` is in ascending order,
/// padded with -1.
pub(super) fn bits(chosen: &[f32], from: usize) -> [u64; CHUNK / 64] {
    let mut bits = [0; CHUNK / 64];
    let chosen = &chosen[..chosen.partition_point(|position| *position >= 0.0)];
    let first = chosen.partition_point(|position| (*position as usize) < from);
    for i in chosen[first..].iter().map(|position| *position as usize - from).take_while(|i| *i < CHUNK) {
        bits[i / 64] |= 1 << (i % 64);
    }
    bits
}

/// Returns the indices of the chunks that hold some positions.
pub(super) fn chunks(sees: &Range<usize>) -> Range<usize> {
    sees.start / CHUNK..sees.end.div_ceil(CHUNK)
}

/// Returns the indices of the segments that hold some positions.
pub(super) fn segments(sees: &Range<usize>) -> Range<usize> {
    sees.start / (CHUNK * SEGMENT)..sees.end.div_ceil(CHUNK * SEGMENT)
}
