// Element-wise operations on rows. `y` is another activation, `vector` a vector of the model.
struct P {
    mode: u32, width: u32, x: u32, x_row: u32, y: u32, y_row: u32, vector: u32, each: u32,
    a: f32, b: f32, c: f32, d: f32, tokens: u32, activation: u32, length: u32, offset: u32, zero: u32
}
var<immediate> p: P;

const ADD = 0u;
const SCALE = 1u;
const SCALE_COLUMNS = 2u;
const SCALE_BY_POSITION = 3u;
const CLAMP = 4u;
const XIELU = 5u;
const GATE = 6u;
const GATE_SIGMOID = 7u;
const GLU = 8u;
const ACTIVATE = 9u;
const SET_MEDIA = 10u;
const ADD_MEDIA = 11u;
const SOFTCAP = 12u;

// Codes as in `activation_code` of src/wgpu/lower/mod.rs.
fn activate(kind: u32, x: f32) -> f32 {
    switch kind {
        case 1u: { return sigmoid(x); }
        case 2u: { return select(sign(x) * sqrt(max(abs(x), 1e-6)), 0.0, x == 0.0); }
        case 3u: { return softplus(x); }
        case 4u: { return tanh_of(x); }
        case 5u: { return x * sigmoid(x); }
        case 6u: { return 0.5 * x * (1.0 + tanh_of(0.797884561 * (x + 0.044715 * x * x * x))); }
        case 7u: { return 0.5 * x * (1.0 + erf_of(x * 0.707106781)); }
        case 8u: { return x * sigmoid(1.702 * x); }
        case 9u: { return max(x, 0.0); }
        case 10u: { return max(x, 0.0) * max(x, 0.0); }
        default: { return x; }
    }
}

// activation(gate) * up. Without `up`, its value is 1, or 0 for the clamped activation.
fn gated(gate: f32, up: f32, has_up: bool) -> f32 {
    switch p.activation {
        case 11u: {
            let g = min(gate, 7.0);
            return g * sigmoid(1.702 * g) * (select(0.0, clamp(up, -7.0, 7.0), has_up) + 1.0);
        }
        case 12u: {
            let g = min(gate, p.a);
            return g * sigmoid(g) * select(1.0, clamp(up, -p.a, p.a), has_up);
        }
        case 13u: { return min(gate * sigmoid(gate), p.a) * select(1.0, clamp(up, -p.a, p.a), has_up); }
        case 14u: {
            let g = p.a * tanh_of(gate / p.a) * sigmoid(gate);
            let u = select(p.b * tanh_of(up / p.b), up, p.b == 0.0);
            return g * select(1.0, u, has_up);
        }
        default: { return activate(p.activation, gate) * select(1.0, up, has_up); }
    }
}

@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3u) {
    let i = id.x;
    let t = id.y;
    if (i >= p.width) { return; }
    let at = p.x + t * p.x_row + i;
    let x = value(at);
    var out = x;
    switch p.mode {
        case ADD: { out = x + p.a * value(p.y + t * p.y_row + i); }
        case SCALE: { out = x * p.a; }
        case SCALE_COLUMNS: { out = x * vectors[p.vector + i]; }
        case SCALE_BY_POSITION: {
            let periods = (inputs[p.tokens + t] + p.offset) / p.length + 1u;
            out = x * (1.0 + p.a * log(f32(periods)));
        }
        case CLAMP: { out = select(min(max(x, p.a), p.b), x, is_nan(x)); }
        case XIELU: {
            let e = exp_of(min(x, p.d)) - 1.0;
            out = select(p.b * (e - x) + p.c * x, p.a * x * x + p.c * x, x > 0.0);
        }
        case GATE: { out = x * value(p.y + t * p.y_row + i / p.each); }
        case GATE_SIGMOID: { out = x * sigmoid(value(p.y + t * p.y_row + i / p.each)); }
        case GLU: {
            let up = value(p.y + t * p.y_row + i);
            out = select(gated(x, up, true), up, is_nan(up));
        }
        case ACTIVATE: { out = gated(x, 1.0, false); }
        case SET_MEDIA, ADD_MEDIA: {
            let row = inputs[p.tokens + t];
            if (row == NONE) { return; }
            let media = bitcast<f32>(inputs[p.y + row * p.y_row + p.offset + i]);
            out = select(media, x + media, p.mode == ADD_MEDIA);
        }
        case SOFTCAP: { out = p.b * tanh_of(x * p.a / p.b); }
        default: {}
    }
    if (is_nan(x)) { out = x; }
    set_value(at, out);
}
