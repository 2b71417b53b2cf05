//! From the hidden states of a text to its embedding: pooling, dense layers, and the head of a reranking classifier.
//! The weights are kept in f32 whatever the file's types, because they are small.

/// How the hidden states of a text's tokens become one vector.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pooling {
    /// No pooling: one vector per token.
    None,
    Mean,
    /// The first token's.
    Cls,
    /// The last token's.
    Last,
    /// Scores of a classifier.
    Rank,
}

/// `y = norm(activation(weight * x + bias))`; each part is optional.
pub struct Dense {
    pub rows: usize,
    /// `[rows, cols]`
    pub weight: Vec<f32>,
    pub bias: Option<Vec<f32>>,
    pub activation: Option<DenseActivation>,
    /// Weights of a LayerNorm without bias, and its epsilon.
    pub norm: Option<(Vec<f32>, f32)>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DenseActivation {
    Tanh,
    GeluErf,
    Relu,
}

/// A classifier head.
pub struct Ranker {
    /// Pooling of the vector to classify; never `None` or `Rank`.
    pub pooling: Pooling,
    pub layers: Vec<Dense>,
    /// Number of leading layers that are applied per token, before pooling.
    pub ahead: usize,
    /// True if scores are probabilities (softmax).
    pub softmax: bool,
}

/// How the hidden states of a network become embeddings.
pub struct EmbeddingHead {
    /// Width of the hidden states.
    pub hidden: usize,
    /// `None` if the file declares none.
    pub pooling: Option<Pooling>,
    /// Layers after pooling.
    pub dense: Vec<Dense>,
    pub ranker: Option<Ranker>,
}

impl EmbeddingHead {
    /// Returns the number of bytes in memory.
    pub fn bytes(&self) -> u64 {
        let layers = self.dense.iter().chain(self.ranker.iter().flat_map(|ranker| &ranker.layers));
        layers.map(|layer| 4 * layer.weight.len() as u64).sum()
    }
}
