//! The file's description of embeddings: pooling, dense layers, classifier head.

use super::Builder;
use crate::error::{Error, Result};
use crate::format::Value;
use crate::model::pooling::{Dense, DenseActivation, EmbeddingHead, Pooling, Ranker};

/// Maximum width of a layer after pooling.
const MAX_WIDTH: usize = 1 << 16;

impl Builder<'_> {
    /// Reads the description. `encoder`: the network is bidirectional.
    pub(super) fn embedding_head(&mut self, encoder: bool) -> Result<EmbeddingHead> {
        let b = self;
        let hidden = b.hyper.hidden;
        let key = "pooling_type";
        // 0 is a valid value, although some converters write it for "unset".
        let declared = match b.keys.get(key) {
            Some(_) => b.keys.metadata.i64(&b.keys.name(key))?,
            None => (b.keys.metadata.get(&b.keys.name(key)) == Some(&Value::Int(0))).then_some(0),
        };
        let pooling = match declared {
            None => None,
            Some(0) => Some(Pooling::None),
            Some(1) => Some(Pooling::Mean),
            Some(2) => Some(Pooling::Cls),
            Some(3) => Some(Pooling::Last),
            Some(4) => Some(Pooling::Rank),
            Some(_) => return Err(b.keys.unsupported(key)),
        };
        let mut dense = Vec::new();
        let mut cols = hidden;
        for part in ["dense_2", "dense_3"] {
            if let Some(layer) = read_dense(b, part, cols)? {
                for (end, width) in [("in", cols), ("out", layer.rows)] {
                    let key = format!("{part}_feat_{end}");
                    if b.keys.size(&key)?.is_some_and(|declared| declared != width) {
                        return Err(b.keys.unsupported(&key));
                    }
                }
                cols = layer.rows;
                dense.push(layer);
            }
        }
        // Decoders may contain unused classifier heads.
        let ranks = encoder || pooling == Some(Pooling::Rank);
        let ranker = if ranks { read_ranker(b, encoder)? } else { None };
        if pooling == Some(Pooling::Rank) && ranker.is_none() {
            return Err(b.keys.unsupported(key));
        }
        Ok(EmbeddingHead { hidden, pooling, dense, ranker })
    }
}

fn read_ranker(b: &mut Builder, encoder: bool) -> Result<Option<Ranker>> {
    let is_modern = b.hyper.traits.modern_classifier;
    let pooling = match b.keys.size("classifier.pooling_type")? {
        Some(1) => Pooling::Mean,
        None if is_modern => Pooling::Mean,
        None | Some(2) if encoder => Pooling::Cls,
        None => Pooling::Last,
        Some(_) => return Err(b.keys.unsupported("classifier.pooling_type")),
    };
    let mut layers = Vec::new();
    let mut cols = b.hyper.hidden;
    let activation = match b.keys.str("classifier.activation")? {
        None if is_modern => DenseActivation::GeluErf,
        None | Some("tanh") => DenseActivation::Tanh,
        Some("gelu") => DenseActivation::GeluErf,
        Some("relu") => DenseActivation::Relu,
        Some(_) => return Err(b.keys.unsupported("classifier.activation")),
    };
    if let Some(mut layer) = read_dense(b, "cls", cols)? {
        layer.activation = Some(activation);
        layer.norm = b.tensors.vector_if_present("cls.norm.weight", layer.rows)?.map(|weight| (weight, b.layer_eps));
        cols = layer.rows;
        layers.push(layer);
    }
    let ahead = b.keys.size("classifier.layers_ahead")?.unwrap_or(0);
    if ahead > layers.len() || ahead > 0 && cols != b.hyper.hidden {
        return Err(b.keys.unsupported("classifier.layers_ahead"));
    }
    layers.extend(read_dense(b, "cls.output", cols)?);
    let softmax = b.hyper.traits.softmax_classifier;
    Ok((!layers.is_empty()).then_some(Ranker { pooling, layers, ahead, softmax }))
}

/// Returns a layer from `part.weight` and `part.bias`, if present.
fn read_dense(b: &mut Builder, part: &str, cols: usize) -> Result<Option<Dense>> {
    let name = format!("{part}.weight");
    if !b.tensors.has(&name) {
        return Ok(None);
    }
    let rows = b.tensors.rows(&name)?;
    if rows > MAX_WIDTH {
        return Err(Error::unsupported(format!("the tensor {name} has {rows} rows")));
    }
    let weight = b.tensors.matrix_values(&name, rows, cols)?;
    let bias = b.tensors.vector_if_present(&format!("{part}.bias"), rows)?;
    Ok(Some(Dense { rows, weight, bias, activation: None, norm: None }))
}
