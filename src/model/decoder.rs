//! One forward for n tokens of any mix of sequences: prefill and decode are the same function.
//! It is a state machine over layers, so that a caller can stop between two of them.

use super::config::{Config, Positions, QkNorm};
use super::weights::{Ffn, Layer, Network};
use crate::backend::{Act, Attention, Batch, Exec, Norm, Projection};
use crate::error::Result;

/// A step under way.
pub struct Forward<'a> {
    network: &'a Network,
    layer: usize,
}

impl<'a> Forward<'a> {
    /// Opens the step and embeds its tokens.
    pub fn begin(network: &'a Network, exec: &mut dyn Exec, batch: &Batch) -> Result<Self> {
        let config = &network.config;
        exec.begin(batch)?;
        exec.embed(batch, network.embedding, config.embedding_scale)?;
        if let Some(table) = network.positions {
            exec.embed_positions(batch, table)?;
        }
        if let Some(norm) = network.layers.first().and_then(|l| l.attention_norm.as_ref()) {
            exec.norm(norm, Act::X, Act::H)?;
        }
        Ok(Forward { network, layer: 0 })
    }

    /// Runs one layer; true while more are left. The logits of the batch's outputs exist after the last.
    pub fn step(&mut self, exec: &mut dyn Exec, batch: &mut Batch) -> Result<bool> {
        let network = self.network;
        let config = &network.config;
        let Some(layer) = network.layers.get(self.layer) else {
            return Ok(false);
        };
        let is_last = self.layer + 1 == network.layers.len();
        keys_and_values(network, layer, self.layer, exec, batch)?;
        if is_last {
            // What other tokens leave behind is in the cache now.
            if batch.outputs.is_empty() {
                return Ok(false);
            }
            exec.keep_outputs(batch)?;
        }
        attention(config, layer, self.layer, exec, batch)?;
        join(config, layer.post_attention_norm.as_ref(), layer.ffn_norm.as_ref(), exec)?;
        feed_forward(config, layer, exec)?;
        self.layer += 1;
        let next = network.layers.get(self.layer);
        let norm = next.map_or(Some(&network.output_norm), |l| l.attention_norm.as_ref());
        join(config, layer.post_ffn_norm.as_ref(), norm, exec)?;
        if is_last {
            exec.logits(batch, network.head, network.head_bias, config.logit_scale, config.logit_softcap)?;
        }
        Ok(!is_last)
    }
}

/// The block's input: its norm's output, or the residual stream itself where it has none.
fn input(norm: &Option<Norm>) -> Act {
    if norm.is_some() { Act::H } else { Act::X }
}

/// `X += scale * [post](O)`, then the next block's norm into `H`.
fn join(config: &Config, post: Option<&Norm>, next: Option<&Norm>, exec: &mut dyn Exec) -> Result<()> {
    if let Some(post) = post {
        exec.norm(post, Act::O, Act::O)?;
    }
    match next {
        Some(norm) => exec.add_norm(Act::X, Act::O, config.residual_scale, norm, Act::H),
        None => exec.add(Act::X, Act::O, config.residual_scale),
    }
}

/// Queries, keys and values of a layer; the latter two go to the cache.
fn keys_and_values(
    network: &Network,
    layer: &Layer,
    index: usize,
    exec: &mut dyn Exec,
    batch: &mut Batch,
) -> Result<()> {
    let config = &network.config;
    let options = &config.layers[index];
    exec.project(input(&layer.attention_norm), &layer.qkv)?;
    if config.qk_norm != QkNorm::None {
        for (norm, act) in [(&layer.q_norm, Act::Q), (&layer.k_norm, Act::K)] {
            if let Some(norm) = norm {
                exec.norm(norm, act, act)?;
            }
        }
    }
    if config.positions == Positions::Rope {
        // All caches of a batch are on the same side of the bound.
        let is_long = |above| batch.kvs.iter().any(|kv| kv.spec().capacity > above as usize);
        let long = config.long_rope_above.is_some_and(is_long);
        exec.rope(network.ropes[options.rope + usize::from(long)])?;
    }
    exec.kv_write(batch, index)
}

fn attention(config: &Config, layer: &Layer, index: usize, exec: &mut dyn Exec, batch: &Batch) -> Result<()> {
    exec.attend(
        batch,
        &Attention {
            layer: index,
            scale: config.attention_scale,
            softcap: config.attention_softcap,
            window: config.layers[index].window,
        },
    )?;
    exec.project(Act::A, &[layer.output])
}

fn feed_forward(config: &Config, layer: &Layer, exec: &mut dyn Exec) -> Result<()> {
    let input = input(&layer.ffn_norm);
    match &layer.ffn {
        Ffn::Dense { up, down } => {
            exec.project(input, up)?;
            exec.glu(config.activation, config.gated)?;
            exec.project(Act::G, std::slice::from_ref::<Projection>(down))
        }
        Ffn::Experts { router, routing, experts } => {
            exec.project(input, std::slice::from_ref::<Projection>(router))?;
            exec.route(routing)?;
            exec.experts(experts)
        }
    }
}
