// Instructions and orders of memory that the kernels do not all use, for tests/ptx/instructions.
#include "../../kernels/common.cuh"

struct CheckArgs {
    u32* out;
    const u32* in;
    u32* counter;
    u64 pad;
};

// Four matrices of 8x8 halves, as they are and transposed; then two, and one.
KERNEL(matrices, CheckArgs, 32, 1) {
    DYNAMIC_SHARED(shared);
    wait_for_previous();
    for (u32 i = threadIdx.x; i < 128; i += kWarp) ((u32*)shared)[i] = a.in[i];
    sync_warp();
    const u32 row = shared_address(shared + 16 * threadIdx.x);
    u32 d[11];
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
        : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3]) : "r"(row));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
        : "=r"(d[4]), "=r"(d[5]), "=r"(d[6]), "=r"(d[7]) : "r"(row));
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];" : "=r"(d[8]), "=r"(d[9]) : "r"(row));
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%0}, [%1];" : "=r"(d[10]) : "r"(row));
    for (u32 i = 0; i < 11; i++) a.out[32 * i + threadIdx.x] = d[i];
}

// Every mode, over whole warps and over parts of 8.
KERNEL(shuffles, CheckArgs, 32, 1) {
    wait_for_previous();
    const u32 v = a.in[threadIdx.x], all = 0xffffffffu;
    const u32 d[8] = {__shfl_sync(all, v, 5), __shfl_up_sync(all, v, 3), __shfl_down_sync(all, v, 3), __shfl_xor_sync(all, v, 9),
                      __shfl_sync(all, v, 5, 8), __shfl_up_sync(all, v, 3, 8), __shfl_down_sync(all, v, 3, 8), __shfl_xor_sync(all, v, 9, 8)};
    for (u32 i = 0; i < 8; i++) a.out[32 * i + threadIdx.x] = d[i];
}

KERNEL(permutations, CheckArgs, 32, 1) {
    wait_for_previous();
    u32 d;
    asm volatile("prmt.b32 %0, %1, %2, %3;" : "=r"(d) : "r"(a.in[0]), "r"(a.in[1]), "r"(a.in[2 + threadIdx.x]));
    a.out[threadIdx.x] = d;
}

// Halves of words, denormal ones too: of the bits of a word the sign and the fraction, and an exponent of up to 21.
KERNEL(half_sums, CheckArgs, 32, 1) {
    wait_for_previous();
    u32 words[3];
    for (u32 i = 0; i < 3; i++) {
        const u32 w = a.in[threadIdx.x + i], low = w & 0xffffu, high = w >> 16;
        words[i] = ((high & 0x83ffu) | min_u32(high >> 3 & 31, 21) << 10) << 16 | ((low & 0x83ffu) | min_u32(low >> 3 & 31, 21) << 10);
    }
    a.out[threadIdx.x] = fma_halves(words[0], words[1], words[2]);
}

// Of bytes: the words of a lane are four of the left and two of the right operand, or two and one.
KERNEL(byte_products, CheckArgs, 32, 1) {
    wait_for_previous();
    const u32* in = a.in + threadIdx.x % 16 * 6;
    i32 d[2][4];
    mma16x8x32(d[0], {in[0], in[1], in[2], in[3]}, in[4], in[5], (i32)a.in[100]);
    mma16x8x16(d[1], in[0], in[1], in[2], (i32)a.in[101]);
    for (u32 i = 0; i < 8; i++) a.out[32 * i + threadIdx.x] = (u32)d[i / 4][i % 4];
}

// To the left and to the right, by numbers that may be 32 and more.
KERNEL(rotations, CheckArgs, 32, 1) {
    wait_for_previous();
    u32 left, right;
    asm volatile("shf.l.wrap.b32 %0, %1, %2, %3;" : "=r"(left) : "r"(a.in[0]), "r"(a.in[1]), "r"(a.in[2 + threadIdx.x]));
    asm volatile("shf.r.wrap.b32 %0, %1, %2, %3;" : "=r"(right) : "r"(a.in[0]), "r"(a.in[1]), "r"(a.in[2 + threadIdx.x]));
    a.out[threadIdx.x] = left, a.out[32 + threadIdx.x] = right;
}

