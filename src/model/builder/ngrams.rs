//! N-gram hash embeddings (Qwen 3.8), which a layer adds to residual streams with gates.

use super::Builder;
use crate::error::{Error, Result};
use crate::format::Value;
use crate::graph::op::{Activation, EmbedNgrams, NgramHead, Op, TensorId};
use crate::graph::program::MAX_TAPS;

/// Parameters of an n-gram embedding.
pub struct Ngrams {
    /// The layer that adds the embedding.
    pub layer: usize,
    /// Number of values of a row.
    width: usize,
    /// Number of ids in the longest n-gram.
    n: usize,
    taps: usize,
    multipliers: Box<[u64]>,
    heads: Box<[NgramHead]>,
    end: u32,
}

impl Builder<'_> {
    /// Returns a list of exactly `n` integers.
    fn integers(&self, key: &str, n: usize) -> Result<Vec<u64>> {
        match self.keys.get(key) {
            None if self.keys.is_present(key) => Ok(vec![0; n]),
            Some(Value::Ints(list)) if list.len() == n => {
                list.iter().map(|i| u64::try_from(*i).map_err(|_| self.keys.unsupported(key))).collect()
            }
            _ => Err(self.keys.unsupported(key)),
        }
    }

    /// Returns the file's n-gram embedding, in at most one layer.
    pub fn ngrams(&self) -> Result<Option<Ngrams>> {
        let keys = &self.keys;
        let key = "ple.layers";
        // Read as metadata, because `get` treats a list with only layer 0 as unset.
        let _ = keys.get(key);
        let layer = match keys.metadata.get(&keys.name(key)) {
            None => return Ok(None),
            Some(Value::Ints(list)) => match list.as_slice() {
                [] => return Ok(None),
                [layer] => usize::try_from(*layer).unwrap_or(usize::MAX),
                _ => return Err(keys.unsupported(key)),
            },
            Some(_) => return Err(keys.unsupported(key)),
        };
        let (n, each) = (self.width("ple.ngram_size")?, self.width("ple.heads_per_ngram")?);
        let taps = self.width("ple.conv_kernel")?;
        if !(2..=64).contains(&n) || each > 1024 {
            return Err(Error::unsupported(format!("{each} heads per n-gram length up to {n} are not supported")));
        }
        if !(2..=MAX_TAPS).contains(&((taps - 1).saturating_mul(n) + 1)) {
            return Err(keys.unsupported("ple.conv_kernel"));
        }
        let count = (n - 1) * each;
        let multipliers = self.integers("ple.layer_multipliers", n)?.into();
        let (first, rows) = (self.integers("ple.head_offsets", count)?, self.integers("ple.head_vocab_sizes", count)?);
        let of_head = |(i, (&first, &rows)): (usize, (&u64, &u64))| NgramHead { n: i / each + 2, first, rows };
        let heads = first.iter().zip(&rows).enumerate().map(of_head).collect();
        let width = self.width("embedding_length_per_layer_input")?;
        let end = keys.size("ple.eos_token_id")?.unwrap_or(0) as u32;
        // The id of media rows, which the op rejects.
        keys.get("ple.image_token_id");
        Ok(Some(Ngrams { layer, width, n, taps, multipliers, heads, end }))
    }

    /// Adds to each stream the n-gram embedding, gated by a key's similarity to the stream, and its convolution.
    pub fn add_ngrams(&mut self, streams: TensorId, ngrams: &Ngrams) -> Result<()> {
        let Ngrams { width, n, taps, multipliers, heads, end, .. } = ngrams;
        let (hidden, all) = (self.hyper.hidden, self.program.width(streams));
        let name = "per_layer_token_embd.weight";
        let rows = self.tensors.rows(name)?;
        let table = self.tensors.matrix(name, rows, (0..rows).into(), *width)?;
        let table = self.add_matrix(table);
        let (recurrent, out) = (self.program.recurrent(n - 1), self.program.tensor(heads.len() * width));
        let (multipliers, heads) = (multipliers.clone(), heads.clone());
        let embed = EmbedNgrams { recurrent, table, out, multipliers, heads, end: *end };
        self.program.push(Op::EmbedNgrams(Box::new(embed)));
        let key = self.project(out, "ple_key", all)?;
        let key = self.normed_streams(key, "ple_norm_key")?;
        let query = self.normed_streams(streams, "ple_norm_query")?;
        let gate = self.program.tensor(all / hidden);
        self.program.push(Op::Dot { x: key, y: query, out: gate });
        self.scale(gate, 1.0 / (hidden as f32).sqrt());
        self.activate(gate, Activation::SignedRoot);
        let value = self.project(out, "ple_value", hidden)?;
        let value = self.repeated(value, all / hidden);
        self.gate_by_sigmoid(value, gate);
        let around = self.normed_streams(value, "ple_norm_conv")?;
        self.dilated_conv([around], "ple_conv1d", *taps, *n, true)?;
        self.add_scaled(streams, value, 1.0);
        self.add_scaled(streams, around, 1.0);
        Ok(())
    }
}
