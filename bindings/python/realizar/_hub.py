"""Models of the Hugging Face Hub: "hf:owner/name" and "hf:owner/name:quantization" become a path in the cache that the
Hub's own client uses. `fetch` is the entry.

A model that is complete in the cache is used without a connection. Else files are fetched beside the cache's blobs,
checked by the hashes that the Hub lists, renamed, and linked into a snapshot once all of them are there; refs/main
names that snapshot last. It takes the standard library alone, as the other bindings do, so that all of them do the
same; tests/data/hub.json holds them to that.
"""

import errno
import hashlib
import io
import json
import os
import re
import select
import shutil
import time
import urllib.error
import urllib.parse
import urllib.request
from contextlib import contextmanager, suppress
from http.client import HTTPException, HTTPResponse
from typing import Any, Callable, Dict, Iterator, List, Mapping, NamedTuple, Optional, Tuple

from . import _header as _c
from ._errors import Error, error_of
from ._library import library

Told = Callable[[int, int], None]

PREFIX = "hf:"
# Attempts without a further byte in between, and seconds ahead of the second one; each later pause is twice as long.
ATTEMPTS, PAUSE = 5, 1.0
# Seconds for the headers of an answer and for a listing, and without a byte of a file.
TIMEOUT = 30.0
_NAME = re.compile(r"hf:([A-Za-z0-9_][A-Za-z0-9._-]*/[A-Za-z0-9_][A-Za-z0-9._-]*)(?::(.+))?")
_PART = re.compile(r"-\d{5}-of-(\d{5})\.(?:gguf|safetensors)$")
_LABEL = re.compile(
    r"(?:^|[-._/])((?:UD-)?(?:I?Q[1-8](?:_[A-Z0-9]+)*|TQ[12]_0|MXFP4(?:_MOE)?|NVFP4|BF16|FP?16|FP?32))(?=[-._/]|$)"
)
_FLOATS = ("", "BF16", "F16", "FP16", "F32", "FP32")
# Projectors as they are preferred; what is named otherwise comes after them.
_PROJECTORS = ("F16", "FP16", "BF16", "Q8_0", "F32", "FP32")
# Files of a folder beside its weights, with those of sentence-transformers.
_TEXTS = re.compile(r"[^/]+\.(?:json|txt|model|jinja)|\d_[A-Za-z]+/(?:config\.json|model\.safetensors)")
_TOKENIZERS = {"tokenizer.json", "tokenizer.model", "tekken.json", "vocab.json", "vocab.txt"}


def _failed(sentence: str, code: int = _c.RZ_ERR_IO, system_code: int = 0) -> Error:
    return error_of(code, library.rz_status_name(code).decode(), sentence, system_code)


def _size(n: int) -> str:
    return f"{n / 1e9:.1f} GB" if n >= 1e9 else f"{n / 1e6:.1f} MB"


class Candidate(NamedTuple):
    """The files of a model; the first is the one to load, or one of a folder."""

    label: str
    base: str
    files: List[str]
    size: int

    @property
    def needs(self) -> int:
        """Bytes of memory: weights about as they are in the file, with a cache and scratch memory."""
        return self.size + self.size // 4 + (1 << 28)


def is_projector(quantization: str) -> bool:
    """Tells whether the encoder of a model is named, not the model."""
    return "mmproj" in quantization.lower()


def encoder_name(model: str) -> str:
    """The name of the encoder in the repository of a model, unless it is one already."""
    repository, _, quantization = model[len(PREFIX) :].partition(":")
    return model if is_projector(quantization) else f"{PREFIX}{repository}:mmproj"


