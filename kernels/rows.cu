// Selection of rows: embeddings and learned positions, and rows of activations.
//
//     embed:      x[token] = scale * table[rows[token]], or x[token] += that, or x[token] = row of media
//     ngrams:     x[token, head] = table[first + hash of the token's id and of those before it % rows]
//     keep_rows:  to[r] = from[rows[r]]
//
// One block per row. Shapes: see `EmbedArgs`, `NgramArgs`, `KeepRowsArgs`.
#include "quant.cuh"

KERNEL(embed, EmbedArgs, 128, 1) {
    let_next_start();
    wait_for_previous();
    u32 row = a.rows ? a.rows[blockIdx.x] : 0;
    if (row == kChosenBefore) row = a.following[blockIdx.x];
    float* x = a.x + (u64)blockIdx.x * a.width;
    if (row == kMediaRow) {
        row = 0;
        if (a.media) {
            const float* from = a.media + (u64)blockIdx.x * a.media_width;
            for (u32 i = threadIdx.x; i < a.width; i += blockDim.x) x[i] = from[i];
            return;
        }
    }
    row = min_u32(row, a.table.rows - 1);
    for (u32 unit = threadIdx.x; unit < a.table.cols / 8; unit += blockDim.x) {
        float y[8];
        decode8(a.table, load8(a.table, row, unit / 4, unit % 4), unit / 4, unit % 4, y);
        UNROLL for (u32 i = 0; i < 8; i++) {
            const u32 col = 8 * unit + i;
            if (col < a.width) x[col] = (a.accumulate ? x[col] : 0.f) + a.scale * y[i];
        }
    }
}

// Grid: (tokens, heads).
KERNEL(ngrams, NgramArgs, 128, 1) {
    let_next_start();
    wait_for_previous();
    const u32 token = blockIdx.x, slot = a.step.slots[token];
    const DeviceKv kv = a.step.kvs[slot];
    if (!kv.capacity) return;
    // Number of preceding tokens of the sequence in the step, at most `kept`.
    u32 ahead = 0;
    while (ahead < min_u32(a.kept, token) && a.step.slots[token - ahead - 1] == slot) ahead++;
    // The id `back` tokens before, plus 1; 0 if there is none.
    auto known = [&](u32 back) -> u64 {
        if (back > ahead) return kv.from ? (u64)(u32)kv.from[a.recurrent + a.kept + ahead - back] : 0;
        const u32 id = a.step.ids[token - back];
        return (u64)(id == kChosenBefore ? a.following[token - back] : id) + 1;
    };
    const NgramHead head = a.heads[blockIdx.y];
    u64 hash = 0;
    bool is_over = false;
    for (u32 back = 0; back < head.n; back++) {
        const u64 id = known(back);
        is_over = is_over || (back > 0 && (id == 0 || id - 1 == a.end));
        hash ^= (is_over ? a.end : id - 1) * a.multipliers[back];
    }
    const u32 row = (u32)(head.first + hash % head.rows);
    float* x = a.out + (u64)token * a.stride + blockIdx.y * a.width;
    for (u32 unit = threadIdx.x; unit < a.table.cols / 8; unit += blockDim.x) {
        float y[8];
        decode8(a.table, load8(a.table, row, unit / 4, unit % 4), unit / 4, unit % 4, y);
        UNROLL for (u32 i = 0; i < 8; i++)
            if (8 * unit + i < a.width) x[8 * unit + i] = y[i];
    }
    const bool is_last = token + 1 == a.step.n || a.step.slots[token + 1] != slot;
    if (a.keeps && is_last && blockIdx.y == 0 && threadIdx.x < a.kept)
        kv.to[a.recurrent + threadIdx.x] = (float)known(a.kept - 1 - threadIdx.x);
}

KERNEL(keep_rows, KeepRowsArgs, 256, 1) {
    let_next_start();
    wait_for_previous();
    const u32 which = blockIdx.y, width = a.widths[which];
    const float* from = a.from[which] + (u64)a.rows[blockIdx.x] * width;
    float* to = a.to[which] + (u64)blockIdx.x * width;
    for (u32 i = threadIdx.x; i < width; i += blockDim.x) to[i] = from[i];
}
