// Attention for tokens of one sequence. The positions are divided into `splits` parts. A row is a query head of a
// token. A workgroup computes ROWS rows that read the same KV head, 32 positions per iteration. Blocks of 32 positions
// begin at multiples of 32 and are assigned to parts by index, so that a row's bits do not depend on other rows.
struct P {
    q: u32, q_row: u32, heads: u32, kv_heads: u32, n: u32, ranges: u32, positions: u32,
    k_rows: u32, k_words: u32, k_scales: u32, k_blocks: u32, v_rows: u32, v_words: u32, v_scales: u32, v_blocks: u32,
    kept: u32, scale: f32, softcap: f32, slopes: u32, distances: u32, reach: u32, splits: u32, parts: u32, zero: u32
}
var<immediate> p: P;

// KEY: width of a key. KEY_WIDTH: width of a row in `queries`, a multiple of 8. VALUE: width of a value vector. ROWS: a
// multiple of 4, smaller for wide heads, whose queries would not fit in workgroup memory. LANES: number of threads per
// output row; each computes 2 * PAIRS values of the row. OWN: rows per thread.
const THREADS = 128u;
const OWN = ROWS * LANES / THREADS;
const PAIRS = ((VALUE + 1u) / 2u + LANES - 1u) / LANES;
// Number of rows for which a thread computes the score at one position.
const SCORED = ROWS / 4u;
const KEY_WIDTH = (KEY + 7u) / 8u * 8u;
const LOW = -3.0e38;

var<workgroup> queries: array<f32, ROWS * KEY_WIDTH>;
var<workgroup> weights_of: array<f32, ROWS * 32u>;
var<workgroup> peaks: array<f32, ROWS>;
var<workgroup> factors: array<f32, ROWS>;
var<workgroup> ranges: array<vec2u, ROWS>;

