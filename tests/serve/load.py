#!/usr/bin/env python3
"""Loads the service as nobody should, and holds it to bounds: memory, free slots, open files, right answers.

    tests/serve/load.py path/to/serve model.gguf [--only hang_up,bodies,...]

Each function of TESTS starts a service of its own with a model of any size (the smaller, the faster) and states its
bounds in calls of `hold`. The exit status is 1 where one did not hold. Answers are greedy, and the right one is what a
service that nothing has troubled says. Needs Linux (/proc) and nothing but Python.
"""
import argparse
import concurrent.futures
import http.client
import json
import os
import random
import re
import resource
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

MIB = 1 << 20
ENDPOINT = "/v1/completions"
# Gauges of /metrics: slots that are taken, and replies that wait for one.
ACTIVE, WAITING = "realizar_slots_busy", "realizar_queue_length"
# Seconds within which the service answers, frees what a client has left, or closes a connection that says nothing.
ANSWER, FREED, CLOSED = 60, 10, 90
STORY = "Once upon a time, in a small house by the sea, "

random.seed(1)
broken = []


def hold(what, bound):
    """Says whether a bound held."""
    print(f"  {'ok' if bound else 'BROKEN'}: {what}", flush=True)
    if not bound:
        broken.append(what)


def until(condition, seconds):
    """Waits for a condition; tells whether it came."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


class Service:
    """A process of the service."""

    def __init__(self, *flags):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        command = [args.serve, "-m", f"m={args.model}", "-a", f"127.0.0.1:{self.port}", "-slots", "16", *flags]
        self.process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        if not until(lambda: self.process.poll() is not None or self.status("/health") == 200, 60):
            sys.exit("the service does not become healthy")
        if self.process.poll() is not None:
            sys.exit(f"the service ended with {self.process.returncode}; see {args.log}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        hold("ends in good order within 20 s of SIGTERM", until(lambda: self.process.poll() is not None, 20))
        self.kill()

    def kill(self):
        self.process.kill()
        self.process.wait()

    def fetch(self, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=ANSWER)
        try:
            connection.request(method, path, body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()
        finally:
            connection.close()

    def status(self, path):
        try:
            return self.fetch("GET", path)[0]
        except OSError:
            return 0

    def ask(self, prompt=STORY, tokens=24):
        """Returns the text of an answer; anything but a whole one is an error."""
        return self.answer(prompt, tokens)[0]

    def answer(self, prompt, tokens):
        """Returns the text of an answer and how many tokens of its prompt were remembered."""
        status, _, answer = self.fetch("POST", ENDPOINT, body(prompt, tokens))
        if status != 200:
            raise RuntimeError(f"{status} {answer[:200]!r}")
        answer = json.loads(answer)
        return answer["choices"][0]["text"], answer["usage"]["prompt_tokens_details"]["cached_tokens"]

    def gauge(self, name):
        text = self.fetch("GET", "/metrics")[2].decode()
        found = re.findall(rf"^{name}(?:{{[^}}]*}})? (\S+)$", text, re.M)
        if not found:
            sys.exit(f"/metrics has no {name}:\n{text[:3000]}")
        return sum(map(float, found))

    def is_idle(self):
        return self.gauge(ACTIVE) == 0 and self.gauge(WAITING) == 0

    def resident(self):
        with open(f"/proc/{self.process.pid}/status") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmRSS")) * 1024

    def files(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def connect(self, receive=None):
        client = socket.socket()
        if receive:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive)
        client.settimeout(CLOSED)
        client.connect(("127.0.0.1", self.port))
        return client

    def hold_as_before(self, before, what, growth):
        """Holds that slots and files are free again and that memory has grown by `growth` at most."""
        hold(f"{what}: every slot is free within {FREED} s", until(self.is_idle, FREED))
        files = until(lambda: self.files() <= before[1] + 8, FREED)
        hold(f"{what}: open files {before[1]} before, {self.files()} after", files)
        more = self.resident() - before[0]
        hold(f"{what}: {more / MIB:.0f} MiB more than {before[0] / MIB:.0f}, at most {growth / MIB:.0f} more",
             more <= growth)
        hold(f"{what}: the right answer", self.ask() == right)


def body(prompt, tokens, **more):
    return json.dumps({"model": "m", "prompt": prompt, "max_tokens": tokens, "temperature": 0, **more}).encode()


def post(content, length=None, path=ENDPOINT):
    length = len(content) if length is None else length
    return (f"POST {path} HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\n"
            f"Content-Length: {length}\r\n\r\n").encode() + content


def read_status(client):
    """Returns the status of an answer, 0 where the connection has ended without one, None where nothing came."""
    try:
        data = client.recv(65536)
        return int(data.split(b" ", 2)[1]) if data.startswith(b"HTTP/1.") else 0
    except TimeoutError:
        return None
    except OSError:
        return 0


def reset(client):
    """Closes a connection by a reset."""
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()


def many(function, items, threads=64):
    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        return list(pool.map(function, items))


def hang_up():
    """1,000 clients hang up at random moments: in the headers, in the body, in the queue, in the answer."""
    def client(i):
        chance = random.Random(i)
        sent = post(body(f"{STORY}{i}", 200, stream=chance.random() < 0.8))
        connection = service.connect()
        if chance.random() < 0.3:
            sent = sent[:chance.randrange(len(sent))]
        try:
            connection.sendall(sent)
            connection.settimeout(chance.random() * chance.choice([0.01, 0.2, 2]))
            for _ in range(chance.choice([1, 1, 3, 30])):
                connection.recv(512)
        except OSError:
            pass
        (reset if chance.random() < 0.5 else socket.socket.close)(connection)

    with Service() as service:
        many(client, range(-200, 0))
        hold("after the first 200: every slot is free", until(service.is_idle, FREED))
        before = service.resident(), service.files()
        many(client, range(1000))
        service.hold_as_before(before, "1,000 clients that hang up", 32 * MIB)


def flood():
    """1,000 requests at once: each is answered, or refused with a time to come again."""
    def client(i):
        start.wait()
        try:
            status, headers, answer = service.fetch("POST", ENDPOINT, body(STORY, 24))
        except OSError as error:
            return f"lost ({type(error).__name__})"
        if status == 200:
            return "right" if json.loads(answer)["choices"][0]["text"] == right else "wrong"
        return "refused" if status in (429, 503) and "Retry-After" in headers else f"{status} {answer[:80]!r}"

    with Service() as service:
        start = threading.Barrier(1000)
        service.ask()
        before = service.resident(), service.files()
        answers = many(client, range(1000), 1000)
        counts = {answer: answers.count(answer) for answer in set(answers)}
        hold(f"1,000 requests at once: {counts}", set(counts) <= {"right", "refused"} and counts.get("right", 0) >= 16)
        service.hold_as_before(before, "after the flood", 64 * MIB)


BAD = {
    "nothing": b"", "a null": b"null", "an array": b"[]", "a string": b'"x"', "no JSON": b"hello", "a brace": b"{",
    "not UTF-8": b'{"model":"m","prompt":"\xff\xfe","max_tokens":4', "a NUL": b"\0" * 100, "two": b"{}{}",
    "a comma": b'{"model":"m",}', "NaN": b'{"model":"m","prompt":"a","temperature":NaN}',
    "deep arrays": b'{"model":"m","prompt":' + b"[" * 100_000, "deep objects": b'{"a":' * 100_000,
    "closed deep arrays": b'{"model":"m","prompt":' + b"[" * 50_000 + b"]" * 50_000 + b"}",
    "a deep schema": b'{"model":"m","prompt":"a","response_format":{"type":"json_schema","json_schema":{"name":"a",'
                     b'"schema":' + b'{"type":"array","items":' * 5_000 + b"{}" + b"}" * 5_000 + b"}}}",
    "no prompt": b'{"model":"m"}', "a prompt of a wrong type": b'{"model":"m","prompt":{}}',
    "negative tokens": body("a", -1), "tokens beyond numbers": b'{"model":"m","prompt":"a","max_tokens":1e400}',
    "tokens of text": body("a", "many"), "half a token": body("a", 0.5),
    "a temperature of text": body("a", 4, temperature="h"),
    "negative temperature": body("a", 4, temperature=-1), "n of a billion": body("a", 4, n=10**9),
    "a bias out of the vocabulary": body("a", 4, logit_bias={"99999999": 1}),
    "a bias of no token": body("a", 4, logit_bias={"x": 1}), "a model that is not": b'{"model":"other","prompt":"a"}',
    "a prompt beyond the context": body("a b " * 200_000, 4),
}
# What a reader of JSON may take or refuse.
ODD = {
    "duplicate keys": b'{"model":"m","prompt":"a","prompt":"b","max_tokens":2}', "no prompt's text": body("", 2),
    "a lone surrogate": b'{"model":"m","prompt":"\\ud800","max_tokens":2}', "a NUL in text": body("a\0b", 2),
    "100,000 stops": body("a", 2, stop=["x%d" % i for i in range(100_000)]), "keys unknown": body("a", 2, zzz=[1]),
    "a stop of a megabyte": body("a", 2, stop="x" * MIB), "max_tokens beyond 64 bits": body("a", 2**70),
}
RAW = {
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" * 40, "another protocol": b"GET / HTTP/9.9\r\n\r\n",
    "a header with a NUL": b"GET /health HTTP/1.1\r\nHost: h\r\nA: \0\r\n\r\n", "lines": b"\r\n" * 1000,
    "two lengths": b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    "a negative length": b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: -1\r\n\r\n",
    "a chunk that is none": b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
}


def bodies():
    """Bodies that are cut, deep, huge or no JSON are refused by a client's error, and nothing stays behind."""
    def refused(name):
        status, _, answer = service.fetch("POST", ENDPOINT, BAD[name])
        try:
            if 400 <= status < 500 and json.loads(answer)["error"]["message"]:
                return True
        except (ValueError, KeyError, TypeError):
            pass
        return f"{name}: {status} {answer[:80]!r}"

    def answered(name):
        status, _, answer = service.fetch("POST", ENDPOINT, ODD[name])
        return status == 200 or 400 <= status < 500 or f"{name}: {status} {answer[:80]!r}"

    def raw(name):
        with service.connect() as client:
            client.sendall(RAW[name])
            client.shutdown(socket.SHUT_WR)
            status = read_status(client)
        return status == 0 or status is not None and 400 <= status < 600 or f"{name}: {status}"

    def caught(function, names):
        found = []
        for name in names:
            try:
                found.append(function(name))
            except OSError as error:
                found.append(f"{name}: {error!r}")
        return [text for text in found if text is not True]

    with Service() as service:
        service.ask()
        before = service.resident(), service.files()
        for function, names in ((refused, BAD), (answered, ODD), (raw, RAW)):
            wrong = caught(function, names)
            hold(f"{len(names)} bodies are {function.__name__}: {wrong}", not wrong)
        huge(service)
        service.hold_as_before(before, "after all bodies", 64 * MIB)


