// The gate of a feed-forward block where it is not part of a product: gate = activation(gate) * up.
#include "args.cuh"

KERNEL(glu, GluArgs, 256, 1) {
    let_next_start();
    wait_for_previous();
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < a.n; i += (u64)gridDim.x * blockDim.x)
        a.gate[i] = activate(a.gate[i], a.activation) * (a.up ? a.up[i] : 1.f);
}
