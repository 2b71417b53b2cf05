//! The media rows of a text, as runs of consecutive places (indices of tokens). *Invariant:* runs are in order and
//! disjoint, and the tokens at their places are `MEDIA_ROW`.

use std::ops::Range;
use std::sync::Arc;

use super::media::item::{Media, MediaKind};
use crate::error::{Error, Result, try_vec};
use crate::graph::step::MEDIA_ROW;

/// Minimum number of tokens in a step that ends after a media item, unless no other media item ends in the step.
/// Shorter steps cost more than their checkpoints save.
const LEAST: usize = 64;

/// Consecutive rows of a media item.
#[derive(Clone)]
pub struct Run {
    pub media: Arc<Media>,
    /// Index of the run's first row in the media item.
    pub first: usize,
    pub place: usize,
    pub len: usize,
}

impl Run {
    fn end(&self) -> usize {
        self.place + self.len
    }

    /// True if both runs have the same rows at the places that both contain.
    fn agrees(&self, other: &Run) -> bool {
        self.media.hash == other.media.hash && self.first + other.place == other.first + self.place
    }

    /// Returns the M-RoPE position (time, row, column) of the row at `place`, if the run begins at position `at`.
    fn rope_position(&self, at: u32, place: usize) -> [u32; 3] {
        let i = self.first + place - self.place;
        match self.media.kind {
            MediaKind::Image | MediaKind::Video => {
                let (columns, of_pair) = (self.media.layout.columns.max(1), self.media.rows_of_pair());
                let (time, i) = (self.media.layout.times.get(i / of_pair).copied().unwrap_or(0), i % of_pair);
                [time, (i / columns) as u32, (i % columns) as u32].map(|offset| at.saturating_add(offset))
            }
            MediaKind::Audio | MediaKind::Text | MediaKind::Vector => [at + (place - self.place) as u32; 3],
        }
    }

    /// Returns the number of positions of the run.
    fn positions(&self) -> usize {
        let (columns, of_pair) = (self.media.layout.columns.max(1), self.media.rows_of_pair());
        match self.media.kind {
            MediaKind::Image | MediaKind::Video => {
                let last = (self.first + self.len).saturating_sub(1);
                let time = self.media.layout.times.get(last / of_pair).map_or(1, |time| *time as usize + 1);
                // Each frame pair before the last one has all its lines.
                let is_whole = last / of_pair > self.first / of_pair;
                let lines = if is_whole { self.media.layout.lines } else { (last % of_pair + 1).div_ceil(columns) };
                columns.max(lines).max(time)
            }
            MediaKind::Audio | MediaKind::Text | MediaKind::Vector => self.len,
        }
    }
}

#[derive(Default)]
pub struct MediaRuns(Vec<Run>);

/// The runs of a text without media.
pub static NO_RUNS: MediaRuns = MediaRuns(Vec::new());

impl MediaRuns {
    /// `runs` must be in order and disjoint.
    pub fn new(runs: Vec<Run>) -> MediaRuns {
        MediaRuns(runs)
    }

