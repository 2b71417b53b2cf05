#!/usr/bin/env python3
"""A registry of npm on this machine, for tests:  tests/npm-registry.py PACKAGE.tgz...
Prints its address. Of optional packages that it was not given, for other systems, it has a description alone, because
no client may fetch them here. Ends with its standard input."""

import base64
import hashlib
import json
import sys
import tarfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

FILES, MANIFESTS = {}, {}
for path in sys.argv[1:]:
    with tarfile.open(path) as archive:
        manifest = json.load(archive.extractfile("package/package.json"))
    with open(path, "rb") as file:
        FILES[manifest["name"]] = file.read()
    MANIFESTS[manifest["name"]] = manifest
for manifest in list(MANIFESTS.values()):
    for name, version in manifest.get("optionalDependencies", {}).items():
        system, processor = name.split("-")[1:3]
        MANIFESTS.setdefault(name, {"name": name, "version": version, "os": [system], "cpu": [processor]})


class Registry(BaseHTTPRequestHandler):
    def do_GET(self):
        name = self.path.strip("/")
        if name.endswith(".tgz") and name[:-4] in FILES:
            return self.answer(FILES[name[:-4]], "application/octet-stream")
        if name not in MANIFESTS:
            return self.send_error(404)
        data, manifest = FILES.get(name, b""), MANIFESTS[name]
        integrity = "sha512-" + base64.b64encode(hashlib.sha512(data).digest()).decode()
        dist = {"tarball": f"http://{self.headers['Host']}/{name}.tgz", "integrity": integrity, "shasum": hashlib.sha1(data).hexdigest()}
        version = manifest["version"]
        packument = {"name": name, "dist-tags": {"latest": version}, "versions": {version: {**manifest, "dist": dist}}}
        self.answer(json.dumps(packument).encode(), "application/json")

    def answer(self, data, kind):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Registry)
threading.Thread(target=server.serve_forever, daemon=True).start()
print(f"http://127.0.0.1:{server.server_port}/", flush=True)
sys.stdin.read()
