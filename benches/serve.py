#!/usr/bin/env python3
"""Measures the service next to llama.cpp's llama-server: both on one file, in turns, on the loopback.

    benches/serve.py path/to/serve path/to/llama-server model.gguf [--rows short:1,short:8,short:64,long:1,long:8]
    benches/serve.py path/to/serve none model.gguf [--rows chat:1,chat:8,chat:64,chat:200]

Both are asked over /v1/chat/completions, streamed, greedy, with the tokens that end an answer ruled out, so that each
answer has as many tokens on both. A row is a kind of prompt and a number of clients, which ask at the same time
(`short:64:2` has two turns):

    short   a question of some 60 tokens, 64 tokens of answer
    chat    a question of some 100 tokens, 32 tokens of answer
    long    2,000 tokens, of which 1,500 are common to all clients of a turn and new to the server; 32 tokens of answer
    warm    the same, with the answer to another prompt that begins with those 1,500 ahead of the turn

A turn is one measurement of each server; prompts are new in each. Reported are the medians over turns of tokens a
second of all clients together, of the server's processor time for a token, which other work on the machine changes
less, and of the time to the first token, and the medians of the turns' ratios. Answers are compared with those that the
same server gives to the same prompts one at a time: what differs is counted, and what is another client's answer is
mixed up. Needs nothing but Python.
"""
import argparse
import asyncio
import json
import os
import random
import signal
import socket
import statistics
import subprocess
import sys
import time
import urllib.request

ANSWER = {"short": 64, "chat": 32, "long": 32, "warm": 32}
# Words of one token each in most vocabularies, with the blank ahead.
WORDS = ("time year people way day man thing woman life child world school state family student group country hand "
         "part place case week company system program question work government number night point home water room area "
         "mother money story fact month lot right study book eye job word business issue side kind head house").split()