def huge(service):
    """Sends bodies without end, and ones that end early."""
    whole = body(STORY, 4)
    with service.connect() as client:
        client.sendall(post(whole[:20], len(whole)))
        client.shutdown(socket.SHUT_WR)
        hold("a body that ends early is refused", read_status(client) in (0, 400, 408))
    with service.connect() as client:
        client.sendall(post(b"{", 1 << 50))
        client.settimeout(CLOSED)
        hold(f"a body of a petabyte is refused within {CLOSED} s", read_status(client) in (0, 400, 408, 413))
    for name, head, piece in (
        ("a length of 1 GiB", post(b"", 1 << 30), b'"' + b"a" * 65535),
        ("chunks of 1 GiB", b"POST %s HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n" % ENDPOINT.encode(),
         b"10000\r\n" + b"[" * 65536 + b"\r\n"),
    ):
        most, sent, status = 0, 0, None
        with service.connect() as client:
            try:
                client.sendall(head)
                while sent < 1 << 30:
                    client.sendall(piece)
                    sent += len(piece)
                    most = max(most, service.resident()) if sent % (16 * len(piece)) == 0 else most
                status = read_status(client)
            except OSError:
                status = read_status(client)
        hold(f"{name}: {sent / MIB:.0f} MiB taken, status {status}, {most / MIB:.0f} MiB resident at most",
             status in (0, 400, 413) and sent < 512 * MIB)


