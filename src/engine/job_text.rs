//! The text of a job: whole characters out of tokens, less the stop strings and what may yet become one.

use crate::error::{Error, Result, try_vec};
use crate::text::{TextStream, Tokenizer};

/// Text that was made and not read yet.
pub struct JobText {
    stream: TextStream,
    stops: Vec<Stop>,
    text: String,
    /// Bytes at the end of `text` that are the beginning of a stop string.
    held: usize,
}

impl JobText {
    /// Texts of what comes out of `stream` that end ahead of the first of `stops` that they would hold, none of which
    /// is empty.
    pub fn new(stream: TextStream, stops: &[&str]) -> Result<JobText> {
        let mut list = try_vec("stop strings", stops.len())?;
        for (i, stop) in stops.iter().enumerate() {
            if stop.is_empty() {
                return Err(Error::invalid(format!("stop string {i} is empty, so that it stands ahead of every text")));
            }
            list.push(Stop::new(stop)?);
        }
        Ok(JobText { stream, stops: list, text: String::new(), held: 0 })
    }

    /// Appends the text of a token; true where a stop string is complete, behind which nothing counts. Of two that are
    /// complete with the same character the longer one is cut out. A token that the tokenizer does not know has no text.
    pub fn push(&mut self, tokenizer: &Tokenizer, token: u32) -> Result<bool> {
        let before = self.text.len();
        match self.stream.push(tokenizer, token, &mut self.text) {
            Ok(()) | Err(Error::InvalidArgument(_)) => {}
            Err(e) => return Err(e),
        }
        for end in before + 1..=self.text.len() {
            let byte = self.text.as_bytes()[end - 1];
            if let Some(len) = self.stops.iter_mut().filter_map(|stop| stop.push(byte)).max() {
                self.text.truncate(end - len);
                self.held = 0;
                return Ok(true);
            }
        }
        self.held = self.stops.iter().map(|stop| stop.matched).max().unwrap_or(0);
        Ok(false)
    }

    /// Ends a text in which no stop string is complete.
    pub fn end(&mut self) {
        self.stream.flush(&mut self.text);
        self.held = 0;
    }

    /// Shows `read` what is new, which is gone where that succeeds.
    pub fn read<T>(&mut self, read: impl FnOnce(&str) -> Result<T>) -> Result<T> {
        let ready = self.text.len() - self.held;
        let result = read(&self.text[..ready])?;
        self.text.drain(..ready);
        Ok(result)
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
            let mut list: Vec<Stop> = stops.iter().map(|stop| Stop::new(stop).unwrap()).collect();
            let found = text.bytes().enumerate().find_map(|(at, byte)| {
                list.iter_mut().filter_map(|stop| stop.push(byte)).max().map(|len| at + 1 - len)
            });
            assert_eq!(found, cut(&text, &stops), "{stops:?} in {text}");
        }
    }

    #[test]
    fn what_may_become_a_stop_is_held() {
        let mut stop = Stop::new("abab").unwrap();
        let held: Vec<usize> = "xababab".bytes().map(|b| (stop.advance(b), stop.matched).1).take(4).collect();
        assert_eq!(held, [0, 1, 2, 3]);
        assert!(JobText::new(TextStream::new(), &["a", ""]).is_err());
    }
}
