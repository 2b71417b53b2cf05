"""Models of the Hugging Face Hub: "hf:owner/name" and "hf:owner/name:quantization" become a path in the cache that the
Hub's own client uses. `fetch` is the entry.

A model that is complete in the cache needs no connection. Otherwise files are downloaded next to the cache's blobs,
verified with the Hub's hashes, renamed, and linked into a snapshot once all are complete; refs/main is updated last. It
needs only the standard library. All bindings behave alike; tests/data/hub.json tests that.
"""

import errno
import hashlib
import io
import json
import os
import select
import shutil
import time
import urllib.error
import urllib.parse
import urllib.request
from contextlib import contextmanager, suppress
from http.client import HTTPException, HTTPResponse
from typing import Any, Callable, Dict, Iterator, Optional, Tuple

from . import _header as _c
from ._errors import Error, FormatError, Limit
from ._failures import error_of
from ._library import library, sized, status

Told = Callable[[int, int], None]

PREFIX = "hf:"
# Attempts without progress, and seconds before the second attempt; each later pause is twice as long.
ATTEMPTS, PAUSE = 5, 1.0
# Timeouts in seconds: for response headers and a listing; without a byte of a file.
TIMEOUT = 30.0


def _failed(sentence: str, code: int = _c.RZ_ERR_IO, system_code: int = 0) -> Error:
    return error_of(code, library.rz_status_name(code).decode(), sentence, system_code)


def _size(n: int) -> str:
    return f"{n / 1e9:.1f} GB" if n >= 1e9 else f"{n / 1e6:.1f} MB"


def choose(model: str, listing: Optional[bytes] = None, free: int = 0, flags: int = 0) -> Any:
    """Parses a model's name and, given a listing, chooses its files (rz_hub_choose_into)."""
    name = model.encode(errors="surrogatepass")
    given = name, len(name), listing, len(listing or b""), min(free, 0xFFFFFFFFFFFFFFFF), flags
    return json.loads(sized(lambda *out: status("rz_hub_choose_into", *given, *out), 4096))


def encoder_name(model: str) -> str:
    """Returns the encoder's name in the repository of a model, unless the name is one already."""
    return choose(model)["encoder"]  # type: ignore[no-any-return]


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:  # an HTTPError, which `_Hub.get` follows without the token
        return None


class _Patient(io.RawIOBase):
    """Reads a socket until `until`, or with a timeout per read, and calls `check` meanwhile."""

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
            # TLS may have buffered bytes that the socket no longer has.
            if getattr(self.connection, "pending", int)() or select.select([self.connection], [], [], min(left, 0.1))[0]:
                return self.connection.recv_into(to)  # type: ignore[no-any-return]

    def close(self) -> None:
        self.file.close()
        super().close()


class _Opening:
    """Makes connections read responses with `_Patient`."""

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


class _Http(_Opening, urllib.request.HTTPHandler):  # type: ignore[misc]
    pass


class _Https(_Opening, urllib.request.HTTPSHandler):  # type: ignore[misc]
    pass


def _body_has_time(response: Any) -> None:
    """Gives each later read of the response its own timeout."""
    response.fp.raw.until = None


class _Cut(Exception):
    """A failed connection (the cause), or a response status."""

    def __init__(self, cause: BaseException) -> None:
        self.cause, self.status = cause, cause.code if isinstance(cause, urllib.error.HTTPError) else 0