class Server:
    """A process that listens on a port of its own; `ready` is the time from its start to its first healthy answer."""

    def __init__(self, name, command, log, environment=()):
        self.name = name
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        begun = time.perf_counter()
        command = [word.replace("PORT", str(self.port)) for word in command]
        environment = dict(os.environ, **dict(pair.split("=", 1) for pair in environment))
        self.process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=environment)
        while not self.is_healthy():
            if self.process.poll() is not None:
                sys.exit(f"{name} ended with {self.process.returncode}: {' '.join(command)}")
            time.sleep(0.002)
        self.ready = time.perf_counter() - begun

    def is_healthy(self):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health", timeout=10) as answer:
                return answer.status == 200
        except OSError:
            return False

    def resident(self, which="VmRSS"):
        """Returns the resident memory in MB, or with "VmHWM" its peak."""
        with open(f"/proc/{self.process.pid}/status") as status:
            return next(int(line.split()[1]) for line in status if line.startswith(which)) / 1e3

    def processor(self):
        """Returns the seconds of processor time that it has taken so far."""
        with open(f"/proc/{self.process.pid}/stat") as stat:
            user, system = stat.read().rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Reply(asyncio.Protocol):
    """Keeps the pieces of an answer with their times, and reads them afterwards: clients share the processors."""

    def __init__(self, request):
        self.request, self.pieces = request, []
        self.done = asyncio.get_running_loop().create_future()

    def connection_made(self, transport):
        self.begun = time.perf_counter()
        transport.write(self.request)

    def data_received(self, data):
        self.pieces.append((time.perf_counter(), data))

    def connection_lost(self, exc):
        if not self.done.done():
            self.done.set_result(exc)

    def outcome(self):
        """Returns the status of an answer that is not whole, or why there is none."""
        head = b"".join(data for _, data in self.pieces).split(b"\r\n", 1)[0].split(b" ")
        return int(head[1]) if len(head) > 1 and head[1] != b"200" else "cut off" if head[1:] else "no answer"

    def read(self):
        """Returns (text, usage, seconds to the first token), or None for an answer that is not whole."""
        raw, ends = b"", []
        for moment, data in self.pieces:
            raw += data
            ends.append((len(raw), moment))
        head, _, rest = raw.partition(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200"):
            return None
        # Chunks are put together; `marks` has where each ends in the body and in what was received.
        body, marks, at = b"", [], len(head) + 4
        while b"\r\n" in (rest := raw[at:at + 20]):
            size = rest.index(b"\r\n")
            begin, length = at + size + 2, int(rest[:size], 16)
            body += raw[begin:begin + length]
            at = begin + length + 2
            marks.append((len(body), at - 2))
        text, usage, first, offset, done = [], None, None, 0, False
        for line in body.split(b"\n"):
            offset += len(line)
            if line.startswith(b"data: {"):
                event = json.loads(line[6:])
                usage = event.get("usage") or usage
                for delta in [choice["delta"].get("content") for choice in event.get("choices", [])]:
                    if delta and first is None:
                        received = next(received for end, received in marks if end >= offset)
                        first = next(moment for end, moment in ends if end >= received) - self.begun
                    text.append(delta or "")
            done = done or line.strip() == b"data: [DONE]"
            offset += 1
        return ("".join(text), usage, first) if done and usage and first is not None else None


def prompt(kind, seed, client):
    """Returns a prompt that tells its client's from others by its content."""
    own = random.Random(f"{seed} {client}")
    marker = " ".join(own.choice(WORDS) for _ in range(6))
    question = f"Tell me a story that begins with the words: {client} {marker}. Say these words first, then the story."
    if kind == "short":
        return question
    if kind == "chat":
        return " ".join(own.choice(WORDS) for _ in range(40)) + " " + question
    shared = random.Random(f"{seed} shared")
    text = [shared.choice(WORDS) for _ in range(1470)] + [own.choice(WORDS) for _ in range(450)]
    return " ".join(text) + " " + question


def request(port, kind, content, ends):
    body = json.dumps({
        "model": "m", "messages": [{"role": "user", "content": content}], "stream": True, "temperature": 0,
        "max_tokens": ANSWER[kind], "stream_options": {"include_usage": True},
        "logit_bias": {str(token): -100 for token in ends},
    }).encode()
    return (f"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n").encode() + body


async def ask(server, kind, content, ends):
    loop = asyncio.get_running_loop()
    _, reply = await loop.create_connection(
        lambda: Reply(request(server.port, kind, content, ends)), "127.0.0.1", server.port)
    await reply.done
    return reply


async def clients(server, kind, seed, n, rounds, ends, at_once=True, first=0):
    """Asks for `n` clients with `rounds` questions each; returns replies by client and seconds."""
    async def client(i):
        return [await ask(server, kind, prompt(kind, seed, first + i * rounds + k), ends) for k in range(rounds)]
    begun = time.perf_counter()
    if at_once:
        replies = await asyncio.gather(*(client(i) for i in range(n)))
    else:
        replies = [await client(i) for i in range(n)]
    return [reply for of_client in replies for reply in of_client], time.perf_counter() - begun


def quantile(values, q):
    return sorted(values)[min(int(q * len(values)), len(values) - 1)]


def measure(server, kind, n, seed, ends, check):
    """Measures one turn of a server."""
    rounds = max(1, 4 // n) if kind == "short" else 1
    if kind == "warm":
        asyncio.run(clients(server, kind, seed, 1, 1, ends, first=n))
    before = server.processor()
    replies, seconds = asyncio.run(clients(server, kind, seed, n, rounds, ends))
    processor = server.processor() - before
    read = [reply.read() for reply in replies]
    whole = [r for r in read if r]
    if not whole:
        sys.exit(f"{server.name}: no answer is whole: {replies[0].pieces[:1]}")
    lengths = {r[1]["completion_tokens"] for r in whole}
    if lengths != {ANSWER[kind]}:
        print(f"{server.name}: answers of {sorted(lengths)} tokens, not {ANSWER[kind]}", file=sys.stderr)
    tokens = sum(r[1]["completion_tokens"] for r in whole)
    lost = [reply.outcome() for reply, r in zip(replies, read) if not r]
    result = {
        "rate": tokens / seconds, "seconds": seconds, "processor": 1e3 * processor / tokens,
        "prompt": statistics.median(r[1]["prompt_tokens"] for r in whole),
        "p50": quantile([r[2] for r in whole], 0.5), "p95": quantile([r[2] for r in whole], 0.95),
        "lost": len(lost), "outcomes": {str(o): lost.count(o) for o in set(lost)}, "requests": len(read),
        "latest": max(r[2] for r in whole), "resident": server.resident(), "peak": server.resident("VmHWM"),
    }
    if check:
        alone, _ = asyncio.run(clients(server, kind, seed, n, rounds, ends, at_once=False))
        texts = [r[0] if (r := reply.read()) else None for reply in alone]
        own = [r[0] if r else None for r in read]
        if len(set(texts)) < len(texts):
            print(f"{server.name}: {len(set(texts))} different answers to {len(texts)} prompts", file=sys.stderr)
        result["differ"] = sum(a != b for a, b in zip(own, texts))
        result["mixed"] = sum(a != b and a in texts for a, b in zip(own, texts) if a)
    return result


def row(kind, n, turns):
    """Returns a line of the table: ours and the peer's medians, and the median of the turns' ratios."""
    def med(which, key):
        return statistics.median(turn[which][key] for turn in turns)
    if len(turns[0]) == 1:
        outcomes = [f"{count} x {o}" for turn in turns for o, count in turn[0]["outcomes"].items()]
        return (f"| {kind}, {n} | {med(0, 'rate'):.4g} | {med(0, 'processor'):.3g} "
                f"| {med(0, 'p50'):.3g} / {med(0, 'p95'):.3g} / {med(0, 'latest'):.3g} "
                f"| {max(turn[0]['peak'] for turn in turns):.0f} | {', '.join(outcomes) or 'none'} |")
    ratios = [ours["rate"] / peer["rate"] for ours, peer in turns]
    counts = []
    for which in (0, 1):
        checked = [turn[which] for turn in turns if "mixed" in turn[which]]
        lost = sum(turn[which]["lost"] for turn in turns)
        mixed, differ = (sum(c[key] for c in checked) for key in ("mixed", "differ"))
        counts.append(f"{lost}, {mixed}, {differ} of {sum(c['requests'] for c in checked)}")
    times = [f"{med(w, 'p50'):.3g} / {med(w, 'p95'):.3g}" for w in (0, 1)]
    share = statistics.median(peer["processor"] / ours["processor"] for ours, peer in turns)
    return (f"| {kind}, {n} | {med(0, 'rate'):.4g} | {med(1, 'rate'):.4g} | {statistics.median(ratios):.3g} "
            f"({min(ratios):.3g} to {max(ratios):.3g}) | {med(0, 'processor'):.3g} | {med(1, 'processor'):.3g} "
            f"| {share:.3g} | {times[0]} | {times[1]} | {counts[0]} | {counts[1]} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("serve")
    parser.add_argument("peer", help="none: measure ours alone")
    parser.add_argument("model")
    parser.add_argument("--rows", default="short:1,short:8,short:64,long:1,long:8")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--slots", type=int, default=64)
    parser.add_argument("--context", type=int, default=2304, help="tokens of a slot")
    parser.add_argument("--ends", default="0,2", help="tokens that end an answer (those of SmolLM2)")
    parser.add_argument("--flags", default="", help="more flags of ours")
    parser.add_argument("--peer-flags", default="--cache-reuse 256", help="more flags of the peer")
    # With threads that wait actively, a processor that other work shares makes the peer ten times slower.
    parser.add_argument("--peer-env", nargs="*", default=["OMP_WAIT_POLICY=passive"], help="environment of the peer")
    parser.add_argument("--starts", type=int, default=3, help="starts that are measured")
    parser.add_argument("--unchecked", nargs="*", default=[], choices=["ours", "peer"],
                        help="whose answers are not compared with those of one client alone, which takes its time")
    parser.add_argument("--log", default=os.devnull)
    parser.add_argument("--json", help="a file for every measurement")
    args = parser.parse_args()
    threads, slots = str(args.threads), str(args.slots)
    ours = [args.serve, "-m", f"m={args.model}", "-a", "127.0.0.1:PORT", "-threads", threads, "-slots", slots,
            *args.flags.split()]
    peer = [args.peer, "-m", args.model, "--host", "127.0.0.1", "--port", "PORT", "-t", threads, "-tb", threads,
            "-np", slots, "-c", str(args.slots * args.context), "--no-ui", *args.peer_flags.split()]
    ends = [int(end) for end in args.ends.split(",") if end]
    log, servers, starts, kept = open(args.log, "a"), [], [], {}
    both = [("ours", ours, ()), ("peer", peer, args.peer_env)][:1 if args.peer == "none" else 2]
    print("ours:", *ours, *(["\npeer:", *args.peer_env, *peer] if len(both) > 1 else []), flush=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))
    try:
        for _ in range(args.starts):
            for server in servers:
                server.stop()
            servers = []
            for name, command, environment in both:
                servers.append(Server(name, command, log, environment))
            starts.append([server.ready for server in servers])
        for server in servers:
            measure(server, "short", 1, "warm-up", ends, False)
        if len(both) > 1:
            print("\n| row | ours, tok/s | peer | ratio (min to max) | processor, ms a token | peer | ratio "
                  "| first token, s: p50 / p95 | peer | lost, mixed up, other than alone | peer |\n" + "|---" * 11 + "|",
                  flush=True)
        else:
            print("\n| row | tok/s | processor, ms a token | first token, s: p50 / p95 / max | peak resident, MB "
                  "| errors by status |\n" + "|---" * 6 + "|", flush=True)
        for name in args.rows.split(","):
            kind, n, *own = name.split(":")
            turns = kept[name] = []
            for turn in range(int(own[0]) if own else args.turns):
                seed = f"{kind} {n} {turn}"
                turns.append([measure(server, kind, int(n), seed, ends, turn == 0 and server.name not in args.unchecked)
                              for server in servers])
                print(name, *turns[-1], file=sys.stderr, flush=True)
            print(row(kind, n, turns), flush=True)
        print("\nfrom the start to the first healthy answer, s:", [[round(s, 3) for s in start] for start in starts])
        print("resident, MB:", [round(server.resident()) for server in servers])
    finally:
        for server in servers:
            server.stop()
        if args.json:
            with open(args.json, "w") as file:
                json.dump({"starts": starts, "rows": kept}, file, indent=1)


if __name__ == "__main__":
    main()
