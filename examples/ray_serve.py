#!/usr/bin/env python3
"""Puts the service (bindings/go/cmd/serve) on all machines that Ray has, behind one address:

    ray_serve.py build/bin/serve small=model.gguf [--replicas N] [--threads N] [--port N] [-- -slots 16 ...]

A replica is a process of the service on a free port of its machine, with as many processors as it has threads. Ray
Serve starts replicas again that die, and its proxies divide requests among them; streams are passed on as they come,
and a client that hangs up ends its request in the replica too. What stands behind "--" goes to the service."""

import argparse
import asyncio
import os
import socket
import subprocess
import sys

import aiohttp
import ray
from ray import serve
from starlette.requests import Request
from starlette.responses import StreamingResponse

# Headers of one connection, which are not passed on.
HOP = {"connection", "keep-alive", "transfer-encoding", "upgrade", "te", "trailer", "host", "content-length"}


@serve.deployment
class Replica:
    """A process of the service."""

    def __init__(self, binary, model, threads, flags):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        command = [binary, "-m", model, "-a", f"127.0.0.1:{port}", "-threads", str(threads), *flags]
        self.process = subprocess.Popen(command)
        self.url, self.client = f"http://127.0.0.1:{port}", None

    async def check_health(self):
        """Returns once the service answers. Ray Serve gives requests to a replica from then on, and starts it again
        after this has failed some times."""
        if self.client is None:  # which belongs to the loop that runs this
            # The service has deadlines and bounds of its own.
            self.client = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(), connector=aiohttp.TCPConnector(limit=0), auto_decompress=False)
        while self.process.poll() is None:
            try:
                async with self.client.get(self.url + "/ready") as answer:
                    if answer.status == 200:
                        return
            except aiohttp.ClientConnectorError:
                pass
            await asyncio.sleep(0.1)
        raise RuntimeError(f"the service has ended with {self.process.returncode}")

    async def __call__(self, request: Request):
        await self.check_health()
        headers = {name: value for name, value in request.headers.items() if name not in HOP}
        # Without keys, the service lets programs of its own machine administer models, which clients of Ray are not.
        headers["x-forwarded-for"] = request.client.host if request.client else "unknown"
        url = self.url + request.url.path + ("?" + request.url.query if request.url.query else "")
        answer = await self.client.request(request.method, url, headers=headers, data=await request.body())

        async def pieces():
            try:
                async for piece in answer.content.iter_any():
                    yield piece
            finally:
                answer.close()

        kept = {name: value for name, value in answer.headers.items() if name.lower() not in HOP}
        return StreamingResponse(pieces(), answer.status, kept)

    def __del__(self):
        if getattr(self, "process", None):
            self.process.terminate()
            self.process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", help="the service, at the same path on all machines")
    parser.add_argument("model", help="NAME=file.gguf, at the same path on all machines")
    parser.add_argument("--replicas", type=int, help="default: one for each --threads processors")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--port", type=int, default=8000)
    end = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    args, flags = parser.parse_args(sys.argv[1:end]), sys.argv[end + 1:]
    name, _, path = args.model.partition("=")
    ray.init(ignore_reinit_error=True)
    replicas = args.replicas or max(1, int(ray.cluster_resources()["CPU"]) // args.threads)
    serve.start(http_options={"host": "0.0.0.0", "port": args.port}, proxy_location="EveryNode")
    # A replica takes what fills its slots, and some more for its queue; beyond that Ray Serve answers 503 itself.
    deployment = Replica.options(
        num_replicas=replicas, ray_actor_options={"num_cpus": args.threads}, max_ongoing_requests=64, max_queued_requests=64 * replicas,
        graceful_shutdown_timeout_s=60, health_check_timeout_s=600,
    )
    serve.run(deployment.bind(os.path.abspath(args.binary), f"{name}={os.path.abspath(path)}", args.threads, flags), blocking=True)


if __name__ == "__main__":
    main()
