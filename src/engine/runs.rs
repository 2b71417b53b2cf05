//! The rows of media in a text, in runs of places; the place of a token is its index in the text. *Invariant:* runs are
//! in order and apart, and the tokens at their places are `MEDIA_ROW`.

use std::ops::Range;
use std::sync::Arc;

use super::media::medium::{Media, MediaKind};
use crate::error::{Error, Result, try_vec};
use crate::graph::step::MEDIA_ROW;

/// Tokens of a step that ends with a medium although further tokens follow, unless it is the last medium of the step:
/// steps of fewer tokens cost more time than their checkpoints save.
const LEAST: usize = 64;

/// Rows of a medium that follow one another.
#[derive(Clone)]
pub struct Run {
    pub media: Arc<Media>,
    /// Number of its first row in the medium.
    pub first: usize,
    pub place: usize,
    pub len: usize,
}

impl Run {
    fn end(&self) -> usize {
        self.place + self.len
    }

    /// True where `other` has the same rows at the places that both have.
    fn agrees(&self, other: &Run) -> bool {
        self.media.hash == other.media.hash && self.first + other.place == other.first + self.place
    }

    /// Time, row and column of the row at a place, where the run has position `at`.
    fn turn(&self, at: u32, place: usize) -> [u32; 3] {
        let i = self.first + place - self.place;
        match self.media.kind {
            MediaKind::Image | MediaKind::Video => {
                let (columns, of_pair) = (self.media.layout.columns.max(1), self.media.rows_of_pair());
                let (time, i) = (self.media.layout.times.get(i / of_pair).copied().unwrap_or(0), i % of_pair);
                [time, (i / columns) as u32, (i % columns) as u32].map(|turn| at.saturating_add(turn))
            }
            MediaKind::Audio | MediaKind::Text | MediaKind::Vector => [at + (place - self.place) as u32; 3],
        }
    }

    /// Number of positions that it takes.
    fn positions(&self) -> usize {
        let (columns, of_pair) = (self.media.layout.columns.max(1), self.media.rows_of_pair());
        match self.media.kind {
            MediaKind::Image | MediaKind::Video => {
                let last = (self.first + self.len).saturating_sub(1);
                let time = self.media.layout.times.get(last / of_pair).map_or(1, |time| *time as usize + 1);
                // Each pair ahead of the last one has all its lines.
                let is_whole = last / of_pair > self.first / of_pair;
                let lines = if is_whole { self.media.layout.lines } else { (last % of_pair + 1).div_ceil(columns) };
                columns.max(lines).max(time)
            }
            MediaKind::Audio | MediaKind::Text | MediaKind::Vector => self.len,
        }
    }
}

#[derive(Default)]
pub struct Runs(Vec<Run>);

/// The runs of a text without media.
pub static NO_RUNS: Runs = Runs(Vec::new());

impl Runs {
    /// `runs` in order and apart.
    pub fn new(runs: Vec<Run>) -> Runs {
        Runs(runs)
    }

