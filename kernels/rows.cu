// Selection of rows: embeddings and learned positions, and rows of activations.
//
//     embed:      x[token] = scale * table[rows[token]], or x[token] += that, or x[token] = row of media
//     keep_rows:  to[r] = from[rows[r]]
//
// One block for each row. Shapes: those of `EmbedArgs`, `KeepRowsArgs`.
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

KERNEL(keep_rows, KeepRowsArgs, 256, 1) {
    let_next_start();
    wait_for_previous();
    const u32 which = blockIdx.y, width = a.widths[which];
    const float* from = a.from[which] + (u64)a.rows[blockIdx.x] * width;
    float* to = a.to[which] + (u64)blockIdx.x * width;
    for (u32 i = threadIdx.x; i < width; i += blockDim.x) to[i] = from[i];
}
