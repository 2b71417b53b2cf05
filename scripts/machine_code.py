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
from typing import Dict, List, Tuple

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
    found = {name: (int(threads), int(blocks)) for name, threads, blocks in re.findall(r"KERNEL\(([\w#]+), \w+, (\d+), (\d+)\)", text)}
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