    /// The rows of the first places.
    pub fn copy(&self, places: usize) -> Result<Runs> {
        let mut copy = Runs::default();
        copy.append(self, 0, 0)?;
        copy.truncate(places);
        Ok(copy)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Run> {
        self.0.iter()
    }

    /// The place of the first row; `usize::MAX` without any.
    pub fn begin(&self) -> usize {
        self.0.first().map_or(usize::MAX, |run| run.place)
    }

    /// The place behind the last row.
    pub fn end(&self) -> usize {
        self.0.last().map_or(0, Run::end)
    }

    /// The positions that follow the media before a position, in order.
    fn ends_before(&self, place: usize) -> impl DoubleEndedIterator<Item = usize> {
        let is_last = |i: usize| self.0.get(i + 1).is_none_or(|next| next.first == 0);
        let runs = &self.0[..self.0.partition_point(|run| run.place < place)];
        let ends = runs.iter().enumerate().filter(move |(i, _)| is_last(*i)).map(|(_, run)| run.end());
        ends.filter(move |end| *end < place)
    }

    /// The position that follows the last medium before a position.
    pub fn last_end(&self, place: usize) -> Option<usize> {
        self.ends_before(place).next_back()
    }

    /// Number of the next `n` tokens from a place on, up to the end of a medium if one ends among them.
    pub fn up_to_media(&self, place: usize, n: usize) -> usize {
        let mut ends = self.ends_before(place + n).filter(|end| *end > place).map(|end| end - place).peekable();
        while let Some(len) = ends.next() {
            if len >= LEAST || ends.peek().is_none() {
                return len;
            }
        }
        n
    }

    /// The run that has a place.
    fn at(&self, place: usize) -> Option<&Run> {
        let run = self.0[..self.0.partition_point(|run| run.place <= place)].last();
        run.filter(|run| place < run.end())
    }

    /// Forgets rows from a place on.
    pub fn truncate(&mut self, place: usize) {
        self.0.truncate(self.0.partition_point(|run| run.place < place));
        if let Some(last) = self.0.last_mut() {
            last.len = last.len.min(place - last.place);
        }
    }

    /// Forgets some places; rows behind them move up.
    pub fn remove(&mut self, places: Range<usize>) -> Result<()> {
        let mut behind = Runs::default();
        behind.append(self, places.end, places.start)?;
        self.truncate(places.start);
        self.append(&behind, places.start, places.start)
    }

    /// Appends what `other` has from place `from` on, which comes to be at `place`.
    pub fn append(&mut self, other: &Runs, from: usize, place: usize) -> Result<()> {
        let out_of_memory = |_| Error::OutOfMemory { what: "runs of media", bytes: 0 };
        self.0.try_reserve(other.0.len()).map_err(out_of_memory)?;
        for run in other.0.iter().filter(|run| run.end() > from) {
            let skipped = from.saturating_sub(run.place);
            let (first, at, len) = (run.first + skipped, run.place + skipped - from + place, run.len - skipped);
            match self.0.last_mut() {
                // The rest of a picture whose beginning is there.
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

    /// The source that all tokens behind it look at.
    pub fn source(&self) -> Option<&Run> {
        self.0.first().filter(|run| run.media.kind == MediaKind::Text)
    }

    /// The last place up to `place` that is not between rows which a text has all or none of: those that see each
    /// other, and those of a source.
    pub fn whole(&self, place: usize) -> usize {
        self.outside(place, |media| media.is_mutual || media.kind == MediaKind::Text)
    }

    /// The last place up to `place` that is not within some media.
    fn outside(&self, place: usize, within: impl Fn(&Media) -> bool) -> usize {
        let run = place.checked_sub(1).and_then(|before| self.at(before));
        run.filter(|run| within(&run.media) && place < run.end()).map_or(place, |run| run.place)
    }

    /// Refuses a place between rows which a text has all or none of.
    pub fn check_cut(&self, place: usize) -> Result<()> {
        let whole = self.whole(place);
        if whole == place {
            return Ok(());
        }
        let what = if self.source().is_some() { "a source" } else { "a picture" };
        Err(Error::invalid(format!("place {place} is within {what} that begins at {whole}")))
    }

    /// Number of the next `n` tokens from a place on that a step takes: `room` at most, but whole pictures whose rows
    /// see each other. 0 where such a picture has no room. Rows of a source are in steps of their own.
    pub fn fit(&self, place: usize, n: usize, room: usize) -> usize {
        let source = self.source().map_or(0, |run| run.end().saturating_sub(place));
        let n = if source > 0 { n.min(source) } else { n };
        self.outside(place + n.min(room), |media| media.is_mutual).saturating_sub(place)
    }

    /// Number of rows from a place on that one step has to take.
    pub fn due(&self, place: usize) -> usize {
        self.at(place).filter(|run| run.media.is_mutual).map_or(0, |run| run.end() - place)
    }

    /// True where tokens at some places have spans.
    pub fn has_spans(&self, places: Range<usize>) -> bool {
        self.source().is_some() || self.within(places).any(|(run, _)| run.media.is_mutual)
    }

    /// `fit`, or what is due where that has no room.
    pub fn piece(&self, place: usize, n: usize, room: usize) -> usize {
        match self.fit(place, n, room) {
            0 => self.due(place).min(n),
            fitting => fitting,
        }
    }

    /// The runs that have some of the places, each with its rows there.
    pub fn within(&self, places: Range<usize>) -> impl Iterator<Item = (&Run, Range<usize>)> {
        let runs = self.0.iter().skip_while(move |run| run.end() <= places.start);
        runs.take_while(move |run| run.place < places.end).map(move |run| {
            let [from, to] =
                [places.start.max(run.place), places.end.min(run.end())].map(|at| run.first + at - run.place);
            (run, from..to)
        })
    }

    /// Appends time, row and column of each of some places, for networks that turn by them: a picture takes as many
    /// positions as its longer side has rows.
    pub fn turns(&self, places: Range<usize>, out: &mut Vec<[u32; 3]>) {
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
            out.extend(seen.map(|place| run.turn(at as u32, place)));
            (next, at) = (run.end(), at + run.positions());
        }
        text(next, usize::MAX, at, out);
    }

    /// Appends the span of each of some places: that of the rows which see each other, or that of the source for those
    /// behind it.
    pub fn spans(&self, places: Range<usize>, out: &mut Vec<[u32; 2]>) {
        let source = self.source();
        let run = |place| match source {
            Some(source) => Some(source).filter(|source| source.end() <= place),
            None => self.at(place).filter(|run| run.media.is_mutual),
        };
        out.extend(places.map(|place| run(place).map_or([0; 2], |run| [run.place as u32, run.end() as u32])));
    }
}

/// Tokens with the media whose rows are among them.
#[derive(Clone, Copy)]
pub struct Text<'a> {
    pub tokens: &'a [u32],
    pub runs: &'a Runs,
    /// The place of the first token in `runs`.
    pub from: usize,
}

impl<'a> Text<'a> {
    /// Tokens without media.
    pub fn plain(tokens: &'a [u32]) -> Text<'a> {
        Text { tokens, runs: &NO_RUNS, from: 0 }
    }

    /// Its first `n` tokens.
    pub fn first(self, n: usize) -> Text<'a> {
        self.part(0..n)
    }

    /// Some of its tokens.
    pub fn part(self, tokens: Range<usize>) -> Text<'a> {
        Text { from: self.from + tokens.start, tokens: &self.tokens[tokens], ..self }
    }

    /// Numbers that are the same for texts in common, a token's being its id. Those of rows of different media may be
    /// the same by chance, so that `common` decides.
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

    /// Number of the first tokens that two whole texts have in common.
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
