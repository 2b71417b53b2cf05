//! CUDA graphs of steps: a step that is repeated is recorded and from then on launched by one call.
//!
//! The key of a graph is the step's verbs and shape; tokens, positions and caches lie in device memory, so one graph serves
//! every position. A step is recorded when it comes the second time, because most steps of a prompt come once. Refuses to
//! know what is launched.

use super::launch::{Current, Graph, Stream};
use super::lower::{ActivationState, StepShape, Verb};
use crate::error::Result;

/// Number of steps that are remembered: a few ranges of the context's length, with and without logits.
const KEPT: usize = 16;

#[derive(Default)]
pub struct Graphs {
    known: Vec<Known>,
    /// The driver could not record these launches.
    refused: bool,
}

struct Known {
    shape: StepShape,
    verbs: Vec<Verb>,
    /// The graph, from the second time on, and the state that the verbs leave.
    graph: Option<(Graph, ActivationState)>,
}

impl Graphs {
    /// Queues a step as a graph where there is one; `launch` queues it launch by launch.
    pub fn run(
        &mut self,
        current: &Current,
        stream: &Stream,
        shape: StepShape,
        verbs: &[Verb],
        mut launch: impl FnMut() -> Result<ActivationState>,
    ) -> Result<ActivationState> {
        if self.refused {
            return launch();
        }
        let Some(known) = self.known.iter_mut().find(|k| k.shape == shape && k.verbs == verbs) else {
            let state = launch()?;
            if self.known.len() == KEPT {
                self.known.remove(0);
            }
            self.known.push(Known { shape, verbs: verbs.to_vec(), graph: None });
            return Ok(state);
        };
        if known.graph.is_none() {
            known.graph = current.capture(stream, &mut launch)?;
        }
        match &mut known.graph {
            Some((graph, state)) => {
                current.replay(stream, graph)?;
                Ok(*state)
            }
            None => {
                self.refused = true;
                launch()
            }
        }
    }
}
