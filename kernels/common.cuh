// Basis of all kernels: short type names, common parts of the parameters, and one wrapper per instruction that C++
// cannot express. Each wrapper has a host version, so that the same kernels run as C++ under tests/cuda_shim, thread by
// thread.
//
// Rules for this: raw PTX only in this file; no assumption that the threads of a warp run in lockstep; shared memory
// only by DYNAMIC_SHARED; any grid size. With programmatic dependent launch a kernel may start before the previous one
// has ended: until `wait_for_previous` it reads only weights.
#pragma once

#include "args.cuh"

#ifdef __CUDACC__
#define DEVICE static __device__ __forceinline__
#define DEVICE_MEMBER __device__ __forceinline__
// Declares a kernel with one struct `a` by value, `threads` threads per block and at least `blocks` blocks per SM.
#define KERNEL(name, Args, threads, blocks) \
    extern "C" __global__ void __launch_bounds__(threads, blocks) name(const __grid_constant__ Args a)
#define DYNAMIC_SHARED(name) extern __shared__ __align__(16) u8 name[]
#else
#include "shim.h"
#endif

#ifdef __CUDACC__
#define PRAGMA(text) _Pragma(#text)
#define UNROLL PRAGMA(unroll)
#define UNROLL_BY(n) PRAGMA(unroll (n))
#else
#define UNROLL
#define UNROLL_BY(n)
#endif

#ifdef __CUDACC__

template <class T> DEVICE T load(const void* p) { return *(const T*)p; }
template <class T> DEVICE void store(void* p, T v) { *(T*)p = v; }
// Converts a pointer to the shared-memory address that instructions take.
DEVICE u32 shared_address(const void* p) { return (u32)__cvta_generic_to_shared(p); }
DEVICE void sync_block() { __syncthreads(); }
DEVICE void sync_warp() { __syncwarp(); }
// Keeps the compiler from moving loads ahead on sm_120, where they would occupy so many registers that others are
// spilled. On other targets it moves fewer.
DEVICE void keep_order_of_loads() {
#if __CUDA_ARCH__ >= 1200
    __syncwarp();
#endif
}
DEVICE float shuffle_xor(float v, u32 lanes) { return __shfl_xor_sync(0xffffffffu, v, lanes); }
DEVICE i32 shuffle_xor(i32 v, u32 lanes) { return __shfl_xor_sync(0xffffffffu, v, lanes); }
DEVICE u32 shuffle_xor(u32 v, u32 lanes) { return __shfl_xor_sync(0xffffffffu, v, lanes); }
DEVICE u32 shuffle_from(u32 v, u32 lane) { return __shfl_sync(0xffffffffu, v, lane); }
DEVICE float shuffle_from(float v, u32 lane) { return __shfl_sync(0xffffffffu, v, lane); }
// Adds to a counter shared by blocks, with acquire and release: writes before a call (by this thread, or before a
// barrier with it) are visible after every later call for the same counter.
DEVICE u32 atomic_add(u32* p, u32 v) {
    u32 old;
    asm volatile("atom.acq_rel.gpu.add.u32 %0, [%1], %2;" : "=r"(old) : "l"(p), "r"(v) : "memory");
    return old;
}
// Adds without ordering other accesses, for sums.
DEVICE void add_to(u32* p, u32 v) {
    asm volatile("red.relaxed.gpu.global.add.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}
DEVICE void add_to(u64* p, u64 v) {
    asm volatile("red.relaxed.gpu.global.add.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}
DEVICE void add_to_shared(u32* p, u32 v) {
    asm volatile("red.relaxed.cta.shared.add.u32 [%0], %1;" ::"r"(shared_address(p)), "r"(v) : "memory");
}
DEVICE void add_to_shared(u64* p, u64 v) {
    asm volatile("red.relaxed.cta.shared.add.u64 [%0], %1;" ::"r"(shared_address(p)), "l"(v) : "memory");
}
// Adds and returns the previous value.
DEVICE u32 fetch_add_shared(u32* p, u32 v) {
    u32 old;
    asm volatile("atom.relaxed.cta.shared.add.u32 %0, [%1], %2;"
                 : "=r"(old)
                 : "r"(shared_address(p)), "r"(v)
                 : "memory");
    return old;
}

// Operations that are rounded individually, never fused.
DEVICE float rounded_add(float a, float b) { return __fadd_rn(a, b); }
DEVICE float rounded_mul(float a, float b) { return __fmul_rn(a, b); }
DEVICE float rounded_div(float a, float b) { return __fdiv_rn(a, b); }
DEVICE double rounded_add(double a, double b) { return __dadd_rn(a, b); }
DEVICE double rounded_mul(double a, double b) { return __dmul_rn(a, b); }
DEVICE u64 double_to_bits(double x) { return (u64)__double_as_longlong(x); }
DEVICE double bits_to_double(u64 w) { return __longlong_as_double((long long)w); }
// The upper half of the 128-bit product.
DEVICE u64 mul_high(u64 a, u64 b) { return __umul64hi(a, b); }

// c + the sum of four products of signed bytes.
DEVICE i32 dot4(u32 a, u32 b, i32 c) { return __dp4a((i32)a, (i32)b, c); }
// `dot4` with unsigned bytes of `a`.
DEVICE i32 dot4_unsigned(u32 a, u32 b, i32 c) {
    i32 d;
    asm("dp4a.u32.s32 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
    return d;
}
// Bytes of `b:a` selected by the nibbles of `selector`.
DEVICE u32 permute(u32 a, u32 b, u32 selector) { return __byte_perm(a, b, selector); }

DEVICE float half_to_float(u16 h) {
    float f;
    asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h));
    return f;
}
DEVICE u16 float_to_half(float f) {
    u16 h;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f));
    return h;
}
// Two binary16 in a word, `low` in the lower half.
DEVICE u32 pack_halves(float low, float high) {
    u32 w;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(w) : "f"(high), "f"(low));
    return w;
}

