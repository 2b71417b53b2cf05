// A causal convolution of each channel over the tokens of a sequence, in place. TAPS: number of taps. The state has the
// last TAPS - 1 inputs. A thread has one channel.
struct P { x: u32, n: u32, width: u32, kernel: u32, bias: u32, silu: u32, before: u32, after: u32, zero: u32 }
var<immediate> p: P;

@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3u) {
    let channel = id.x;
    if (channel >= p.width) { return; }
    var taps: array<f32, TAPS>;
    var past: array<f32, TAPS>;
    for (var j = 0u; j < TAPS; j++) {
        taps[j] = vectors[p.kernel + j * p.width + channel];
        past[j] = 0.0;
        if (j + 1u < TAPS && p.before != NONE) { past[j] = state(p.before + j * p.width + channel); }
    }
    var bias = 0.0;
    if (p.bias != NONE) { bias = vectors[p.bias + channel]; }
    for (var t = 0u; t < p.n; t++) {
        let at = p.x + t * p.width + channel;
        past[TAPS - 1u] = value(at);
        var sum = bias;
        for (var j = 0u; j < TAPS; j++) { sum += past[j] * taps[j]; }
        for (var j = 0u; j + 1u < TAPS; j++) { past[j] = past[j + 1u]; }
        set_value(at, select(sum, sum * sigmoid(sum), p.silu != 0u));
    }
    for (var j = 0u; j + 1u < TAPS; j++) { set_state(p.after + j * p.width + channel, past[j]); }
}