@compute @workgroup_size(128) fn main(
    @builtin(local_invocation_index) l: u32, @builtin(workgroup_id) wg: vec3u
) {
    // The query heads that read KV head wg.x.
    let first_head = (wg.x * p.heads + p.kv_heads - 1u) / p.kv_heads;
    let end_head = ((wg.x + 1u) * p.heads + p.kv_heads - 1u) / p.kv_heads;
    let group = (p.heads + p.kv_heads - 1u) / p.kv_heads;
    let first_row = wg.y * ROWS;
    if (l < ROWS) {
        let row = first_row + l;
        let token = min(row / group, p.n - 1u);
        let is_row = row / group < p.n && first_head + row % group < end_head;
        let range = vec2u(inputs[p.ranges + 2u * token], inputs[p.ranges + 2u * token + 1u]);
        ranges[l] = select(vec2u(0u), range, is_row);
        peaks[l] = LOW;
    }
    for (var i = l; i < ROWS * KEY_WIDTH; i += THREADS) {
        let row = first_row + i / KEY_WIDTH;
        let token = min(row / group, p.n - 1u);
        let head = min(first_head + row % group, p.heads - 1u);
        let j = i % KEY_WIDTH;
        queries[i] = select(0.0, value(p.q + token * p.q_row + head * KEY + min(j, KEY - 1u)), j < KEY);
    }
    workgroupBarrier();
    var low = 0xffffffffu;
    var high = 0u;
    for (var r = 0u; r < ROWS; r++) {
        if (ranges[r].x < ranges[r].y) {
            low = min(low, ranges[r].x);
            high = max(high, ranges[r].y);
        }
    }
    let pair = l % LANES;
    let own = l / LANES * OWN;
    var sums: array<vec2f, OWN * PAIRS>;
    for (var r = 0u; r < OWN * PAIRS; r++) { sums[r] = vec2f(0.0); }
    var total = 0.0;
    let at = l % 32u;
    let scored = l / 32u * SCORED;
    for (var iteration = wg.z; low < high && 32u * iteration < high; iteration += p.splits) {
        let start = 32u * iteration;
        if (start + 32u <= low) { continue; }
        // Scores at position `start + at`.
        let position = start + at;
        let row = wg.x * p.kept + position % p.kept;
        var scores: array<f32, SCORED>;
        for (var r = 0u; r < SCORED; r++) { scores[r] = 0.0; }
        if (position >= low && position < high) {
            for (var i = 0u; i < KEY_WIDTH / 8u; i++) {
                let k = eight(K_TYPE, p.k_rows + row * p.k_words, p.k_scales + row * p.k_blocks, i);
                for (var r = 0u; r < SCORED; r++) {
                    let q = (scored + r) * KEY_WIDTH + 8u * i;
                    scores[r] += dot(vec4f(queries[q], queries[q + 1u], queries[q + 2u], queries[q + 3u]), k.a)
                        + dot(vec4f(queries[q + 4u], queries[q + 5u], queries[q + 6u], queries[q + 7u]), k.b);
                }
            }
        }
        for (var r = 0u; r < SCORED; r++) {
            let nth = first_row + scored + r;
            let token = min(nth / group, p.n - 1u);
            let head = min(first_head + nth % group, p.heads - 1u);
            let own_position = inputs[p.positions + token];
            var score = scores[r] * p.scale;
            if (p.softcap != 0.0) { score = select(p.softcap * tanh_of(score / p.softcap), score, is_nan(score)); }
            if (p.slopes != NONE) {
                let distance = max(position, own_position) - min(position, own_position);
                score -= vectors[p.slopes + head] * f32(distance);
            }
            if (p.distances != NONE) {
                let reach = i32(p.reach);
                let distance = clamp(i32(position) - i32(own_position), -reach, reach);
                score += vectors[p.distances + head * (2u * p.reach + 1u) + u32(distance + reach)];
            }
            let range = ranges[scored + r];
            weights_of[(scored + r) * 32u + at] = select(LOW, score, position >= range.x && position < range.y);
        }
        workgroupBarrier();
        if (l < ROWS) {
            var peak = peaks[l];
            var is_wrong = false;
            for (var i = 0u; i < 32u; i++) {
                let score = weights_of[32u * l + i];
                is_wrong = is_wrong || is_nan(score);
                peak = max(peak, score);
            }
            let factor = exp_of(peaks[l] - peak);
            var sum = 0.0;
            for (var i = 0u; i < 32u; i++) {
                let score = weights_of[32u * l + i];
                let weight = select(exp_of(score - peak), 0.0, score == LOW);
                weights_of[32u * l + i] = weight;
                sum += weight;
            }
            total = total * factor + sum;
            if (is_wrong) { total = nan(); }
            peaks[l] = peak;
            factors[l] = factor;
        }
        workgroupBarrier();
        for (var j = 0u; j < PAIRS; j++) {
            let own_pair = pair + LANES * j;
            if (2u * own_pair >= VALUE) { continue; }
            for (var r = 0u; r < OWN; r++) { sums[OWN * j + r] *= factors[own + r]; }
            for (var i = 0u; i < 32u && start + i < high; i++) {
                if (start + i < low) { continue; }
                let place = wg.x * p.kept + (start + i) % p.kept;
                let v = two(V_TYPE, p.v_rows + place * p.v_words, p.v_scales + place * p.v_blocks, own_pair);
                for (var r = 0u; r < OWN; r++) {
                    let weight = weights_of[32u * (own + r) + i];
                    sums[OWN * j + r] += select(vec2f(0.0), weight * v, weight != 0.0);
                }
            }
        }
        workgroupBarrier();
    }
    for (var r = 0u; r < OWN; r++) {
        let nth = first_row + own + r;
        let head = first_head + nth % group;
        if (nth / group >= p.n || head >= end_head) { continue; }
        let to = p.parts + ((nth / group * p.heads + head) * p.splits + wg.z) * (2u + VALUE) + 2u;
        for (var j = 0u; j < PAIRS; j++) {
            let i = 2u * (pair + LANES * j);
            if (i < VALUE) { set_value(to + i, sums[OWN * j + r].x); }
            if (i + 1u < VALUE) { set_value(to + i + 1u, sums[OWN * j + r].y); }
        }
    }
    if (l < ROWS) {
        let nth = first_row + l;
        let head = first_head + nth % group;
        if (nth / group < p.n && head < end_head) {
            let to = p.parts + ((nth / group * p.heads + head) * p.splits + wg.z) * (2u + VALUE);
            set_value(to, peaks[l]);
            set_value(to + 1u, total);
        }
    }
}