// a * b + c of both halves of words, rounded once.
DEVICE u32 fma_halves(u32 a, u32 b, u32 c) {
    u32 d;
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
    return d;
}

// The larger magnitude; NaN if either is NaN.
DEVICE float max_magnitude(float a, float b) {
    float larger;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(larger) : "f"(fabsf(a)), "f"(fabsf(b)));
    return larger;
}

// Sine and cosine of pi * x.
DEVICE void sincos_pi(float x, float& sine, float& cosine) { sincospif(x, &sine, &cosine); }
// 2^x, within 2 ulp.
DEVICE float exp2_approx(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// 1 / x, within 1 ulp; infinity for denormal x.
DEVICE float reciprocal_approx(float x) {
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// Loads weights that are read once; bypasses the L1 cache, which is left to the activations.
DEVICE uint4 load_weights16(const void* p) {
    uint4 v;
    asm("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
        : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
        : "l"(p));
    return v;
}
// Loads weights that adjacent lanes read too.
template <class T> DEVICE T load_shared_weights(const void* p) { return __ldg((const T*)p); }

// Tells the compiler that a pointer read from memory points to global memory.
template <class T> DEVICE T* in_global(T* p) {
    __builtin_assume(__isGlobal(p));
    return p;
}

// Returns `v`, hidden from the optimizer.
DEVICE u32 unknown(u32 v) {
    u32 same;
    asm volatile("mov.b32 %0, %1;" : "=r"(same) : "r"(v));
    return same;
}

DEVICE void prefetch_l2(const void* p) { asm volatile("prefetch.global.L2 [%0];" ::"l"(p)); }

// d += a * b: a is 16x16, b is 16x8, both binary16. Lane 4g + t holds rows g and g + 8 and columns 2t, 2t+1, 2t+8, 2t+9
// of a; rows 2t, 2t+1, 2t+8, 2t+9 and column g of b; rows g and g + 8 and columns 2t, 2t+1 of d.
DEVICE void mma16x8x16(float (&d)[4], const uint4& a, u32 b0, u32 b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));
}

// d = a * b + c in signed bytes, `c` being added to every element: a is 16x32, b is 32x8. Lane 4g + t holds rows g and
// g + 8 and columns 4t.. and 16 + 4t.. of a, four columns per word, column by column; rows 4t.. and 16 + 4t.. of column
// g of b; d as in `mma16x8x16`.
DEVICE void mma16x8x32(i32 (&d)[4], const uint4& a, u32 b0, u32 b1, i32 c) {
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%10,%10,%10};"
        : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
        : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1), "r"(c));
}
// The same with only the first 16 columns of a.
DEVICE void mma16x8x16(i32 (&d)[4], u32 a0, u32 a1, u32 b, i32 c) {
    asm("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%7,%7,%7,%7};"
        : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
        : "r"(a0), "r"(a1), "r"(b), "r"(c));
}

// Rounds a number to the 11 bits of tf32.
DEVICE u32 to_tf32(float f) {
    u32 w;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(w) : "f"(f));
    return w;
}
// d += a * b: a is 16x8, b is 8x8, both tf32. Lane 4g + t holds rows g and g + 8 of columns t and t + 4 of a, column by
// column; rows t and t + 4 of column g of b; d as in `mma16x8x16`.
DEVICE void mma16x8x8(float (&d)[4], const uint4& a, u32 b0, u32 b1) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));
}

