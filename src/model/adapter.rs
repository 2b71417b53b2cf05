//! Maps the tensors of a LoRA adapter to a network's matrix products, with rows in the network's order. An adapter of
//! another network fails with the name of the tensor that does not fit.

use std::ops::Range;

use super::builder::Network;
use super::hyper::HeadShape;
use super::tensors::RowRuns;
use crate::error::{Error, Result, try_filled, try_vec};
use crate::format::{AdapterBase, AdapterFile, FactorPair, TensorInfo};
use crate::graph::op::{Op, Weight};
use crate::graph::weights::{AdapterTarget, LowRank, MatrixSource, RopePairs};
use crate::graph::without_matrix;
use crate::quant;
use crate::tensor::DType;

/// Properties of a network that adapters need.
pub struct Adaptable {
    architecture: String,
    heads: HeadShape,
    /// Order of RoPE pairs in queries and keys: in the network, and in GGUF files of the architecture.
    pairs: Option<[RopePairs; 2]>,
    /// Width of the widest input of a product, the maximum rank.
    widest: usize,
    /// The matrices of the program, indexed by `Weight`.
    matrices: Vec<Matrix>,
    /// Indices into `matrices`, sorted by tensor name.
    by_name: Vec<usize>,
    /// Rows and columns of the output matrix, and its type.
    head: Option<(usize, usize, DType)>,
}

/// Rows of a tensor that a network multiplies by.
struct Matrix {
    name: String,
    /// Number of rows of the tensor, and the rows that the network uses.
    of: usize,
    runs: RowRuns,
    cols: usize,
    dtype: DType,
    /// Reason why no adapter can apply to the matrix.
    refused: Option<&'static str>,
}

/// Part of a tensor's product: the base product, and the rows of the adapter's B for it.
struct Part {
    target: AdapterTarget,
    rows: RowRuns,
    /// True if RoPE applies to the heads of the result.
    has_rope: bool,
    /// Type of the weights.
    dtype: DType,
}

/// Matrices A and B of an adapter, and their low-rank products.
pub struct Factors<'a> {
    pub matrices: Vec<FactorMatrix<'a>>,
    pub products: Vec<LowRank>,
}

/// Matrix A or B with rows in the network's order.
pub struct FactorMatrix<'a> {
    file: &'a AdapterFile,
    info: &'a TensorInfo,
    /// Rows of the tensor; `None`: all, in order.
    rows: Option<Vec<usize>>,
    /// Type to convert rows to while reading.
    target: DType,
}

/// Returns the type in which A and B are stored: 16-bit, unless the base weights are F32.
fn target(factor: DType, weights: DType) -> DType {
    if factor == quant::F32 && weights != quant::F32 { quant::F16 } else { factor }
}

impl Network<'_> {
    pub fn adaptable(&self) -> Result<Adaptable> {
        let mut matrices = try_vec("names of matrices", self.matrices.len())?;
        for matrix in &self.matrices {
            let (runs, of) = matrix.runs();
            let (name, cols, dtype) = (matrix.name().to_owned(), matrix.cols(), matrix.dtype());
            let refused = matrix.is_reordered().then_some("has inputs in an order of their own");
            matrices.push(Matrix { name, of, runs, cols, dtype, refused });
        }
        let mut head = None;
        for op in &self.program.ops {
            let mut refuse = |weight: Weight, why| matrices[weight.0 as usize].refused = Some(why);
            match op {
                Op::Project { .. } | without_matrix!() => {}
                Op::Embed { table, .. } => refuse(*table, "is looked up"),
                Op::EmbedNgrams(e) => refuse(e.table, "is looked up"),
                Op::ProjectHeads { weight, .. } => refuse(*weight, "is multiplied head by head"),
                Op::Experts(e) => e.gate.into_iter().chain([e.up, e.down]).for_each(|w| refuse(w, "has experts")),
                Op::Logits { x, head: weight, .. } => {
                    let dtype = self.matrices[weight.0 as usize].dtype();
                    let sizes = (self.program.vocab, self.program.width(*x), dtype);
                    head = (!self.scaled.contains(weight)).then_some(sizes);
                    // `head` takes adapters of the output matrix; with tied embeddings the embedding takes none.
                    refuse(*weight, "is looked up");
                }
            }
        }
        for weight in &self.scaled {
            matrices[weight.0 as usize].refused = Some("has a factor beside it");
        }
        let gguf = |pairs| self.gguf_pairs.map(|gguf| [pairs, gguf]);
        let mut by_name = try_vec("names of matrices", matrices.len())?;
        by_name.extend(0..matrices.len());
        by_name.sort_by(|&i, &j| matrices[i].name.cmp(&matrices[j].name));
        Ok(Adaptable {
            architecture: self.hyper.architecture.clone(),
            heads: self.hyper.heads,
            pairs: self.ropes.first().and_then(|rope| gguf(rope.pairs)),
            widest: self.program.widest_input(),
            matrices,
            by_name,
            head,
        })
    }
}

