"""A small Hugging Face Hub on loopback, with faults, for the tests of bindings. It prints its address, and ends with
its standard input.

HF_ENDPOINT=ADDRESS/FAULT chooses what goes wrong: "ok" for nothing, a status such as "401", or one of those in
`Hub.fault`. Files of models are on another host, which is a second port here. ADDRESS/log is the requests since it was
asked last, as [host, path, Authorization, Range]."""

import hashlib
import json
import re
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

DATA = Path(__file__).resolve().parent.parent / "data"
COMMIT = "5" * 40
PAGE = b"<html><body>Please log in</body></html>"


def some(name, size):
    """Bytes that look like those of no other file."""
    return (hashlib.sha512(name.encode()).digest() * (size // 64 + 1))[:size]


# Contents of the files of each repository, or a size alone.
REPOSITORIES = {
    name: {file: size if size > 10**9 else some(file, size) for file, size in files.items()}
    for name, files in json.loads((DATA / "hub.json").read_text())["repositories"].items()
}
REPOSITORIES["tests/story"]["stories260K-F32.gguf"] = (DATA / "stories260K-f32.gguf").read_bytes()


def is_lfs(file):
    return file.endswith((".gguf", ".safetensors"))


def etag(file, data):
    if is_lfs(file):
        return hashlib.sha256(data).hexdigest()
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def listed(file, data):
    size, digest = (data, "a" * 64) if isinstance(data, int) else (len(data), etag(file, data))
    if is_lfs(file):
        return {"rfilename": file, "size": size, "blobId": "b" * 40, "lfs": {"sha256": digest, "size": size, "pointerSize": 130}}
    return {"rfilename": file, "size": size, "blobId": digest}


class Hub(BaseHTTPRequestHandler):
    log = []
    restarts = 0
    lock = threading.Lock()

    def log_message(self, *_):
        pass

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        # This is a proxy as well, whose requests have an address.
        to, path = urlsplit(self.path).netloc or self.headers["Host"], unquote(urlsplit(self.path).path)
        if path == "/log":
            with self.lock:
                told, Hub.log[:], Hub.restarts = list(Hub.log), [], 0
            return self.answer(200, json.dumps(told).encode(), {"Content-Type": "application/json"})
        host = "files" if address(files).endswith(to) else "hub"
        with self.lock:
            Hub.log.append([host, path, self.headers.get("Authorization"), self.headers.get("Range")])
        fault, _, rest = path[1:].partition("/")
        if fault.isdigit():
            return self.answer(int(fault), b"{}")
        if fault in ("drip", "dripping-head", "deep") and rest.startswith("api/"):
            return self.listing(fault)
        if fault == "html":
            return self.answer(200, PAGE, {"Content-Type": "text/html; charset=utf-8"})
        found = re.fullmatch(r"api/models/([^/]+/[^/]+)/revision/main", rest)
        if found and found[1] in REPOSITORIES:
            siblings = [listed(file, data) for file, data in REPOSITORIES[found[1]].items()]
            return self.answer(200, json.dumps({"id": found[1], "sha": COMMIT, "siblings": siblings}).encode(),
                               {"Content-Type": "application/json"})  # fmt: skip
        found = re.fullmatch(rf"(?:moved/)?([^/]+/[^/]+)/resolve/(?:{COMMIT}|main)/(.+)", rest)
        if not found or found[2] not in REPOSITORIES.get(found[1], {}):
            return self.answer(404, b"{}")
        data = REPOSITORIES[found[1]][found[2]]
        about = {"X-Repo-Commit": COMMIT, "ETag": f'"{etag(found[2], data)}"'}
        if is_lfs(found[2]) and host == "hub":
            about.update({"X-Linked-ETag": about["ETag"], "X-Linked-Size": str(len(data))})
            return self.answer(302, b"", {**about, "Location": f"{address(files)}{quote(path)}?signed=1"})
        if host == "hub" and not rest.startswith("moved/"):
            return self.answer(307, b"", {**about, "Location": f"/{fault}/moved/{rest}"})
        self.fault(fault, data, about)

    def listing(self, fault):
        """Sends a listing that has no end within the patience of a client, or nothing but brackets."""
        if fault == "deep":
            return self.answer(200, b"[" * 3_000_000, {"Content-Type": "application/json"})
        self.close_connection = True
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n"
        try:
            self.wfile.write(head + b"\r\n{" if fault == "drip" else head + b"X-Slow: ")
            while True:
                self.wfile.write(b" ")
                time.sleep(0.03)
        except OSError:
            pass  # which has given it up

    def fault(self, fault, data, about):
        """Sends a file, or not quite."""
        start = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        start = int(start[1]) if start else 0
        if fault == "page":  # in place of the file
            return self.answer(200, PAGE, {"Content-Type": "text/html"})
        if fault == "wrong":
            data = data[:-1] + b"?"
        if fault == "long":
            data += b"more"
        if fault == "whole":  # ranges are not known
            start = 0
        if fault == "gone" and start:  # after the first half
            self.close_connection = True
            return
        is_first = not self.headers.get("Range")
        cut = len(data) // 2 if fault in ("gone", "cut", "whole") and is_first else len(data)
        if fault == "restarts":  # from the first byte, and never further than the first time
            with self.lock:
                start, cut, Hub.restarts = 0, len(data) // 2 - 100 * Hub.restarts, (Hub.restarts + 1) % 10
        about = {**about, "Content-Length": str(len(data) - start)}
        if start:
            about["Content-Range"] = f"bytes {start}-{len(data) - 1}/{len(data)}"
        self.answer(206 if start else 200, data[start:cut], about)

    def answer(self, status, body, headers={}):
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.send_header("Connection", "close")
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)
        self.close_connection = True


def address(server):
    return "http://127.0.0.1:%d" % server.server_address[1]


hub, files = (ThreadingHTTPServer(("127.0.0.1", 0), Hub) for _ in range(2))
for server in (hub, files):
    threading.Thread(target=server.serve_forever, daemon=True).start()
print(address(hub), flush=True)
sys.stdin.read()