def headers():
    """Headers and bodies that never end hold up nobody, and are closed."""
    with Service() as service:
        service.ask()
        before = service.resident(), service.files()
        begun = time.monotonic()
        slow = [service.connect() for _ in range(400)]
        begins = b"GET / HTTP/1.1\r\nHost: h\r\nX: ", post(b'{"prompt":"', 1000), post(b"{", 1000, "/nowhere"), b""
        for i, client in enumerate(slow):
            client.sendall(begins[i % 4])
        hold("400 headers and bodies without end: the right answer beside them", service.ask() == right)
        with service.connect() as client:
            status, sent = None, 0
            try:
                client.sendall(b"GET /health HTTP/1.1\r\nHost: h\r\n")
                while sent < 64 * MIB:
                    sent += client.send(b"X-%d: %s\r\n" % (sent, b"a" * 60000))
            except OSError:
                pass
            status = read_status(client)
        hold(f"headers of 64 MiB: {sent / MIB:.1f} MiB taken, status {status}",
             status in (0, 400, 431) and sent < 16 * MIB)
        open_ = dict(enumerate(slow))
        while open_ and time.monotonic() < begun + CLOSED:
            for i, client in list(open_.items()):
                try:
                    if i % 4 < 3:
                        client.send(b"a")
                    client.settimeout(0.001)
                    if read_status(client) == 0:
                        del open_[i]
                except OSError:
                    del open_[i]
            time.sleep(1)
        kinds = [sum(i % 4 == k for i in open_) for k in range(4)]
        hold(f"after {time.monotonic() - begun:.0f} s, at most {CLOSED}, are open, of headers, bodies, bodies for no "
             f"path and silent ones: {kinds}", not open_)
        for client in slow:
            client.close()
        service.hold_as_before(before, "headers without end", 32 * MIB)


