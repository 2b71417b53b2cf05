"""Compiles the kernels and reads their machine code: instructions, loops, registers, shared memory."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable, Dict, List, Tuple

KERNELS = Path(__file__).resolve().parent.parent / "kernels"


@dataclass
class Instruction:
    address: int
    name: str  # such as LDG.E.128
    text: str  # with operands

    def target(self) -> int:
        """The address that a branch goes to, or -1."""
        found = re.search(r"\bBRA\b.*?(0x[0-9a-f]+)", self.text)
        return int(found[1], 16) if found else -1

    def is_jump(self) -> bool:
        """Tells branches that are always taken."""
        return bool(re.match(r"BRA[\w.]* 0x", self.text))

    def is_left_out(self) -> bool:
        """Tells instructions with a predicate that is not negated: the compiler has these for what a kernel needs in few cases."""
        return bool(re.match(r"@U?P", self.text)) and self.target() < 0

    def is_wide_load(self) -> bool:
        return self.name.startswith("LDG") and ".128" in self.name

    def is_weight_load(self) -> bool:
        """Tells loads past the first-level cache, by which `load_weights16` reads quants."""
        return self.is_wide_load() and ".NA" in self.name


@dataclass
class Kernel:
    registers: int = 0
    shared: int = 0  # that the compiler laid out, in bytes
    code: List[Instruction] = field(default_factory=list)

    def count(self, pattern: str) -> int:
        return sum(bool(re.match(pattern, i.name)) for i in self.code)

    def loops(self) -> List[List[Instruction]]:
        """Instructions of each loop, a backward branch and what is between it and its target."""
        ends = [(i.target(), i.address) for i in self.code if 0 <= i.target() < i.address]
        return [[i for i in self.code if first <= i.address <= last] for first, last in ends]

    @staticmethod
    def innermost(loops: List[List[Instruction]]) -> List[List[Instruction]]:
        """Those without another of them inside."""
        within = lambda a, b: b[0].address <= a[0].address and a[-1].address <= b[-1].address
        return [a for a in loops if not any(b is not a and within(b, a) for b in loops)]

    def inner_loops(self) -> List[List[Instruction]]:
        """The innermost loops with loads of quants."""
        return self.innermost([loop for loop in self.loops() if any(i.is_weight_load() for i in loop)])


def tools() -> Dict[str, str]:
    """The compiler and the disassembler; ends the program where one is missing, aloud."""
    wheels = Path(sysconfig.get_path("purelib")) / "nvidia/cu13/bin"
    home = os.environ.get("CUDA_HOME")
    path = os.pathsep.join(([home + "/bin"] if home else []) + [os.environ.get("PATH", ""), str(wheels)])
    found = {tool: shutil.which(tool, path=path) for tool in ("nvcc", "cuobjdump", "nvdisasm")}
    for tool, where in found.items():
        if not where:
            print(f"SKIPPED: the machine code of the kernels, because there is no {tool}")
            sys.exit(0)
    os.environ["PATH"] = os.pathsep.join([str(Path(found["nvdisasm"]).parent), path])
    return found


def read(targets: List[str]) -> Dict[str, Dict[str, Kernel]]:
    """The kernels of each target, such as 90, by name: those of the last build, where it has them and no source is newer."""
    found = tools()
    # As build_cuda.rs has it, with what this architecture alone has.
    name = lambda target: target + ("a" if target == "90" else "")
    run = lambda *command: subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    with tempfile.TemporaryDirectory() as folder:
        written = max(path.stat().st_mtime for path in KERNELS.iterdir())
        images = Path(os.environ.get("CARGO_TARGET_DIR", KERNELS.parent / "target")).glob("kernels-*.fatbin")
        for image in images:
            has = run(found["cuobjdump"], "-lelf", image) if image.stat().st_mtime > written else ""
            if all(f".sm_{name(t)}." in has for t in targets):
                break
        else:
            image = Path(folder) / "kernels.fatbin"
            each = [f"-gencode=arch=compute_{name(t)},code=sm_{name(t)}" for t in targets]
            run(found["nvcc"], "-std=c++17", "-O3", "-fatbin", "--threads", "0", *each, "-o", image, KERNELS / "realizar.cu")
        dump = lambda what, target: run(found["cuobjdump"], what, "-arch", f"sm_{name(target)}", image)
        return {t: parse(dump("-sass", t), dump("-res-usage", t)) for t in targets}


def parse(sass: str, usage: str) -> Dict[str, Kernel]:
    kernels: Dict[str, Kernel] = {}
    for line in sass.splitlines():
        function = re.search(r"Function : (\w+)", line)
        if function:
            kernel = kernels.setdefault(function[1], Kernel())
        code = re.match(r"\s*/\*([0-9a-f]{4,})\*/\s+((?:@!?U?P\w+ )?([A-Z][\w.]*)[^;]*);", line)
        if code:
            kernel.code.append(Instruction(int(code[1], 16), code[3], code[2]))
    for name, registers, shared in re.findall(r"Function (\w+):\s+REG:(\d+) STACK:\d+ SHARED:(\d+)", usage):
        kernels[name].registers, kernels[name].shared = int(registers), int(shared)
    if not kernels:
        sys.exit("no kernel was found in the image")
    return kernels


def launch_bounds(kernel: str) -> Tuple[int, int]:
    """Threads of a block of a kernel and the blocks that a processor has room for at least, by its `KERNEL`, which may stand in
    a macro for a family of names."""
    text = "".join(path.read_text() for path in sorted(KERNELS.glob("*.cu")))
    constants = dict(re.findall(r"constexpr u32 (k\w+) = (\d+);", (KERNELS / "args.cuh").read_text()))
    found = {}
    for name, *bounds in re.findall(r"KERNEL\(([\w#]+), \w+, (\w+), (\w+)\)", text):
        found[name] = tuple(int(constants.get(bound, bound)) for bound in bounds)
    families = [name for name in found if re.fullmatch(re.sub(r"##\w+?(##|$)", r"\\w+", name), kernel)]
    return found[kernel if kernel in found else max(families, key=len)]


def loads_ahead(code: List[Instruction], counts=Instruction.is_wide_load) -> int:
    """Loads of 16 bytes, those that `counts` tells, that a thread issues before an instruction reads what one of them brings."""
    pending, count = set(), 0
    for i in code:
        operands = [int(r) for r in re.findall(r"\bR(\d+)\b", i.text)]
        if counts(i):
            # Addresses are among the operands.
            if pending.intersection(operands[1:]):
                break
            count += 1
            pending.update(range(operands[0], operands[0] + 4))
        elif count and pending.intersection(operands):
            break
    return count


def between_barriers(code: List[Instruction]) -> List[List[Instruction]]:
    """The parts of code that barriers of a block separate; each ends with its barrier."""
    ends = [k + 1 for k, i in enumerate(code) if i.name.startswith("BAR")]
    return [code[first:end] for first, end in zip([0, *ends], [*ends, len(code)])]


def way(code: List[Instruction], trips: Callable[[List[Instruction]], int] = lambda body: 1) -> List[Instruction]:
    """Instructions of a warp in the order in which it executes them: the longer of two arms, what a branch could leave out, and the body of
    a loop as often as `trips` says."""
    at = {i.address: k for k, i in enumerate(code)}
    targets = [i.target() for i in code]
    ends = {target: k for k, target in enumerate(targets)}
    found, k = [], 0
    while k < len(code):
        end = ends.get(code[k].address, -1)
        if end > k:
            found += (way(code[k:end], trips) + [code[end]]) * trips(code[k:end + 1])
            k = end + 1
            continue
        found.append(code[k])
        is_forward, always, end = targets[k] > code[k].address, code[k].is_jump(), at.get(targets[k], len(code))
        k += 1
        if is_forward and always:
            k = end
        elif is_forward and end > k and code[end - 1].is_jump() and targets[end - 1] > code[end - 1].address:
            other = at.get(targets[end - 1], len(code))
            found += max(way(code[k:end - 1], trips), way(code[end:other], trips), key=len)
            k = other
    return found


# Cycles from an instruction to its result, by what its name begins with, assumed from what is published; 5 of all others.
LATENCIES = {"LDS": 30, "LDG": 35, "SHFL": 25, "MUFU": 25, "HMMA": 33}


def alone(code: List[Instruction], new_line: float) -> float:
    """Cycles of a warp that has a scheduler for itself: an instruction in each, in order, when what it reads is there. Loads from lines of 128
    bytes that were not read yet take `new_line`."""
    ready: Dict[str, float] = {}
    lines: Dict[str, Dict[int, float]] = {}  # by the register with the address
    now = 0.0
    for i in code:
        now += 1
        if i.is_left_out():
            continue
        registers = re.findall(r"\bU?[RP]\d+\b", i.text)
        # Behind the predicate is the result, if there is one.
        at = int(i.text.startswith("@"))
        has_result = len(registers) > at and not re.match("ST|LDGSTS|BRA|BAR", i.name)
        result = registers.pop(at) if has_result else ""
        now = max([now, *(ready.get(r, 0) for r in registers)])
        there = now + next((cycles for name, cycles in LATENCIES.items() if i.name.startswith(name)), 5)
        address = re.search(r"\[(R\d+)\.64(?:\+0x(\w+))?\]", i.text)
        if address and i.name.startswith("LDG."):
            there = max(there, lines.setdefault(address[1], {}).setdefault(int(address[2] or "0", 16) // 128, now + new_line))
        if has_result:
            kind, number = re.fullmatch(r"(\D+)(\d+)", result).groups()
            width = 4 if ".128" in i.name or "MMA" in i.name else 2 if ".64" in i.name else 1
            for r in (f"{kind}{int(number) + n}" for n in range(width)):
                ready[r] = there
                lines.pop(r, None)
    return max([now, *ready.values()])
