// The element types that options take. The build writes this file: make header.
namespace Realizar
{
    /// <summary>A type that a load can quantize float matrices to.</summary>
    public enum ElementType
    {
        /// <summary>The types of the file.</summary>
        Default = Native.RZ_TYPE_DEFAULT,
        /// <summary>Single precision.</summary>
        F32 = Native.RZ_TYPE_F32,
        /// <summary>Half precision.</summary>
        F16 = Native.RZ_TYPE_F16,
        /// <summary>Bfloat16.</summary>
        BF16 = Native.RZ_TYPE_BF16,
        /// <summary>Blocks of 32 values with 4 bits each and a scale, 4.5 bits per value.</summary>
        Q4_0 = Native.RZ_TYPE_Q4_0,
        /// <summary>Blocks of 32 values with 4 bits each, a scale and a minimum, 5 bits per value.</summary>
        Q4_1 = Native.RZ_TYPE_Q4_1,
        /// <summary>Blocks of 32 values with 5 bits each and a scale, 5.5 bits per value.</summary>
        Q5_0 = Native.RZ_TYPE_Q5_0,
        /// <summary>Blocks of 32 values with 5 bits each, a scale and a minimum, 6 bits per value.</summary>
        Q5_1 = Native.RZ_TYPE_Q5_1,
        /// <summary>Blocks of 32 values with 8 bits each and a scale, 8.5 bits per value.</summary>
        Q8_0 = Native.RZ_TYPE_Q8_0,
        /// <summary>K-quants: blocks of 256 values in groups; each group has a scale, in Q2_K, Q4_K and Q5_K also
        /// a minimum; the digit is the number of bits per value.</summary>
        Q4_K = Native.RZ_TYPE_Q4_K,
        /// <summary>K-quants: blocks of 256 values in groups; each group has a scale, in Q2_K, Q4_K and Q5_K also
        /// a minimum; the digit is the number of bits per value.</summary>
        Q5_K = Native.RZ_TYPE_Q5_K,
        /// <summary>K-quants: blocks of 256 values in groups; each group has a scale, in Q2_K, Q4_K and Q5_K also
        /// a minimum; the digit is the number of bits per value.</summary>
        Q6_K = Native.RZ_TYPE_Q6_K,
    }

    /// <summary>The element type of the keys or the values of a KV cache.</summary>
    public enum CacheType
    {
        /// <summary>The same as F16.</summary>
        Default = Native.RZ_TYPE_DEFAULT,
        /// <summary>Single precision, 32 bits per value.</summary>
        F32 = Native.RZ_TYPE_F32,
        /// <summary>Half precision on a GPU, 14-bit integers with scales on the CPU: 16 bits per value.</summary>
        F16 = Native.RZ_TYPE_F16,
        /// <summary>4.5 bits per value; better for values than for keys.</summary>
        Q4_0 = Native.RZ_TYPE_Q4_0,
        /// <summary>Blocks of 32 values with 8 bits each and a scale, 8.5 bits per value.</summary>
        Q8_0 = Native.RZ_TYPE_Q8_0,
    }
}