def slow_readers():
    """Clients that ask and do not read hold up nobody, and are cut off."""
    with Service() as service:
        service.ask()
        before = service.resident(), service.files()
        slow = [service.connect(2048) for _ in range(12)]
        # Requests one after another on a connection, whose answers of half a megabyte fill the buffers of the system.
        for i, client in enumerate(slow):
            client.sendall(20 * post(body(f"{STORY}{i}", 400, stream=True, logprobs=20)))
        time.sleep(0.5)
        answers = many(lambda _: service.ask(), range(16), 4)
        hold("12 that do not read: the right answers beside them", all(answer == right for answer in answers))
        hold("12 that do not read: their answers have begun",
             all(client.recv(15, socket.MSG_PEEK).endswith(b" 200 OK") for client in slow))
        hold(f"12 that do not read: their slots are free within {CLOSED} s", until(service.is_idle, CLOSED))
        whole = []
        for client in slow:
            client.settimeout(5)
            data = b""
            try:
                while piece := client.recv(65536):
                    data += piece
            except TimeoutError:
                data += b"[DONE]" * 20
            except OSError:
                pass
            whole.append(data.count(b"[DONE]"))
            client.close()
        hold(f"each of the 12 was cut off before its 20th answer: {whole}", max(whole) < 20)
        service.hold_as_before(before, "readers that do not read", 64 * MIB)


def connections():
    """10,000 connections that say nothing, and one that asks."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    n = min(10_000, limit - 200)
    with Service() as service:
        service.ask()
        before = service.resident(), service.files()
        idle, refused = [], 0
        for i in range(n):
            try:
                idle.append(service.connect())
                if i % 2:
                    idle[-1].sendall(b"GET /health HTTP/1.1\r\nHost: h\r\n\r\n")
            except OSError:
                refused += 1
        hold(f"{n} connections, {refused} refused", refused == 0)
        answers = many(lambda _: service.ask(), range(16), 8)
        hold("the right answers beside them", all(answer == right for answer in answers))
        each = (service.resident() - before[0]) / n
        hold(f"{each / 1024:.1f} KiB a connection, at most 64", each <= 64 * 1024)
        for client in idle:
            client.close()
        service.hold_as_before(before, "10,000 connections", n * 64 * 1024)


def long_prompt(i):
    """Returns a prompt that is worth keeping, of about 120 tokens."""
    chance = random.Random(i)
    words = ["sun", "dog", "cat", "tree", "ball", "mom", "bird", "boat", "red", "big", "happy", "ran", "saw", "the"]
    return STORY + " ".join(chance.choice(words) for _ in range(100))


def paths(folder):
    return sorted(os.path.join(root, name) for root, _, names in os.walk(folder) for name in names)


def sizes(folder):
    return {path: os.path.getsize(path) for path in paths(folder)}


def prompts():
    """1,000 different prompts one after another, with a store and little memory: none is refused for others' sake."""
    # Memory for every slot and for the store, which it reaches before the slots are all in use.
    flags = "-slots", "700", "-memory", str(760 * MIB)
    with tempfile.TemporaryDirectory() as folder, Service("-store", folder, *flags) as service:
        refused = []
        for i in range(1000):
            try:
                service.ask(long_prompt(i), 2)
            except (OSError, RuntimeError) as error:
                refused.append(str(error))
        hold(f"{len(refused)} of 1,000 are refused: {refused[:1]}", not refused)
        hold(f"{service.resident() / MIB:.0f} MiB resident, at most 900", service.resident() <= 900 * MIB)


