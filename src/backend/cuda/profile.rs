//! Where the time of steps goes: an event ahead of each launch, read when the device has been waited for. Refuses to know
//! which kernels run.

use super::launch::{Current, Event, Stream};
use crate::backend::{Part, Times};
use crate::error::Result;

#[derive(Default)]
pub struct Profile {
    /// Made as they are needed, used again in each step.
    events: Vec<Event>,
    /// What comes behind each event that was recorded; `None` behind the end of a list of launches.
    marks: Vec<Option<Part>>,
    times: Times,
}

impl Profile {
    /// Work of `part` begins here, or none does.
    pub fn mark(&mut self, current: &Current, stream: &Stream, part: Option<Part>) -> Result<()> {
        if self.events.len() == self.marks.len() {
            self.events.push(current.event(true)?);
        }
        current.record(stream, &self.events[self.marks.len()])?;
        self.marks.push(part);
        Ok(())
    }

    /// Reads what was recorded; the stream was waited for.
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
