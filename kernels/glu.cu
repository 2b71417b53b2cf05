// The gate of a feed-forward block where it is not part of a product, and factors on activations.
#include "args.cuh"

// gate = activation(gate) * up
KERNEL(glu, GluArgs, 256, 1) {
    let_next_start();
    wait_for_previous();
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < a.n; i += (u64)gridDim.x * blockDim.x)
        a.gate[i] = activate(a.gate[i], a.activation) * (a.up ? a.up[i] : 1.f);
}

// x *= factor
KERNEL(scale, ScaleArgs, 256, 1) {
    let_next_start();
    wait_for_previous();
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < a.n; i += (u64)gridDim.x * blockDim.x) a.x[i] *= a.factor;
}
