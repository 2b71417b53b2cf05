//! Steps that come again are recorded once and then launched at once.
//!
//! A step is known by its verbs and its shape; what else changes between steps (tokens, positions, caches) lies in device
//! memory, so a record serves every position. A step is recorded when it comes the second time: most steps of a prompt
//! never do. Refuses to know what is launched.

use super::launch::{Current, Graph, Stream};
use super::lower::{ActivationState, StepShape, Verb};
use crate::error::Result;

/// Records that are kept: a few lengths of the context times with and without logits.
const KEPT: usize = 16;

#[derive(Default)]
pub struct Graphs {
    known: Vec<Known>,
    /// The driver cannot record these launches.
    refused: bool,
}

struct Known {
    shape: StepShape,
    verbs: Vec<Verb>,
    /// From the second time on, with what the verbs leave behind.
    graph: Option<(Graph, ActivationState)>,
}

impl Graphs {
    /// Queues a step, by its record where there is one. `launch` queues it launch by launch.
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