class _Hub:
    """The server that the environment names. `check` raises to end the download."""

    def __init__(self, repository: str, check: Callable[[], None]) -> None:
        self.repository, self.check = repository, check
        self.endpoint = (os.environ.get("HF_ENDPOINT") or "https://huggingface.co").rstrip("/")
        self.token = os.environ.get("HF_TOKEN", "").strip()
        handlers = _Http(), _Https()
        for handler in handlers:
            handler.check = check
        self.opener = urllib.request.build_opener(_NoRedirect, *handlers)

    def get(self, url: str, start: int = 0) -> Any:
        """Returns the response to a GET, from this byte on, after redirects. Only the Hub's own host gets the token."""
        origin: Callable[[str], Any] = lambda of: urllib.parse.urlsplit(of)[:2]  # noqa: E731
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
            except (OSError, HTTPException, ValueError) as e:  # the token is no valid header
                raise _Cut(e) from e
        raise self.strange()

    def read(self, response: Any) -> bytes:
        """Returns the next bytes, or none at the end."""
        try:
            return response.read1(1 << 20)  # type: ignore[no-any-return]
        except (OSError, HTTPException) as e:
            raise _Cut(e) from e

    def listing(self) -> bytes:
        """The files of the main branch with their sizes and hashes, in JSON."""

        def work() -> bytes:
            with self.get(f"{self.endpoint}/api/models/{self.repository}/revision/main?blobs=true") as response:
                body = b""
                for data in iter(lambda: self.read(response), b""):
                    body += data
                    if len(body) > 1 << 26:
                        raise self.strange()
                return body

        return self.attempts(work, lambda: 0)  # type: ignore[no-any-return]

    def attempts(self, work: Callable[[], Any], progress: Callable[[], int]) -> Any:
        """Retries after connection failures, as long as `progress` advances between attempts."""
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
            return _failed(f"{where} rejects the token in HF_TOKEN for {repository}: create a new one at {where}/settings/tokens")
        if e.status == 401:
            return _failed(f"{repository} does not exist, or needs a token: check the name, or set HF_TOKEN to one of {where}/settings/tokens")
        if e.status == 403:
            return _failed(f"{repository} is gated: accept its terms at {where}/{repository}, and set HF_TOKEN")
        if e.status == 404:
            return _failed(f"there is no {repository} at {where}: check the name")
        if e.status == 429:
            return _failed(f"{where} receives too many requests from this address: wait some minutes, or set HF_TOKEN")
        if e.status:
            return _failed(f"{where} answers with status {e.status}: try again later")
        cause = getattr(e.cause, "reason", e.cause)
        why, number = getattr(cause, "strerror", None) or str(cause) or type(cause).__name__, getattr(cause, "errno", None) or 0
        return _failed(f"{where} cannot be reached ({why}): check the network and HTTPS_PROXY; the next try resumes the download", system_code=number)

    def strange(self) -> Error:
        return _failed(f"{self.endpoint} does not answer like the Hugging Face Hub: log in to the network if it requires that, or check HTTPS_PROXY and HF_ENDPOINT")


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

    def model(self, commit: str, load: str) -> str:
        return os.path.join(self.path("snapshots", commit), *filter(None, load.split("/")))

    def find(self, model: str, free: int) -> Optional[str]:
        """Returns the path of a complete model."""
        try:
            with open(self.path("refs", "main")) as file:
                commit = file.read().strip()
        except OSError:
            return None
        top, files = self.path("snapshots", commit), []
        for folder, _, names in os.walk(top):
            for path in (os.path.join(folder, name) for name in names):
                if os.path.exists(path):  # a link may point to nothing
                    files.append({"rfilename": os.path.relpath(path, top).replace(os.sep, "/"), "size": os.path.getsize(path)})
        chosen = choose(model, json.dumps({"siblings": files}, ensure_ascii=False).encode(errors="replace"), free, _c.RZ_HUB_CACHED)
        return self.model(commit, chosen["load"]) if chosen["files"] else None

    @contextmanager
    def locked(self, digest: str, hub: _Hub) -> Iterator[None]:
        """Holds the Hub client's lock for a blob, if the file system supports locks."""
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
        """Adds a blob to a snapshot: a relative link, or the file itself if links are not supported."""
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
    """The download of one model's files into the cache."""

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
        """Bytes of a file that are downloaded."""
        blob = self.cache.path("blobs", listed[1])
        return next((os.path.getsize(path) for path in (blob, blob + ".part") if os.path.exists(path)), 0)

    def _check_room(self, needed: int) -> None:
        free = shutil.disk_usage(self.cache.root).free
        if needed > free:
            raise _failed(f"{self.hub.repository} takes {_size(self.total)}, and the disk of {self.cache.root} has {_size(free)} left: free space, or "
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
                raise _failed(f"{file} has another hash than {self.hub.endpoint} lists, and was deleted: try again, without a proxy "
                              "or mirror if that does not help")  # fmt: skip
            os.replace(blob + ".part", blob)

    def _receive(self, file: str, path: str, size: int, digest: str) -> bool:
        """Resumes a file until it is complete; returns whether its hash is right."""
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
    """Returns the path of a model of the Hub and downloads it if it is not in the cache. `free`: bytes of memory; 0:
    unknown."""
    repository = choose(model)["repository"]
    cache = _Cache(repository)
    found = cache.find(model, free)
    if found:
        return found
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE"):
        raise _failed(f"{model} is not complete in {cache.root}, and HF_HUB_OFFLINE is set: unset it to fetch the model")
    hub = _Hub(repository, lambda: told(0, 0))
    try:
        chosen = choose(model, hub.listing(), free)
    except (FormatError, Limit):
        raise hub.strange() from None
    _Fetch(hub, cache, chosen["commit"], {file["name"]: (file["size"], file["digest"]) for file in chosen["files"]}, told).run()
    return cache.model(chosen["commit"], chosen["load"])
