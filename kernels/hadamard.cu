// Hadamard rotation for 4-bit KV caches: of queries before and after attention, and of results after it.
//
//     x[row, head] = H x[row, head], 32 values at a time
//
// One warp per head and token. Shapes: see `HadamardArgs`. Grid: (heads, tokens).
#include "rope.cuh"

KERNEL(hadamard_heads, HadamardArgs, 128, 1) {
    let_next_start();
    wait_for_previous();
    const u32 lane = threadIdx.x % kWarp, head = blockIdx.x * (blockDim.x / kWarp) + threadIdx.x / kWarp;
    if (head >= a.heads) return;
    const DeviceKv& kv = a.kvs[a.slots[blockIdx.y]];
    if ((a.by_values ? kv.v_type : kv.k_type) != kQ4_0) return;
    float* x = a.x + ((u64)blockIdx.y * a.heads + head) * a.dim;
    for (u32 i = 0; i + kWarp <= a.dim; i += kWarp) x[i + lane] = hadamard(x[i + lane], lane);
}