// A word of two halves.
KERNEL(joined_halves, CheckArgs, 32, 1) {
    wait_for_previous();
    const u32 v = a.in[threadIdx.x];
    u32 d;
    asm volatile("mov.b32 %0, {%1, %2};" : "=r"(d) : "h"((u16)(v >> 16)), "h"((u16)v));
    a.out[threadIdx.x] = d;
}

// Which of two numbers, of 32 and of 64 bits, is a NaN: every third and every fifth lane has one.
KERNEL(orders, CheckArgs, 32, 1) {
    wait_for_previous();
    const u32 lane = threadIdx.x;
    const u32 x = lane % 3 ? a.in[lane] & 0xbfffffffu : 0x7fc00000u, y = lane % 5 ? a.in[lane + 32] & 0xbfffffffu : 0xffc00001u;
    const float v = __uint_as_float(x), w = __uint_as_float(y);
    const double v2 = __longlong_as_double((u64)(x | 0x380000u) << 32), w2 = __longlong_as_double((u64)(y | 0x380000u) << 32);
    const u32 d[4] = {v != v || w != w, v == v && w == w, v2 != v2 || w2 != w2, v2 == v2 && w2 == w2};
    for (u32 i = 0; i < 4; i++) a.out[32 * i + lane] = d[i];
}

// Blocks write, the last of them adds up what all wrote. `kFences`: 1 ahead of the counter, 2 behind it.
template <u32 kFences> DEVICE void add_up(const CheckArgs& a, u32* flag) {
    wait_for_previous();
    a.out[blockIdx.x * blockDim.x + threadIdx.x] = 1;
    sync_block();
    if (threadIdx.x == 0) {
        if (kFences & 1) __threadfence();
        *flag = atomicAdd(a.counter, 1) == gridDim.x - 1;
        if (kFences & 2) __threadfence();
    }
    sync_block();
    if (*flag && threadIdx.x == 40) {
        u32 sum = 0;
        for (u32 i = 0; i < gridDim.x * blockDim.x; i++) sum += a.out[i];
        a.out[0] = sum;
    }
}
KERNEL(joined, CheckArgs, 64, 1) { DYNAMIC_SHARED(shared); add_up<3>(a, (u32*)shared); }
KERNEL(joined_late, CheckArgs, 64, 1) { DYNAMIC_SHARED(shared); add_up<2>(a, (u32*)shared); }
KERNEL(joined_early, CheckArgs, 64, 1) { DYNAMIC_SHARED(shared); add_up<1>(a, (u32*)shared); }

// A warp reads what another wrote: with a barrier of the block, and with one of the warp only.
KERNEL(across_warps, CheckArgs, 64, 1) {
    DYNAMIC_SHARED(shared);
    wait_for_previous();
    ((u32*)shared)[threadIdx.x] = threadIdx.x;
    sync_block();
    a.out[threadIdx.x] = ((u32*)shared)[63 - threadIdx.x];
}
KERNEL(across_warps_unordered, CheckArgs, 64, 1) {
    DYNAMIC_SHARED(shared);
    wait_for_previous();
    ((u32*)shared)[threadIdx.x] = threadIdx.x;
    sync_warp();
    a.out[threadIdx.x] = ((u32*)shared)[63 - threadIdx.x];
}
// Values go through registers in order, and yet through memory in none.
KERNEL(ordered_by_shuffle, CheckArgs, 32, 1) {
    DYNAMIC_SHARED(shared);
    u32* values = (u32*)shared;
    wait_for_previous();
    values[threadIdx.x] = threadIdx.x;
    const u32 other = __shfl_xor_sync(0xffffffffu, threadIdx.x, 1);
    a.out[threadIdx.x] = values[other];
}
// Every block writes the same value to one place.
KERNEL(same_value, CheckArgs, 32, 1) {
    wait_for_previous();
    if (threadIdx.x == 0) a.out[0] = 1;
}
