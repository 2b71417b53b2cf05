//! CUDA graphs of steps: a step that is repeated is recorded and from then on launched by one call.
//!
//! The key of a graph is the range of ops and the shape of the step; tokens, positions and caches lie in device memory,
//! so one graph serves every position. A step is recorded when it comes the second time, because most steps of a prompt
//! come once.

use std::ops::Range;

use super::launch::{Current, Graph, Stream};
use super::lower::StepShape;
use crate::error::Result;

/// Number of steps that are remembered: of each number of rows, a few ranges of the context's length, with and without
/// logits.
const KEPT: usize = 32;

#[derive(Default)]
pub struct Graphs {
    known: Vec<Known>,
    /// The driver could not record these launches.
    refused: bool,
}

struct Known {
    ops: Range<usize>,
    shape: StepShape,
    /// From the second time on.
    graph: Option<Graph>,
}

impl Graphs {
    /// Queues a step as a graph, recorded from `launch` where it is not yet; false where the caller launches it.
    pub fn queue(
        &mut self,
        current: &Current,
        stream: &Stream,
        ops: &Range<usize>,
        shape: StepShape,
        launch: impl FnOnce() -> Result<()>,
    ) -> Result<bool> {
        if self.refused {
            return Ok(false);
        }
        let Some(at) = self.known.iter().position(|k| k.shape == shape && k.ops == *ops) else {
            if self.known.len() == KEPT {
                self.known.remove(0);
            }
            self.known.push(Known { ops: ops.clone(), shape, graph: None });
            return Ok(false);
        };
        // The one that was used last is the last to go.
        self.known[at..].rotate_left(1);
        let Some(known) = self.known.last_mut() else { return Ok(false) };
        if known.graph.is_none() {
            known.graph = current.capture(stream, launch)?;
        }
        match &mut known.graph {
            Some(graph) => current.replay(stream, graph).map(|()| true),
            None => {
                self.refused = true;
                Ok(false)
            }
        }
    }
}
