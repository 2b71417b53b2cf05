//! Recurrent layers in f64, token by token, and their tensors.

use super::reference::{Net, QkNorm, Weights};
use super::tiny::Tiny;

/// The part of a layer that mixes tokens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mixer {
    Attention,
    /// The short convolution of LFM 2.
    ShortConv {
        taps: usize,
    },
    /// The gated delta net of Qwen 3.5.
    DeltaNet {
        key_heads: usize,
        heads: usize,
        dim: usize,
        taps: usize,
    },
    Mamba2 {
        inner: usize,
        state: usize,
        heads: usize,
        groups: usize,
        taps: usize,
    },
}

/// A tensor of a layer: its name, rows and columns (one row: a vector), and its kind.
pub struct Part {
    pub name: &'static str,
    pub rows: usize,
    pub cols: usize,
    pub kind: Kind,
}

/// The distribution of a tensor's values.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Matrix,
    /// Numbers around 1.
    Norm,
    /// Taps of convolutions.
    Kernel,
    /// Negative rates of decay.
    Rates,
    /// Numbers around 0.
    Bias,
}

impl Mixer {
    /// Returns the tensors of a layer.
    pub fn parts(self, hidden: usize) -> Vec<Part> {
        let part = |name, rows, cols, kind| Part { name, rows, cols, kind };
        let matrix = |name, rows, cols| part(name, rows, cols, Kind::Matrix);
        match self {
            Mixer::Attention => vec![],
            Mixer::ShortConv { taps } => vec![
                matrix("shortconv.in_proj.weight", 3 * hidden, hidden),
                part("shortconv.conv.weight", hidden, taps, Kind::Kernel),
                matrix("shortconv.out_proj.weight", hidden, hidden),
            ],
            Mixer::DeltaNet { key_heads, heads, dim, taps } => {
                let (keys, values) = (key_heads * dim, heads * dim);
                vec![
                    matrix("attn_qkv.weight", 2 * keys + values, hidden),
                    matrix("attn_gate.weight", values, hidden),
                    part("ssm_conv1d.weight", 2 * keys + values, taps, Kind::Kernel),
                    matrix("ssm_beta.weight", heads, hidden),
                    matrix("ssm_alpha.weight", heads, hidden),
                    part("ssm_dt.bias", 1, heads, Kind::Bias),
                    part("ssm_a", 1, heads, Kind::Rates),
                    part("ssm_norm.weight", 1, dim, Kind::Norm),
                    matrix("ssm_out.weight", hidden, values),
                ]
            }
            Mixer::Mamba2 { inner, state, heads, groups, taps } => {
                let channels = inner + 2 * groups * state;
                vec![
                    matrix("ssm_in.weight", inner + channels + heads, hidden),
                    part("ssm_conv1d.weight", channels, taps, Kind::Kernel),
                    part("ssm_conv1d.bias", 1, channels, Kind::Bias),
                    part("ssm_dt.bias", 1, heads, Kind::Bias),
                    part("ssm_a", heads, 1, Kind::Rates),
                    part("ssm_d", heads, 1, Kind::Norm),
                    part("ssm_norm.weight", groups, inner / groups, Kind::Norm),
                    matrix("ssm_out.weight", hidden, inner),
                ]
            }
        }
    }

