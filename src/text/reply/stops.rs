//! Stop sequences in streamed text. Independent of other modules.

use crate::error::{Error, Result, try_vec};

/// Stop sequences; a streamed text ends at the first one that occurs.
#[derive(Default)]
pub struct Stops(Vec<Stop>);

impl Stops {
    /// # Errors
    /// `InvalidArgument` for an empty sequence, `OutOfMemory`.
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

    /// Adds a piece of the text. If the piece completes a stop sequence, returns the index after it in the piece, and
    /// the length of the sequence. If two sequences end at the same byte, the longer one counts.
    pub fn push(&mut self, text: &str) -> Option<(usize, usize)> {
        text.bytes().enumerate().find_map(|(i, byte)| {
            let len = self.0.iter_mut().filter_map(|stop| stop.push(byte)).max()?;
            Some((i + 1, len))
        })
    }

    /// Returns the number of trailing bytes that may begin a stop sequence.
    pub fn held(&self) -> usize {
        self.0.iter().map(|stop| stop.matched).max().unwrap_or(0)
    }

    /// Begins another text.
    pub fn reset(&mut self) {
        self.0.iter_mut().for_each(|stop| stop.matched = 0);
    }
}

/// A streaming string search (Knuth, Morris and Pratt, 1977).
struct Stop {
    bytes: Vec<u8>,
    /// For each prefix of the string, the length of the longest shorter prefix that is also its suffix.
    borders: Vec<usize>,
    /// Length of the longest prefix of the string that the stream ends with.
    matched: usize,
}

impl Stop {
    fn new(text: &str) -> Result<Stop> {
        let mut stop = Stop { bytes: try_vec("a stop string", text.len())?, borders: Vec::new(), matched: 0 };
        stop.borders = try_vec("a stop string", text.len())?;
        stop.bytes.extend_from_slice(text.as_bytes());
        stop.borders.push(0);
        // Searches the string in itself.
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

    /// Returns the length of the stop sequence if the byte completes it. The search must end then.
    fn push(&mut self, byte: u8) -> Option<usize> {
        self.advance(byte);
        (self.matched == self.bytes.len()).then_some(self.matched)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the number of bytes of a text up to the first stop sequence, by a naive search.
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
