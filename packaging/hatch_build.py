"""Puts the library into a wheel that is built from the sources, for Hatch."""

import os
import subprocess
import sys
from pathlib import Path

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from packaging.tags import platform_tags

NAMES = {"win32": "realizar.dll", "darwin": "librealizar.dylib"}


class BuildLibrary(BuildHookInterface):
    def initialize(self, version, build_data):
        name = NAMES.get(sys.platform, "librealizar.so")
        library = os.environ.get("REALIZAR_LIBRARY") or self.cargo() / name
        build_data["force_include"][str(library)] = f"realizar/{name}"
        # The library is opened by its path and does not depend on the version of Python.
        tag = next(tag for tag in platform_tags() if not tag.startswith(("manylinux", "musllinux")))
        build_data["pure_python"], build_data["tag"] = False, f"py3-none-{tag}"

    def cargo(self) -> Path:
        target = Path(self.root, "target")
        environment = {**os.environ, "CARGO_TARGET_DIR": str(target), "CARGO_PROFILE_RELEASE_DEBUG": "none", "CARGO_PROFILE_RELEASE_STRIP": "debuginfo"}
        features = os.environ.get("REALIZAR_FEATURES", "")
        try:
            command = ["cargo", "build", "--release", "--locked", "--lib", *(["--features", features] if features else [])]
            subprocess.run(command, cwd=self.root, env=environment, check=True)
        except FileNotFoundError:
            sys.exit("realizar has no wheel for this system, and building one needs cargo 1.89 or newer, which is not here")
        return target / "release"