impl Adaptable {
    pub fn base(&self) -> AdapterBase<'_> {
        let HeadShape { n_heads, n_kv_heads, head_dim, .. } = self.heads;
        let group = [n_heads.checked_div(n_kv_heads).unwrap_or(0) as u64, head_dim as u64];
        AdapterBase { architecture: &self.architecture, group }
    }

    /// Matches the factors of an adapter to the network.
    pub fn place<'a>(&self, file: &'a AdapterFile) -> Result<Factors<'a>> {
        let path = file.path().display();
        if let Some(other) = file.architecture.as_ref().filter(|other| **other != self.architecture) {
            let what = format!("the adapter is for the architecture {other:?}; the model's is {:?}", self.architecture);
            return Err(Error::Mismatch(format!("{what}: {path}")));
        }
        // A product has at most two names.
        let most = 2 * self.matrices.len() + 1;
        let mut factors =
            Factors { matrices: try_vec("factors", most + file.pairs.len())?, products: try_vec("factors", most)? };
        for pair in &file.pairs {
            let (parts, (rows, cols)) = self.parts(pair, file)?;
            let declared = (pair.b.shape.rows(), pair.a.shape.cols());
            if declared != (rows as u64, cols as u64) {
                let what = format!("the adapter's {} has shape [{}, {}]", pair.name, declared.0, declared.1);
                return Err(Error::Mismatch(format!("{what}; it must be [{rows}, {cols}]: {path}")));
            }
            let rank = pair.a.shape.rows();
            if rank > self.widest as u64 {
                let what = format!("the adapter's {} has rank {rank}; it must be at most {}", pair.name, self.widest);
                return Err(Error::unsupported(format!("{what}: {path}")));
            }
            let a = factors.matrices.len();
            let weights = parts.first().map_or(quant::F32, |part| part.dtype);
            let [of_a, of_b] = [&pair.a, &pair.b].map(|info| target(info.dtype, weights));
            factors.matrices.push(FactorMatrix { file, info: &pair.a, rows: None, target: of_a });
            for part in parts {
                let rows = self.rows(&part, pair, file)?;
                let b = factors.matrices.len();
                factors.matrices.push(FactorMatrix { file, info: &pair.b, rows, target: of_b });
                factors.products.push(LowRank { target: part.target, a, b, factor: pair.factor });
            }
        }
        let mut all = try_vec("factors", factors.products.len())?;
        all.extend(factors.products.iter().map(|product| product.target));
        all.sort_unstable();
        match all.windows(2).any(|two| two[0] == two[1]) {
            true => Err(file.error("an adapter that changes a product twice, under two names")),
            false => Ok(factors),
        }
    }

    /// Returns the parts of a tensor's product in the network, and the shape of the tensor.
    fn parts(&self, pair: &FactorPair, file: &AdapterFile) -> Result<(Vec<Part>, (usize, usize))> {
        let (name, path) = (pair.name.as_str(), file.path().display());
        if let ("output.weight", Some((rows, cols, dtype))) = (name, self.head) {
            let head = Part { target: AdapterTarget::Logits, rows: (0..rows).into(), has_rope: false, dtype };
            return Ok((vec![head], (rows, cols)));
        }
        let named = |name: &str| self.named(name);
        let (layer, part) = name.strip_suffix(".weight").and_then(|n| n.rsplit_once('.')).unwrap_or(("", name));
        let one_of_three = ["attn_q", "attn_k", "attn_v"];
        let has_rope = |part: &str| part == "attn_q" || part == "attn_k";
        let mut parts = Vec::new();
        let mut add = |i: usize, rows: RowRuns, has_rope: bool| -> Result<()> {
            if let Some(why) = self.matrices[i].refused {
                let what = format!("a low-rank adapter of {name}, which {why} in this network");
                return Err(Error::unsupported(format!("{what}: {path}")));
            }
            let (target, dtype) = (AdapterTarget::Project(Weight(i as u32)), self.matrices[i].dtype);
            parts.push(Part { target, rows, has_rope, dtype });
            Ok(())
        };
        if let Some(&first) = named(name).first() {
            for &i in named(name) {
                add(i, self.matrices[i].runs, has_rope(part))?;
            }
            if part == "attn_qkv" && self.pairs_of(file).is_some_and(|[from, to]| from != to) {
                let what = format!("an adapter of {name} with rows in another order than the model's");
                return Err(Error::unsupported(format!("{what}: {path}")));
            }
            return Ok((parts, (self.matrices[first].of, self.matrices[first].cols)));
        }
        // The adapter may have one fused tensor where the network has q, k and v, or vice versa.
        let three = one_of_three.map(|part| named(&format!("{layer}.{part}.weight")).first().copied());
        let mut fused = named(&format!("{layer}.attn_qkv.weight")).to_vec();
        fused.sort_by_key(|&i| self.matrices[i].runs.first);
        match (part, three, one_of_three.iter().position(|one| *one == part)) {
            ("attn_qkv", [Some(q), Some(k), Some(v)], _) => {
                let (mut first, cols) = (0, self.matrices[q].cols);
                for (i, part) in [q, k, v].into_iter().zip(one_of_three) {
                    let rows = self.matrices[i].of;
                    add(i, (first..first + rows).into(), has_rope(part))?;
                    first += rows;
                }
                Ok((parts, (first, cols)))
            }
            (_, _, Some(at)) if fused.len() == 3 => {
                let rows = self.matrices[fused[at]].runs.len();
                add(fused[at], (0..rows).into(), has_rope(part))?;
                Ok((parts, (rows, self.matrices[fused[at]].cols)))
            }
            _ => Err(Error::Mismatch(format!(
                "the adapter changes {name}, which is not a matrix product of the model: {path}"
            ))),
        }
    }

    /// Returns the matrices of a tensor.
    fn named(&self, name: &str) -> &[usize] {
        let name_of = |i: usize| self.matrices[i].name.as_str();
        let start = self.by_name.partition_point(|&i| name_of(i) < name);
        let n = self.by_name[start..].partition_point(|&i| name_of(i) == name);
        &self.by_name[start..start + n]
    }

    /// Returns the order of RoPE pairs in the rows of an adapter and of the network.
    fn pairs_of(&self, file: &AdapterFile) -> Option<[RopePairs; 2]> {
        let [pairs, gguf] = self.pairs?;
        Some([if file.rope_halves { RopePairs::Halves } else { gguf }, pairs])
    }

    /// Returns the rows of B in the network's order.
    fn rows(&self, part: &Part, pair: &FactorPair, file: &AdapterFile) -> Result<Option<Vec<usize>>> {
        let (width, half) = (self.heads.head_dim, self.heads.head_dim / 2);
        // Maps a row of a head in the network to the row in the adapter.
        let reordered: Option<fn(usize, usize) -> usize> = match self.pairs_of(file).filter(|_| part.has_rope) {
            Some([RopePairs::Halves, RopePairs::Adjacent]) => Some(|i, half| i % 2 * half + i / 2),
            Some([RopePairs::Adjacent, RopePairs::Halves]) => Some(|i, half| i % half * 2 + i / half),
            _ => None,
        };
        let RowRuns { run, stride, .. } = part.rows;
        if reordered.is_some() && (half == 0 || !run.is_multiple_of(width) || !stride.is_multiple_of(width)) {
            let what = format!("an adapter of {} with heads that are not of {width}", pair.name);
            return Err(Error::unsupported(format!("{what}: {}", file.path().display())));
        }
        if reordered.is_none() && part.rows == (0..pair.b.shape.rows() as usize).into() {
            return Ok(None);
        }
        let mut rows = try_vec("rows of a factor", part.rows.len())?;
        for range in part.rows.ranges() {
            let within = |i: usize| reordered.map_or(i, |reordered| i / width * width + reordered(i % width, half));
            rows.extend((0..range.len()).map(|i| range.start + within(i)));
        }
        Ok(Some(rows))
    }
}

