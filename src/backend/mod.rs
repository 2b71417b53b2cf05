//! The verbs that a network is written in, and the devices that perform them.
//!
//! A verb works on named activations (`Act`) of the current `Batch`, so that the network never touches device
//! memory; what changes per step travels in `Batch` alone, so that a device can replay a recorded step.

pub mod cpu;
pub mod cuda;
pub mod split;

use std::any::Any;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use self::cpu::kernels::Isa;
use self::cpu::pool::Pool;
use crate::error::{Error, Result};
use crate::tensor::DType;

/// A matrix `[rows, cols]` in the memory of a backend.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Weight(pub u32);

/// An f32 vector in the memory of a backend: norm weights, biases.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Vector(pub u32);

/// A rotary table in the memory of a backend.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RopeTable(pub u32);

/// The bytes of a matrix on their way from a file to a backend. Rows lie in `dtype`'s block layout.
pub trait MatrixSource: Sync {
    /// For messages.
    fn name(&self) -> &str;
    fn dtype(&self) -> DType;
    fn rows(&self) -> usize;
    fn cols(&self) -> usize;
    /// The layers that need it; embeddings count as the first one's, the head as the last one's.
    fn layers(&self) -> Range<usize> {
        0..usize::MAX
    }
    /// Whether it is a table, of which rows are looked up and which nothing is multiplied with.
    fn is_table(&self) -> bool {
        false
    }
    /// Reads whole rows; `out` is `rows.len() * row_bytes` long. Any thread, several at once.
    fn read(&self, rows: Range<usize>, out: &mut [u8]) -> Result<()>;
    /// All rows, where the file is mapped and the caller wants its weights used in place.
    fn mapped(&self) -> Option<SharedBytes> {
        None
    }
}

/// A range of bytes that keeps its owner alive.
#[derive(Clone)]
pub struct SharedBytes {
    pub owner: Arc<dyn AsRef<[u8]> + Send + Sync>,
    pub range: Range<usize>,
}

/// Widths of the activations, in values per token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Widths {
    pub hidden: usize,
    /// `n_heads * head_dim`
    pub q: usize,
    /// `n_kv_heads * head_dim`
    pub kv: usize,
    /// Widest feed-forward layer; 0 where all are experts'.
    pub ffn: usize,
    pub vocab: usize,
    pub n_experts: usize,
    pub n_experts_used: usize,
    pub expert_ffn: usize,
}

