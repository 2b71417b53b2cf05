//! Multi-token prediction (DeepSeek-V3, arXiv 2412.19437, section 2.2): a layer after the trunk that tells the token
//! after the next one, of the hidden state of a token and the embedding of the token after it.

use super::Builder;
use crate::error::{Error, Result};
use crate::graph::op::{Index, Op, TensorId};
use crate::graph::program::Program;
use crate::model::hyper::Hyper;

/// A network with the weights of another one that predicts what that will choose.
pub struct Predictor {
    /// Reads the tokens after those of the hidden states; has keys and values of its own.
    pub program: Program,
    /// The hidden states that the network ends with ahead of its head, of all tokens, which its program keeps.
    pub states: TensorId,
    /// The same, which `program` begins with, and those that it ends with, of the outputs: in their place for one token
    /// more.
    pub input: TensorId,
    pub result: TensorId,
}

impl Builder<'_> {
    /// The first layer after the trunk, where it was asked for: `block` adds what it computes to the residual stream,
    /// as a layer of the trunk does. Called after `head`.
    pub fn predictor(&mut self, block: impl FnOnce(&mut Self, TensorId) -> Result<()>) -> Result<()> {
        let (true, Some(states)) = (self.predicts && self.has_predictor(), self.states) else { return Ok(()) };
        let Some(mut head) = self.program.head().cloned() else { return Ok(()) };
        let (vocab, hidden, index) = (self.hyper.vocab, self.hyper.hidden, self.hyper.n_layers);
        let trunk = std::mem::take(&mut self.program);
        self.layer = Some(index);

        let input = self.program.tensor(hidden);
        let table = match self.embedding {
            Some(table) if !self.has("nextn.embed_tokens.weight") => table,
            _ => self.matrix("nextn.embed_tokens.weight", vocab, hidden)?,
        };
        let token = self.program.tensor(hidden);
        self.program.push(Op::Embed { table, rows: vocab, index: Index::Id, scale: 1.0, out: token });
        let (token, state) = (self.rms_norm(token, "nextn.enorm")?, self.rms_norm(input, "nextn.hnorm")?);
        let both = self.program.tensor(2 * hidden);
        self.program.push(Op::JoinHeads { x: token, tail: state, heads: 1, out: both });
        let x = self.project(both, "nextn.eh_proj", hidden)?;
        block(self, x)?;
        if self.has("nextn.shared_head_head.weight") {
            let own = self.matrix("nextn.shared_head_head.weight", vocab, hidden)?;
            head.map_weights(|_| own);
        }
        // A norm of its own, by either of the names that files have for it, or the network's.
        let own = ["nextn.shared_head_norm", "layer_output_norm"];
        let own = own.into_iter().find(|name| self.has(&format!("{name}.weight")));
        if own.is_none() {
            self.layer = None;
        }
        let result = self.rms_norm(x, own.unwrap_or("output_norm"))?;
        self.layer = None;
        head.map_tensors(|_| result);
        self.program.push(head);
        self.program.result(result);

        let program = std::mem::replace(&mut self.program, trunk).finish(vocab, &[input]);
        self.predictor = Some(Predictor { program, states, input, result });
        Ok(())
    }

    /// True where the file has the layer.
    fn has_predictor(&self) -> bool {
        let Hyper { n_layers, n_predicting, .. } = self.hyper;
        n_predicting > 0 && self.tensors.has(&format!("blk.{n_layers}.nextn.eh_proj.weight"))
    }

    /// Refuses a network that was asked for a predictor and has none.
    pub(super) fn check_predictor(&self) -> Result<()> {
        if !self.predicts || self.predictor.is_some() {
            return Ok(());
        }
        let architecture = &self.hyper.architecture;
        Err(Error::unsupported(match self.has_predictor() {
            true => format!("multi-token prediction of the architecture {architecture}"),
            false => "multi-token prediction: the file has no layers for it".to_owned(),
        }))
    }
}
