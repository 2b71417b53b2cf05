// The element types that options take. The build writes this file: make header.

/// A type that a load can quantize float matrices to.
public enum ElementType: UInt32, Sendable {
    /// The types of the file.
    case `default` = 0
    /// Single precision.
    case f32 = 256
    /// Half precision.
    case f16 = 1
    /// Bfloat16.
    case bf16 = 30
    /// Blocks of 32 values with 4 bits each and a scale, 4.5 bits per value.
    case q4_0 = 2
    /// Blocks of 32 values with 4 bits each, a scale and a minimum, 5 bits per value.
    case q4_1 = 3
    /// Blocks of 32 values with 5 bits each and a scale, 5.5 bits per value.
    case q5_0 = 6
    /// Blocks of 32 values with 5 bits each, a scale and a minimum, 6 bits per value.
    case q5_1 = 7
    /// Blocks of 32 values with 8 bits each and a scale, 8.5 bits per value.
    case q8_0 = 8
    /// K-quants: blocks of 256 values in groups; each group has a scale, in Q2_K, Q4_K and Q5_K also a minimum;
    /// the digit is the number of bits per value.
    case q4_k = 12
    /// K-quants: blocks of 256 values in groups; each group has a scale, in Q2_K, Q4_K and Q5_K also a minimum;
    /// the digit is the number of bits per value.
    case q5_k = 13
    /// K-quants: blocks of 256 values in groups; each group has a scale, in Q2_K, Q4_K and Q5_K also a minimum;
    /// the digit is the number of bits per value.
    case q6_k = 14
}

/// The element type of the keys or the values of a KV cache.
public enum CacheType: UInt32, Sendable {
    /// The same as F16.
    case `default` = 0
    /// Single precision, 32 bits per value.
    case f32 = 256
    /// Half precision on a GPU, 14-bit integers with scales on the CPU: 16 bits per value.
    case f16 = 1
    /// 4.5 bits per value; better for values than for keys.
    case q4_0 = 2
    /// Blocks of 32 values with 8 bits each and a scale, 8.5 bits per value.
    case q8_0 = 8
}
