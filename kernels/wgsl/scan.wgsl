// The selective scan over the tokens of a sequence, one after another:
//     h = exp(rate dt) h + dt x b^T; out = h c + skip x
// STATE: number of values of h per channel.
struct P {
    x: u32, dt: u32, b: u32, c: u32, rate: u32, skip: u32, out: u32, n: u32, heads: u32, width: u32, groups: u32,
    by_state: u32, before: u32, after: u32, zero: u32
}
var<immediate> p: P;

const ROWS = (STATE + 3u) / 4u;
// A workgroup has 16 channels. Threads 4c to 4c + 3 have channel c; each thread has every fourth value of h.
var<workgroup> sums: array<f32, 128>;

@compute @workgroup_size(64) fn main(@builtin(local_invocation_index) l: u32, @builtin(workgroup_id) wg: vec3u) {
    let channel = wg.x * 16u + l / 4u;
    let g = l % 4u;
    let channels = p.heads * p.width;
    let head = channel / p.width;
    let group = head * p.groups / p.heads;
    let skip = vectors[p.skip + head];
    var h: array<f32, ROWS>;
    for (var r = 0u; r < ROWS; r++) {
        let i = g + 4u * r;
        h[r] = 0.0;
        if (i < STATE && p.before != NONE) { h[r] = state(p.before + i * channels + channel); }
    }
    for (var t = 0u; t < p.n; t++) {
        let dt = value(p.dt + t * p.heads + head);
        let x = value(p.x + t * channels + channel);
        let row = (t * p.groups + group) * STATE;
        var decay = 0.0;
        if (p.by_state == 0u) { decay = exp_any(vectors[p.rate + head] * dt); }
        var sum = 0.0;
        for (var r = 0u; r < ROWS; r++) {
            let i = g + 4u * r;
            if (i < STATE) {
                if (p.by_state != 0u) { decay = exp_any(vectors[p.rate + i * p.heads + head] * dt); }
                h[r] = decay * h[r] + dt * x * value(p.b + row + i);
                sum += h[r] * value(p.c + row + i);
            }
        }
        // Halves of `sums` alternate, so that one barrier per token is enough.
        let at = 64u * (t % 2u) + l;
        sums[at] = sum;
        workgroupBarrier();
        if (g == 0u) {
            let total = sums[at] + sums[at + 1u] + sums[at + 2u] + sums[at + 3u];
            set_value(p.out + t * channels + channel, total + skip * x);
        }
    }
    for (var r = 0u; r < ROWS; r++) {
        let i = g + 4u * r;
        if (i < STATE) { set_state(p.after + i * channels + channel, h[r]); }
    }
}
