// The arg-max of logits; the lowest index wins a tie, and NaN never wins.
#include "args.cuh"

struct Best {
    float value;
    u32 where;
};
DEVICE Best better(Best a, Best b) { return b.value > a.value || (b.value == a.value && b.where < a.where) ? b : a; }

// The best of the block, in thread 0.
DEVICE Best block_best(Best best, float* values, u32* wheres) {
    UNROLL for (u32 lanes = 16; lanes > 0; lanes /= 2)
        best = better(best, {shuffle_xor(best.value, lanes), shuffle_xor(best.where, lanes)});
    const u32 warp = threadIdx.x / kWarp;
    sync_block();
    if (threadIdx.x % kWarp == 0) values[warp] = best.value, wheres[warp] = best.where;
    sync_block();
    if (threadIdx.x == 0)
        for (u32 w = 1; w < blockDim.x / kWarp; w++) best = better(best, {values[w], wheres[w]});
    return best;
}

KERNEL(argmax, ArgmaxArgs, 256, 1) {
    DYNAMIC_SHARED(shared);
    let_next_start();
    wait_for_previous();
    float* values = (float*)shared;
    u32* wheres = (u32*)shared + kWarp;
    u32* flag = (u32*)shared + 2 * kWarp;
    const u32 row = blockIdx.y, blocks = gridDim.x;
    const float* x = a.values + (u64)row * a.width;
    const Best none = {kNegativeInfinity, 0xffffffffu};

    Best best = none;
    for (u32 i = blockIdx.x * blockDim.x + threadIdx.x; i < a.width; i += blocks * blockDim.x) best = better(best, {x[i], i});
    best = block_best(best, values, wheres);
    if (threadIdx.x == 0) {
        a.best[row * blocks + blockIdx.x] = best.value;
        a.where[row * blocks + blockIdx.x] = best.where;
    }
    if (!last_block(a.counters + row, blocks, flag)) return;
    best = none;
    for (u32 b = threadIdx.x; b < blocks; b += blockDim.x) best = better(best, {a.best[row * blocks + b], a.where[row * blocks + b]});
    best = block_best(best, values, wheres);
    if (threadIdx.x == 0) (*a.answers)[row] = a.tokens[row] = best.where < a.width ? best.where : 0;
}