def candidates(files: Mapping[str, int], projectors: bool) -> List[Candidate]:
    """The models, or projectors, among files with these sizes: those in GGUF files with all their parts, or else the
    folder, which has both."""
    sets: Dict[Tuple[str, int], List[str]] = {}
    for file in sorted(files):
        name = file.rpartition("/")[2].lower()
        if name.endswith(".gguf") and is_projector(name) == projectors and "imatrix" not in name:
            part = _PART.search(file)
            sets.setdefault((file[: part.start()], int(part[1])) if part else (file[:-5], 1), []).append(file)
    found = []
    for (base, parts), names in sets.items():
        labels = _LABEL.findall(base.upper())
        label = labels[-1] if labels else ""
        # Rows interleaved for one processor, which no program reads any more.
        if len(names) == parts and not re.search("Q4_0_[48]_[48]", label):
            found.append(Candidate(label, base, names, sum(files[name] for name in names)))
    return found or _folder(files)


def _folder(files: Mapping[str, int]) -> List[Candidate]:
    weights = sorted(name for name in files if re.fullmatch(r"[^/]+\.safetensors", name))
    weights = [name for name in weights if re.fullmatch(r"model(-\d{5}-of-\d{5})?\.safetensors", name)] or weights
    part = _PART.search(weights[0]) if weights else None
    if "config.json" not in files or not _TOKENIZERS & set(files) or len(weights) < (int(part[1]) if part else 1):
        return []
    # Weights come last: where they are complete, all else is.
    names = sorted(name for name in files if _TEXTS.fullmatch(name)) + weights
    return [Candidate("", "", names, sum(files[name] for name in names))]


def named(found: List[Candidate], quantization: str) -> List[Candidate]:
    """The candidates of a quantization, or of the name of a file."""
    wanted = quantization.upper()
    label = wanted[7:] if wanted.startswith("MMPROJ-") else wanted
    gguf = [one for one in found if one.base]
    return (
        [one for one in gguf if one.label == label]
        or [one for one in gguf if one.label == "UD-" + label]
        or [one for one in gguf if wanted in (one.base.upper(), one.base.upper() + ".GGUF")]
    )


def best(found: List[Candidate], projectors: bool, free: int) -> Candidate:
    """The largest quantised one that fits into so much memory (0: unknown), else the smallest of floats that does, else
    the smallest. Of projectors the preferred one, of several the first."""

    def rank(one: Candidate) -> Tuple[int, int]:
        if projectors:
            return (_PROJECTORS.index(one.label) if one.label in _PROJECTORS else len(_PROJECTORS)), 0
        if free and one.needs > free:
            return 2, one.size
        return (1, one.size) if one.label in _FLOATS else (0, -one.size)

    return min(found, key=rank)


def choose(files: Mapping[str, int], repository: str, quantization: str, free: int) -> Candidate:
    """The candidate to fetch, of the files that a repository has."""
    projectors = is_projector(quantization)
    found = candidates(files, projectors)
    if not found and projectors:
        raise _failed(f"{repository} has neither mmproj files nor config.json, tokenizer and safetensors files: it has no encoder")
    if not found:
        raise _failed(f"{repository} has neither GGUF files nor config.json, tokenizer and safetensors files: take another repository, "
                      "such as one whose name ends in GGUF")  # fmt: skip
    if quantization.lower() in ("", "mmproj"):
        one = best(found, projectors, free)
        if free and one.needs > free and not projectors:
            else_ = f"or name its quantization to fetch it all the same, {one.label}" if one.label else "or one in GGUF files"
            raise _failed(f"{_size(free)} of memory are free, and the smallest of {repository} takes {_size(one.needs)}: take a smaller "
                          f"model, {else_}", _c.RZ_ERR_OUT_OF_MEMORY)  # fmt: skip
        return one
    matching = named(found, quantization)
    if len(matching) > 1:
        names = ", ".join(one.base + ".gguf" for one in matching)
        raise _failed(f"{repository} has several files of {quantization}: name one of them in its place, {names}")
    if not matching:
        kind = "mmproj-" if projectors else ""
        labels = ", ".join(sorted({kind + one.label if one.label else one.base for one in found if one.base}))
        raise _failed(f"{repository} has no {quantization}: " + (f"take one of {labels}" if labels else "it has no GGUF files, so name none"))
    return matching[0]


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:  # an HTTPError, which `_Hub.get` follows without the token
        return None


