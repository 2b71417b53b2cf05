//! Embeddings: texts run through a network in full steps; pooling turns their hidden states into vectors. Each call has
//! KV caches of its own and touches no session. The result of a text depends only on that text.

use std::time::Duration;

use super::vectors::Vectors;
use crate::device::StepBudget;
use crate::device::sequence::Sequence;
use crate::engine::cache::{CacheParams, state_spec};
use crate::engine::cancel::Cancel;
use crate::engine::model::Model;
use crate::engine::network::Network;
use crate::engine::network::embedder::Embedder;
use crate::engine::runs::Text;
use crate::error::{Error, Result, try_filled, try_vec};
use crate::graph::step::{MEDIA_ROW, StepLimits};
use crate::model::pooling::Pooling;
use crate::quant;

/// Parameters of a call.
#[derive(Clone, Copy, Default)]
pub struct EmbedParams {
    /// `None`: the model's.
    pub pooling: Option<Pooling>,
    /// True to skip normalization.
    pub raw: bool,
}

impl Model {
    /// Returns the embeddings of texts, concatenated; `Pooling::None` gives one per token.
    pub fn embed(&self, texts: &[&[u32]], params: EmbedParams, cancel: Option<&Cancel>) -> Result<Vec<f32>> {
        self.embed_texts(&plain(texts), params, cancel)
    }

    /// Returns the number of values that `embed` returns. Fails if `embed` would.
    pub fn embed_len(&self, texts: &[&[u32]], params: EmbedParams) -> Result<usize> {
        self.embed_texts_len(&plain(texts), params)
    }

    /// Like `embed_len`, for texts with media.
    pub(crate) fn embed_texts_len(&self, texts: &[Text], params: EmbedParams) -> Result<usize> {
        let network = self.network()?;
        network.check_whole()?;
        let embedder = &network.embedder;
        let pooling = embedder.pooling(params.pooling)?;
        let context = network.context_length as usize;
        let (ids, positions) = (embedder.program.max_ids, embedder.program.max_positions.min(context));
        for (i, text) in texts.iter().enumerate() {
            let n = text.tokens.len();
            if n == 0 {
                return Err(Error::invalid(format!("text {i} has no tokens")));
            }
            if n > positions {
                return Err(Error::invalid(format!("text {i} has {n} tokens, the model's context has {positions}")));
            }
            let takes_rows = text.runs.end() > 0 && !network.reads_source && !network.fills_texts;
            let is_known = |id: u32| (id as usize) < ids || id == MEDIA_ROW && takes_rows;
            if let Some((at, id)) = text.tokens.iter().enumerate().find(|(_, id)| !is_known(**id)) {
                return Err(Error::invalid(format!("token {id} at index {at} of text {i}, the vocabulary has {ids}")));
            }
        }
        let vectors = match pooling {
            Pooling::None => texts.iter().map(|text| text.tokens.len()).fold(0, usize::saturating_add),
            _ => texts.len(),
        };
        Ok(vectors.saturating_mul(embedder.width(pooling)))
    }

    /// Like `embed`, for texts with media.
    pub(crate) fn embed_texts(&self, texts: &[Text], params: EmbedParams, cancel: Option<&Cancel>) -> Result<Vec<f32>> {
        let len = self.embed_texts_len(texts, params)?;
        let network = self.network()?;
        let embedder = &network.embedder;
        let pooling = embedder.pooling(params.pooling)?;
        let filled = if network.fills_texts && pooling != Pooling::None { self.filled(texts)? } else { Vec::new() };
        let filled: Vec<Text> = filled.iter().map(|tokens| Text::plain(tokens)).collect();
        let texts = if filled.is_empty() { texts } else { &filled[..] };
        let limits = embedder.limits_for(texts.iter().map(|text| text.tokens.len()).max().unwrap_or(0));
        let mut call = Call {
            model: self,
            network,
            embedder,
            limits,
            cancel,
            out: Vectors::new(self, &embedder.head, pooling, params.raw, len)?,
            hidden: try_filled("hidden states", limits.max_tokens.saturating_mul(embedder.head.hidden), 0f32)?,
        };
        let is_long = |text: &Text| embedder.program.is_long(text.tokens.len());
        let mut rest = texts;
        while let Some(first) = rest.first() {
            Cancel::check(&[cancel])?;
            let mut tokens = 0;
            let fitting = rest.iter().take_while(|text| {
                tokens += text.tokens.len();
                tokens <= limits.max_tokens && is_long(text) == is_long(first)
            });
            // A text that is too long for one step takes several steps.
            let n = fitting.count().max(1);
            let (group, after) = rest.split_at(n);
            call.group(group)?;
            rest = after;
        }
        Ok(call.out.values)
    }