/// The activations of a step, each `[n tokens, width]` in f32.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Act {
    /// The residual stream, `hidden` wide.
    X,
    /// Its normalised copy, input of a block, `hidden` wide.
    H,
    Q,
    K,
    V,
    /// Output of attention before its projection, `q` wide.
    A,
    /// Output of a block before it joins the residual stream, `hidden` wide.
    O,
    /// Gate of the feed-forward block; `glu` leaves its product here, `ffn` wide.
    G,
    /// Up projection, `ffn` wide.
    U,
    /// Router scores, `n_experts` wide.
    R,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NormKind {
    /// `x / sqrt(mean(x^2) + eps) * weight`
    Rms,
    /// `(x - mean) / sqrt(var + eps) * weight + bias`
    Layer,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Norm {
    pub kind: NormKind,
    pub weight: Vector,
    pub bias: Option<Vector>,
    pub eps: f32,
    /// Values normalised together; the width of the activation or the width of a head.
    pub group: usize,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Projection {
    pub weight: Weight,
    pub bias: Option<Vector>,
    pub out: Act,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RopePairs {
    /// Dimension `2i` turns with `2i + 1`.
    Adjacent,
    /// Dimension `i` turns with `i + n/2`.
    Halves,
}

/// Rotary position embedding: angle of pair `i` at position `p` is `p * inv_freq[i]`.
#[derive(Clone, Debug)]
pub struct Rope {
    pub pairs: RopePairs,
    /// One a pair; `2 * inv_freq.len() <= head_dim`, the dimensions behind are left alone.
    pub inv_freq: Vec<f64>,
    /// Factor on sine and cosine (YaRN, LongRoPE); 1 elsewhere.
    pub magnitude: f32,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Attention {
    pub layer: usize,
    /// Factor on `q . k`.
    pub scale: f32,
    /// `cap * tanh(score / cap)` where not 0.
    pub softcap: f32,
    /// A token sees itself and the `window - 1` before it; 0: all.
    pub window: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Activation {
    Silu,
    /// The tanh approximation.
    Gelu,
    GeluErf,
    Relu,
}

/// How the scores of a router become the weights of the chosen experts.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Routing {
    pub n_used: usize,
    /// Softmax over all experts before the choice (Qwen) rather than over the chosen ones (Mixtral).
    pub softmax_first: bool,
    /// Make the chosen weights sum to 1.
    pub renormalise: bool,
}

/// Stacked experts: `gate`, `up` are `[n_experts * expert_ffn, hidden]`, `down` is `[n_experts * hidden, expert_ffn]`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Experts {
    pub gate: Weight,
    pub up: Weight,
    pub down: Weight,
    pub n_experts: usize,
    pub activation: Activation,
}

/// The shape of a key-value cache.
#[derive(Clone, Debug)]
pub struct KvSpec {
    pub layers: usize,
    pub n_kv_heads: usize,
    pub head_dim: usize,
    /// Positions.
    pub capacity: usize,
    /// `quant::F32`, `quant::Q8_0` or `quant::F16`, which stands for any numbers of 16 bits.
    pub k_type: DType,
    pub v_type: DType,
    /// For each layer how many positions it keeps, the newest ones, a multiple of `RING_ALIGN`; 0: all. Position `p`
    /// lies where `p` modulo that number does. Empty: every layer keeps all.
    pub rings: Vec<usize>,
}

/// No chunk of positions that a performer reads together wraps around the end of a ring of this multiple.
pub const RING_ALIGN: usize = 256;

impl KvSpec {
    /// Positions that a layer keeps.
    pub fn kept(&self, layer: usize) -> usize {
        match self.rings.get(layer) {
            None | Some(0) => self.capacity,
            Some(&ring) => ring.min(self.capacity),
        }
    }
}

/// Keys and values of one sequence in the memory of a backend. Which positions are valid is known to its owner;
/// a position that is written again is replaced.
pub trait Kv: Any + Send + Sync {
    fn spec(&self) -> &KvSpec;
    /// Memory set aside, in bytes.
    fn bytes(&self) -> u64;
    /// Of these, in memory of the host.
    fn host_bytes(&self) -> u64 {
        self.bytes()
    }
    /// A copy of positions `0..len` with the same capacity.
    fn fork(&self, len: usize) -> Result<Box<dyn Kv>>;
    fn as_any(&self) -> &dyn Any;
    fn as_any_mut(&mut self) -> &mut dyn Any;
    /// What it is made of, where layers are divided between devices.
    fn parts(&self) -> &[Box<dyn Kv>] {
        &[]
    }
    fn parts_mut(&mut self) -> &mut [Box<dyn Kv>] {
        &mut []
    }
}

impl dyn Kv + '_ {
    /// The cache of a backend: this one, or the part of it that is a `T`.
    pub fn own<T: Any>(&self) -> Option<&T> {
        self.as_any().downcast_ref().or_else(|| self.parts().iter().find_map(|part| part.as_any().downcast_ref()))
    }

    pub fn own_mut<T: Any>(&mut self) -> Option<&mut T> {
        if self.as_any().is::<T>() {
            return self.as_any_mut().downcast_mut();
        }
        self.parts_mut().iter_mut().find_map(|part| part.as_any_mut().downcast_mut())
    }
}

/// What a model takes of a device beside its weights: a cache, and a performer of steps.
#[derive(Clone, Debug)]
pub struct Needs {
    pub kv: KvSpec,
    pub widths: Widths,
    pub head_dim: usize,
    pub max_tokens: usize,
    pub max_outputs: usize,
}

/// In `Batch::ids`: the arg-max of output 0 of the step that was submitted before.
pub const FOLLOWING: u32 = u32::MAX;

/// What one step works on: `n = ids.len()` tokens of any mix of sequences.
pub struct Batch<'a> {
    /// `[n]`
    pub ids: &'a [u32],
    /// `[n]`, position of each token in its sequence. Tokens of one sequence stand together, in order.
    pub positions: &'a [u32],
    /// `[n]`, index into `kvs`.
    pub slots: &'a [u32],
    pub kvs: &'a mut [&'a mut dyn Kv],
    /// Tokens whose logits are wanted, as indices into `ids`, ascending.
    pub outputs: &'a [u32],
}