def crash():
    """The process is killed while it writes its store; what it left behind harms no later one."""
    with tempfile.TemporaryDirectory() as folder:
        flags = "-store", folder
        for round_ in range(12):
            service = Service(*flags)
            kept = sizes(folder)
            answers = [service.ask(), service.ask(long_prompt(0))]
            hold(f"start {round_}, {len(kept)} files of {sum(kept.values()) / MIB:.1f} MiB in the store: right answers",
                 answers == [right, right_long])

            def client(i):
                try:
                    service.ask(long_prompt(i), 8)
                except (OSError, http.client.HTTPException, RuntimeError, ValueError):
                    pass
            with concurrent.futures.ThreadPoolExecutor(8) as pool:
                for i in range(64):
                    pool.submit(client, 1000 * round_ + i + 1)
                if round_ % 3 == 0:
                    time.sleep(random.uniform(0.02, 1.5))
                    service.kill()
            # What is remembered is written at the end of a process.
            service.process.terminate()
            time.sleep(random.uniform(0, 0.2))
            service.kill()
        damaged = paths(folder)
        hold(f"the store holds prefixes ({len(damaged)} files)", len(damaged) > 10)
        for i, path in enumerate(damaged):
            with open(path, "r+b") as file:
                size = os.path.getsize(path)
                if i % 3 == 1 and size:
                    file.seek(random.randrange(size))
                    file.write(b"\x5a\xa5")
                else:
                    file.truncate(size // 2 * (i % 3 == 0))
        with Service(*flags) as service:
            answers = [service.ask(), service.ask(long_prompt(0))]
            hold(f"{len(damaged)} damaged files: the right answers", answers == [right, right_long])
            asked = [1000 * r + i + 1 for r in range(12) for i in range(64)]
            with Service() as without:
                same = [service.ask(long_prompt(i), 8) == without.ask(long_prompt(i), 8) for i in asked[::8]]
            hold(f"{len(same)} prompts of before: the answers of a service without a store", all(same))
            hold("after them: every slot is free", until(service.is_idle, FREED))


def two():
    """Two processes share the folder of a store, and one of them dies."""
    with tempfile.TemporaryDirectory() as folder, Service("-store", folder) as one:
        other = Service("-store", folder)
        prompts = [long_prompt(i) for i in range(24)]
        answers = many(lambda i: (i % 24, (one, other)[i // 24 % 2].ask(prompts[i % 24], 8)), range(96), 16)
        texts = [{text for i, text in answers if i == k} for k in range(24)]
        hold("24 prompts, each by both processes twice: one answer each", all(len(found) == 1 for found in texts))
        hold("and the right one", texts[0] == {right_long[:len(next(iter(texts[0])))]})
        other.process.terminate()
        hold("one ends in good order within 20 s", until(lambda: other.process.poll() is not None, 20))
        third = Service("-store", folder)
        answers = [third.answer(prompt, 8) for prompt in prompts]
        hold("a third has the same answers", all({text} == found for (text, _), found in zip(answers, texts)))
        hold(f"and finds prompts in the {len(paths(folder))} files: {[n for _, n in answers]}",
             sum(n > 50 for _, n in answers) > 12)
        threading.Timer(0.3, third.kill).start()
        answers = many(lambda i: (i % 24, one.ask(prompts[i % 24], 8)), range(96), 16)
        hold("it is killed: the first's answers stay", all({text} == texts[i] for i, text in answers))
        third.process.wait()


TESTS = [hang_up, flood, bodies, headers, slow_readers, connections, prompts, crash, two]

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("serve")
    parser.add_argument("model")
    parser.add_argument("--only", default=",".join(test.__name__ for test in TESTS))
    parser.add_argument("--log", default=os.devnull)
    args = parser.parse_args()
    log = open(args.log, "a")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with Service() as calm:
        right, right_long = calm.ask(), calm.ask(long_prompt(0))
    for test in TESTS:
        if test.__name__ in args.only.split(","):
            print(f"{test.__name__}: {test.__doc__}", flush=True)
            try:
                test()
            except (OSError, http.client.HTTPException, RuntimeError, ValueError) as error:
                hold(f"{test.__name__} ends without {error!r}", False)
    print(f"{len(broken)} bounds broken")
    sys.exit(1 if broken else 0)
