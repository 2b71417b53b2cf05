"""Tests of models of the Hub, on the server of tests/hub and the facts of tests/data/hub.json."""

import json
import os
import pty
import re
import subprocess
import sys
import tempfile
import unittest
from unittest import mock
from urllib.request import urlopen

import realizar
from realizar import _hub

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "tests", "data")
with open(os.path.join(DATA, "hub.json")) as file:
    FACTS = json.load(file)


def tree(top):
    """Files and links below a folder, without locks."""
    found = {}
    for folder, _, names in os.walk(top):
        for path in (os.path.join(folder, name) for name in names if ".locks" not in folder):
            found[os.path.relpath(path, top)] = os.readlink(path) if os.path.islink(path) else os.path.getsize(path)
    return found


class Hub(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = subprocess.Popen([sys.executable, os.path.join(DATA, "..", "hub", "server.py")], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        cls.address = cls.server.stdout.readline().decode().strip()
        _hub.PAUSE = 0

    @classmethod
    def tearDownClass(cls):
        cls.server.communicate()

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        clean = {name: value for name, value in os.environ.items() if not re.match("HF_|XDG_|.*_proxy$", name, re.I)}
        environment = mock.patch.dict(os.environ, {**clean, "HF_HOME": folder.name}, clear=True)
        environment.start()
        self.addCleanup(environment.stop)
        self.cache = os.path.join(folder.name, "hub")
        self.use("ok")
        self.log()

    def use(self, fault):
        self.endpoint = "http://127.0.0.1:1" if fault == "down" else f"{self.address}/{fault}"
        os.environ["HF_ENDPOINT"] = self.endpoint

    def log(self):
        with urlopen(self.address + "/log") as response:
            return [[host, token, range] for host, _, token, range in json.load(response)]

    def fails(self, model, sentence):
        with self.assertRaises(realizar.Error) as caught:
            realizar.fetch(model)
        sentence = sentence.replace("{endpoint}", self.endpoint).replace("{cache}", self.cache)
        self.assertRegex(str(caught.exception), "^" + re.escape(sentence).replace(re.escape("{*}"), ".+") + "$")
        return caught.exception

    def test_names(self):
        for case in FACTS["names"]:
            self.assertIsInstance(self.fails(case["model"], case["error"]), realizar.InvalidArgument)

    def test_choices(self):
        for case in FACTS["choices"]:
            files = [{"rfilename": name, "size": size, "blobId": "a" * 40} for name, size in case["files"].items()]
            listing = json.dumps({"sha": "5" * 40, "siblings": files}).encode()
            try:
                model = ":".join(filter(None, ("hf:o/n", case.get("quantization"))))
                found = [file["name"] for file in _hub.choose(model, listing, case["free"])["files"]]
            except realizar.Error as e:
                found = str(e)
            self.assertEqual(found, case.get("chosen", case.get("error")), case)

    def test_names_of_encoders(self):
        for case in FACTS["encoders"]:
            self.assertEqual(_hub.encoder_name(case["model"]), case["encoder"])

    def test_faults(self):
        realizar.fetch("hf:tests/many:Q8_0")
        before = tree(self.cache)
        for case in FACTS["faults"]:
            with self.subTest(case):
                self.use(case["fault"])
                self.log()
                more = {"HF_TOKEN": case.get("token", ""), "HF_HUB_OFFLINE": str(int(case.get("offline", False)))}
                if "error" in case:
                    with mock.patch.dict(os.environ, more), mock.patch.object(_hub, "TIMEOUT", case.get("patience", 30.0)):
                        self.fails(case["model"], case["error"])
                    after = tree(self.cache)
                    kept = {name: after.pop(name) for name in list(after) if name.endswith(".part")}
                    self.assertEqual((after, list(kept.values())), (before, [case["kept"]] if "kept" in case else []))
                    for name in kept:
                        os.remove(os.path.join(self.cache, name))
                    continue
                with tempfile.TemporaryDirectory() as home, mock.patch.dict(os.environ, {**more, "HF_HOME": home}):
                    self.succeeds(case)
        # What was found in the cache before still is, without a connection.
        self.use("down")
        self.assertTrue(realizar.fetch("hf:tests/many").endswith("/many-Q8_0.gguf"))

    def succeeds(self, case):
        told = []
        path = realizar.fetch(case["model"], progress=lambda *n: told.append(n))
        snapshot = path[: len(path) - len(case["path"])].rstrip("/")
        self.assertRegex(snapshot, "/models--tests--[a-z]+/snapshots/5{40}$")
        files = case.get("files", [case["path"]])
        self.assertEqual(sorted(tree(snapshot)), sorted(files))
        if "tree" in case:
            self.assertEqual(tree(os.path.join(os.environ["HF_HOME"], "hub")), case["tree"])
        self.assertEqual(told[-1], (sum(os.path.getsize(os.path.join(snapshot, file)) for file in files),) * 2)
        log = self.log()
        self.assertEqual(log, case.get("requests", log))
        for host, token, _ in log:
            self.assertEqual(token, "Bearer secret" if host == "hub" and "token" in case else None)
        self.use("down")
        self.assertEqual(realizar.fetch(case["model"]), path)

    def test_what_was_kept_is_gone_on_with(self):
        self.use("gone")
        with self.assertRaises(realizar.FileError):
            realizar.fetch("hf:tests/many:Q4_K_M")
        self.use("ok")
        self.log()
        realizar.fetch("hf:tests/many:Q4_K_M")
        self.assertEqual(self.log()[-1], ["files", None, "bytes=1500-"])
        self.assertEqual([name for name in tree(self.cache) if name.endswith(".part")], [])

    def test_a_full_disk_and_a_folder_that_cannot_be_written(self):
        with mock.patch.object(_hub.os, "fsync", side_effect=OSError(28, "No space left on device")):
            error = self.fails("hf:tests/many:Q4_K_M", FACTS["faults"][-6]["error"].replace("huge", "many").replace("1000000000.0 GB", "0.0 MB"))
        self.assertEqual((error.errno, tree(self.cache)), (28, {}))
        os.environ["HF_HOME"] = os.path.join(DATA, "hub.json")
        self.cache = os.path.join(DATA, "hub.json", "hub")
        self.fails("hf:tests/many:Q4_K_M", FACTS["unwritable"])

    def test_what_is_not_complete_is_not_used(self):
        first = realizar.fetch("hf:tests/many:BF16")
        realizar.fetch("hf:tests/many:Q4_K_M")
        os.remove(first.replace("-00001-of", "-00002-of"))
        os.environ["HF_HUB_OFFLINE"] = "1"
        self.assertTrue(realizar.fetch("hf:tests/many").endswith("/many-Q4_K_M.gguf"))
        with self.assertRaisesRegex(realizar.FileError, "not complete"):
            realizar.fetch("hf:tests/many:BF16")
        del os.environ["HF_HUB_OFFLINE"]
        self.log()
        self.assertEqual(realizar.fetch("hf:tests/many:BF16"), first)
        self.assertEqual([host for host, *_ in self.log()], ["hub"])  # its blob is still there

    def test_two_processes_fetch_once(self):
        code = "import realizar; print(realizar.fetch('hf:tests/many:Q4_K_M'))"
        both = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) for _ in range(2)]
        paths = {process.communicate()[0] for process in both}
        self.assertEqual(len(paths), 1, paths)
        self.assertEqual([host for host, *_ in self.log()].count("files"), 1)

    def test_copies_where_there_are_no_links(self):
        with mock.patch.object(_hub.os, "symlink", side_effect=OSError(1, "Operation not permitted")):
            path = realizar.fetch("hf:tests/many:Q4_K_M")
        self.assertFalse(os.path.islink(path))
        self.use("down")
        self.assertEqual((realizar.fetch("hf:tests/many"), os.path.getsize(path)), (path, 3000))

    def test_a_proxy_of_the_environment(self):
        os.environ.update(HF_ENDPOINT="http://hub.invalid/ok", http_proxy=self.address)
        self.assertEqual(os.path.getsize(realizar.fetch("hf:tests/many:Q4_K_M")), 3000)

    def test_progress_and_cancel_end_a_fetch(self):
        with self.assertRaises(realizar.Cancelled):
            realizar.fetch("hf:tests/many:Q4_K_M", progress=lambda done, total: False)
        with self.assertRaises(ZeroDivisionError):
            realizar.Model("hf:tests/many:Q4_K_M", progress=lambda done, total: 1 / 0)
        for fault in ("drip", "dripping-head"):
            self.use(fault)
            cancel = realizar.Cancel()
            cancel.deadline(0.3)
            with self.assertRaises(realizar.Cancelled):
                realizar.fetch("hf:tests/many:Q4_K_M", cancel=cancel)
        self.use("ok")
        cancel = realizar.Cancel()
        cancel.fire()
        with self.assertRaises(realizar.Cancelled):
            realizar.fetch("hf:tests/many:Q4_K_M", cancel=cancel)

    def test_a_model_loads_by_its_name(self):
        told = []
        with realizar.Model("hf:tests/story", threads=1, progress=lambda *n: told.append(n)) as model:
            self.assertEqual(model.info.architecture, "llama")
        self.assertIn((1054304, 1054304), told)

    def run_main(self, *arguments, input=b"", code=0):
        process = subprocess.run([sys.executable, "-m", "realizar", *arguments], input=input, capture_output=True, timeout=60)
        self.assertEqual(process.returncode, code, process)
        return process

    def test_commands(self):
        said = self.run_main("doctor", "hf:tests/story").stdout.decode().splitlines()
        self.assertRegex(said[0], r"^realizar \S+ of \S*realizar\S*, Python 3\.")
        self.assertRegex(said[1], r"^device 1: .+ \S+, [0-9.]+ of [0-9.]+ GB of memory free$")
        for line, form in zip(said[-3:], [r"takes [\d.]+ MB of memory", r"loaded in \d+ ms: llama on device 1, no chat template", r"[\d.]+ tokens per second"]):
            self.assertRegex(line, form)
        self.assertIn(b"chat template", self.run_main("chat", "hf:tests/story", input=b"hi\n", code=1).stderr)
        refused = self.run_main("chat", "hf:tests/absent", code=1).stderr.decode()
        self.assertEqual(refused, f"RZ_ERR_IO: there is no tests/absent at {self.endpoint}: check the name\n")
        self.assertIn(b"doctor [MODEL]", self.run_main("sing", code=1).stderr)

    def test_a_terminal_gets_a_bar(self):
        ours, theirs = pty.openpty()
        process = subprocess.Popen([sys.executable, "-m", "realizar", "doctor", "hf:tests/many:Q4_K_M"], stderr=theirs, stdout=subprocess.PIPE)
        process.communicate()
        os.close(theirs)
        with open(ours, "rb", buffering=0) as terminal:
            shown = terminal.read(4096).decode()
        self.assertRegex(shown, r"\rhf:tests/many:Q4_K_M  \[={24}\]  0.0 of 0.0 MB, [\d.]+ MB/s")
        self.assertIn("RZ_ERR_FORMAT", shown)


if __name__ == "__main__":
    unittest.main()
