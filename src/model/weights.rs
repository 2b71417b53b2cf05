//! From tensor names to handles in a backend: each tensor that the configuration calls for is found, its shape and
//! type are checked against it, and only when all are in order does the first byte of a weight move.

use std::ops::Range;

use super::config::{Config, MoeConfig, Positions, QkNorm, RopeScaling};
use super::rope;
use crate::backend::{
    Act, Backend, Experts, MatrixSource, Norm, NormKind, Progress, Projection, RopeTable, Routing, SharedBytes, Vector,
    Weight,
};
use crate::error::{Error, Result, try_filled};
use crate::format::{Source, TensorInfo};
use crate::quant::{self, Format};
use crate::tensor::DType;

/// A network whose weights lie in a backend.
pub struct Network {
    pub config: Config,
    pub embedding: Weight,
    /// Learned positions, `[context_length, hidden]`.
    pub positions: Option<Weight>,
    pub layers: Vec<Layer>,
    pub ropes: Vec<RopeTable>,
    pub output_norm: Norm,
    pub head: Weight,
    pub head_bias: Option<Vector>,
}

pub struct Layer {
    pub attention_norm: Option<Norm>,
    pub qkv: [Projection; 3],
    pub q_norm: Option<Norm>,
    pub k_norm: Option<Norm>,
    pub output: Projection,
    pub post_attention_norm: Option<Norm>,
    pub ffn_norm: Option<Norm>,
    pub ffn: Ffn,
    pub post_ffn_norm: Option<Norm>,
}

pub enum Ffn {
    /// `up` holds gate and up, or up alone where the block is not gated; its output lands in `G` then.
    Dense {
        up: Vec<Projection>,
        down: Projection,
    },
    Experts {
        router: Projection,
        routing: Routing,
        experts: Experts,
    },
}

/// What loading is allowed to use.
pub struct Limits {
    /// Bytes of weights in memory of the host; `u64::MAX`: no ceiling.
    pub weight_bytes: u64,
}

/// Checks every tensor, then uploads them. `quantize`: the type that float matrices are converted to on the way.
pub fn load(
    source: &Source,
    config: Config,
    backend: &mut dyn Backend,
    quantize: Option<DType>,
    limits: &Limits,
    progress: &mut Progress,
) -> Result<Network> {
    config.check()?;
    let quantize = quantize.map(encoder).transpose()?;
    let mut tensors = Tensors { source, backend, config: &config, quantize, matrices: Vec::new(), layer: 0 };
    let network = tensors.network()?;
    let matrices: Vec<&dyn MatrixSource> = tensors.matrices.iter().map(|m| m as &dyn MatrixSource).collect();
    let needed = tensors.backend.upload_host_bytes(&matrices)?;
    if needed > limits.weight_bytes {
        return Err(Error::Limit { what: "the model's weights", needed, allowed: limits.weight_bytes });
    }
    tensors.backend.upload(&matrices, progress)?;
    Ok(Network { config, ..network })
}

/// The row of a type that matrices can be converted to.
fn encoder(dtype: DType) -> Result<&'static Format> {
    let format = quant::format(dtype)?;
    match format.quantize {
        Some(_) => Ok(format),
        None => Err(Error::unsupported(format!("there is no encoder for the type {}", format.name))),
    }
}

/// Rows of a tensor in a file.
struct FileMatrix<'a> {
    source: &'a Source,
    info: &'a TensorInfo,
    format: &'static Format,
    /// The type that rows are converted to while they are read.
    target: &'static Format,
    first_row: usize,
    rows: usize,
    cols: usize,
    /// That need it.
    layers: Range<usize>,
    table: bool,
}

impl FileMatrix<'_> {
    fn row_bytes(&self) -> usize {
        self.cols / self.format.block_len * self.format.block_bytes
    }

    fn is_converted(&self) -> bool {
        self.format.dtype != self.target.dtype
    }
}

