"""Reads exports and dependencies of shared libraries (ELF, PE and Mach-O) without tools of the target system."""

import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import List, Set


@dataclass
class Binary:
    exports: Set[str] = field(default_factory=set)
    # Libraries that the loader needs.
    needed: List[str] = field(default_factory=list)
    # Required system versions, such as "GLIBC_2.17" or "macos 11.0".
    versions: Set[str] = field(default_factory=set)


def text(data: bytes, at: int) -> str:
    return data[at : data.index(b"\0", at)].decode()


def elf(data: bytes) -> Binary:
    """64 bits, little-endian."""
    found = Binary()
    (table,), (size, count) = struct.unpack_from("<Q", data, 40), struct.unpack_from("<HH", data, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, table + i * size) for i in range(count)]
    for _, kind, _, _, offset, length, link, info, _, entry in sections:
        names = sections[link][4] if link < count else 0
        if kind == 11:  # SHT_DYNSYM
            for at in range(offset, offset + length, entry):
                name, symbol, _, section = struct.unpack_from("<IBBH", data, at)
                # Each version node has a symbol of its own, without a section.
                if section not in (0, 0xFFF1) and symbol >> 4 != 0:
                    found.exports.add(text(data, names + name))
        elif kind == 6:  # SHT_DYNAMIC
            for at in range(offset, offset + length, entry):
                tag, value = struct.unpack_from("<QQ", data, at)
                if tag == 1:
                    found.needed.append(text(data, names + value))
        elif kind == 0x6FFFFFFE:  # SHT_GNU_verneed
            at = offset
            for _ in range(info):
                _, entries, _, first, following = struct.unpack_from("<HHIII", data, at)
                aux = at + first
                for _ in range(entries):
                    _, _, _, name, after = struct.unpack_from("<IHHII", data, aux)
                    found.versions.add(text(data, names + name))
                    aux += after
                at += following
    return found


def pe(data: bytes) -> Binary:
    """PE32+."""
    found = Binary()
    header = struct.unpack_from("<I", data, 60)[0]
    count, optional = struct.unpack_from("<H", data, header + 6)[0], struct.unpack_from("<H", data, header + 20)[0]
    start = header + 24
    sections = [struct.unpack_from("<8xIIII", data, start + optional + 40 * i) for i in range(count)]

    def place(address: int) -> int:
        return next(raw + address - at for size, at, raw_size, raw in sections if at <= address < at + max(size, raw_size))

    exports, imports = (struct.unpack_from("<I", data, start + 112 + 8 * i)[0] for i in range(2))
    n, names = struct.unpack_from("<I", data, place(exports) + 24)[0], struct.unpack_from("<I", data, place(exports) + 32)[0]
    for i in range(n):
        found.exports.add(text(data, place(struct.unpack_from("<I", data, place(names) + 4 * i)[0])))
    at = place(imports)
    while (name := struct.unpack_from("<I", data, at + 12)[0]) != 0:
        found.needed.append(text(data, place(name)))
        at += 20
    found.versions.add("subsystem {}.{}".format(*struct.unpack_from("<HH", data, start + 48)))
    return found


def mach_o(data: bytes) -> Binary:
    """64 bits, of one architecture."""
    found = Binary()
    count, at = struct.unpack_from("<I", data, 16)[0], 32
    for _ in range(count):
        command, size = struct.unpack_from("<II", data, at)
        if command == 0xC:  # LC_LOAD_DYLIB
            found.needed.append(text(data, at + struct.unpack_from("<I", data, at + 8)[0]))
        elif command == 2:  # LC_SYMTAB
            symbols, n, strings, _ = struct.unpack_from("<IIII", data, at + 8)
            for i in range(n):
                name, kind = struct.unpack_from("<IB", data, symbols + 16 * i)
                # External, defined here, neither private nor a debugging symbol.
                if kind & 1 and kind & 0xE and not kind & 0xF0:
                    found.exports.add(text(data, strings + name).removeprefix("_"))
        elif command in (0x32, 0x24):  # LC_BUILD_VERSION, LC_VERSION_MIN_MACOSX
            version = struct.unpack_from("<I", data, at + (12 if command == 0x32 else 8))[0]
            found.versions.add(f"macos {version >> 16}.{version >> 8 & 0xFF}")
        at += size
    return found


def read(path: Path) -> Binary:
    data = path.read_bytes()
    for magic, reader in ((b"\x7fELF", elf), (b"MZ", pe), (b"\xcf\xfa\xed\xfe", mach_o)):
        if data.startswith(magic):
            return reader(data)
    raise ValueError(f"{path}: neither ELF nor PE nor Mach-O")
