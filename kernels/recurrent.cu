// Recurrences, token by token: causal convolution, gated delta rule, selective scan, RWKV.
//
//     conv:   x[t] = silu(bias + sum over j of kernel[j] * input[t - taps + 1 + j])
//     delta:  S = exp(rate * dt[t]) S;  d = beta[t] (v[t] - S^T k[t]);  S += k[t] d^T;  out[t] = S^T q[t]
//     scan:   S = exp(rate * dt[t]) S + b[t] (dt[t] x[t])^T;  out[t] = S^T c[t] + skip * x[t]
//     pool:   out[t] = sum over i of softmax(gate[i] + bias[i]) x[i], over the group of positions that t ends, or 0
//     wkv:    S = diag(w[t]) S + b[t] (S^T a[t])^T + k[t] v[t]^T;  out[t] = S^T r[t]
//
// Optimizations:
//  1. Columns of S are independent: each quad of lanes has one, each lane every fourth row, in registers through all
//     tokens of the sequence.
//  2. Convolutions load the inputs of `kAhead` tokens together.
//
// Invariants: results do not depend on how a prompt is split. The state before the step is read from one buffer, and
// the state after it is written to another.
//
// Shapes: see `ConvArgs`, `PoolArgs`, `DeltaArgs`, `ScanArgs`, `WkvArgs`. Grid: (columns, sequences).
#include "common.cuh"

constexpr u32 kAhead = 8;  // tokens whose inputs are loaded together

// One channel per thread, with `kTaps` taps; taps before the kernel's are 0.
template <u32 kTaps> DEVICE void convolve(const ConvArgs& a) {
    let_next_start();
    wait_for_previous();
    const u32 channel = blockIdx.x * blockDim.x + threadIdx.x, none = kTaps - a.taps;
    if (channel >= a.width) return;
    const DeviceTile run = a.step.tiles[blockIdx.y];
    const DeviceKv kv = a.step.kvs[run.slot];
    if (!kv.capacity) return;
    float kernel[kTaps], inputs[kTaps];
    UNROLL for (u32 j = 0; j < kTaps; j++) {
        const u64 at = (u64)(j - none) * a.width + channel;
        kernel[j] = j >= none ? a.kernel[at] : 0.f;
        inputs[j] = j >= none && j + 1 < kTaps && kv.from ? kv.from[a.recurrent + at] : 0.f;
    }
    const float bias = a.bias ? a.bias[channel] : 0.f;
    float* x = a.x + (u64)run.first * a.width + channel;
    for (u32 t0 = 0; t0 < run.count; t0 += kAhead) {
        float ahead[kAhead];
        UNROLL for (u32 i = 0; i < kAhead; i++) ahead[i] = t0 + i < run.count ? x[(u64)(t0 + i) * a.width] : 0.f;
        UNROLL for (u32 i = 0; i < kAhead; i++) {
            if (t0 + i >= run.count) continue;
            inputs[kTaps - 1] = ahead[i];
            float sum = bias;
            UNROLL for (u32 j = 0; j < kTaps; j++) sum += inputs[j] * kernel[j];
            UNROLL for (u32 j = 0; j + 1 < kTaps; j++) inputs[j] = inputs[j + 1];
            x[(u64)(t0 + i) * a.width] = a.silu ? sum * sigmoid(sum) : sum;
        }
    }
    UNROLL for (u32 j = 0; j + 1 < kTaps; j++)
        if (j >= none) kv.to[a.recurrent + (u64)(j - none) * a.width + channel] = inputs[j];
}

// A warp has 8 columns of a matrix, a block 16. Lane 4c + g has rows g, g + 4, ... of column c.
DEVICE u32 column() { return threadIdx.x / kWarp * 8 + threadIdx.x % kWarp / 4; }
DEVICE float sum_rows(float v) {
    v += shuffle_xor(v, 1);
    return v + shuffle_xor(v, 2);
}

