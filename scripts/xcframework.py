"""Assembles static libraries to an XCFramework for Xcode and Swift packages, for all of Apple's systems."""

import plistlib
import shutil
import struct
from pathlib import Path
from typing import Dict

ROOT = Path(__file__).resolve().parent.parent
# Platform, variant and architecture, as Xcode calls them.
SYSTEMS = {
    "aarch64-apple-darwin": ("macos", None, "arm64"),
    "x86_64-apple-darwin": ("macos", None, "x86_64"),
    "aarch64-apple-ios": ("ios", None, "arm64"),
    "aarch64-apple-ios-sim": ("ios", "simulator", "arm64"),
}
# CPU_TYPE and CPU_SUBTYPE_..._ALL of <mach/machine.h>.
PROCESSORS = {"arm64": (0x0100000C, 0), "x86_64": (0x01000007, 3)}


def universal(libraries: Dict[str, bytes]) -> bytes:
    """One file of several architectures (<mach-o/fat.h>); one architecture stays as it is."""
    if len(libraries) == 1:
        return next(iter(libraries.values()))
    align = 3
    heads, body, start = struct.pack(">II", 0xCAFEBABE, len(libraries)), b"", 8 + 20 * len(libraries)
    for architecture, library in sorted(libraries.items()):
        body += bytes(-(start + len(body)) % (1 << align))
        heads += struct.pack(">IIIII", *PROCESSORS[architecture], start + len(body), len(library), align)
        body += library
    return heads + body


def make(tree: Path, libraries: Dict[str, Path]) -> None:
    """Fills `tree`, whose name ends in .xcframework; `libraries`: static ones by triple."""
    groups: Dict[tuple, Dict[str, bytes]] = {}
    for triple, library in libraries.items():
        platform, variant, architecture = SYSTEMS[triple]
        groups.setdefault((platform, variant), {})[architecture] = library.read_bytes()
    available = []
    for (platform, variant), parts in groups.items():
        name = "-".join(filter(None, [platform, "_".join(sorted(parts)), variant]))
        headers = tree / name / "Headers"
        headers.mkdir(parents=True)
        (tree / name / "librealizar.a").write_bytes(universal(parts))
        shutil.copy(ROOT / "include/realizar.h", headers)
        # The module that the Swift package imports.
        (headers / "module.modulemap").write_text('module CRealizar [system] {\n    header "realizar.h"\n    export *\n}\n')
        entry = {
            "LibraryIdentifier": name,
            "LibraryPath": "librealizar.a",
            "HeadersPath": "Headers",
            "SupportedArchitectures": sorted(parts),
            "SupportedPlatform": platform,
        }
        available.append({**entry, "SupportedPlatformVariant": variant} if variant else entry)
    plist = {"AvailableLibraries": available, "CFBundlePackageType": "XFWK", "XCFrameworkFormatVersion": "1.0"}
    (tree / "Info.plist").write_bytes(plistlib.dumps(plist))
