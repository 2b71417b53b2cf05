//! Uncommon beginnings and ends of a network: additions to embeddings, post-norm, and hidden states as results.
//! Finishes every program.

use super::{Builder, Network, Predictor, PredictorOf};
use crate::error::{Error, Result};
use crate::format::Passed;
use crate::graph::op::{Index, KvLayerId, Mask, NormKind, Op, TensorId};
use crate::graph::sequence_spec::KvLayer;
use crate::model::no_effect;

impl<'a> Builder<'a> {
    /// Finishes the program; fails if unused tensors or keys could change its results.
    pub fn finish(mut self) -> Result<Network<'a>> {
        let states = self.states.ok_or_else(|| Error::unsupported("the network has no end"))?;
        let reads_source = self.encoder.is_some();
        let headless = self.encoder.take().unwrap_or_else(|| {
            let mut headless = self.program.clone();
            headless.drop_head();
            headless.finish(0, &[states])
        });
        // The key must match the network: some decoders are trained with bidirectional attention, some encoders
        // without.
        let causal = headless.is_causal();
        if self.keys.flag("attention.causal")?.is_some_and(|declared| declared != causal) {
            return Err(self.keys.unsupported("attention.causal"));
        }
        let embeddings = self.embedding_head(!causal)?;
        self.check_predictor()?;
        let architecture = &self.hyper.architecture;
        // MTP layers follow the trunk; only the first one is used, if requested.
        let trunk = self.hyper.n_layers;
        let unused = trunk + usize::from(self.predictor.is_some());
        let after: Vec<String> = (unused..trunk + self.hyper.n_predicting).map(|i| format!("blk.{i}.")).collect();
        let is_after_trunk = |name: &str| after.iter().any(|layer| name.starts_with(layer.as_str()));
        let mut passed = Passed::default();
        for name in self.tensors.unused().filter(|name| {
            let is_head = embeddings.ranker.is_some() && name.starts_with("cls.");
            (!no_effect::tensor(name) || is_head) && !is_after_trunk(name)
        }) {
            passed.unknown(format!("the tensor {name} has no place in the architecture {architecture}"));
        }
        for (key, _) in self.keys.unread().into_iter().filter(|(key, _)| !no_effect::key(key)) {
            passed.unknown(self.keys.refusal(key));
        }
        let Builder { hyper, mut program, predictor, matrices, vectors, ropes, gguf_pairs, scaled, .. } = self;
        let mut kept = None;
        if let Some(Predictor { of: PredictorOf::Same(states), .. }) = predictor {
            program.keep_rows();
            kept = Some(states);
        }
        let has_logits = (causal || reads_source) && program.head().is_some();
        let program = match &predictor {
            Some(Predictor { of: PredictorOf::Other(_) | PredictorOf::SharedKv(_), program, .. }) => program.clone(),
            _ if has_logits => program.finish(hyper.vocab, kept.as_slice()),
            _ => headless.clone(),
        };
        let states = headless;
        Ok(Network {
            hyper,
            program,
            states,
            predictor,
            embeddings,
            passed,
            gguf_pairs,
            scaled,
            matrices,
            vectors,
            ropes,
        })
    }

    /// Adds learned position embeddings.
    pub fn add_positions(&mut self, x: TensorId) -> Result<()> {
        let (rows, needed) = (self.tensors.rows("position_embd.weight")?, self.hyper.context_length);
        if rows < needed as usize {
            return Err(self
                .tensors
                .damaged(format!("{rows} learned positions are too few for a context of {needed}")));
        }
        let table = self.matrix("position_embd.weight", rows, self.hyper.hidden)?;
        let out = self.program.tensor(self.hyper.hidden);
        self.program.push(Op::Embed { table, rows, index: Index::Position, scale: 1.0, out });
        self.program.push(Op::Add { x, delta: out, scale: 1.0 });
        Ok(())
    }

    /// Adds the embedding of the first token type or task, if the file has such a table.
    pub fn add_first_type(&mut self, x: TensorId, table: &str) -> Result<()> {
        if !self.has(table) {
            return Ok(());
        }
        let rows = self.tensors.rows(table)?;
        let table = self.matrix(table, rows, self.hyper.hidden)?;
        let out = self.program.tensor(self.hyper.hidden);
        self.program.push(Op::Embed { table, rows, index: Index::Zero, scale: 1.0, out });
        self.program.push(Op::Add { x, delta: out, scale: 1.0 });
        Ok(())
    }

    pub fn layer_norm_in_place(&mut self, x: TensorId, part: &str) -> Result<()> {
        self.layer_norm_into(x, part, x)
    }

    /// LayerNorm of `x`, written to another activation.
    pub fn layer_norm_into(&mut self, x: TensorId, part: &str, out: TensorId) -> Result<()> {
        let norm = self.norm(NormKind::Layer, part, 1, self.program.width(x))?;
        self.program.push(Op::Norm { norm, x, out });
        Ok(())
    }

    /// True if the feed-forward block has no gate.
    pub fn has_plain_up(&self) -> Result<bool> {
        let rows = self.tensors.rows(&self.name("ffn_up.weight"))?;
        Ok(!self.has("ffn_gate.weight") && rows == self.hyper.ffn)
    }

    /// Ends an encoder with the hidden states of all tokens.
    pub fn end_with_states(&mut self, x: TensorId) {
        self.states = Some(x);
    }

    /// Ends the encoder of an encoder-decoder network, whose decoder attends to the hidden states `x`.
    pub fn end_encoder(&mut self, x: TensorId) {
        self.encoder = Some(std::mem::take(&mut self.program).finish(0, &[x]));
        self.shared = None;
    }

    /// Returns the keys and values of source rows for cross-attention, for each of `n_layers` layers.
    pub fn source(
        &mut self,
        n_layers: usize,
        mut layer: impl FnMut(&mut Self, TensorId) -> Result<KvLayerId>,
    ) -> Result<Vec<KvLayerId>> {
        let start = self.program.position();
        let x = self.embed(1.0)?;
        let stored = (0..n_layers).map(|i| {
            self.layer = Some(i);
            layer(self, x)
        });
        let stored: Result<Vec<KvLayerId>> = stored.collect();
        self.layer = None;
        self.program.end_of_media(start);
        stored
    }

    /// Adds a KV layer. Layers of an encoder share one KV layer, because an encoder computes a text in one step.
    pub(super) fn kv_layer(&mut self, layer: KvLayer, mask: Mask) -> KvLayerId {
        match self.shared {
            Some((shared, id)) if shared == layer && !mask.is_causal() => id,
            _ => {
                let id = self.program.kv_layer(layer);
                if !mask.is_causal() {
                    self.shared = Some((layer, id));
                }
                id
            }
        }
    }
}