class _Patient(io.RawIOBase):
    """Reads a socket until `until`, or else with a timeout for each read, and asks `check` meanwhile."""

    def __init__(self, connection: Any, file: Any, check: Callable[[], None]) -> None:
        self.connection, self.file, self.check = connection, file, check
        self.until: Optional[float] = time.monotonic() + TIMEOUT

    def readable(self) -> bool:
        return True

    def readinto(self, to: Any) -> int:
        end = self.until or time.monotonic() + TIMEOUT
        while True:
            self.check()
            left = end - time.monotonic()
            if left <= 0:
                raise TimeoutError("no answer came in time")
            # TLS may have bytes that the system no longer has.
            if getattr(self.connection, "pending", int)() or select.select([self.connection], [], [], min(left, 0.1))[0]:
                return self.connection.recv_into(to)  # type: ignore[no-any-return]

    def close(self) -> None:
        self.file.close()
        super().close()


class _Opening:
    """Has the answers of connections be read by `_Patient`."""

    check: Callable[[], None]

    def do_open(self, http_class: Any, request: Any, **more: Any) -> Any:
        def answer(connection: Any, *arguments: Any, **options: Any) -> HTTPResponse:
            response = HTTPResponse(connection, *arguments, **options)
            response.fp = io.BufferedReader(_Patient(connection, response.fp, self.check))
            return response

        def connect(*arguments: Any, **options: Any) -> Any:
            connection = http_class(*arguments, **options)
            connection.response_class = answer
            return connection

        return super().do_open(connect, request, **more)  # type: ignore[misc]


class _Http(_Opening, urllib.request.HTTPHandler):
    pass


class _Https(_Opening, urllib.request.HTTPSHandler):
    pass


def _body_has_time(response: Any) -> None:
    """From here on each read of an answer has the timeout of its own."""
    response.fp.raw.until = None


class _Cut(Exception):
    """A connection that has failed, by its cause, or the status of an answer."""

    def __init__(self, cause: BaseException) -> None:
        self.cause, self.status = cause, cause.code if isinstance(cause, urllib.error.HTTPError) else 0