    /// Returns the layer's result for each token, from the normalized residual stream.
    pub fn mix(self, net: &Net, w: &Weights, p: &str, xs: &[Vec<f64>]) -> Vec<Vec<f64>> {
        let linear = |name: &str, x: &[f64]| net.linear(w, &format!("{p}{name}"), x);
        match self {
            Mixer::Attention => vec![],
            Mixer::ShortConv { taps } => {
                let d = net.hidden;
                let projected: Vec<Vec<f64>> = xs.iter().map(|x| linear("shortconv.in_proj", x)).collect();
                let inputs = projected.iter().map(|y| (0..d).map(|i| y[i] * y[2 * d + i]).collect()).collect();
                let mixed = conv(inputs, &w[&format!("{p}shortconv.conv.weight")], None, taps);
                let gated =
                    mixed.iter().zip(&projected).map(|(m, y)| m.iter().zip(&y[d..]).map(|(m, c)| m * c).collect());
                gated.map(|y: Vec<f64>| linear("shortconv.out_proj", &y)).collect()
            }
            Mixer::DeltaNet { key_heads, heads, dim, taps } => {
                let (keys, vector) = (key_heads * dim, |name: &str| &w[&format!("{p}{name}")]);
                let qkv = xs.iter().map(|x| linear("attn_qkv", x)).collect();
                let qkv = conv(qkv, vector("ssm_conv1d.weight"), None, taps);
                let mut states = vec![vec![vec![0.0; dim]; dim]; heads];
                let token = |(x, qkv): (&Vec<f64>, Vec<f64>)| {
                    let qkv: Vec<f64> = qkv.into_iter().map(silu).collect();
                    let (beta, alpha, z) = (linear("ssm_beta", x), linear("ssm_alpha", x), linear("attn_gate", x));
                    let mut out = vec![];
                    for (h, state) in states.iter_mut().enumerate() {
                        let key_head = h % key_heads * dim;
                        let q = unit(&qkv[key_head..][..dim], net.eps);
                        let k = unit(&qkv[keys + key_head..][..dim], net.eps);
                        let v = &qkv[2 * keys + h * dim..][..dim];
                        let decay = (vector("ssm_a")[h] * softplus(alpha[h] + vector("ssm_dt.bias")[h])).exp();
                        let mut o = vec![0.0; dim];
                        for (j, o) in o.iter_mut().enumerate() {
                            state.iter_mut().for_each(|row| row[j] *= decay);
                            let seen: f64 = state.iter().zip(&k).map(|(row, k)| row[j] * k).sum();
                            let delta = sigmoid(beta[h]) * (v[j] - seen);
                            state.iter_mut().zip(&k).for_each(|(row, k)| row[j] += k * delta);
                            *o = state.iter().zip(&q).map(|(row, q)| row[j] * q).sum::<f64>() / (dim as f64).sqrt();
                        }
                        net.normalize(w, &format!("{p}ssm_norm"), &mut o, dim);
                        out.extend(o.iter().zip(&z[h * dim..]).map(|(o, z)| o * silu(*z)));
                    }
                    linear("ssm_out", &out)
                };
                xs.iter().zip(qkv).map(token).collect()
            }
            Mixer::Mamba2 { inner, state: n, heads, groups, taps } => {
                let vector = |name: &str| &w[&format!("{p}{name}")];
                let projected: Vec<Vec<f64>> = xs.iter().map(|x| linear("ssm_in", x)).collect();
                let channels = inner + 2 * groups * n;
                let inputs = projected.iter().map(|y| y[inner..inner + channels].to_vec()).collect();
                let xbc = conv(inputs, vector("ssm_conv1d.weight"), Some(vector("ssm_conv1d.bias")), taps);
                let mut states = vec![vec![0.0; n]; inner];
                let token = |(y, xbc): (&Vec<f64>, Vec<f64>)| {
                    let xbc: Vec<f64> = xbc.into_iter().map(silu).collect();
                    let mut out = vec![0.0; inner];
                    for (i, state) in states.iter_mut().enumerate() {
                        let (head, group) = (i / (inner / heads), i / (inner / groups));
                        let dt = softplus(y[inner + channels + head] + vector("ssm_dt.bias")[head]);
                        let (b, c) = (&xbc[inner + group * n..][..n], &xbc[inner + (groups + group) * n..][..n]);
                        for (s, b) in state.iter_mut().zip(b) {
                            *s = (dt * vector("ssm_a")[head]).exp() * *s + dt * xbc[i] * b;
                        }
                        let read: f64 = state.iter().zip(c).map(|(s, c)| s * c).sum();
                        out[i] = (read + vector("ssm_d")[head] * xbc[i]) * silu(y[i]);
                    }
                    let wide = inner / groups;
                    for (out, weight) in out.chunks_mut(wide).zip(vector("ssm_norm.weight").chunks(wide)) {
                        let rms = (out.iter().map(|v| v * v).sum::<f64>() / wide as f64 + net.eps).sqrt();
                        out.iter_mut().zip(weight).for_each(|(o, weight)| *o *= weight / rms);
                    }
                    linear("ssm_out", &out)
                };
                projected.iter().zip(xbc).map(token).collect()
            }
        }
    }
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

fn silu(x: f64) -> f64 {
    x * sigmoid(x)
}

fn softplus(x: f64) -> f64 {
    x.max(0.0) + (-x.abs()).exp().ln_1p()
}

fn unit(x: &[f64], eps: f64) -> Vec<f64> {
    let length = (x.iter().map(|v| v * v).sum::<f64>() + eps).sqrt();
    x.iter().map(|v| v / length).collect()
}

/// Causal convolution of each channel with a kernel `[channels, taps]`.
fn conv(xs: Vec<Vec<f64>>, kernel: &[f64], bias: Option<&Vec<f64>>, taps: usize) -> Vec<Vec<f64>> {
    let channel = |t: usize, c: usize| {
        let inputs = (0..taps).filter_map(|j| Some(kernel[c * taps + j] * xs[(t + j + 1).checked_sub(taps)?][c]));
        inputs.sum::<f64>() + bias.map_or(0.0, |bias| bias[c])
    };
    (0..xs.len()).map(|t| (0..xs[t].len()).map(|c| channel(t, c)).collect()).collect()
}

/// Returns one network with each kind of layer, derived from `new(name)`.
pub fn architectures(new: impl Fn(&'static str) -> Tiny) -> Vec<(&'static str, Tiny)> {
    vec![
        (
            "qwen35",
            new("qwen35").change(|t| {
                let delta = Mixer::DeltaNet { key_heads: 2, heads: 4, dim: 48, taps: 4 };
                t.net.mixers = vec![delta, Mixer::Attention];
                (t.net.qk_norm, t.net.gated_attention, t.heads_tell_mixers) = (QkNorm::Head, true, false);
                t.net.ffn_norm = "post_attention_norm";
                t.ints = vec![
                    ("full_attention_interval", 2),
                    ("ssm.conv_kernel", 4),
                    ("ssm.inner_size", 192),
                    ("ssm.state_size", 48),
                    ("ssm.time_step_rank", 4),
                    ("ssm.group_count", 2),
                ];
            }),
        ),
        (
            "lfm2",
            new("lfm2").layers(3).change(|t| {
                let conv = Mixer::ShortConv { taps: 3 };
                t.net.mixers = vec![conv, Mixer::Attention, conv];
                (t.net.qk_norm, t.net.output_norm) = (QkNorm::Head, "token_embd_norm");
                t.ints = vec![("shortconv.l_cache", 3)];
            }),
        ),
        (
            "mamba2",
            new("mamba2").change(|t| {
                t.net.mixers = vec![Mixer::Mamba2 { inner: 96, state: 20, heads: 4, groups: 2, taps: 4 }; 2];
                (t.net.ffn, t.heads_tell_mixers) = (0, false);
                t.ints = vec![
                    ("ssm.conv_kernel", 4),
                    ("ssm.inner_size", 96),
                    ("ssm.state_size", 20),
                    ("ssm.time_step_rank", 4),
                    ("ssm.group_count", 2),
                ];
            }),
        ),
    ]
}