impl MatrixSource for FileMatrix<'_> {
    fn name(&self) -> &str {
        &self.info.name
    }

    fn dtype(&self) -> DType {
        self.target.dtype
    }

    fn rows(&self) -> usize {
        self.rows
    }

    fn cols(&self) -> usize {
        self.cols
    }

    fn layers(&self) -> Range<usize> {
        self.layers.clone()
    }

    fn is_table(&self) -> bool {
        self.table
    }

    fn read(&self, rows: Range<usize>, out: &mut [u8]) -> Result<()> {
        let row_bytes = self.row_bytes();
        let from = (self.first_row + rows.start) as u64 * row_bytes as u64;
        let encode = match self.target.quantize {
            Some(encode) if self.is_converted() => encode,
            _ => return self.source.read(self.info, from, out),
        };
        let mut raw = try_filled("rows to convert", rows.len() * row_bytes, 0u8)?;
        self.source.read(self.info, from, &mut raw)?;
        let mut values = try_filled("rows to convert", rows.len() * self.cols, 0f32)?;
        (self.format.dequantize)(&raw, &mut values);
        encode(&values, out);
        Ok(())
    }

    fn mapped(&self) -> Option<SharedBytes> {
        if self.is_converted() {
            return None;
        }
        let (owner, range) = self.source.mapped(self.info)?;
        let start = range.start + self.first_row * self.row_bytes();
        Some(SharedBytes { owner, range: start..start + self.rows * self.row_bytes() })
    }
}

/// Collects matrices in the order in which they are asked for; the `i`th becomes `Weight(i)`.
struct Tensors<'a> {
    source: &'a Source,
    backend: &'a mut dyn Backend,
    config: &'a Config,
    quantize: Option<&'static Format>,
    matrices: Vec<FileMatrix<'a>>,
    /// The layer that asks.
    layer: usize,
}

impl<'a> Tensors<'a> {
    fn damaged(&self, what: String) -> Error {
        Error::format(self.source.path(), what)
    }

