//! A reader of a file in memory that regularly checks whether to stop.

use std::io::{BufRead, Error, Read, Result, Seek, SeekFrom};

use super::picture::Stops;

/// Bytes between two checks.
const STRIDE: usize = 4096;

/// A reader that fails as soon as `stops` returns true.
pub struct Watched<'a> {
    file: &'a [u8],
    stops: Stops<'a>,
    /// The position of the next byte; next, the position of the next check.
    at: usize,
    look: usize,
}

impl<'a> Watched<'a> {
    pub fn new(file: &'a [u8], stops: Stops<'a>) -> Watched<'a> {
        Watched { file, stops, at: 0, look: 0 }
    }
}

impl Read for Watched<'_> {
    fn read(&mut self, out: &mut [u8]) -> Result<usize> {
        let n = self.fill_buf()?.read(out)?;
        self.at += n;
        Ok(n)
    }
}

impl BufRead for Watched<'_> {
    #[inline]
    fn fill_buf(&mut self) -> Result<&[u8]> {
        if self.at >= self.look {
            if (self.stops)() {
                return Err(Error::other("the work has been stopped"));
            }
            self.look = self.at + STRIDE;
        }
        // Never returns more than up to the next check, so that a caller cannot read everything without a check.
        let rest = self.file.get(self.at..).unwrap_or_default();
        Ok(&rest[..rest.len().min(STRIDE)])
    }

    fn consume(&mut self, n: usize) {
        self.at += n;
    }
}

impl Seek for Watched<'_> {
    fn seek(&mut self, to: SeekFrom) -> Result<u64> {
        let place = match to {
            SeekFrom::Start(place) => usize::try_from(place).ok(),
            SeekFrom::End(by) => isize::try_from(by).ok().and_then(|by| self.file.len().checked_add_signed(by)),
            SeekFrom::Current(by) => isize::try_from(by).ok().and_then(|by| self.at.checked_add_signed(by)),
        };
        self.at = place.ok_or_else(|| Error::other("the place is before the beginning of the file"))?;
        Ok(self.at as u64)
    }
}
