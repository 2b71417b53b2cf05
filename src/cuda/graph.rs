//! CUDA graphs of steps: a repeated step is captured and from then on launched by one call.
//!
//! The key of a graph is the range of ops and the shape of the step; tokens, positions and caches are in device memory,
//! so one graph serves every position. A step is captured when it occurs the second time, because most steps of a
//! prompt occur once.

use std::ops::Range;

use super::launch::{Current, Graph, Stream};
use super::lower::StepShape;
use crate::error::Result;

/// Maximum number of step shapes in the cache: a few context-length ranges per number of rows, with and without logits.
const KEPT: usize = 32;

/// Failed captures in a row after which no other is tried: the driver cannot capture these launches.
const ATTEMPTS: u32 = 3;

/// Device memory of one captured kernel, at most: with CUDA 11.2, 500 to 2,000 empty kernels took 63 to 67 KiB each
/// (https://forums.developer.nvidia.com/t/increasing-memory-footprint-with-large-task-graphs/244901).
const BYTES_PER_KERNEL: u64 = 68 << 10;

#[derive(Default)]
pub struct Graphs {
    known: Vec<Known>,
    /// Failed captures since the last successful one.
    failures: u32,
}

struct Known {
    ops: Range<usize>,
    shape: StepShape,
    /// Set from the second occurrence on.
    graph: Option<Graph>,
}

impl Graphs {
    /// Returns the device memory of graphs of `shapes` step shapes with `kernels` kernels each, at most.
    pub fn bytes(kernels: usize, shapes: usize) -> u64 {
        BYTES_PER_KERNEL.saturating_mul(kernels.saturating_mul(shapes.min(KEPT)) as u64)
    }

    /// Queues a step as a graph, captured from `launch` if necessary; returns false if the caller must launch it.
    pub fn queue(
        &mut self,
        current: &Current,
        stream: &Stream,
        ops: &Range<usize>,
        shape: StepShape,
        launch: impl FnOnce() -> Result<()>,
    ) -> Result<bool> {
        if self.failures == ATTEMPTS {
            return Ok(false);
        }
        let Some(at) = self.known.iter().position(|k| k.shape == shape && k.ops == *ops) else {
            if self.known.len() == KEPT {
                self.known.remove(0);
            }
            self.known.push(Known { ops: ops.clone(), shape, graph: None });
            return Ok(false);
        };
        // Most recently used last; the first is evicted.
        self.known[at..].rotate_left(1);
        let Some(known) = self.known.last_mut() else { return Ok(false) };
        if known.graph.is_none() {
            known.graph = current.capture(stream, launch)?;
        }
        match &mut known.graph {
            Some(graph) => {
                self.failures = 0;
                current.replay(stream, graph).map(|()| true)
            }
            None => {
                self.failures += 1;
                // The reason may be a lack of memory; the other graphs are captured again when they are needed.
                self.known.iter_mut().for_each(|known| known.graph = None);
                Ok(false)
            }
        }
    }
}
