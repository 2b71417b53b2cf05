"""python -m realizar chat MODEL [SYSTEM]    holds a conversation: Ctrl-C ends an answer, Ctrl-D the conversation
python -m realizar doctor [MODEL]           tells what this machine has for models, and what MODEL makes of it

MODEL is a file, a folder, or hf:owner/name or hf:owner/name:quantization of the Hugging Face Hub."""

import platform
import sys
import time
from contextlib import suppress
from typing import Optional

import realizar
from realizar._library import library


def _loaded(name: str) -> realizar.Model:
    return realizar.Model(_fetched(name))


def _fetched(name: str) -> str:
    """The path of a model, with a bar of what is fetched on a terminal."""
    if not name.startswith("hf:"):
        return name
    begin, first, shown = time.monotonic(), None, 0.0  # type: float, Optional[int], float

    def progress(done: int, total: int) -> None:
        nonlocal first, shown
        now = time.monotonic()
        first = done if first is None else first
        if first == total or not sys.stderr.isatty() or now - shown < 0.1 and done < total:
            return
        shown = now
        bar = "=" * (24 * done // total)
        sys.stderr.write(f"\r{name}  [{bar:24}]  {done / 1e6:.1f} of {total / 1e6:.1f} MB, {(done - first) / 1e6 / max(now - begin, 0.001):.1f} MB/s\x1b[K")
        sys.stderr.flush()

    try:
        return realizar.fetch(name, progress=progress)
    finally:
        if shown:
            sys.stderr.write("\n")


def chat(name: str, system: Optional[str] = None) -> None:
    with suppress(ImportError):
        import readline  # noqa: F401 - lines that are typed may be edited
    conversation = realizar.Conversation(_loaded(name), system, overflow="forget")
    while True:
        try:
            for piece in conversation.say(input("> ")):
                print(piece, end="", flush=True)
        except KeyboardInterrupt:
            pass
        except EOFError:
            return print()
        print()


def doctor(name: Optional[str] = None) -> None:
    print(f"realizar {realizar.__version__} of {library._name}, Python {platform.python_version()}, {sys.platform} {platform.machine()}")
    for device in realizar.devices():
        memory = f"{device.memory_free / 1e9:.1f} of {device.memory_total / 1e9:.1f} GB of memory free"
        about = [device.name, device.isa, memory if device.memory_total else "", device.unavailable and f"unavailable: {device.unavailable}"]
        print(f"device {device.index}: {', '.join(filter(None, about))}")
    if name is None:
        return
    path = _fetched(name)
    plan = realizar.plan(path)
    print(f"takes {plan.total_host / 1e6:.1f} MB of memory, {plan.total_device / 1e6:.1f} MB of GPUs, with one conversation")
    begin = time.monotonic()
    model = realizar.Model(path)
    info = model.info
    print(f"loaded in {1000 * (time.monotonic() - begin):.0f} ms: {info.architecture} on device {info.device}, "
          f"{'a' if info.has_chat_template else 'no'} chat template")  # fmt: skip
    "".join(model.session().generate("Once upon a time", max_tokens=32))
    decode = model.metrics()["decode"]
    if decode.count:
        print(f"{decode.count / decode.sum_ns * 1e9:.1f} tokens per second")


def main(command: str = "", *operands: str) -> None:
    if command == "chat" and 1 <= len(operands) <= 2:
        chat(*operands)
    elif command == "doctor" and len(operands) <= 1:
        doctor(*operands)
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except KeyboardInterrupt:
        sys.exit(130)
    except realizar.Error as e:
        sys.exit(f"{e.name}: {e}")