// Up to 4 * kRows rows.
template <u32 kRows> DEVICE void advance_delta(const DeltaArgs& a) {
    let_next_start();
    wait_for_previous();
    const u32 g = threadIdx.x % 4, blocks = a.value_dim / kScanColumns;
    const u32 head = blockIdx.x / blocks, col = blockIdx.x % blocks * kScanColumns + column();
    const u32 key_head = a.tiled ? head % a.key_heads : head * a.key_heads / a.heads;
    const DeviceTile run = a.step.tiles[blockIdx.y];
    const DeviceKv kv = a.step.kvs[run.slot];
    if (!kv.capacity) return;
    const u64 place = a.recurrent + (u64)head * a.key_dim * a.value_dim + col;
    const float rate = a.rate[head];
    float s[kRows];
    UNROLL for (u32 r = 0; r < kRows; r++) {
        const u32 i = g + 4 * r;
        s[r] = i < a.key_dim && kv.from ? kv.from[place + (u64)i * a.value_dim] : 0.f;
    }
    for (u32 t = 0; t < run.count; t++) {
        const u64 token = run.first + t, of_head = token * a.heads + head;
        const float* k = a.k + (token * a.key_heads + key_head) * a.key_dim;
        const float* q = a.q + (token * a.key_heads + key_head) * a.key_dim;
        const float* dt = a.by_row ? a.dt + of_head * a.key_dim : a.dt + of_head;
        const float decay = a.by_row ? 0.f : expf(rate * dt[0]);
        float seen = 0.f;
        UNROLL for (u32 r = 0; r < kRows; r++) {
            const u32 i = g + 4 * r;
            if (i < a.key_dim) {
                s[r] *= a.by_row ? expf(rate * dt[i]) : decay;
                seen += s[r] * k[i];
            }
        }
        const float delta = a.beta[of_head] * (a.v[of_head * a.value_dim + col] - sum_rows(seen));
        float sum = 0.f;
        UNROLL for (u32 r = 0; r < kRows; r++) {
            const u32 i = g + 4 * r;
            if (i < a.key_dim) {
                s[r] += k[i] * delta;
                sum += s[r] * q[i];
            }
        }
        sum = sum_rows(sum);
        if (g == 0) a.out[of_head * a.value_dim + col] = sum;
    }
    UNROLL for (u32 r = 0; r < kRows; r++) {
        const u32 i = g + 4 * r;
        if (i < a.key_dim) kv.to[place + (u64)i * a.value_dim] = s[r];
    }
}

// Up to 4 * kRows states.
template <u32 kRows> DEVICE void advance_scan(const ScanArgs& a) {
    let_next_start();
    wait_for_previous();
    const u32 g = threadIdx.x % 4, channel = blockIdx.x * kScanColumns + column(), width = a.heads * a.head_dim;
    const u32 head = channel / a.head_dim, group = head * a.groups / a.heads;
    const DeviceTile run = a.step.tiles[blockIdx.y];
    const DeviceKv kv = a.step.kvs[run.slot];
    if (!kv.capacity) return;
    const u64 place = a.recurrent + channel;
    const float skip = a.skip[head];
    float h[kRows];
    UNROLL for (u32 r = 0; r < kRows; r++) {
        const u32 i = g + 4 * r;
        h[r] = i < a.state && kv.from ? kv.from[place + (u64)i * width] : 0.f;
    }
    for (u32 t = 0; t < run.count; t++) {
        const u64 token = run.first + t;
        const float dt = a.dt[token * a.heads + head], x = a.x[token * width + channel];
        const float* b = a.b + (token * a.groups + group) * a.state;
        const float* c = a.c + (token * a.groups + group) * a.state;
        const float decay = a.by_state ? 0.f : expf(a.rate[head] * dt);
        float sum = 0.f;
        UNROLL for (u32 r = 0; r < kRows; r++) {
            const u32 i = g + 4 * r;
            if (i < a.state) {
                h[r] = (a.by_state ? expf(a.rate[i * a.heads + head] * dt) : decay) * h[r] + dt * x * b[i];
                sum += h[r] * c[i];
            }
        }
        sum = sum_rows(sum);
        if (g == 0) a.out[token * width + channel] = sum + skip * x;
    }
    UNROLL for (u32 r = 0; r < kRows; r++) {
        const u32 i = g + 4 * r;
        if (i < a.state) kv.to[place + (u64)i * width] = h[r];
    }
}

