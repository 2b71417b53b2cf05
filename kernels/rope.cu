// Queries and keys between projection and attention, unless `attend_single` processes them: norm of each head, RoPE,
// and writes of keys and values to the KV cache.
//
//     q = rotate(norm(q), position);  k = rotate(norm(k), position);  cache[position] = k, v
//
// One warp per head and token. Shapes: see `HeadsArgs`. Grid: (heads, tokens).
#include "rope.cuh"

KERNEL(heads, HeadsArgs, 128, 1) {
    let_next_start();
    wait_for_previous();
    const u32 lane = threadIdx.x % kWarp, head = blockIdx.x * (blockDim.x / kWarp) + threadIdx.x / kWarp;
    const u32 token = blockIdx.y, d = a.head_dim;
    if (head >= a.heads + (a.v ? 2 : 1) * a.kv_heads) return;
    const u32 position = a.step.positions[token];
    auto angle_of = [&](u32 i, float& sine, float& cosine) {
        angle(a, rope_position(a, token, position, i), a.inv_freq[i], sine, cosine);
    };
    if (head < a.heads) {
        apply_rope(a, a.q + ((u64)token * a.heads + head) * d, a.q_norm, a.own_norms & 1 ? head * d : 0, lane,
                   angle_of);
        return;
    }
    const bool is_key = head < a.heads + a.kv_heads;
    const u32 kv_head = head - a.heads - (is_key ? 0 : a.kv_heads);
    const u64 at = (u64)token * a.kv_heads + kv_head;
    if (is_key) apply_rope(a, a.k + at * d, a.k_norm, a.own_norms & 2 ? kv_head * d : 0, lane, angle_of);
    if (!a.store) return;
    const DeviceKv kv = a.step.kvs[a.step.slots[token]];
    if (!kv.capacity) return;
    if (is_key) store_key(a, kv, position, kv_head, a.k + at * d, lane);
    else store_value(a, kv, position, kv_head, a.v + at * a.value_dim, lane);
}
