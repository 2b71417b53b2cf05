// The gated delta rule over the tokens of a sequence, one after another:
//     S = exp(rate dt) S; S += k (beta (v - S^T k))^T; out = S^T q
// KEY: rows of S.
struct P {
    q: u32, k: u32, v: u32, dt: u32, beta: u32, rate: u32, out: u32, n: u32, heads: u32, key_heads: u32, width: u32,
    by_row: u32, tiled: u32, before: u32, after: u32, zero: u32
}
var<immediate> p: P;

const ROWS = (KEY + 3u) / 4u;
// A workgroup has 16 columns of the state. Threads 4c to 4c + 3 have column c; each thread has every fourth row.
var<workgroup> first: array<f32, 64>;
var<workgroup> second: array<f32, 64>;

@compute @workgroup_size(64) fn main(@builtin(local_invocation_index) l: u32, @builtin(workgroup_id) wg: vec3u) {
    let head = wg.x * 16u / p.width;
    let column = wg.x * 16u % p.width + l / 4u;
    let g = l % 4u;
    let key_head = select(head * p.key_heads / p.heads, head % p.key_heads, p.tiled != 0u);
    let place = head * KEY * p.width + column;
    let rate = vectors[p.rate + head];
    var s: array<f32, ROWS>;
    for (var r = 0u; r < ROWS; r++) {
        let i = g + 4u * r;
        s[r] = 0.0;
        if (i < KEY && p.before != NONE) { s[r] = state(p.before + place + i * p.width); }
    }
    for (var t = 0u; t < p.n; t++) {
        let own = t * p.heads + head;
        let key = (t * p.key_heads + key_head) * KEY;
        var decay = 0.0;
        if (p.by_row == 0u) { decay = exp_any(rate * value(p.dt + own)); }
        var seen = 0.0;
        for (var r = 0u; r < ROWS; r++) {
            let i = g + 4u * r;
            if (i < KEY) {
                if (p.by_row != 0u) { decay = exp_any(rate * value(p.dt + own * KEY + i)); }
                s[r] *= decay;
                seen += s[r] * value(p.k + key + i);
            }
        }
        first[l] = seen;
        workgroupBarrier();
        let c = l / 4u * 4u;
        seen = first[c] + first[c + 1u] + first[c + 2u] + first[c + 3u];
        let delta = value(p.beta + own) * (value(p.v + own * p.width + column) - seen);
        var sum = 0.0;
        for (var r = 0u; r < ROWS; r++) {
            let i = g + 4u * r;
            if (i < KEY) {
                s[r] += value(p.k + key + i) * delta;
                sum += s[r] * value(p.q + key + i);
            }
        }
        second[l] = sum;
        workgroupBarrier();
        if (g == 0u) { set_value(p.out + own * p.width + column, second[l] + second[l + 1u] + second[l + 2u] + second[l + 3u]); }
    }
    for (var r = 0u; r < ROWS; r++) {
        let i = g + 4u * r;
        if (i < KEY) { set_state(p.after + place + i * p.width, s[r]); }
    }
}