    /// Copies the rows of the first `places` places.
    pub fn copy(&self, places: usize) -> Result<MediaRuns> {
        let mut copy = MediaRuns::default();
        copy.append(self, 0, 0)?;
        copy.truncate(places);
        Ok(copy)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Run> {
        self.0.iter()
    }

    /// Returns the place of the first row; `usize::MAX` without media.
    pub fn begin(&self) -> usize {
        self.0.first().map_or(usize::MAX, |run| run.place)
    }

    /// Returns the place after the last row.
    pub fn end(&self) -> usize {
        self.0.last().map_or(0, Run::end)
    }

    /// Returns the places after each media item that ends before `place`, in order.
    fn ends_before(&self, place: usize) -> impl DoubleEndedIterator<Item = usize> {
        let is_last = |i: usize| self.0.get(i + 1).is_none_or(|next| next.first == 0);
        let runs = &self.0[..self.0.partition_point(|run| run.place < place)];
        let ends = runs.iter().enumerate().filter(move |(i, _)| is_last(*i)).map(|(_, run)| run.end());
        ends.filter(move |end| *end < place)
    }

    /// Returns the place after the last media item that ends before `place`.
    pub fn last_end(&self, place: usize) -> Option<usize> {
        self.ends_before(place).next_back()
    }

    /// Returns the number of tokens, at most `n`, from `place` up to the end of a media item if one ends among them.
    pub fn up_to_media(&self, place: usize, n: usize) -> usize {
        let mut ends = self.ends_before(place + n).filter(|end| *end > place).map(|end| end - place).peekable();
        while let Some(len) = ends.next() {
            if len >= LEAST || ends.peek().is_none() {
                return len;
            }
        }
        n
    }

    /// Returns the run that contains a place.
    fn at(&self, place: usize) -> Option<&Run> {
        let run = self.0[..self.0.partition_point(|run| run.place <= place)].last();
        run.filter(|run| place < run.end())
    }

    /// Removes rows from `place` on.
    pub fn truncate(&mut self, place: usize) {
        self.0.truncate(self.0.partition_point(|run| run.place < place));
        if let Some(last) = self.0.last_mut() {
            last.len = last.len.min(place - last.place);
        }
    }

    /// Removes some places; later rows move up.
    pub fn remove(&mut self, places: Range<usize>) -> Result<()> {
        let mut after = MediaRuns::default();
        after.append(self, places.end, places.start)?;
        self.truncate(places.start);
        self.append(&after, places.start, places.start)
    }

    /// Appends the rows of `other` from place `from` on, moved to `place`.
    pub fn append(&mut self, other: &MediaRuns, from: usize, place: usize) -> Result<()> {
        let out_of_memory = |_| Error::OutOfMemory { what: "runs of media", bytes: 0 };
        self.0.try_reserve(other.0.len()).map_err(out_of_memory)?;
        for run in other.0.iter().filter(|run| run.end() > from) {
            let skipped = from.saturating_sub(run.place);
            let (first, at, len) = (run.first + skipped, run.place + skipped - from + place, run.len - skipped);
            match self.0.last_mut() {
                // The rest of an image whose beginning is the last run.
                Some(last)
                    if last.end() == at
                        && last.first + last.len == first
                        && last.media.hash == run.media.hash
                        && !run.media.begins_run(first) =>
                {
                    last.len += len;
                }
                _ => self.0.push(Run { media: run.media.clone(), first, place: at, len }),
            }
        }
        Ok(())
    }

    /// Returns the encoder output that all later tokens attend to.
    pub fn source(&self) -> Option<&Run> {
        self.0.first().filter(|run| run.media.kind == MediaKind::Text)
    }

    /// Returns the last place up to `place` outside indivisible media: images with bidirectional attention, and
    /// sources.
    pub fn whole(&self, place: usize) -> usize {
        self.outside(place, |media| media.is_mutual || media.kind == MediaKind::Text)
    }

    /// Returns the last place up to `place` outside media that satisfy `within`.
    fn outside(&self, place: usize, within: impl Fn(&Media) -> bool) -> usize {
        let run = place.checked_sub(1).and_then(|before| self.at(before));
        run.filter(|run| within(&run.media) && place < run.end()).map_or(place, |run| run.place)
    }

    /// Fails if `place` is inside indivisible media.
    pub fn check_cut(&self, place: usize) -> Result<()> {
        let whole = self.whole(place);
        if whole == place {
            return Ok(());
        }
        let what = if self.source().is_some() { "a source" } else { "a picture" };
        Err(Error::invalid(format!("place {place} is within {what} that begins at {whole}")))
    }

    /// Returns the number of tokens of a step, out of the next `n`: at most `room`, without splitting images with
    /// bidirectional attention. 0 if such an image does not fit. Source rows have steps of their own.
    pub fn fit(&self, place: usize, n: usize, room: usize) -> usize {
        let source = self.source().map_or(0, |run| run.end().saturating_sub(place));
        let n = if source > 0 { n.min(source) } else { n };
        self.outside(place + n.min(room), |media| media.is_mutual).saturating_sub(place)
    }

    /// Returns the number of rows from `place` on that must be in one step.
    pub fn due(&self, place: usize) -> usize {
        self.at(place).filter(|run| run.media.is_mutual).map_or(0, |run| run.end() - place)
    }

    /// True if tokens at these places have attention spans.
    pub fn has_spans(&self, places: Range<usize>) -> bool {
        self.source().is_some() || self.within(places).any(|(run, _)| run.media.is_mutual)
    }

    /// `fit`, or `due` if nothing fits.
    pub fn piece(&self, place: usize, n: usize, room: usize) -> usize {
        match self.fit(place, n, room) {
            0 => self.due(place).min(n),
            fitting => fitting,
        }
    }

    /// Returns the runs that overlap the places, with their rows there.
    pub fn within(&self, places: Range<usize>) -> impl Iterator<Item = (&Run, Range<usize>)> {
        let runs = self.0.iter().skip_while(move |run| run.end() <= places.start);
        runs.take_while(move |run| run.place < places.end).map(move |run| {
            let [from, to] =
                [places.start.max(run.place), places.end.min(run.end())].map(|at| run.first + at - run.place);
            (run, from..to)
        })
    }

    /// Appends the M-RoPE positions (time, row, column) of some places. An image takes as many positions as its longer
    /// side has rows.
    pub fn rope_positions(&self, places: Range<usize>, out: &mut Vec<[u32; 3]>) {
        // The next place, and its position.
        let (mut next, mut at) = (0, 0);
        let text = |from: usize, to: usize, at: usize, out: &mut Vec<[u32; 3]>| {
            let seen = from.max(places.start)..to.min(places.end);
            out.extend(seen.map(|place| [(at + place - from) as u32; 3]));
        };
        for run in &self.0 {
            text(next, run.place, at, out);
            at += run.place - next;
            let seen = run.place.max(places.start)..run.end().min(places.end);
            out.extend(seen.map(|place| run.rope_position(at as u32, place)));
            (next, at) = (run.end(), at + run.positions());
        }
        text(next, usize::MAX, at, out);
    }

    /// Appends the attention span of each place: its image's rows for bidirectional attention, or the source's rows for
    /// later tokens.
    pub fn spans(&self, places: Range<usize>, out: &mut Vec<[u32; 2]>) {
        let source = self.source();
        let run = |place| match source {
            Some(source) => Some(source).filter(|source| source.end() <= place),
            None => self.at(place).filter(|run| run.media.is_mutual),
        };
        out.extend(places.map(|place| run(place).map_or([0; 2], |run| [run.place as u32, run.end() as u32])));
    }
}

/// Tokens with their media.
#[derive(Clone, Copy)]
pub struct Text<'a> {
    pub tokens: &'a [u32],
    pub runs: &'a MediaRuns,
    /// The place of the first token in `runs`.
    pub from: usize,
}

