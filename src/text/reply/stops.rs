//! Strings that end a text, found while it comes. Relies on nothing.

use crate::error::{Error, Result, try_vec};

/// Some strings, the first of which ends a text that comes piece by piece.
#[derive(Default)]
pub struct Stops(Vec<Stop>);

impl Stops {
    /// # Errors
    /// `InvalidArgument` for an empty string, `OutOfMemory`.
    pub fn new(stops: &[&str]) -> Result<Stops> {
        let mut list = try_vec("stop strings", stops.len())?;
        for (i, stop) in stops.iter().enumerate() {
            if stop.is_empty() {
                return Err(Error::invalid(format!("stop string {i} is empty, so that it stands ahead of every text")));
            }
            list.push(Stop::new(stop)?);
        }
        Ok(Stops(list))
    }

    /// Adds a piece of the text. Where it completes a stop string, the place in the piece at which that ends, and its
    /// length: of two that are complete with the same byte the longer one.
    pub fn push(&mut self, text: &str) -> Option<(usize, usize)> {
        text.bytes().enumerate().find_map(|(i, byte)| {
            let len = self.0.iter_mut().filter_map(|stop| stop.push(byte)).max()?;
            Some((i + 1, len))
        })
    }

    /// Bytes at the end of what has come that are the beginning of a stop string.
    pub fn held(&self) -> usize {
        self.0.iter().map(|stop| stop.matched).max().unwrap_or(0)
    }

    /// Begins another text.
    pub fn reset(&mut self) {
        self.0.iter_mut().for_each(|stop| stop.matched = 0);
    }
}

/// A string that is looked for in a stream of bytes (Knuth, Morris and Pratt, 1977).
struct Stop {
    bytes: Vec<u8>,
    /// For each beginning of the string, the length of the longest shorter one that is also its end.
    borders: Vec<usize>,
    /// Length of the beginning of the string that the bytes so far end with.
    matched: usize,
}

impl Stop {
    fn new(text: &str) -> Result<Stop> {
        let mut stop = Stop { bytes: try_vec("a stop string", text.len())?, borders: Vec::new(), matched: 0 };
        stop.borders = try_vec("a stop string", text.len())?;
        stop.bytes.extend_from_slice(text.as_bytes());
        stop.borders.push(0);
        // The string is looked for in itself.
        for i in 1..stop.bytes.len() {
            stop.advance(stop.bytes[i]);
            stop.borders.push(stop.matched);
        }
        stop.matched = 0;
        Ok(stop)
    }

    fn advance(&mut self, byte: u8) {
        while self.matched > 0 && self.bytes[self.matched] != byte {
            self.matched = self.borders[self.matched - 1];
        }
        self.matched += usize::from(self.bytes[self.matched] == byte);
    }

    /// Its length, where the byte completes it; then nothing more is looked for.
    fn push(&mut self, byte: u8) -> Option<usize> {
        self.advance(byte);
        (self.matched == self.bytes.len()).then_some(self.matched)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes of a text up to the first stop string, found anew at each place.
    fn cut(text: &str, stops: &[&str]) -> Option<usize> {
        (0..=text.len()).find_map(|end| {
            let ending = stops.iter().filter(|stop| text.as_bytes()[..end].ends_with(stop.as_bytes()));
            ending.map(|stop| end - stop.len()).min()
        })
    }

    #[test]
    fn stops_are_found_wherever_they_begin_and_overlap() {
        let alphabet = ["a", "b", "ab", "é"];
        let word = |mut n: usize, len: usize| -> String { (0..len).map(|_| (alphabet[n % 4], n /= 4).0).collect() };
        for (i, text) in (0..4096).map(|n| word(n, 6)).enumerate() {
            let stops = [word(i, 1 + i % 4), word(i / 7, 2), "éa".to_owned()];
            let stops: Vec<&str> = stops.iter().map(String::as_str).collect();
            let found = Stops::new(&stops).unwrap().push(&text).map(|(end, len)| end - len);
            assert_eq!(found, cut(&text, &stops), "{stops:?} in {text}");
        }
    }

    #[test]
    fn what_may_become_a_stop_is_held() {
        let mut stop = Stop::new("abab").unwrap();
        let held: Vec<usize> = "xababab".bytes().map(|b| (stop.advance(b), stop.matched).1).take(4).collect();
        assert_eq!(held, [0, 1, 2, 3]);
        assert!(Stops::new(&["a", ""]).is_err());
    }
}