// Loads four 8x8 matrices of halves from shared memory. Lane 8i + r passes the address of row r of matrix i, 16 bytes.
// Lane 4g + t gets columns 2t and 2t + 1 of row g of each; if `kTransposed`, rows 2t and 2t + 1 of column g.
template <bool kTransposed> DEVICE void load_matrices(u32 (&d)[4], const void* row) {
    const u32 from = shared_address(row);
    if (kTransposed) {
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                     : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3]) : "r"(from) : "memory");
    } else {
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                     : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3]) : "r"(from) : "memory");
    }
}

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define HAS_WGMMA
// Makes this thread's writes to shared memory, and its completed copies, visible to `multiply_async` after a barrier.
DEVICE void fence_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
// Orders writes to registers before `multiply_async`.
DEVICE void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
// Lists of registers as text, and sums as operands.
#define R_8 "%0,%1,%2,%3,%4,%5,%6,%7"
#define R_16 R_8 ",%8,%9,%10,%11,%12,%13,%14,%15"
#define R_32 R_16 ",%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define R_128                                                                                                    \
    R_32 ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56," \
         "%57,%58,%59,%60,%61,%62,%63,%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,%80,%81,"  \
         "%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95,%96,%97,%98,%99,%100,%101,%102,%103,%104,"     \
         "%105,%106,%107,%108,%109,%110,%111,%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,"  \
         "%125,%126,%127"
#define SUMS(i) "+f"(d[i][0]), "+f"(d[i][1]), "+f"(d[i][2]), "+f"(d[i][3])
#define SUMS_2 SUMS(0), SUMS(1)
#define SUMS_4 SUMS_2, SUMS(2), SUMS(3)
#define SUMS_FROM(i) SUMS(i), SUMS(i + 1), SUMS(i + 2), SUMS(i + 3), SUMS(i + 4), SUMS(i + 5), SUMS(i + 6), SUMS(i + 7)
#define SUMS_8 SUMS_FROM(0)
#define SUMS_32 SUMS_8, SUMS_FROM(8), SUMS_FROM(16), SUMS_FROM(24)
// multiply_async: starts d += a * b, by the four warps of a group: a is 16x16 per warp, as in `mma16x8x16`; b is
// 16 x `columns`, given by a descriptor of its columns in shared memory; d is as in `mma16x8x16` for each 8 columns.
// Neither these registers nor the shared memory may be changed until the wait for the group of products.
// end_products: waits for all groups of products, so that the sums can be read.
#define PRODUCTS(columns, registers, sums, left, right)                                                     \
    DEVICE void multiply_async(float (&d)[columns / 8][4], const uint4& a, u64 b) {                         \
        asm volatile("wgmma.mma_async.sync.aligned.m64n" #columns "k16.f32.f16.f16 {" registers "}, " left \
                     ", " right ", 1, 1, 1, 0;"                                                             \
                     : sums                                                                                 \
                     : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "l"(b));                                     \
    }                                                                                                       \
    DEVICE void end_products(float (&d)[columns / 8][4]) {                                                  \
        asm volatile("wgmma.wait_group.sync.aligned 0;" : sums::"memory");                                  \
    }
PRODUCTS(16, R_8, SUMS_2, "{%8,%9,%10,%11}", "%12")
PRODUCTS(32, R_16, SUMS_4, "{%16,%17,%18,%19}", "%20")
PRODUCTS(64, R_32, SUMS_8, "{%32,%33,%34,%35}", "%36")
PRODUCTS(256, R_128, SUMS_32, "{%128,%129,%130,%131}", "%132")
DEVICE void commit_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
// Waits until at most `N` groups of products are pending.
template <int N> DEVICE void wait_products() { asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory"); }
#endif

// On these GPUs (GeForce) products of bytes are four times as fast as products of binary16 with sums in f32; on others,
// twice.
#if (__CUDA_ARCH__ > 800 && __CUDA_ARCH__ < 900) || __CUDA_ARCH__ >= 1200
#define HAS_FAST_BYTES
#endif

// Copies 16 bytes to shared memory asynchronously; they are valid after the wait for their group and a barrier.
DEVICE void copy_async16(void* shared, const void* global) {
    u32 to = shared_address(shared);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(global) : "memory");
}
// Copies 4 bytes likewise.
DEVICE void copy_async4(void* shared, const void* global) {
    u32 to = shared_address(shared);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(global) : "memory");
}
DEVICE void copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Waits until at most `N` of this thread's groups are incomplete.
template <int N> DEVICE void copy_async_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"); }