impl MatrixSource for FactorMatrix<'_> {
    fn name(&self) -> &str {
        &self.info.name
    }

    fn dtype(&self) -> DType {
        self.target
    }

    fn rows(&self) -> usize {
        self.rows.as_ref().map_or(self.info.shape.rows() as usize, Vec::len)
    }

    fn cols(&self) -> usize {
        self.info.shape.cols() as usize
    }

    /// Fails for NaN and infinite values.
    fn read(&self, rows: Range<usize>, out: &mut [u8]) -> Result<()> {
        let (format, is_same) = (quant::format(self.info.dtype)?, self.target == self.info.dtype);
        let row_bytes = format.row_bytes(self.cols() as u64)?;
        let mut raw = try_filled("a factor", if is_same { 0 } else { rows.len() * row_bytes as usize }, 0u8)?;
        let mut values = try_filled("a factor", rows.len() * self.cols(), 0f32)?;
        let bytes = if is_same { &mut *out } else { &mut raw[..] };
        match &self.rows {
            None => self.file.read(self.info, rows.start as u64 * row_bytes, bytes)?,
            Some(list) => {
                for (row, bytes) in list[rows].iter().zip(bytes.chunks_exact_mut(row_bytes.max(1) as usize)) {
                    self.file.read(self.info, *row as u64 * row_bytes, bytes)?;
                }
            }
        }
        format.dequantize(bytes, &mut values);
        let largest = if self.target == quant::F16 { 65504.0 } else { f32::MAX };
        if let Some(value) = values.iter().find(|value| value.is_nan() || value.abs() > largest) {
            let what = format!("the factor {} holds {value}, the largest number is {largest}", self.info.name);
            return Err(self.file.error(what));
        }
        if !is_same {
            quant::quantize(self.target, &values, out)?;
        }
        Ok(())
    }
}