    /// Texts padded to the context length.
    fn filled(&self, texts: &[Text]) -> Result<Vec<Vec<u32>>> {
        let n = self.network()?.context_length as usize;
        let padding = self.padding_token()?;
        let mut all = try_vec("texts", texts.len())?;
        for text in texts {
            let mut tokens = try_vec("a text", n.max(text.tokens.len()))?;
            tokens.extend_from_slice(text.tokens);
            tokens.resize(n.max(tokens.len()), padding);
            all.push(tokens);
        }
        Ok(all)
    }

    /// Returns the padding token: from the tokenizer's files, or from the configuration.
    fn padding_token(&self) -> Result<u32> {
        let named = self.metadata().str("tokenizer.huggingface.pad_token")?;
        if let (Some(name), Ok(tokenizer)) = (named, self.tokenizer()) {
            let mut tokens = Vec::new();
            tokenizer.encode(name, false, true, &mut tokens)?;
            if let [id] = tokens[..] {
                return Ok(id);
            }
        }
        // SigLIP configurations omit it.
        Ok(self.metadata().u32("tokenizer.ggml.padding_token_id")?.unwrap_or(1))
    }
}

fn plain<'a>(texts: &[&'a [u32]]) -> Vec<Text<'a>> {
    texts.iter().map(|tokens| Text::plain(tokens)).collect()
}

/// One call of `embed`.
struct Call<'a> {
    model: &'a Model,
    network: &'a Network,
    embedder: &'a Embedder,
    limits: StepLimits,
    cancel: Option<&'a Cancel>,
    out: Vectors<'a>,
    /// `[max_tokens, hidden]`
    hidden: Vec<f32>,
}

impl Call<'_> {
    /// Computes a batch of texts, or one text in pieces.
    fn group(&mut self, texts: &[Text]) -> Result<()> {
        let mut sequences = try_vec("the caches of texts", texts.len())?;
        let mut bytes = 0;
        for text in texts {
            let params = CacheParams { capacity: text.tokens.len() as u32, k_type: quant::F32, v_type: quant::F32 };
            let sequence = self.network.new_sequence(&state_spec(&self.embedder.program, 0, &params, self.limits))?;
            bytes += sequence.host_bytes();
            sequences.push(sequence);
        }
        let _memory = self.model.runtime().reserve("the caches of texts", bytes)?;
        if let [text] = texts {
            let mut done = 0;
            while done < text.tokens.len() {
                let n = text.runs.piece(done, text.tokens.len() - done, self.limits.max_tokens);
                self.step(&mut sequences, &[text.part(done..done + n)])?;
                sequences.iter_mut().for_each(|sequence| sequence.commit(n));
                self.out.add(&self.hidden[..n * self.embedder.head.hidden])?;
                done += n;
            }
            return self.out.finish();
        }
        self.step(&mut sequences, texts)?;
        let mut rest = &self.hidden[..];
        for text in texts {
            let (rows, after) = rest.split_at(text.tokens.len() * self.embedder.head.hidden);
            rest = after;
            self.out.add(rows)?;
            self.out.finish()?;
        }
        Ok(())
    }

    /// Computes the hidden states of the next tokens of each sequence.
    fn step(&mut self, sequences: &mut [Sequence], texts: &[Text]) -> Result<()> {
        let Embedder { program, executors, result, head, .. } = self.embedder;
        let mut refs = try_vec("the caches of texts", sequences.len())?;
        refs.extend(sequences);
        let cancels = &[self.cancel];
        let stop = || Cancel::check(cancels).is_err();
        let (n, budget) = (texts.iter().map(|text| text.tokens.len()).sum::<usize>(), StepBudget::new(&stop));
        let make = |limits| self.network.new_executor(program, limits);
        let (mut own, mut acquired);
        // An executor for a long text is too large to keep.
        let step = if self.limits.max_tokens > self.embedder.limits.max_tokens {
            own = make(self.limits)?;
            &mut own.step
        } else {
            acquired = executors.acquire(n, &budget, make)?.ok_or_else(|| Cancel::reason(cancels))?;
            acquired.step()
        };
        for text in texts {
            step.add(text.tokens, 0).add_media(text.runs, text.from, self.network.has_rope_positions)?;
        }
        if !step.run(&mut refs, &[], |_| Ok(()), &budget)? {
            return Err(Cancel::reason(cancels));
        }
        self.network.record(step.time(), Duration::ZERO);
        step.executor.read(*result, &mut self.hidden[..n * head.hidden])
    }
}
