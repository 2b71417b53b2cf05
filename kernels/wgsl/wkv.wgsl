// The recurrence of RWKV over the tokens of a sequence, one after another:
//     S = diag(w) S + b (S^T a)^T + k v^T; out = S^T r
// DIM: rows and columns of S.
struct P {
    r: u32, k: u32, v: u32, dt: u32, a: u32, b: u32, out: u32, n: u32, heads: u32, key_heads: u32, by_rate: u32,
    rate: f32, uses_before: u32, fades: u32, before: u32, after: u32, zero: u32
}
var<immediate> p: P;

const ROWS = (DIM + 3u) / 4u;
// A workgroup has 16 columns of the state. Threads 4c to 4c + 3 have column c; each thread has every fourth row.
var<workgroup> first: array<f32, 64>;
var<workgroup> second: array<f32, 64>;

@compute @workgroup_size(64) fn main(@builtin(local_invocation_index) l: u32, @builtin(workgroup_id) wg: vec3u) {
    let head = wg.x * 16u / DIM;
    let column = wg.x * 16u % DIM + l / 4u;
    let g = l % 4u;
    let key_head = head * p.key_heads / p.heads;
    let place = head * DIM * DIM + column;
    let c = l / 4u * 4u;
    var s: array<f32, ROWS>;
    for (var j = 0u; j < ROWS; j++) {
        let i = g + 4u * j;
        s[j] = 0.0;
        if (i < DIM && p.before != NONE) { s[j] = state(p.before + place + i * DIM); }
    }
    for (var t = 0u; t < p.n; t++) {
        let own = (t * p.heads + head) * DIM;
        let key = (t * p.key_heads + key_head) * DIM;
        let v = value(p.v + key + column);
        var seen = 0.0;
        if (p.a != NONE) {
            for (var j = 0u; j < ROWS; j++) {
                let i = g + 4u * j;
                if (i < DIM) { seen += s[j] * value(p.a + own + i); }
            }
        }
        first[l] = seen;
        workgroupBarrier();
        seen = first[c] + first[c + 1u] + first[c + 2u] + first[c + 3u];
        var sum = 0.0;
        for (var j = 0u; j < ROWS; j++) {
            let i = g + 4u * j;
            if (i < DIM) {
                let dt = value(p.dt + own + i);
                var decay = 0.0;
                if (p.by_rate != 0u) { decay = exp_any(p.rate * dt); } else { decay = exp_any(-exp_any(dt)); }
                let held = s[j];
                s[j] = decay * held + value(p.k + key + i) * select(1.0, 1.0 - decay, p.fades != 0u) * v;
                if (p.b != NONE) { s[j] += value(p.b + own + i) * seen; }
                sum += select(s[j], held, p.uses_before != 0u) * value(p.r + own + i);
            }
        }
        second[l] = sum;
        workgroupBarrier();
        if (g == 0u) { set_value(p.out + own + column, second[l] + second[l + 1u] + second[l + 2u] + second[l + 3u]); }
    }
    for (var j = 0u; j < ROWS; j++) {
        let i = g + 4u * j;
        if (i < DIM) { set_state(p.after + place + i * DIM, s[j]); }
    }
}
