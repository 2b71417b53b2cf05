//! The way from the hidden states of a text to its embedding: the pooling that a file names, layers after it, and the
//! head of a classifier that ranks. Kept in f32 whatever the file's types are, because it is small.

/// The way from the hidden states of the tokens of a text to one vector.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pooling {
    /// One vector for each token.
    None,
    Mean,
    /// The first token's.
    Cls,
    /// The last token's.
    Last,
    /// Scores of a classifier.
    Rank,
}

/// `y = norm(activation(weight * x + bias))`, each part where it is there.
pub struct Dense {
    pub rows: usize,
    /// `[rows, cols]`
    pub weight: Vec<f32>,
    pub bias: Option<Vec<f32>>,
    pub activation: Option<DenseActivation>,
    /// Weights of a layer norm without bias, and its epsilon.
    pub norm: Option<(Vec<f32>, f32)>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DenseActivation {
    Tanh,
    GeluErf,
    Relu,
}

/// The head of a classifier.
pub struct Ranker {
    /// The way to the vector that is classified; none and rank are not among them.
    pub pooling: Pooling,
    pub layers: Vec<Dense>,
    /// Number of the first layers, which each token's vector takes ahead of the pooling.
    pub ahead: usize,
    /// Scores are probabilities.
    pub softmax: bool,
}

/// The choices by which hidden states of a network become embeddings.
pub struct EmbeddingHead {
    /// Width of the hidden states.
    pub hidden: usize,
    /// `None` where the file names none.
    pub pooling: Option<Pooling>,
    /// Layers after the pooling.
    pub dense: Vec<Dense>,
    pub ranker: Option<Ranker>,
}

impl EmbeddingHead {
    /// Bytes in memory.
    pub fn bytes(&self) -> u64 {
        let layers = self.dense.iter().chain(self.ranker.iter().flat_map(|ranker| &ranker.layers));
        layers.map(|layer| 4 * layer.weight.len() as u64).sum()
    }
}