    fn info(&self, name: &str) -> Result<&'a TensorInfo> {
        self.source.tensor(name).ok_or_else(|| self.damaged(format!("the tensor {name} is missing")))
    }

    /// A tensor whose rows, all dimensions but the last taken together, and columns are as expected.
    fn checked(&self, name: &str, rows: usize, cols: usize) -> Result<&'a TensorInfo> {
        let info = self.info(name)?;
        if info.shape.rows() != rows as u64 || info.shape.cols() != cols as u64 {
            let found = info.shape;
            return Err(self.damaged(format!("the tensor {name} has shape {found:?}, expected [{rows}, {cols}]")));
        }
        Ok(info)
    }

    /// Rows of a tensor of `of` rows in all.
    fn rows(&mut self, name: &str, of: usize, rows: Range<usize>, cols: usize) -> Result<Weight> {
        let info = self.checked(name, of, cols)?;
        let format = quant::format(info.dtype)?;
        format.row_bytes(cols as u64)?;
        // Only float matrices are converted: a second rounding of quantised ones would add nothing but error.
        let target = self.quantize.filter(|t| format.block_len == 1 && cols.is_multiple_of(t.block_len));
        let (source, first_row, rows) = (self.source, rows.start, rows.len());
        self.matrices.push(FileMatrix {
            source,
            info,
            format,
            target: target.unwrap_or(format),
            first_row,
            rows,
            cols,
            layers: self.layer..self.layer + 1,
            table: false,
        });
        Ok(Weight(self.matrices.len() as u32 - 1))
    }

    fn matrix(&mut self, name: &str, rows: usize, cols: usize) -> Result<Weight> {
        self.rows(name, rows, 0..rows, cols)
    }

    /// Rows to be looked up.
    fn table(&mut self, name: &str, rows: usize, cols: usize) -> Result<Weight> {
        let weight = self.matrix(name, rows, cols)?;
        self.matrices[weight.0 as usize].table = true;
        Ok(weight)
    }

    fn values(&self, name: &str, len: usize) -> Result<Vec<f32>> {
        let info = self.checked(name, 1, len)?;
        let format = quant::format(info.dtype)?;
        if format.block_len != 1 {
            return Err(self.damaged(format!("the tensor {name} has type {}, expected a float type", format.name)));
        }
        let mut raw = try_filled("a vector", len * format.block_bytes, 0u8)?;
        self.source.read(info, 0, &mut raw)?;
        let mut values = try_filled("a vector", len, 0f32)?;
        (format.dequantize)(&raw, &mut values);
        if let Some(i) = values.iter().position(|v| !v.is_finite()) {
            return Err(self.damaged(format!("the tensor {name} holds no finite number at {i}")));
        }
        Ok(values)
    }

    /// A part of a bias vector that a file may leave out.
    fn bias(&mut self, name: &str, of: usize, part: Range<usize>) -> Result<Option<Vector>> {
        if self.source.tensor(name).is_none() {
            return Ok(None);
        }
        let values = self.values(name, of)?;
        self.backend.upload_vector(&values[part]).map(Some)
    }

    fn norm(&mut self, prefix: &str, group: usize, len: usize) -> Result<Norm> {
        let mut weight = self.values(&format!("{prefix}.weight"), len)?;
        weight.iter_mut().for_each(|w| *w += self.config.norm_offset);
        let weight = self.backend.upload_vector(&weight)?;
        let bias = match self.config.norm {
            NormKind::Rms => None,
            NormKind::Layer => self.bias(&format!("{prefix}.bias"), len, 0..len)?,
        };
        Ok(Norm { kind: self.config.norm, weight, bias, eps: self.config.norm_eps, group })
    }

    fn norm_if(&mut self, present: bool, prefix: String, group: usize) -> Result<Option<Norm>> {
        present.then(|| self.norm(&prefix, group, group)).transpose()
    }

    fn projection(&mut self, prefix: &str, rows: usize, cols: usize, out: Act) -> Result<Projection> {
        self.part(prefix, rows, 0..rows, cols, out)
    }

    /// A projection that is some rows of a tensor with `of` rows.
    fn part(&mut self, prefix: &str, of: usize, rows: Range<usize>, cols: usize, out: Act) -> Result<Projection> {
        let weight = self.rows(&format!("{prefix}.weight"), of, rows.clone(), cols)?;
        let bias = self.bias(&format!("{prefix}.bias"), of, rows)?;
        Ok(Projection { weight, bias, out })
    }

    fn network(&mut self) -> Result<Network> {
        let c = self.config;
        let embedding = self.table("token_embd.weight", c.vocab, c.hidden)?;
        let positions = match c.positions {
            Positions::Rope => None,
            Positions::Learned => {
                let rows = self.info("position_embd.weight")?.shape.rows();
                if rows < u64::from(c.context_length) {
                    return Err(self.damaged(format!("{rows} learned positions for a context of {}", c.context_length)));
                }
                Some(self.table("position_embd.weight", rows as usize, c.hidden)?)
            }
        };
        let mut ropes = Vec::new();
        for r in &c.ropes {
            let divisors = self.rope_divisors(&r.scaling)?;
            ropes.push(self.backend.upload_rope(&rope::table(r, divisors.as_deref())?)?);
        }
        let layers = (0..c.layers.len()).map(|i| self.layer(i)).collect::<Result<_>>()?;
        let output_norm = self.norm("output_norm", c.hidden, c.hidden)?;
        let head = match self.source.tensor("output.weight") {
            Some(_) => self.matrix("output.weight", c.vocab, c.hidden)?,
            None => {
                let shared = &mut self.matrices[embedding.0 as usize];
                (shared.layers, shared.table) = (0..c.layers.len(), false);
                embedding
            }
        };
        let head_bias = self.bias("output.bias", c.vocab, 0..c.vocab)?;
        Ok(Network { config: c.clone(), embedding, positions, layers, ropes, output_norm, head, head_bias })
    }

    /// What the file divides the angles by: LongRoPE's list of two, or one for all contexts that may be absent.
    fn rope_divisors(&self, scaling: &RopeScaling) -> Result<Option<Vec<f32>>> {
        let name = match scaling {
            RopeScaling::LongRope { long: true, .. } => "rope_factors_long.weight",
            RopeScaling::LongRope { long: false, .. } => "rope_factors_short.weight",
            _ => "rope_freqs.weight",
        };
        if let Some(info) = self.source.tensor(name) {
            return self.values(name, info.shape.n_elements().min(1 << 20) as usize).map(Some);
        }
        // Folders keep the lists in their configuration.
        match (self.source.metadata.f32s(name)?, scaling) {
            (Some(list), _) => Ok(Some(list.into_owned())),
            (None, RopeScaling::LongRope { .. }) => Err(self.damaged(format!("the tensor {name} is missing"))),
            (None, _) => Ok(None),
        }
    }

    fn layer(&mut self, i: usize) -> Result<Layer> {
        self.layer = i;
        let c = self.config;
        let (h, q, kv) = (c.hidden, c.q_dim(), c.kv_dim());
        let name = |part: &str| format!("blk.{i}.{part}");
        let qkv = if c.fused_qkv {
            let all = q + 2 * kv;
            let mut part = |rows, out| self.part(&name("attn_qkv"), all, rows, h, out);
            [part(0..q, Act::Q)?, part(q..q + kv, Act::K)?, part(q + kv..all, Act::V)?]
        } else {
            [
                self.projection(&name("attn_q"), q, h, Act::Q)?,
                self.projection(&name("attn_k"), kv, h, Act::K)?,
                self.projection(&name("attn_v"), kv, h, Act::V)?,
            ]
        };
        let qk = |all| match c.qk_norm {
            QkNorm::Head => c.head_dim,
            _ => all,
        };
        let qk_norm = c.qk_norm != QkNorm::None;
        Ok(Layer {
            attention_norm: self.norm_if(c.pre_norm, name("attn_norm"), h)?,
            qkv,
            q_norm: self.norm_if(qk_norm, name("attn_q_norm"), qk(q))?,
            k_norm: self.norm_if(qk_norm, name("attn_k_norm"), qk(kv))?,
            output: self.projection(&name("attn_output"), h, q, Act::O)?,
            post_attention_norm: self.norm_if(c.post_norm, name("post_attention_norm"), h)?,
            ffn_norm: self.norm_if(c.pre_norm, name("ffn_norm"), h)?,
            ffn: match c.moe {
                Some(moe) if c.layers[i].moe => self.experts(i, moe)?,
                _ => self.dense(i)?,
            },
            post_ffn_norm: self.norm_if(c.post_norm, name("post_ffw_norm"), h)?,
        })
    }

    fn dense(&mut self, i: usize) -> Result<Ffn> {
        let (h, f) = (self.config.hidden, self.config.ffn);
        let (gate, up, down) = (format!("blk.{i}.ffn_gate"), format!("blk.{i}.ffn_up"), format!("blk.{i}.ffn_down"));
        let up = match (self.config.gated, self.config.fused_gate_up) {
            (true, true) => vec![self.part(&up, 2 * f, 0..f, h, Act::G)?, self.part(&up, 2 * f, f..2 * f, h, Act::U)?],
            (true, false) => vec![self.projection(&gate, f, h, Act::G)?, self.projection(&up, f, h, Act::U)?],
            (false, _) => vec![self.projection(&up, f, h, Act::G)?],
        };
        Ok(Ffn::Dense { up, down: self.projection(&down, h, f, Act::O)? })
    }

    fn experts(&mut self, i: usize, moe: MoeConfig) -> Result<Ffn> {
        let (h, n, f) = (self.config.hidden, moe.n_experts, moe.ffn);
        let name = |part: &str| format!("blk.{i}.ffn_{part}_exps.weight");
        Ok(Ffn::Experts {
            router: self.projection(&format!("blk.{i}.ffn_gate_inp"), n, h, Act::R)?,
            routing: moe.routing,
            experts: Experts {
                gate: self.matrix(&name("gate"), n * f, h)?,
                up: self.matrix(&name("up"), n * f, h)?,
                down: self.matrix(&name("down"), n * h, f)?,
                n_experts: n,
                activation: self.config.activation,
            },
        })
    }
}