// Waits for the previous kernel; then the writes of all previous kernels are visible.
DEVICE void wait_for_previous() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
// Lets blocks of the next kernel start on free SMs.
DEVICE void let_next_start() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

DEVICE float warp_sum(float v) {
    UNROLL for (u32 lanes = 16; lanes > 0; lanes /= 2) v += shuffle_xor(v, lanes);
    return v;
}
DEVICE float warp_max(float v) {
    UNROLL for (u32 lanes = 16; lanes > 0; lanes /= 2) v = fmaxf(v, shuffle_xor(v, lanes));
    return v;
}
DEVICE u32 warp_max(u32 v) { return __reduce_max_sync(0xffffffffu, v); }
DEVICE u32 warp_min(u32 v) { return __reduce_min_sync(0xffffffffu, v); }
#endif

constexpr float kLog2e = 1.4426950408889634f;
constexpr float kNegativeInfinity = -__builtin_inff();
constexpr float kNan = __builtin_nanf("");

DEVICE constexpr u32 min_u32(u32 a, u32 b) { return a < b ? a : b; }
DEVICE constexpr u32 max_u32(u32 a, u32 b) { return a > b ? a : b; }
DEVICE u32 ceil_div(u32 a, u32 b) { return (a + b - 1) / b; }

DEVICE float bits_to_float(u32 w) {
    union { u32 w; float f; } u;
    u.w = w;
    return u.f;
}
DEVICE u32 float_to_bits(float f) {
    union { u32 w; float f; } u;
    u.f = f;
    return u.w;
}
// Rotates right by n mod 32 bits.
DEVICE u32 rotate(u32 w, u32 n) { return w >> (n % 32) | w << ((32 - n % 32) % 32); }
DEVICE float low_half(u32 w) { return half_to_float((u16)w); }
DEVICE float high_half(u32 w) { return half_to_float((u16)(w >> 16)); }

// Sums over the block in a fixed order; every thread gets the sums. `scratch` holds one float per warp and sum, and may
// be reused after the next barrier.
template <u32 kSums> DEVICE void block_sums(float (&v)[kSums], float* scratch) {
    const u32 warps = blockDim.x / kWarp, warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
    UNROLL for (u32 i = 0; i < kSums; i++) v[i] = warp_sum(v[i]);
    sync_block();
    if (lane == 0) UNROLL for (u32 i = 0; i < kSums; i++) scratch[i * warps + warp] = v[i];
    sync_block();
    UNROLL for (u32 i = 0; i < kSums; i++) v[i] = warp_sum(lane < warps ? scratch[i * warps + lane] : 0.f);
}
DEVICE float block_sum(float v, float* scratch) {
    float sum[1] = {v};
    block_sums(sum, scratch);
    return sum[0];
}
DEVICE float block_max(float v, float* scratch) {
    const u32 warps = blockDim.x / kWarp;
    v = warp_max(v);
    sync_block();
    if (threadIdx.x % kWarp == 0) scratch[threadIdx.x / kWarp] = v;
    sync_block();
    return warp_max(threadIdx.x % kWarp < warps ? scratch[threadIdx.x % kWarp] : kNegativeInfinity);
}

// True in every thread of the last of `blocks` blocks to call it, which sees all earlier writes of the other blocks.
// Resets the counter to 0.
DEVICE bool last_block(u32* counter, u32 blocks, u32* shared_flag) {
    sync_block();
    if (threadIdx.x == 0) {
        const bool last = atomic_add(counter, 1) == blocks - 1;
        if (last) *counter = 0;
        *shared_flag = last;
    }
    sync_block();
    return *shared_flag != 0;
}

// Moments of `x[0..n]`; its norm is (x - mean) * inverse * weight + bias.
struct Moments {
    float mean;
    float inverse;
};
// Computes the moments with the whole block.
DEVICE Moments moments(const float* x, u32 n, const DeviceNorm& norm, float* scratch) {
    Moments m = {0.f, 1.f};
    if (norm.kind == kLayer) {
        float sum = 0.f;
        for (u32 i = threadIdx.x; i < n; i += blockDim.x) sum += x[i];
        m.mean = block_sum(sum, scratch) / (float)n;
    }
    if (norm.kind != kNoNorm) {
        float squares = 0.f;
        for (u32 i = threadIdx.x; i < n; i += blockDim.x) squares = fmaf(x[i] - m.mean, x[i] - m.mean, squares);
        m.inverse = 1.f / sqrtf(block_sum(squares, scratch) / (float)n + norm.eps);
    }
    return m;
}
DEVICE float normalized(float x, u32 i, const Moments& m, const DeviceNorm& norm) {
    if (norm.kind == kNoNorm) return x;
    const float y = (x - m.mean) * m.inverse, weight = norm.weight ? norm.weight[i] : 1.f;
    return norm.bias ? fmaf(y, weight, norm.bias[i]) : y * weight;
}

