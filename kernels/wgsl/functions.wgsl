// Functions that drivers round differently, or do not compute for all arguments.

fn is_nan(v: f32) -> bool { return (bitcast<u32>(v) & 0x7fffffffu) > 0x7f800000u; }
fn nan() -> f32 { return bitcast<f32>(0x7fc00000u | scratch_zero()); }

// A 0 that the compiler does not know, because constant expressions must not be NaN.
fn scratch_zero() -> u32 { return p.zero; }

// e^x for x <= 0.
fn exp_of(x: f32) -> f32 {
    let k = round(max(x, -87.0) * 1.44269504);
    let r = fma(k, 1.42860677e-6, fma(k, -0.693148613, max(x, -87.0)));
    let tail = 0.166666667 + r * (0.0416666667 + r * (0.00833333333 + r * 0.00138888889));
    let e = 1.0 + r * (1.0 + r * (0.5 + r * tail));
    return bitcast<f32>(u32(i32(bitcast<u32>(e)) + i32(k) * 8388608));
}

// e^x for any x; NaN stays NaN.
fn exp_any(x: f32) -> f32 {
    let e = exp_of(-abs(x));
    return select(select(e, 1.0 / e, x > 0.0), x, is_nan(x));
}

fn sigmoid(x: f32) -> f32 {
    let e = exp_of(-abs(x));
    return select(select(e, 1.0, x >= 0.0) / (1.0 + e), x, is_nan(x));
}

// Some drivers overflow for large arguments.
fn tanh_of(x: f32) -> f32 {
    if (abs(x) < 0.05) { return x * (1.0 - x * x * (0.333333333 - x * x * 0.133333333)); }
    let e = exp_of(-2.0 * abs(x));
    return sign(x) * (1.0 - e) / (1.0 + e);
}

fn softplus(x: f32) -> f32 {
    return select(max(x, 0.0) + log_one_plus(exp_of(-abs(x))), x, is_nan(x));
}

// ln(1 + x) for 0 <= x <= 1.
fn log_one_plus(x: f32) -> f32 {
    if (x < 0.01) { return x * (1.0 - x * (0.5 - x * (0.333333333 - 0.25 * x))); }
    return log(1.0 + x);
}

// The error function: Abramowitz and Stegun 7.1.26, at most 1.5e-7 off.
fn erf_of(x: f32) -> f32 {
    let t = 1.0 / (1.0 + 0.3275911 * abs(x));
    let poly = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))));
    return sign(x) * (1.0 - poly * exp_of(-x * x));
}
