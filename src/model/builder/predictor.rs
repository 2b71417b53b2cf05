//! Multi-token prediction and draft heads, which predict the token after the next one from the hidden state of a token
//! and the embedding of the next one: an MTP layer after the trunk (DeepSeek-V3, arXiv 2412.19437, section 2.2), or a
//! file of its own that drafts for another network.

use super::{Attention, Builder};
use crate::error::{Error, Result, try_vec};
use crate::graph::op::{Index, KvLayerId, Mask, Op, TensorId};
use crate::graph::program::Program;
use crate::graph::sequence_spec::KvLayer;
use crate::model::hyper::{HeadShape, Hyper};

/// A network that predicts another network's choices.
pub struct Predictor {
    /// The draft program, with its own KV cache: reads hidden states and the token that follows each.
    pub program: Program,
    pub of: PredictorOf,
    /// Hidden states that `program` reads, and hidden states that it returns for outputs; the latter are the input for
    /// the next draft token.
    pub input: TensorId,
    pub result: TensorId,
}

/// The network whose choices are predicted.
#[derive(Clone, Debug)]
pub enum PredictorOf {
    /// The network of the same file; its program keeps its final hidden states, before the head, for all tokens.
    Same(TensorId),
    Other(Box<OtherNetwork>),
    /// A network whose KV cache the head reads. The head's layers have no KV cache; each reads the last layer of the
    /// network that has the same kind of window.
    SharedKv(Box<SharedKvNetwork>),
}

/// Inputs that a draft head in a separate file reads from its target network.
#[derive(Clone, Debug)]
pub struct OtherNetwork {
    /// Target layers whose inputs the head reads; `None`: the third, the middle one and the third from the end.
    pub layers: Option<Vec<usize>>,
    /// Width of one layer input.
    pub width: usize,
    /// All layer inputs, concatenated. The first `fusing` ops compute `Predictor::input` from them; steps for draft
    /// tokens skip these ops.
    pub states: TensorId,
    pub fusing: usize,
    /// Vocabulary size of the target.
    pub vocab: usize,
    /// Token embeddings from the target, if the file has no table.
    pub embeddings: Option<TensorId>,
    /// Input for the target's output matrix, for all rows, if the file has no head.
    pub normed: Option<TensorId>,
    /// The token id of each logit; `None` if it equals the index of the logit.
    pub tokens: Option<Vec<u32>>,
}

/// The inputs of a head that reads another network's KV cache, in addition to the final hidden state
/// (`Predictor::input`).
#[derive(Clone, Debug)]
pub struct SharedKvNetwork {
    pub architecture: &'static str,
    /// The unscaled embedding of the next token.
    pub embedding: TensorId,
    /// The tokens that may be drafted; `None`: all.
    pub clusters: Option<Clusters>,
}

/// Equally sized clusters of tokens: only those of the `used` clusters with the highest scores are drafted.
#[derive(Clone, Debug)]
pub struct Clusters {
    /// A score per cluster.
    pub scores: TensorId,
    pub used: usize,
    /// The tokens of all clusters, concatenated.
    pub tokens: Vec<u32>,
}

/// Default number of used clusters.
const USED_CLUSTERS: usize = 32;

/// Default and maximum number of layers whose inputs a head reads.
const N_LAYERS: usize = 3;
const MAX_LAYERS: usize = 64;
/// Larger than the width of any network.
const MAX_WIDTH: usize = 1 << 20;