class _Hub:
    """The server, as the environment names it. `check` raises where the fetch is to end."""

    def __init__(self, repository: str, check: Callable[[], None]) -> None:
        self.repository, self.check = repository, check
        self.endpoint = (os.environ.get("HF_ENDPOINT") or "https://huggingface.co").rstrip("/")
        self.token = os.environ.get("HF_TOKEN", "").strip()
        handlers = _Http(), _Https()
        for handler in handlers:
            handler.check = check
        self.opener = urllib.request.build_opener(_NoRedirect, *handlers)

    def get(self, url: str, start: int = 0) -> Any:
        """The response to a GET, from this byte on, behind redirects. The token goes to the Hub's own host alone."""
        origin = lambda of: urllib.parse.urlsplit(of)[:2]  # noqa: E731
        for _ in range(10):
            if not url.startswith(("http://", "https://")):
                break
            headers = {"Accept-Encoding": "identity", "User-Agent": "realizar"}
            if start:
                headers["Range"] = f"bytes={start}-"
            if self.token and origin(url) == origin(self.endpoint):
                headers["Authorization"] = f"Bearer {self.token}"
            try:
                return self.opener.open(urllib.request.Request(url, headers=headers), timeout=TIMEOUT)
            except urllib.error.HTTPError as e:
                e.close()
                if e.code not in (301, 302, 303, 307, 308) or not e.headers.get("Location"):
                    raise _Cut(e) from e
                url = urllib.parse.urljoin(url, e.headers["Location"])
            except (OSError, HTTPException, ValueError) as e:  # of a token that is no header
                raise _Cut(e) from e
        raise self.strange()

    def read(self, response: Any) -> bytes:
        """The bytes that come next, or none at the end."""
        try:
            return response.read1(1 << 20)  # type: ignore[no-any-return]
        except (OSError, HTTPException) as e:
            raise _Cut(e) from e

    def listing(self) -> "Tuple[str, Dict[str, Tuple[int, str]]]":
        """The commit of the main branch, and the size and the hash of each of its files."""

        def work() -> bytes:
            with self.get(f"{self.endpoint}/api/models/{self.repository}/revision/main?blobs=true") as response:
                body = b""
                for data in iter(lambda: self.read(response), b""):
                    body += data
                    if len(body) > 1 << 26:
                        raise self.strange()
                return body

        body = self.attempts(work, lambda: 0)
        try:
            listed, files = json.loads(body), {}
            for file in listed["siblings"]:
                lfs = file.get("lfs") or {}
                size, digest = lfs.get("size", file.get("size")), lfs.get("sha256") or file.get("blobId")
                if isinstance(size, int) and size >= 0 and re.fullmatch("[0-9a-f]{40}|[0-9a-f]{64}", digest or "") and _is_safe(file["rfilename"]):
                    files[file["rfilename"]] = (size, digest)
            if re.fullmatch("[0-9a-f]{40}", listed["sha"]):
                return listed["sha"], files
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            pass
        raise self.strange()

    def attempts(self, work: Callable[[], Any], progress: Callable[[], int]) -> Any:
        """Does something again where a connection fails, while `progress` gets further in between than it was ever."""
        n, furthest = 0, progress()
        while True:
            try:
                return work()
            except _Cut as e:
                n, furthest = (n + 1 if progress() <= furthest else 1), max(furthest, progress())
                if n >= ATTEMPTS or 400 <= e.status < 500 and e.status != 429:
                    raise self.refused(e) from e.cause
            self.wait(PAUSE * 2 ** (n - 1))

    def wait(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.check()
            time.sleep(min(0.1, seconds))

    def refused(self, e: _Cut) -> Error:
        where, repository = self.endpoint, self.repository
        if e.status == 401 and self.token:
            return _failed(f"{where} does not take the token in HF_TOKEN for {repository}: make a new one at {where}/settings/tokens")
        if e.status == 401:
            return _failed(f"{repository} does not exist, or needs a token: check the name, or set HF_TOKEN to one of {where}/settings/tokens")
        if e.status == 403:
            return _failed(f"the makers of {repository} want their terms to be accepted: do so at {where}/{repository}, and set HF_TOKEN")
        if e.status == 404:
            return _failed(f"there is no {repository} at {where}: check the name")
        if e.status == 429:
            return _failed(f"{where} gets too many requests from here: wait some minutes, or set HF_TOKEN")
        if e.status:
            return _failed(f"{where} answers with status {e.status}: try again later")
        cause = getattr(e.cause, "reason", e.cause)
        why, number = getattr(cause, "strerror", None) or str(cause) or type(cause).__name__, getattr(cause, "errno", None) or 0
        return _failed(f"{where} cannot be reached ({why}): check the network and HTTPS_PROXY; what has come is kept for the next try", system_code=number)

    def strange(self) -> Error:
        return _failed(f"{self.endpoint} does not answer as the Hub does: log in where the network asks for it, or check HTTPS_PROXY and HF_ENDPOINT")


def _is_safe(file: str) -> bool:
    """Tells whether a name stays below the folder that it is put into."""
    return not re.search(r"[\\:\x00-\x1f]", file) and not {"", ".", ".."} & set(file.split("/"))


class _Cache:
    """The folder of a repository in the cache."""

    def __init__(self, repository: str) -> None:
        environ = os.environ
        home = environ.get("HF_HOME") or os.path.join(environ.get("XDG_CACHE_HOME") or os.path.join("~", ".cache"), "huggingface")
        self.root = os.path.expanduser(environ.get("HF_HUB_CACHE") or os.path.join(home, "hub"))
        self.name = "models--" + repository.replace("/", "--")
        self.folder = os.path.join(self.root, self.name)

    def path(self, *names: str) -> str:
        return os.path.join(self.folder, *names)

    def model(self, commit: str, one: Candidate) -> str:
        folder = self.path("snapshots", commit)
        return os.path.join(folder, *one.files[0].split("/")) if one.base else folder

    def find(self, quantization: str, free: int) -> Optional[str]:
        """The path of a model that is complete."""
        try:
            with open(self.path("refs", "main")) as file:
                commit = file.read().strip()
        except OSError:
            return None
        top, files = self.path("snapshots", commit), {}
        for folder, _, names in os.walk(top):
            for name in names:
                path = os.path.join(folder, name)
                if os.path.exists(path):  # a link may point to nothing
                    files[os.path.relpath(path, top).replace(os.sep, "/")] = os.path.getsize(path)
        projectors = is_projector(quantization)
        found = candidates(files, projectors)
        found = found if quantization.lower() in ("", "mmproj") else named(found, quantization)
        return self.model(commit, best(found, projectors, free)) if found else None

    @contextmanager
    def locked(self, digest: str, hub: _Hub) -> Iterator[None]:
        """Holds the lock that the Hub's own client takes for a blob, where the file system has locks."""
        folder = os.path.join(self.root, ".locks", self.name)
        os.makedirs(folder, exist_ok=True)
        file = os.open(os.path.join(folder, digest + ".lock"), os.O_RDWR | os.O_CREAT, 0o664)
        try:
            while not _lock(file):
                hub.wait(0.1)
            yield
        finally:
            os.close(file)

    def link(self, commit: str, file: str, digest: str) -> None:
        """Puts a blob into a snapshot: a relative link, or the file itself where links cannot be made."""
        path, blob = self.path("snapshots", commit, *file.split("/")), self.path("blobs", digest)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if os.path.exists(path):
            return
        if os.path.lexists(path):
            os.remove(path)
        try:
            os.symlink(os.path.relpath(blob, os.path.dirname(path)), path)
        except FileExistsError:
            pass
        except OSError:
            shutil.copyfile(blob, path + ".part")
            os.replace(path + ".part", path)

    def name_main(self, commit: str) -> None:
        path = self.path("refs", "main")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        beside = f"{path}.{os.getpid()}"
        try:
            with open(beside, "w") as file:
                file.write(commit)
            os.replace(beside, path)
        except OSError:
            with suppress(OSError):
                os.remove(beside)
            raise


def _lock(file: int) -> bool:
    """Tries to lock an open file, until it is closed."""
    try:
        import fcntl
    except ImportError:
        import msvcrt

        try:
            msvcrt.locking(file, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
        except OSError:
            return False
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as e:
        return e.errno not in (errno.EWOULDBLOCK, errno.EACCES)
    return True


class _Fetch:
    """The files of one model on their way into the cache."""

    def __init__(self, hub: _Hub, cache: _Cache, commit: str, files: "Dict[str, Tuple[int, str]]", told: Told) -> None:
        self.hub, self.cache, self.commit, self.files = hub, cache, commit, files
        self.told, self.done, self.total = told, 0, sum(size for size, _ in files.values())

    def run(self) -> None:
        try:
            os.makedirs(self.cache.path("blobs"), exist_ok=True)
            self._check_room(self.total - sum(map(self._kept, self.files.values())))
            for file in self.files:
                self._blob(file)
            for file, (_, digest) in self.files.items():
                self.cache.link(self.commit, file, digest)
            self.cache.name_main(self.commit)
        except Error:
            raise
        except OSError as e:
            if e.errno == errno.ENOSPC:
                self._check_room(1 << 62)
            raise _failed(f"{self.cache.root} cannot be written ({e.strerror}): set HF_HOME to a folder that can", system_code=e.errno or 0) from e

    def _kept(self, listed: Tuple[int, str]) -> int:
        """Bytes of a file that are there."""
        blob = self.cache.path("blobs", listed[1])
        return next((os.path.getsize(path) for path in (blob, blob + ".part") if os.path.exists(path)), 0)

    def _check_room(self, needed: int) -> None:
        free = shutil.disk_usage(self.cache.root).free
        if needed > free:
            raise _failed(f"{self.hub.repository} takes {_size(self.total)}, and the disk of {self.cache.root} has {_size(free)} left: make room, or "
                          "set HF_HOME to a folder on another disk", system_code=errno.ENOSPC)  # fmt: skip

    def _tell(self, n: int = 0) -> None:
        self.done += n
        self.told(self.done, self.total)

    def _blob(self, file: str) -> None:
        size, digest = self.files[file]
        blob = self.cache.path("blobs", digest)
        with self.cache.locked(digest, self.hub):
            if os.path.exists(blob) and os.path.getsize(blob) == size:
                return self._tell(size)
            try:
                whole = self._receive(file, blob + ".part", size, digest)
            except BaseException as e:
                if getattr(e, "errno", 0) == errno.ENOSPC or os.path.getsize(blob + ".part") == 0:
                    os.remove(blob + ".part")
                raise
            if not whole:
                os.remove(blob + ".part")
                raise _failed(f"{file} has arrived with another hash than {self.hub.endpoint} lists, and is discarded: try again, without a proxy "
                              "or mirror if that does not help")  # fmt: skip
            os.replace(blob + ".part", blob)

    def _receive(self, file: str, path: str, size: int, digest: str) -> bool:
        """Goes on with a file until it has its size, and tells whether it has the hash too."""
        url = f"{self.hub.endpoint}/{self.hub.repository}/resolve/{self.commit}/{urllib.parse.quote(file)}"
        begun = hashlib.sha256() if len(digest) == 64 else hashlib.sha1(f"blob {size}\0".encode())
        hashed, at = begun.copy(), 0

        def add(data: bytes) -> None:
            nonlocal at
            hashed.update(data)
            at += len(data)
            self._tell(len(data))

        def work() -> None:
            nonlocal hashed, at
            if at == size:
                return
            with self.hub.get(url, at) as response:
                _body_has_time(response)
                if "text/html" in response.headers.get("Content-Type", ""):
                    raise self.hub.strange()
                if response.status != 206:
                    out.truncate(0)
                    self._tell(-at)
                    hashed, at = begun.copy(), 0
                while at <= size:
                    data = self.hub.read(response)
                    if not data:
                        break
                    out.write(data)
                    add(data)
            if at < size:
                raise _Cut(ConnectionError("the connection was cut"))

        with open(path, "ab+", buffering=0) as out:
            if os.path.getsize(path) > size:
                out.truncate(0)
            out.seek(0)
            for data in iter(lambda: out.read(1 << 20), b""):
                add(data)
            self.hub.attempts(work, lambda: at)
            os.fsync(out.fileno())
        return at == size and hashed.hexdigest() == digest


def fetch(model: str, free: int, told: Told) -> str:
    """The path of a model of the Hub, which is fetched where it is not in the cache. `free`: bytes of memory, 0 where
    unknown."""
    name = _NAME.fullmatch(model)
    if not name or ".." in name[1]:
        raise _failed(f'"{model}" names no model of the Hub: write hf:owner/name or hf:owner/name:quantization', _c.RZ_ERR_INVALID_ARGUMENT)
    repository, quantization = name[1], name[2] or ""
    cache = _Cache(repository)
    found = cache.find(quantization, free)
    if found:
        return found
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE"):
        raise _failed(f"{model} is not complete in {cache.root}, and HF_HUB_OFFLINE is set: unset it to fetch the model")
    hub = _Hub(repository, lambda: told(0, 0))
    commit, files = hub.listing()
    chosen = choose({file: size for file, (size, _) in files.items()}, repository, quantization, free)
    _Fetch(hub, cache, commit, {file: files[file] for file in chosen.files}, told).run()
    return cache.model(commit, chosen)