// Up to 4 * kRows rows.
template <u32 kRows> DEVICE void advance_wkv(const WkvArgs& a) {
    let_next_start();
    wait_for_previous();
    const u32 g = threadIdx.x % 4, blocks = a.dim / kScanColumns;
    const u32 head = blockIdx.x / blocks, col = blockIdx.x % blocks * kScanColumns + column();
    const u32 key_head = head * a.key_heads / a.heads;
    const DeviceTile run = a.step.tiles[blockIdx.y];
    const DeviceKv kv = a.step.kvs[run.slot];
    if (!kv.capacity) return;
    const u64 place = a.recurrent + (u64)head * a.dim * a.dim + col;
    float s[kRows];
    UNROLL for (u32 r = 0; r < kRows; r++) {
        const u32 i = g + 4 * r;
        s[r] = i < a.dim && kv.from ? kv.from[place + (u64)i * a.dim] : 0.f;
    }
    for (u32 t = 0; t < run.count; t++) {
        const u64 token = run.first + t, own = (token * a.heads + head) * a.dim,
                  key = (token * a.key_heads + key_head) * a.dim;
        const float v = a.v[key + col];
        float seen = 0.f, sum = 0.f;
        if (a.moved[0]) {
            UNROLL for (u32 r = 0; r < kRows; r++) {
                const u32 i = g + 4 * r;
                if (i < a.dim) seen += s[r] * a.moved[0][own + i];
            }
            seen = sum_rows(seen);
        }
        UNROLL for (u32 r = 0; r < kRows; r++) {
            const u32 i = g + 4 * r;
            if (i < a.dim) {
                const float dt = a.dt[own + i], decay = expf(a.by_rate ? a.rate * dt : -expf(dt)), held = s[r];
                s[r] = decay * held + a.k[key + i] * (a.fades ? 1.f - decay : 1.f) * v;
                if (a.moved[1]) s[r] += a.moved[1][own + i] * seen;
                sum += (a.before ? held : s[r]) * a.r[own + i];
            }
        }
        sum = sum_rows(sum);
        if (g == 0) a.out[own + col] = sum;
    }
    UNROLL for (u32 r = 0; r < kRows; r++) {
        const u32 i = g + 4 * r;
        if (i < a.dim) kv.to[place + (u64)i * a.dim] = s[r];
    }
}

// One channel of a sum per thread, token by token. Rows of the sequence are counted from the first kept one; the state
// has the rows before the step.
KERNEL(pool, PoolArgs, 128, 4) {
    let_next_start();
    wait_for_previous();
    const u32 channel = blockIdx.x * blockDim.x + threadIdx.x, members = a.size * (a.width / a.out_width);
    const DeviceTile run = a.step.tiles[blockIdx.y];
    const DeviceKv kv = a.step.kvs[run.slot];
    if (channel >= a.width || !kv.capacity) return;
    auto member = [&](u32 row, u32 of, float& gate, float& x) {
        if (row < members - 1) {
            const u64 at = a.recurrent + (u64)row * 2 * a.width + of;
            gate = kv.from ? kv.from[at] : 0.f, x = kv.from ? kv.from[at + a.width] : 0.f;
        } else {
            const u64 at = (u64)(run.first + row - (members - 1)) * a.width + of;
            gate = a.gate[at], x = a.x[at];
        }
    };
    for (u32 t = 0; t < run.count && channel < a.out_width; t++) {
        const u32 token = run.first + t, so_far = a.step.positions[token] + 1;
        float& out = a.out[(u64)token * a.out_width + channel];
        out = 0.f;
        if (so_far % a.size) continue;
        float peak = kNegativeInfinity, total = 0.f, sum = 0.f;
        // Each group uses the next channels. First the largest gate, then the sums.
        for (u32 iteration = 0; iteration < 2; iteration++) {
            for (u32 i = members - min_u32(members, so_far); i < members; i++) {
                const u32 of = i / a.size * a.out_width + channel;
                float gate, x;
                member(t + i, of, gate, x);
                gate += a.bias[(u64)(i % a.size) * a.width + of];
                if (iteration == 0) {
                    peak = fmaxf(peak, gate);
                } else {
                    const float weight = expf(gate - peak);
                    total += weight, sum += weight * x;
                }
            }
        }
        out = sum / total;
    }
    for (u32 row = 0; row < members - 1; row++) {
        const u64 at = a.recurrent + (u64)row * 2 * a.width + channel;
        member(run.count + row, channel, kv.to[at], kv.to[at + a.width]);
    }
}

KERNEL(conv_4, ConvArgs, 128, 4) { convolve<4>(a); }
KERNEL(conv_16, ConvArgs, 128, 4) { convolve<16>(a); }
KERNEL(delta_64, DeltaArgs, 64, 8) { advance_delta<16>(a); }
KERNEL(delta_128, DeltaArgs, 64, 8) { advance_delta<32>(a); }
KERNEL(delta_256, DeltaArgs, 64, 4) { advance_delta<64>(a); }
KERNEL(wkv_64, WkvArgs, 64, 8) { advance_wkv<16>(a); }
KERNEL(wkv_128, WkvArgs, 64, 8) { advance_wkv<32>(a); }
KERNEL(wkv_256, WkvArgs, 64, 4) { advance_wkv<64>(a); }
KERNEL(scan_16, ScanArgs, 64, 8) { advance_scan<4>(a); }
KERNEL(scan_128, ScanArgs, 64, 8) { advance_scan<32>(a); }
KERNEL(scan_256, ScanArgs, 64, 4) { advance_scan<64>(a); }
