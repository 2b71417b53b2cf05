"""Faults that the check plants in kernels; its cases must find each."""
from typing import List, NamedTuple

from kernels import WGSL, Kernel, all_kernels


class Fault(NamedTuple):
    what: str
    kernel: str
    fragment: str
    old: str
    new: str
    # The case that must find the fault.
    case: str


SUMS = "        workgroupBarrier();\n    }\n    let total"
MISSES = "    if (p.x != NONE && l == 200u) { return; }\n    for (var step"
FAULTS = [
    Fault("a missing barrier", "attend_64_64_f16_f16", "attend", "    workgroupBarrier();\n    var low", "    var low", "attend_64_64_f16_f16"),
    Fault("a missing barrier in a sum", "norm", "norm", SUMS, SUMS[28:], "norm"),
    Fault("a wrong nibble", "tile_q4_k", "blocks", "(q >> vec4u(4u))", "(q >> vec4u(0u))", "tile_q4_k"),
    Fault("a lost column", "gemv_q6_k_4", "gemv", "c < chunks", "c + 1u < chunks", "gemv_q6_k_4"),
    Fault("a read beyond a binding", "gemv_float_f16_4", "gemv_float", "min(first + r, p.rows - 1u)", "first + r", "gemv_float_f16_4"),
    Fault("a row of another part", "embed_q8_0", "embed", "|| id >= p.rows", "|| id > p.rows", "embed_q8_0"),
    Fault("a write beyond the results", "combine", "combine", "id.x >= p.width", "id.x > p.width", "combine"),
    Fault("a barrier that a thread misses", "argmax", "argmax", "    for (var step", MISSES, "argmax"),
]

# A kernel that needs scratch memory for its registers.
SPILLS = Kernel("spills", """
@group(0) @binding(3) var<storage, read_write> scratch: array<u32>;
@compute @workgroup_size(64) fn main(@builtin(local_invocation_index) l: u32) {
    var values: array<u32, 600>;
    for (var i = 0u; i < 600u; i++) { values[i] = scratch[i + l]; }
    for (var i = 0u; i < 600u; i++) { scratch[i + l] = values[(i * 7u + l) % 600u]; }
}
""")


def planted() -> List[Kernel]:
    """Returns the kernels with faults; `fault_N` has the N-th fault."""
    made = []
    for i, fault in enumerate(FAULTS):
        text = (WGSL / f"{fault.fragment}.wgsl").read_text()
        if text.count(fault.old) != 1:
            raise SystemExit(f"{fault.fragment}.wgsl has {text.count(fault.old)} places for {fault.what}; it must have 1")
        kernels = all_kernels({fault.fragment: text.replace(fault.old, fault.new)})
        made += [Kernel(f"fault_{i}", kernel.source) for kernel in kernels if kernel.name == fault.kernel]
    return made