impl<'a> Text<'a> {
    /// Returns tokens without media.
    pub fn plain(tokens: &'a [u32]) -> Text<'a> {
        Text { tokens, runs: &NO_RUNS, from: 0 }
    }

    /// Returns the first `n` tokens.
    pub fn first(self, n: usize) -> Text<'a> {
        self.part(0..n)
    }

    /// Returns a range of the tokens.
    pub fn part(self, tokens: Range<usize>) -> Text<'a> {
        Text { from: self.from + tokens.start, tokens: &self.tokens[tokens], ..self }
    }

    /// Returns one key per token; equal texts have equal keys. The key of a token of the vocabulary is its id. Keys of
    /// different media may collide, so `common` must confirm a match.
    pub fn keys(self) -> Result<Vec<u64>> {
        let key = |(i, id): (usize, &u32)| match self.runs.at(self.from + i).filter(|_| *id == MEDIA_ROW) {
            None => u64::from(*id),
            Some(run) => {
                let digest = run.media.hash.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
                1 << 63 | digest.wrapping_add((run.first + self.from + i - run.place) as u64)
            }
        };
        let mut keys = try_vec("the tokens of a prefix", self.tokens.len())?;
        keys.extend(self.tokens.iter().enumerate().map(key));
        Ok(keys)
    }

    /// Returns the length of the common prefix of two whole texts.
    pub fn common(self, other: Text) -> usize {
        let same = self.tokens.iter().zip(other.tokens).take_while(|(a, b)| a == b).count();
        let mut place = 0;
        while let Some(row) = self.tokens[place..same].iter().position(|id| *id == MEDIA_ROW) {
            place += row;
            match (self.runs.at(place), other.runs.at(place)) {
                (Some(a), Some(b)) if a.agrees(b) => place = a.end().min(b.end()).min(same),
                _ => return place,
            }
        }
        same
    }
}
