// The normalized Hadamard transform of 32 values, its own inverse. It spreads outliers and preserves dot products.
fn hadamard(v: ptr<function, array<f32, 32>>) {
    for (var far = 1u; far < 32u; far *= 2u) {
        for (var i = 0u; i < 32u; i++) {
            if ((i & far) == 0u) {
                let a = (*v)[i];
                let b = (*v)[i + far];
                (*v)[i] = a + b;
                (*v)[i + far] = a - b;
            }
        }
    }
    for (var i = 0u; i < 32u; i++) { (*v)[i] *= 0.17677669529663687; }
}
