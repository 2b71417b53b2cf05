//! Timing of the parts of steps: an event before each launch, read after the device has been synchronized.

use super::launch::{Current, Event, Stream};
use crate::error::Result;
use crate::graph::device_info::{Part, Times};

#[derive(Default)]
pub struct Profile {
    /// Events, created on demand and reused in each step.
    events: Vec<Event>,
    /// Part that begins at each recorded event; `None` at the end of a list of launches.
    marks: Vec<Option<Part>>,
    times: Times,
}

impl Profile {
    /// Records an event at the start of the work of `part`, or, with `None`, at the end of work.
    pub fn mark(&mut self, current: &Current, stream: &Stream, part: Option<Part>) -> Result<()> {
        if self.events.len() == self.marks.len() {
            self.events.push(current.event(true)?);
        }
        current.record(stream, &self.events[self.marks.len()])?;
        self.marks.push(part);
        Ok(())
    }

    /// Adds up the recorded times; the stream must be synchronized.
    pub fn settle(&mut self, current: &Current) -> Result<()> {
        for (i, part) in self.marks.iter().enumerate() {
            if let (Some(part), Some([from, to])) = (part, self.events.get(i..i + 2)) {
                let (count, sum) = &mut self.times[*part as usize];
                *count += 1;
                *sum += current.elapsed(from, to)?;
            }
        }
        self.marks.clear();
        Ok(())
    }

    pub fn take(&mut self) -> Times {
        std::mem::take(&mut self.times)
    }
}