/// What a device is, for listings.
#[derive(Clone, Debug)]
pub struct DeviceInfo {
    pub name: String,
    pub kind: DeviceKind,
    /// Instruction set or compute capability.
    pub isa: String,
    pub memory_total: u64,
    pub memory_free: u64,
    /// Why it cannot be used, empty where it can.
    pub unavailable: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeviceKind {
    Cpu,
    Cuda,
}

/// What a step spends its time on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// Matrix products of layers, with what shares their kernels.
    Products,
    /// Norms and rotation of heads, the cache, attention.
    Attention,
    /// The choice of experts, and experts.
    Experts,
    /// Logits and their arg-max.
    Head,
    /// Embeddings, norms, sums and gates that stand alone.
    Other,
}

impl Part {
    pub const ALL: [Part; 5] = [Part::Products, Part::Attention, Part::Experts, Part::Head, Part::Other];
}

/// By `Part`: how often, and how long in all.
pub type Times = [(u64, Duration); Part::ALL.len()];

/// Called between pieces of an upload with bytes done and bytes in all; an error stops the upload.
pub type Progress<'a> = dyn FnMut(u64, u64) -> Result<()> + 'a;

/// A device with the weights of one model.
pub trait Backend: Send + Sync {
    fn device(&self) -> &DeviceInfo;
    /// Bytes that `upload` would hold for these matrices. Cheap; reads nothing.
    fn upload_bytes(&self, sources: &[&dyn MatrixSource]) -> Result<u64>;
    /// Of these, in memory of the host.
    fn upload_host_bytes(&self, sources: &[&dyn MatrixSource]) -> Result<u64> {
        self.upload_bytes(sources)
    }
    /// Brings matrices into the layout that the kernels read. Source `i` becomes
    /// `Weight(i)`. Once a model.
    fn upload(&mut self, sources: &[&dyn MatrixSource], progress: &mut Progress) -> Result<Vec<Weight>>;
    fn upload_vector(&mut self, values: &[f32]) -> Result<Vector>;
    fn upload_rope(&mut self, rope: &Rope) -> Result<RopeTable>;
    fn new_kv(&self, spec: &KvSpec) -> Result<Box<dyn Kv>>;
    /// A performer with scratch for `max_tokens` tokens a step and logits for `max_outputs` of them.
    fn new_exec(
        self: Arc<Self>,
        widths: &Widths,
        head_dim: usize,
        max_tokens: usize,
        max_outputs: usize,
    ) -> Result<Box<dyn Exec>>;
    /// Bytes that `new_kv` and `new_exec` would set aside; 0 where memory is taken as it is used.
    fn working_bytes(&self, _needs: &Needs) -> Result<u64> {
        Ok(0)
    }
    /// Bytes held for weights.
    fn weight_bytes(&self) -> u64;
    /// What it is made of, where layers are divided between devices: those of the first layers, then of the last.
    fn parts(&self) -> &[Arc<dyn Backend>] {
        &[]
    }
}

