// Code generated from realizar.h by the build, as make header does. DO NOT EDIT.

package realizar

// ElementType is a type that a load can quantize float matrices to.
type ElementType uint32

// The values of ElementType.
const (
	// The types of the file.
	TypeDefault ElementType = rz_TYPE_DEFAULT
	// Single precision.
	TypeF32 ElementType = rz_TYPE_F32
	// Half precision.
	TypeF16 ElementType = rz_TYPE_F16
	// Bfloat16.
	TypeBF16 ElementType = rz_TYPE_BF16
	// Blocks of 32 values with 4 bits each and a scale, 4.5 bits per value.
	TypeQ4_0 ElementType = rz_TYPE_Q4_0
	// Blocks of 32 values with 4 bits each, a scale and a minimum, 5 bits per value.
	TypeQ4_1 ElementType = rz_TYPE_Q4_1
	// Blocks of 32 values with 5 bits each and a scale, 5.5 bits per value.
	TypeQ5_0 ElementType = rz_TYPE_Q5_0
	// Blocks of 32 values with 5 bits each, a scale and a minimum, 6 bits per value.
	TypeQ5_1 ElementType = rz_TYPE_Q5_1
	// Blocks of 32 values with 8 bits each and a scale, 8.5 bits per value.
	TypeQ8_0 ElementType = rz_TYPE_Q8_0
	// K-quants: blocks of 256 values in groups; each group has a scale, in Q2_K, Q4_K and Q5_K also a minimum; the
	// digit is the number of bits per value.
	TypeQ4_K ElementType = rz_TYPE_Q4_K
	// K-quants: blocks of 256 values in groups; each group has a scale, in Q2_K, Q4_K and Q5_K also a minimum; the
	// digit is the number of bits per value.
	TypeQ5_K ElementType = rz_TYPE_Q5_K
	// K-quants: blocks of 256 values in groups; each group has a scale, in Q2_K, Q4_K and Q5_K also a minimum; the
	// digit is the number of bits per value.
	TypeQ6_K ElementType = rz_TYPE_Q6_K
)

// CacheType is the element type of the keys or the values of a KV cache.
type CacheType uint32

// The values of CacheType.
const (
	// The same as F16.
	CacheDefault CacheType = rz_TYPE_DEFAULT
	// Single precision, 32 bits per value.
	CacheF32 CacheType = rz_TYPE_F32
	// Half precision on a GPU, 14-bit integers with scales on the CPU: 16 bits per value.
	CacheF16 CacheType = rz_TYPE_F16
	// 4.5 bits per value; better for values than for keys.
	CacheQ4_0 CacheType = rz_TYPE_Q4_0
	// Blocks of 32 values with 8 bits each and a scale, 8.5 bits per value.
	CacheQ8_0 CacheType = rz_TYPE_Q8_0
)