impl Builder<'_> {
    /// Builds the MTP layer, the first one after the trunk, if requested. `block` adds to the residual stream like a
    /// layer of the trunk. Must follow `head`.
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
        let both = self.joined(token, state);
        let x = self.project(both, "nextn.eh_proj", hidden)?;
        block(self, x)?;
        if self.has("nextn.shared_head_head.weight") {
            let own = self.matrix("nextn.shared_head_head.weight", vocab, hidden)?;
            let factor = self.factor(&self.name("nextn.shared_head_head.scale"), own)?;
            if let Op::Logits { head, bias, scale, .. } = &mut head {
                (*head, *bias, *scale) = (own, None, self.logit_scale * factor);
            }
        }
        // The MTP layer's norm, under either of its names, or the network's.
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
        self.predictor = Some(Predictor { program, of: PredictorOf::Same(states), input, result });
        Ok(())
    }

    /// Builds a draft head in a file of its own. `fc` fuses several hidden states of the target into one; `block` takes
    /// it and the embedding of the next token, and returns its own hidden state.
    pub fn head_of_another(&mut self, block: impl FnOnce(&mut Self, [TensorId; 2]) -> Result<TensorId>) -> Result<()> {
        let (hidden, vocab) = (self.hyper.hidden, self.hyper.vocab);
        let layers = self.keys.sizes("target_layers")?;
        let n = layers.as_ref().map_or(N_LAYERS, Vec::len);
        if !(1..=MAX_LAYERS).contains(&n) {
            return Err(self.keys.unsupported("target_layers"));
        }
        let width = self.keys.size("target_hidden_size")?.unwrap_or(hidden);
        if width > MAX_WIDTH {
            return Err(self.keys.unsupported("target_hidden_size"));
        }
        let states = self.program.tensor(n * width);
        self.program.input(states);
        let mut fused = states;
        if self.keys.flag("norm_before_fc")? == Some(true) {
            fused = self.rms_norm(states, "enc.output_norm")?;
        } else if self.keys.flag("fc_norm")? == Some(true) {
            fused = self.copy(states, n * width);
            self.rms_norm_groups(fused, "fc_norm", width)?;
        }
        let input = self.project(fused, "fc", hidden)?;
        self.program.input(input);
        let fusing = self.program.position();
        let has_table = self.has("token_embd.weight");
        let token = if has_table { self.embed(1.0)? } else { self.program.tensor(hidden) };
        if !has_table {
            self.program.input(token);
        }

        let x = block(self, [input, token])?;
        let normed = self.rms_norm(x, "output_norm")?;
        let result = if self.keys.flag("norm_output")? == Some(true) { normed } else { self.copy(x, hidden) };
        let (mut rows, mut tokens) = (0, None);
        let has_head = self.has("output.weight");
        if has_head {
            rows = self.rows("output.weight")?;
            tokens = self.tokens_of_logits(rows)?;
            let head = self.matrix("output.weight", rows, hidden)?;
            self.program.push(Op::Logits { x: normed, head, bias: None, scale: 1.0, softcap: 0.0 });
        }
        let mut program = self.program.clone();
        [result, normed].into_iter().take(if has_head { 1 } else { 2 }).for_each(|x| program.result(x));
        let program = program.finish(rows, &[]);
        let of = OtherNetwork {
            layers,
            width,
            states,
            fusing,
            vocab,
            embeddings: (!has_table).then_some(token),
            normed: (!has_head).then_some(normed),
            tokens,
        };
        self.states = Some(result);
        self.predictor = Some(Predictor { program, of: PredictorOf::Other(Box::new(of)), input, result });
        Ok(())
    }

    /// Builds a head without a KV cache of its own, which reads the KV cache of a network of `architecture`. `block`
    /// takes the embedding of a token joined with the hidden state before it, and returns the input of the final norm.
    pub fn head_with_shared_kv(
        &mut self,
        architecture: &'static str,
        block: impl FnOnce(&mut Self, TensorId) -> Result<TensorId>,
    ) -> Result<()> {
        let (hidden, vocab) = (self.hyper.hidden, self.hyper.vocab);
        let width = self.keys.require_size("embedding_length_out")?;
        if !(1..=MAX_WIDTH).contains(&width) {
            return Err(self.keys.unsupported("embedding_length_out"));
        }
        let [embedding, input] = [(); 2].map(|()| self.program.tensor(width));
        [embedding, input].into_iter().for_each(|tensor| self.program.input(tensor));
        self.scale(embedding, (width as f32).sqrt());
        let both = self.joined(embedding, input);
        let x = self.project(both, "nextn.pre_projection", hidden)?;
        let x = block(self, x)?;
        let normed = self.rms_norm(x, "output_norm")?;
        let result = self.project(normed, "nextn.post_projection", width)?;
        let clusters = self.clusters(normed)?;
        let table = self.matrix("token_embd.weight", vocab, hidden)?;
        self.program.push(Op::Logits { x: normed, head: table, bias: None, scale: 1.0, softcap: 0.0 });
        let scores = clusters.as_ref().map(|clusters| clusters.scores);
        let mut program = self.program.clone();
        [Some(result), scores].into_iter().flatten().for_each(|tensor| program.result(tensor));
        let program = program.finish(vocab, &[]);
        let of = PredictorOf::SharedKv(Box::new(SharedKvNetwork { architecture, embedding, clusters }));
        self.states = Some(normed);
        self.predictor = Some(Predictor { program, of, input, result });
        Ok(())
    }

    /// Returns the file's clusters, if any.
    fn clusters(&mut self, normed: TensorId) -> Result<Option<Clusters>> {
        let (vocab, used) = (self.hyper.vocab, self.keys.size("masked_embd_top_k")?);
        let is_declared = self.keys.flag("masked_embd")? == Some(true);
        if !is_declared && !self.has("masked_embd_centroids.weight") {
            return Ok(None);
        }
        let n = self.rows("masked_embd_centroids.weight")?;
        let used = used.unwrap_or(USED_CLUSTERS);
        if n == 0 || !vocab.is_multiple_of(n) || used > n {
            return Err(Error::unsupported(format!("{used} of {n} clusters of {vocab} tokens are not supported")));
        }
        let scores = self.project(normed, "masked_embd_centroids", n)?;
        let mut tokens = try_vec("a vocabulary", vocab)?;
        for value in self.tensors.vector("masked_embd_ordering", vocab)? {
            if !(0.0..vocab as f32).contains(&value) {
                let what = format!("the tensor masked_embd_ordering names token {value} of {vocab}");
                return Err(self.tensors.damaged(what));
            }
            tokens.push(value as u32);
        }
        Ok(Some(Clusters { scores, used, tokens }))
    }

    /// Makes attention read the target's KV cache, which ends before the query's token. `stored`: the KV layer of
    /// `program` that represents the target's layer; added if `None`.
    pub fn attend_after(&mut self, attention: Attention, stored: &mut Option<KvLayerId>) -> Result<Attention> {
        let (HeadShape { n_kv_heads, head_dim, .. }, window) = (attention.heads, attention.mask.span());
        let mask = match window {
            0 => Mask::Past,
            1 => return Err(self.keys.unsupported("attention.sliding_window")),
            n => Mask::Window(n as u32 - 1),
        };
        stored.get_or_insert_with(|| self.program.kv_layer(KvLayer::new(n_kv_heads, head_dim, window)));
        Ok(Attention { mask, ..attention })
    }

    /// Returns the token id of each of `rows` logits; `None` if ids equal indices. A GGUF file has the tokens, a folder
    /// their offsets.
    fn tokens_of_logits(&mut self, rows: usize) -> Result<Option<Vec<u32>>> {
        let vocab = self.hyper.vocab;
        let Some(values) = self.tensors.vector_if_present("d2t", rows)? else {
            let what =
                || self.tensors.damaged(format!("{rows} logits for {vocab} tokens, and the tensor d2t is missing"));
            return if rows == vocab { Ok(None) } else { Err(what()) };
        };
        let is_folder = self.is_folder();
        let mut tokens = try_vec("a vocabulary", rows)?;
        for (i, value) in values.into_iter().enumerate() {
            let token = f64::from(value) + if is_folder { i as f64 } else { 0.0 };
            if !(0.0..vocab as f64).contains(&token) {
                return Err(self.tensors.damaged(format!("the tensor d2t names token {token} of {vocab}")));
            }
            tokens.push(token as u32);
        }
        Ok(Some(tokens))
    }

    /// True if the file has the layer.
    fn has_predictor(&self) -> bool {
        let Hyper { n_layers, n_predicting, .. } = self.hyper;
        n_predicting > 0 && self.tensors.has(&format!("blk.{n_layers}.nextn.eh_proj.weight"))
    }

    /// Fails if a predictor was requested and the network has none.
    pub(super) fn check_predictor(&self) -> Result<()> {
        let is_own = |predictor: &Predictor| matches!(predictor.of, PredictorOf::Same(_));
        if !self.predicts || self.predictor.as_ref().is_some_and(is_own) {
            return Ok(());
        }
        let architecture = &self.hyper.architecture;
        Err(Error::unsupported(match self.has_predictor() {
            true => format!("multi-token prediction is not supported for the architecture {architecture}"),
            false => "multi-token prediction: the file has no layers for it".to_owned(),
        }))
    }
}