DEVICE float sigmoid(float x) { return 1.f / (1.f + exp2_approx(-kLog2e * x)); }
DEVICE float activate(float x, u32 kind) {
    switch (kind) {
        case kSilu:
        case kSwigluOfClamped:
        case kSwigluThenClamped: return x / (1.f + exp2_approx(-kLog2e * x));
        case kGelu: {
            // tanh approximation, arXiv 1606.08415: 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))
            const float u = 0.7978845608028654f * fmaf(0.044715f * x * x, x, x);
            return 0.5f * x * (1.f + tanhf(u));
        }
        case kTanh: return tanhf(x);
        case kSignedRoot: {
            const float size = fabsf(x);
            return x == 0.f ? 0.f : (x < 0.f ? -1.f : 1.f) * sqrtf(size < 1e-6f ? 1e-6f : size);
        }
        case kQuickGelu: return x * sigmoid(1.702f * x);
        case kGeluErf: return 0.5f * x * (1.f + erff(x * 0.7071067811865476f));
        case kRelu2: return x <= 0.f ? 0.f : x * x;
        case kIdentity: return x;
        case kSigmoid: return sigmoid(x);
        case kSoftplus: {
            // ln(1 + e), with the rounding error of the sum corrected.
            const float e = expf(-fabsf(x)), sum = 1.f + e;
            return fmaxf(x, 0.f) + (sum == 1.f ? e : logf(sum) * (e / (sum - 1.f)));
        }
        default: return x <= 0.f ? 0.f : x;
    }
}
// Bounds that keep NaN, unlike `fminf` and `fmaxf`.
DEVICE float at_most(float x, float most) { return x >= most ? most : x; }
DEVICE float within(float x, float low, float high) { return x <= low ? low : at_most(x, high); }
DEVICE float gated(float gate, float up, u32 kind, float limit) {
    if (kind == kClampedSwiglu) {
        gate = at_most(gate, 7.f);
        return gate * sigmoid(1.702f * gate) * (within(up, -7.f, 7.f) + 1.f);
    }
    if (kind == kSwigluOfClamped) gate = at_most(gate, limit);
    gate = activate(gate, kind);
    if (kind == kSwigluThenClamped) gate = at_most(gate, limit);
    if (kind == kSwigluOfClamped || kind == kSwigluThenClamped) up = within(up, -limit, limit);
    return gate * up;
}
// `gated` including `kTanhSwiglu`, for which products of one row have too few registers.
DEVICE float any_gated(float gate, float up, u32 kind, float limit, float up_limit) {
    if (kind != kTanhSwiglu) return gated(gate, up, kind, limit);
    if (up_limit > 0.f) up = up_limit * tanhf(up / up_limit);
    return limit * tanhf(gate / limit) * sigmoid(gate) * up;
}
// Neutral value of `up` for activations without a gate.
DEVICE float no_up(u32 kind) { return kind == kClampedSwiglu ? 0.f : 1.f; }

// A key that increases with the number.
DEVICE u32 ordered_bits(float x) {
    const u32 bits = float_to_bits(x);
    return bits >> 31 ? ~bits : bits | 0x80000000u;
}
// A key that increases with the number and, among equal numbers, decreases with the id.
DEVICE u64 rank_of(float x, u32 id) { return (u64)ordered_bits(x) << 32 | (u32)~id; }
DEVICE u32 id_of(u64 rank) { return ~(u32)rank; }

// Number of keys of a layer up to a position; 0 before the first position.
DEVICE u32 keys_up_to(const KvPlace& layer, u32 position) {
    return layer.pool > 1 ? (position + 1) / layer.pool : position + 1;
}
// Number of rows of one head of a layer.
DEVICE u32 kept(const DeviceKv& kv, const KvPlace& layer) { return layer.is_ring ? kv.ring : kv.capacity; }
// Offset of a head's first position, in values.
DEVICE u64 first_value(const DeviceKv& kv, const KvPlace& layer, const ValuesBefore& before, u32 stride, u32 kv_head) {
    return (u64)before.whole * kv.capacity + (u64)before.rings * kv.ring + (u64)kv_head * kept(kv, layer) * stride;
}