/// Performs the verbs of one step at a time. Between `begin` and `end` every verb takes the same batch.
/// After an error the step is abandoned with `end`; the next `begin` starts clean.
pub trait Exec: Send {
    fn max_tokens(&self) -> usize;
    fn begin(&mut self, batch: &Batch) -> Result<()>;
    /// `X = scale * table[id]`
    fn embed(&mut self, batch: &Batch, table: Weight, scale: f32) -> Result<()>;
    /// `X += table[position]`, learned positions.
    fn embed_positions(&mut self, batch: &Batch, table: Weight) -> Result<()>;
    /// `out = norm(input)`, group by group; in place where they are the same.
    fn norm(&mut self, norm: &Norm, input: Act, out: Act) -> Result<()>;
    /// `x += scale * delta`
    fn add(&mut self, x: Act, delta: Act, scale: f32) -> Result<()>;
    /// `x += scale * delta; out = norm(x)`
    fn add_norm(&mut self, x: Act, delta: Act, scale: f32, norm: &Norm, out: Act) -> Result<()>;
    /// `out = weight * input + bias` for every projection that shares the input.
    fn project(&mut self, input: Act, projections: &[Projection]) -> Result<()>;
    /// Turns the heads of `Q` and `K` by the positions of the batch.
    fn rope(&mut self, table: RopeTable) -> Result<()>;
    /// Writes `K` and `V` to the batch's positions of a layer.
    fn kv_write(&mut self, batch: &mut Batch, layer: usize) -> Result<()>;
    /// From here on only the batch's outputs matter: a performer may go on with their rows of `X` and `Q` alone.
    fn keep_outputs(&mut self, _batch: &Batch) -> Result<()> {
        Ok(())
    }
    /// `A = softmax(scale * Q K^T) V` over each token's own sequence, positions up to its own.
    fn attend(&mut self, batch: &Batch, attention: &Attention) -> Result<()>;
    /// `G = activation(G) * U`, or `activation(G)` where not `gated`.
    fn glu(&mut self, activation: Activation, gated: bool) -> Result<()>;
    /// Chooses experts by the scores in `R`.
    fn route(&mut self, routing: &Routing) -> Result<()>;
    /// `O = sum of weight * down(activation(gate(H)) * up(H))` over the chosen experts.
    fn experts(&mut self, experts: &Experts) -> Result<()>;
    /// Logits of the batch's outputs from `H`: `cap * tanh(scale * head * h / cap)`, without the cap where it is 0.
    fn logits(&mut self, batch: &Batch, head: Weight, bias: Option<Vector>, scale: f32, softcap: f32) -> Result<()>;
    /// Arg-max of output `i` of the batch; the lowest index wins a tie.
    fn argmax(&mut self, i: usize) -> Result<u32>;
    /// Copies the logits of output `i` of the last step.
    fn read_logits(&mut self, i: usize, out: &mut [f32]) -> Result<()>;
    /// Sets an activation of the batch, `[n, width]`, from host memory.
    fn write(&mut self, act: Act, values: &[f32]) -> Result<()>;
    /// Copies an activation of the batch, `[n, width]`, to host memory.
    fn read(&mut self, act: Act, out: &mut [f32]) -> Result<()>;
    /// Ends the step; device work has finished and its errors are reported, that of submitted steps too.
    fn end(&mut self) -> Result<()>;
    /// How long the first of two devices that share the layers worked on the step that was begun last.
    fn first_share(&self) -> Duration {
        Duration::ZERO
    }
    /// What the parts of steps have taken since this was asked last; zeros where nobody measures.
    fn times(&mut self) -> Times {
        Times::default()
    }
    /// Steps that may be submitted before the oldest is collected; 0 where none can be.
    fn ahead(&self) -> usize {
        0
    }
    /// Ends the step without waiting for its work, so that the next one can begin. Its results are gone but for the arg-max
    /// of output 0, which `collect` returns and the next step can have for a token (`FOLLOWING`).
    fn submit(&mut self) -> Result<()> {
        Err(Error::unsupported("steps ahead"))
    }
    /// Waits for the oldest step that was submitted: the arg-max of its output 0.
    fn collect(&mut self) -> Result<u32> {
        Err(Error::invalid("no step was submitted"))
    }
}

/// Every device there is, the CPU first.
pub fn devices() -> Vec<DeviceInfo> {
    let mut devices = vec![cpu::device(Isa::detect())];
    devices.extend(cuda::devices());
    devices
}

/// The device that 0 stands for, as a position in `devices()` from 1: the CPU. The CUDA backend has run on the host shim
/// alone so far; what nobody has seen on a device is not chosen for anybody.
pub fn default_device() -> u32 {
    1
}

/// What is asked of a backend beside its verbs.
#[derive(Clone, Copy, Default, Debug)]
pub struct Options {
    /// No result may depend on how a prompt is cut nor on the other sequences of a batch, which the CPU's never do.
    pub fixed: bool,
    /// Performers of a GPU measure the parts of their steps: `Exec::times`.
    pub profile: bool,
}

/// Opens entry `device - 1` of `devices()` for one model; 0: the CPU.
pub fn open(device: u32, pool: &Arc<Pool>, options: Options) -> Result<Box<dyn Backend>> {
    if device <= 1 {
        return Ok(Box::new(cpu::CpuBackend::new(pool.clone(), Isa::detect())));
    }
    match devices().into_iter().nth(device as usize - 1) {
        Some(d) if d.unavailable.is_empty() => Ok(Box::new(cuda::open(device as i32 - 2)?.with(options))),
        Some(d) => Err(Error::DeviceUnavailable { device: d.name, why: d.unavailable }),
        None => Err(Error::invalid(format!("device {device} does not exist"))),
    }
}
