//! DeepSeek V4: hyper-connections with mixing streams, around attention to a sliding window and to compressed
//! positions, and around experts, which the first layers select by token id.

use super::glm5_next::clamped_swiglus;
use crate::error::Result;
use crate::graph::op::{RouterScore, Routing};
use crate::model::builder::{Builder, Moe, Traits};

pub const TRAITS: fn(&str) -> Traits = |_| Traits { predicts: true, text_only_weights: true, ..Traits::default() };

pub fn build(b: &mut Builder) -> Result<()> {
    let connections = b.mixing_connections()?;
    let attention = b.compressed()?;
    let moe = b.declared_moe(RouterScore::RootOfSoftplus)?;
    // Biases for image rows.
    b.leave_out(&["exp_probs_b_vl.bias"]);
    let n_by_id = b.keys.size("hash_layer_count")?.unwrap_or(0);
    let [of_experts, of_all] = clamped_swiglus(b)?;
    let x = b.embed(1.0)?;
    let mut streams = b.copies(x, connections);
    b.layers(|b, i| {
        streams = b.connected(streams, "hc_attn", connections, |b, x| {
            let h = b.rms_norm(x, "attn_norm")?;
            b.compressed_attention(h, &attention, i)
        })?;
        streams = b.connected(streams, "hc_ffn", connections, |b, x| {
            let h = b.rms_norm(x, "ffn_norm")?;
            let mut moe = moe.map(|moe| Moe { activation: of_experts[i], ..moe });
            if let Some(moe) = moe.as_mut().filter(|_| i < n_by_id) {
                moe.routing = Routing { by_id: Some(b.experts_by_id(*moe)?), ..moe.routing };
            }
            b.moe_ffn_by(h, moe, of_all[i])
        })?;
        Ok(())
    })?;
    let x = b.joined_streams(streams, connections)?;
    let h = b.rms_norm(x, "output_norm")?;
    b.head(h, 1.0, 0.0)
}
