"""Tests of the package on a tiny model, and on a real one where MODEL names one.  python -m unittest discover bindings/python/tests"""

import dataclasses
import gc
import importlib.util
import inspect
import io
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import types
import unittest
import weakref
from typing import Optional

import numpy as np

import realizar

from support import ADAPTED, ADAPTER, DIGIT, EXPECTED, GO, PLAIN, PROMPT, REASONS, STORY, chat_model, large_model


class Tiny(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.model = realizar.Model(STORY, threads=2)

    @classmethod
    def tearDownClass(cls):
        cls.model.close()

    def test_errors_have_the_names_of_options(self):
        with self.assertRaisesRegex(realizar.InvalidArgument, r"^banned_sequences\[0\] has no tokens"):
            realizar.Sampler(realizar.Sampling(banned_sequences=[[]]))

    def test_it_continues_a_text(self):
        with self.model.session() as session:
            pieces = list(session.generate(PROMPT, max_tokens=25))
            self.assertTrue("".join(pieces).startswith(EXPECTED[:60]), pieces)
            self.assertGreater(len(pieces), 10)
            again = "".join(session.generate(PROMPT, max_tokens=25))
            self.assertEqual(again, "".join(pieces))
            self.assertEqual(len(session), len(session.tokens))

    def test_tokens_and_text(self):
        ids = self.model.tokenize(PROMPT)
        self.assertEqual(ids[0], self.model.info.bos_token)
        self.assertEqual(self.model.detokenize(ids), PROMPT)
        self.assertEqual(self.model.detokenize(np.array(ids, dtype=np.int64)), PROMPT)
        self.assertIn(self.model.token_bytes(ids[-1]).strip(), PROMPT.encode())
        self.assertEqual(self.model.tokenize("", special=False), [])
        self.assertEqual(self.model.detokenize([]), "")
        self.assertEqual(self.model.detokenize(self.model.tokenize("größe €" * 200)), "größe €" * 200)

    def test_metadata(self):
        info = self.model.info
        self.assertEqual((info.architecture, info.vocab_size), ("llama", 512))
        self.assertEqual(self.model.meta("general.architecture"), "llama")
        self.assertIn("general.architecture", self.model.meta_keys())
        with self.assertRaises(realizar.NotFound):
            self.model.meta("none")
        self.assertEqual(realizar.devices()[0].kind, "cpu")

    def test_devices_are_a_list_of_gpus(self):
        with realizar.Model(STORY, devices=[1]) as model:
            self.assertEqual((model.info.device, model.info.devices, model.info.device_layers), (1, (), ()))
        for wrong in ({"devices": [1, 1]}, {"devices": [1], "device": 1}, {"devices": [1], "shares": [0]}, {"shares": [1]}):
            with self.assertRaises(realizar.InvalidArgument):
                realizar.Model(STORY, **wrong)

    def test_packed_weights_are_kept_in_a_file(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "weights")
            for _ in range(2):
                with realizar.Model(STORY, threads=1, packed_path=path) as model, model.session() as session:
                    text = "".join(session.generate(PROMPT, max_tokens=25))
                    self.assertTrue(text.startswith(EXPECTED[:60]), text)
            self.assertGreater(os.path.getsize(path), 100_000)
            del session, model

    def test_logits_are_written_to_the_array(self):
        with self.model.session() as session:
            session.prefill(self.model.tokenize(PROMPT))
            out = np.full(512, np.nan, dtype=np.float32)
            self.assertIs(session.logits(out), out)
            self.assertEqual(int(out.argmax()), session.sample())
            np.testing.assert_array_equal(session.logits(), out)
            for wrong in (out.astype(np.float64), np.empty(1024, np.float32)[::2]):
                with self.assertRaises(realizar.InvalidArgument):
                    session.logits(wrong)
            with self.assertRaises(realizar.BufferTooSmall):
                session.logits(np.empty(511, np.float32))

    def test_forks_rewinds_and_batches(self):
        ids = self.model.tokenize(PROMPT)
        with self.model.session() as one, self.model.session(k_type="f32", v_type="f32") as wide:
            one.prefill(ids)
            wide.prefill(ids)
            token = one.sample()
            with one.fork() as two:
                both = realizar.decode_batch([one, two], [token, token])
                self.assertEqual(both[0], both[1])
                self.assertEqual(one.tokens, two.tokens)
            one.truncate(len(ids))
            self.assertEqual(one.decode(token), both[0])
            self.assertEqual(one.tokens, ids + [token])
            with self.assertRaises(realizar.InvalidArgument):
                one.truncate(100)
            with self.assertRaises(realizar.InvalidArgument):
                realizar.decode_batch([one], [1, 2])

    def test_a_seed_repeats_itself(self):
        sampling = realizar.Sampling(temperature=1.0, top_p=0.9, seed=7)
        answers = []
        for _ in range(2):
            with self.model.session() as session:
                answers.append("".join(session.generate(PROMPT, sampling, max_tokens=40)))
        self.assertEqual(answers[0], answers[1])
        forbidden = self.model.tokenize(",", special=False)[-1]
        biased = realizar.Sampling(logit_bias={forbidden: float("-inf")})
        with self.model.session() as session:
            session.prefill(self.model.tokenize(PROMPT))
            with realizar.Sampler(biased) as sampler:
                self.assertNotEqual(session.sample(sampler), forbidden)
            best, last = session.sample(), self.model.tokenize(PROMPT)[-1]
            for sequence, is_banned in ([last, best], True), ([best, best], False):
                banned = realizar.Sampling(banned_sequences=[[1, 2, 3], sequence], dry_breakers=[[13], [14, 15]], order=["temperature", "xtc"])
                with realizar.Sampler(banned) as sampler:
                    self.assertEqual(session.sample(sampler) != best, is_banned)
            for order in ["top_p"], ["temperature", "temperature"]:
                with self.assertRaisesRegex(realizar.InvalidArgument, "order"):
                    realizar.Sampler(realizar.Sampling(temperature=0.7, order=order))
        with self.assertRaisesRegex(realizar.InvalidArgument, "typical_p"):
            realizar.Sampler(realizar.Sampling(typical_p=-0.5))

    def test_jobs_in_slices_and_together(self):
        with self.model.session(200) as one, self.model.session(200) as two:
            expected = "".join(one.generate(PROMPT, max_tokens=25))
            with one.job(PROMPT, max_tokens=25) as job:
                self.assertIsNone(job.end)
                # No time is left, or less than none: one share of work, which is no token yet.
                self.assertTrue(all(job.step(seconds) for seconds in (0, -0.001, -1e300, float("-inf"))))
                self.assertEqual(job.tokens(), [])
                with self.assertRaises(realizar.InvalidArgument):
                    job.step(float("nan"))
                text = ""
                while job.step(50e-6):
                    text += job.text()
                self.assertEqual((text + job.text(), job.end, len(job.tokens())), (expected, "length", 25))
                with self.assertRaises(realizar.Busy):
                    one.truncate(0)
            with one.job(PROMPT, stops=["Lily", "never"]) as first, two.job("Lily", max_tokens=9) as second:
                while realizar.step_jobs([first, second]):
                    pass
                self.assertEqual((first.text(), first.end), (", there was a little girl named ", "stop"))
                alone = second.text()
            self.assertFalse(realizar.step_jobs([]) or realizar.step_jobs([], 0.001))
            with one.job(PROMPT, max_tokens=3) as job:
                self.assertFalse(job.step(float("inf")))
            with self.model.session() as session:
                self.assertEqual("".join(session.generate("Lily", max_tokens=9)), alone)
            with self.assertRaises(realizar.InvalidArgument):
                one.job([])

    def test_grammars(self):
        with self.model.session() as session, self.model.grammar("choices", '["yes", "no"]') as choices:
            self.assertIn("".join(session.generate(PROMPT, grammar=choices)), ("yes", "no"))
        with self.model.session() as session, self.model.grammar("json_schema", DIGIT) as grammar:
            value = json.loads("".join(session.generate(PROMPT, grammar=grammar, max_tokens=200)))
            self.assertIn(value["n"], range(10))
        with self.model.session() as session, realizar.Sampler() as sampler, self.model.grammar("choices", '["yes"]') as choices:
            session.prefill(self.model.tokenize(PROMPT))
            free = session.sample(sampler)
            sampler.set_grammar(choices)
            self.assertIn(self.model.token_bytes(session.sample(sampler)).decode().strip(), ("y", "ye", "yes"))
            sampler.set_grammar(None)
            self.assertEqual(session.sample(sampler), free)
        one = json.dumps({"type": "object", "properties": {"n": {"const": 1}}, "required": ["n"], "additionalProperties": False})
        blanks = realizar.Sampling(logit_bias={token: 100.0 for token in range(512) if self.model.token_bytes(token) == b" "})
        for whitespace in (False, True):
            with self.model.session() as session, self.model.grammar("json_schema", one, whitespace=whitespace) as grammar:
                text = "".join(session.generate(PROMPT, blanks, grammar=grammar, max_tokens=400))
                self.assertEqual((json.loads(text), " " in text), ({"n": 1}, whitespace), text)
        for wrong in ("regex", "("), ("regex", "a"):
            with self.assertRaises(realizar.InvalidArgument):
                self.model.grammar(*wrong, whitespace=True)
        for wrong in ("regex", "("), ("none", ""):
            with self.assertRaises(realizar.InvalidArgument):
                self.model.grammar(*wrong)

    def test_drafts_change_nothing(self):
        with self.model.session(300) as session:
            expected = "".join(session.generate(PROMPT, max_tokens=150))
            for draft in ("lookup", self.model):
                session.truncate(0)
                with session.job(PROMPT, max_tokens=150, draft=draft, draft_max=4) as job:
                    self.assertEqual("".join(job), expected)
                    drafted, accepted = job.drafts
                    self.assertLessEqual(accepted, drafted)
            self.assertGreater(accepted, 0)
            with self.assertRaises(realizar.Unsupported):
                session.job(PROMPT, draft="mtp")
            for wrong in ("guess", 1):
                with self.assertRaises(realizar.InvalidArgument):
                    session.job(PROMPT, draft=wrong)

    def test_adapters(self):
        with self.model.session(200) as session, self.model.adapter(ADAPTER) as adapter:
            plain = "".join(session.generate(PROMPT, max_tokens=30))
            session.set_adapters([adapter])
            self.assertEqual(len(session), 0)
            self.assertTrue("".join(session.generate(PROMPT, max_tokens=40)).startswith(ADAPTED))
            session.set_adapters({adapter: 0.5})
            self.assertNotEqual("".join(session.generate(PROMPT, max_tokens=40)), plain)
            session.set_adapters([])
            self.assertEqual("".join(session.generate(PROMPT, max_tokens=30)), plain)
            with self.assertRaises(realizar.InvalidArgument):
                session.set_adapters({adapter: float("inf")})
        with self.assertRaises(realizar.FileError):
            self.model.adapter("/none.gguf")

    def test_replies_are_taken_apart(self):
        with tempfile.TemporaryDirectory() as folder, realizar.Model(chat_model(folder), threads=1) as model:
            with model.chat_parser(PROMPT, tools=[GO]) as parser:
                parts = []
                for token in model.tokenize('Well, <call>{"name": "go", "arguments": {"by": "bus"}}</call>', special=False):
                    parts += parser.push(token)
                parts += parser.end()
            self.assertEqual("".join(part.text for part in parts if part.kind == "content").strip(), "Well,")
            self.assertEqual([part.text for part in parts if part.kind in ("tool_id", "tool_name")], ["call00000", "go"])
            self.assertEqual(json.loads("".join(part.text for part in parts if part.kind == "tool_arguments")), {"by": "bus"})
            self.assertEqual((parts[-1].kind, parts[-1].unparsed), ("end", False))
            with self.assertRaises(realizar.InvalidArgument):
                model.chat_parser([1])
        with self.assertRaises(realizar.Unsupported):
            self.model.chat_parser("x")

    def test_a_library_that_is_missing_or_of_another_interface_is_named(self):
        package = os.path.dirname(os.path.abspath(realizar.__file__))
        with tempfile.TemporaryDirectory() as folder:
            copy = os.path.join(folder, "realizar")
            shutil.copytree(package, copy, ignore=shutil.ignore_patterns("*realizar.so", "*realizar.dylib", "*realizar.dll", "__pycache__"))

            def error():
                child = subprocess.run([sys.executable, "-c", "import realizar"], cwd=folder, env={**os.environ, "PYTHONPATH": folder},
                                       stderr=subprocess.PIPE, text=True)  # fmt: skip
                return child.stderr.splitlines()[-1]

            name = next(name for name in os.listdir(package) if name.startswith(("librealizar", "realizar.dll")))
            path = os.path.join(os.path.realpath(copy), name)
            self.assertIn(f"ImportError: the library {path} cannot be loaded: ", error())
            if sys.platform == "linux" and shutil.which("cc"):
                for source, why in ("int other;", "lacks a function: "), ("int rz_abi_version(void) { return 99; }", "has the interface 99, 1 is needed"):
                    subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", path], input=source, text=True, check=True)
                    self.assertIn(f"ImportError: the library {path} {why}", error())

    def test_saved_sessions(self):
        with self.model.session() as session:
            session.prefill(self.model.tokenize(PROMPT))
            file = io.BytesIO()
            session.save(file)
            file.seek(0)
            with self.model.restore(file) as restored:
                self.assertEqual(restored.tokens, session.tokens)
                np.testing.assert_array_equal(restored.logits(), session.logits())
            with self.assertRaises(OSError):
                self.model.restore(io.BytesIO(file.getvalue()[:-1]))
            with self.assertRaises(realizar.FormatError):
                self.model.restore(io.BytesIO(b"x" + file.getvalue()[1:]))
            with open(os.devnull, "rb") as unwritable, self.assertRaises(io.UnsupportedOperation):
                session.save(unwritable)

    def test_embeddings(self):
        dims = self.model.info.hidden_dim
        vectors = self.model.embed([PROMPT, "The end."], pooling="mean")
        self.assertEqual((vectors.shape, vectors.dtype), ((2, dims), np.dtype(np.float32)))
        np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-5)
        np.testing.assert_array_equal(self.model.embed([self.model.tokenize("The end.")], pooling="mean")[0], vectors[1])
        self.assertEqual(self.model.embed([PROMPT], pooling="none").shape, (len(self.model.tokenize(PROMPT)), dims))

    def rows_of(self, tokens):
        """Embeddings of tokens, the first tensor of the tiny model."""
        with open(STORY, "rb") as file:
            table = np.frombuffer(file.read(), dtype=np.float32, count=512 * 64, offset=14176).reshape(512, 64)
        return table[tokens]

    def test_rows_of_media_stand_for_tokens(self):
        ids = self.model.tokenize(PROMPT)
        with self.model.session() as session:
            text = "".join(session.generate(ids, max_tokens=25))
            session.truncate(0)
            session.prefill(ids)
            logits = session.logits()
        rows = self.rows_of(ids[1:4])
        media = realizar.Media.from_rows(self.model, rows)
        self.assertEqual((media.info.kind, len(media), media.info.row_dim, media.info.columns, media.info.lines), ("image", 3, 64, 3, 1))
        np.testing.assert_array_equal(media.rows(), rows)
        prompt = realizar.Prompt(self.model, [ids[:1], media, np.array(ids[4:])], bare=True)
        self.assertEqual(prompt.tokens, [ids[0], *[realizar.Prompt.MEDIA_TOKEN] * 3, *ids[4:]])
        with self.model.session() as session:
            for _ in range(2):
                self.assertEqual("".join(session.generate(prompt, max_tokens=25)), text)
            self.assertEqual(session.match(prompt), len(ids))
            self.assertEqual(session.match(ids), 1)
            self.assertEqual(session.tokens[: len(ids)], prompt.tokens)
            session.truncate(2)
            session.prefill(prompt, first=2)
            np.testing.assert_array_equal(session.logits(), logits)
            session.prefill(ids, first=len(ids) - 1)
            self.assertEqual(len(session), len(ids) + 1)
            # A prompt that ends with rows is computed from their start.
            ends = realizar.Prompt(self.model, [ids[:1], realizar.Media.from_rows(self.model, self.rows_of(ids[1:]))], bare=True)
            for _ in range(2):
                self.assertEqual("".join(session.generate(ends, max_tokens=25)), text)
        first = realizar.Prompt(self.model, ["Once", " upon", media])
        self.assertEqual(first.tokens[:1], ids[:1])
        self.assertEqual(first.tokens.count(ids[0]), 1)

    def test_sounds_have_channels_and_are_measured(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "mmproj.gguf")
            tests = os.path.join(os.path.dirname(os.path.dirname(STORY)), "encoder.py")
            subprocess.run([sys.executable, tests, "sound/ultravox", path], check=True)
            encoder = realizar.Encoder(self.model, path)
        samples = (np.arange(70000, dtype=np.int64) ** 2 % 2048 / 4096 - 0.25).astype(np.float32)
        media = encoder.encode_sound(samples, 16000)
        measured = encoder.measure(70000)
        self.assertEqual((measured.kind, measured.n_rows, measured.n_tokens), ("audio", len(media), media.info.n_tokens))
        both = encoder.encode_sound(np.stack([samples + 0.125, samples - 0.125], 1), 16000)
        self.assertEqual(both.hash, media.hash)
        np.testing.assert_array_equal(both.rows(), media.rows())
        for wrong in (samples.astype(np.int16), samples.reshape(100, 70, 10), samples.reshape(7, 10000)):
            with self.assertRaises(realizar.InvalidArgument):
                encoder.encode_sound(wrong, 16000)

    def test_frames_become_a_video(self):
        with tempfile.TemporaryDirectory() as folder:
            tests = os.path.join(os.path.dirname(os.path.dirname(STORY)), "encoder.py")
            subprocess.run([sys.executable, tests, "videos/qwen25", folder], check=True)
            model = realizar.Model(folder)
            encoder = realizar.Encoder(model, folder)
        self.assertEqual(encoder.info.kinds, ("image", "video"))
        frames = [np.arange(56 * 84 * 3).reshape(56, 84, 3).astype(np.uint8) + np.uint8(i) for i in range(3)]
        told = []
        media = encoder.encode_video(frames, [0, 0.5, 1], progress=lambda done, total: told.append((done, total)))
        info = media.info
        self.assertEqual((info.kind, info.pairs, info.n_rows, info.columns, info.lines), ("video", 2, 12, 3, 2))
        self.assertEqual((info.n_tokens, info.width, info.height, told[-1]), (14, 84, 56, (2, 2)))
        four = [np.dstack([frame, np.full((56, 84), 255, np.uint8)]) for frame in frames]
        self.assertEqual(encoder.encode_video(four, [0, 0.5, 1]).hash, media.hash)
        self.assertNotEqual(encoder.encode_video(frames, [0, 1, 2]).hash, media.hash)
        # What is transparent shows white, or the colour that is told.
        clear = np.dstack([frames[0], np.zeros((56, 84), np.uint8)])
        white = np.full((56, 84, 3), 255, np.uint8)
        self.assertEqual(encoder.encode(clear).hash, encoder.encode(white).hash)
        self.assertEqual(encoder.encode(clear, background=0xFF000000).hash, encoder.encode(white * 0).hash)
        prompt = realizar.Prompt(model, [[5, 9], media, [7]])
        self.assertEqual(len(prompt), 17)
        for wrong, times, message in (
            (frames, [0, 1], "times has 2 numbers; it must have one for each of 3 frames"),
            (frames, [0, 2, 1], "entry 2: the time"),
            ([frames[0], frames[1][:28]], [0, 1], "entry 1: it has 84 x 28 pixels"),
        ):
            with self.assertRaisesRegex(realizar.InvalidArgument, message):
                encoder.encode_video(wrong, times)
        # Options that there are not, and numbers that do not fit.
        picture = frames[0]
        for call in (lambda **o: encoder.encode(picture, **o), lambda **o: encoder.begin(picture, **o), lambda **o: encoder.measure(56, 56, **o)):
            with self.assertRaisesRegex(TypeError, "^the option max_rowz is unknown; the nearest is max_rows$"):
                call(max_rowz=1)
            for wrong in (-1, 1 << 32, 0.5):
                with self.assertRaisesRegex(realizar.InvalidArgument, "^max_rows is .*; it must be a whole number from 0 to 4294967295$"):
                    call(max_rows=wrong)
        with self.assertRaisesRegex(realizar.InvalidArgument, "^rate is -1; "):
            encoder.encode_sound(np.zeros(9, np.float32), -1)

    @unittest.skipUnless(importlib.util.find_spec("PIL"), "Pillow is not here")
    def test_pictures_of_pillow_are_upright_and_keep_what_is_transparent(self):
        from PIL import Image, ImageOps

        from realizar import _of_pillow

        picture = Image.fromarray(np.arange(4 * 6 * 3).reshape(4, 6, 3).astype(np.uint8))
        for orientation in range(1, 9):
            exif, file = Image.Exif(), io.BytesIO()
            exif[0x112] = orientation
            picture.save(file, "PNG", exif=exif)
            lying = Image.open(io.BytesIO(file.getvalue()))
            np.testing.assert_array_equal(np.asarray(_of_pillow(lying)), np.asarray(ImageOps.exif_transpose(lying)))
        file = io.BytesIO()
        picture.quantize(9).save(file, "PNG", transparency=2)
        modes = [_of_pillow(one).mode for one in (Image.open(io.BytesIO(file.getvalue())), picture.convert("LA"), picture.convert("1"), picture)]
        self.assertEqual(modes, ["RGBA", "RGBA", "RGB", "RGB"])

    def test_media_are_saved_and_have_hashes(self):
        rows = self.rows_of([5, 6, 7, 8])
        media = realizar.Media.from_rows(self.model, rows, columns=2, lines=2)
        file = io.BytesIO()
        media.save(file)
        again = realizar.Media.load(self.model, io.BytesIO(file.getvalue()))
        self.assertEqual((again.hash, again.info.columns), (media.hash, 2))
        self.assertEqual(len(media.hash), 32)
        self.assertNotEqual(realizar.Media.from_rows(self.model, rows + 1).hash, media.hash)
        np.testing.assert_array_equal(again.rows(), rows)
        with self.assertRaises(realizar.FormatError):
            realizar.Media.load(self.model, io.BytesIO(b"x" * 1000))

    def test_media_in_messages(self):
        with tempfile.TemporaryDirectory() as folder, realizar.Model(chat_model(folder), threads=1) as model:
            media = realizar.Media.from_rows(model, self.rows_of([5, 6, 7]))
            image, text = {"type": "image", "media": media}, {"type": "text", "text": PROMPT}
            prompt = realizar.Prompt.of_chat(model, [{"role": "user", "content": [image, text, image]}])
            self.assertEqual([prompt.tokens[1:4], prompt.tokens[-3:]], [[realizar.Prompt.MEDIA_TOKEN] * 3] * 2)
            plain = [token for token in prompt.tokens if token != realizar.Prompt.MEDIA_TOKEN]
            self.assertEqual(model.detokenize(plain), PROMPT)
            self.assertEqual(realizar.Prompt.of_chat(model, PROMPT).tokens, model.tokenize_chat(PROMPT))
            with self.assertRaises(realizar.InvalidArgument):
                realizar.Prompt.of_chat(model, [{"role": "user", "content": [{"type": "image", "media": 7}, image]}])
            with self.assertRaises(TypeError):
                realizar.Prompt.of_chat(model, [{"role": "user", "content": object()}])

    def test_conversations_are_shown_media(self):
        with tempfile.TemporaryDirectory() as folder, realizar.Model(chat_model(folder), threads=1) as model:
            media = realizar.Media.from_rows(model, self.rows_of([5, 6, 7]))
            shown = {"role": "user", "content": [{"type": "image", "media": media}, {"type": "text", "text": PROMPT}]}
            prompt = realizar.Prompt.of_chat(model, [shown])
            with model.session() as session:
                text = "".join(session.generate(prompt, max_tokens=10))
            talk = realizar.Conversation(model)
            talk.add(shown)
            media.close()
            self.assertEqual("".join(part.text for part in talk.reply(max_tokens=10) if part.kind == "content"), text)
            self.assertEqual((talk.info.prompt_tokens, talk.info.n_media), (len(prompt), 1))
            self.assertEqual([media.hash for media in talk.media], [realizar.Media.from_rows(model, self.rows_of([5, 6, 7])).hash])
            self.assertEqual(talk.messages()[0]["content"][0], {"type": "image", "media": 0})
            with self.assertRaises(realizar.Error):
                talk.add(shown)
            with self.assertRaisesRegex(realizar.InvalidArgument, "media is 0, there are 0 media"):
                talk.add({"role": "user", "content": [{"type": "image", "media": 0}]})

    def test_prompts_are_embedded_and_stored(self):
        ids = self.model.tokenize(PROMPT)
        media = realizar.Media.from_rows(self.model, self.rows_of(ids[1:4]))
        prompt = realizar.Prompt(self.model, [ids[:1], media, ids[4:]], bare=True)
        for pooling in "mean", "none":
            plain = self.model.embed([ids, "Once"], pooling=pooling)
            np.testing.assert_array_equal(self.model.embed([prompt, "Once"], pooling=pooling), plain)
        store = realizar.Store(self.model, min_tokens=2)
        for held in 0, len(ids) - 1:
            with store.take(prompt) as session:
                self.assertEqual(len(session), held)
                session.prefill(prompt, first=len(session))
                store.put(session)

    def test_wrong_media_are_refused(self):
        media = realizar.Media.from_rows(self.model, self.rows_of([5]))
        for rows, options in [(np.zeros((2, 63)), {}), (np.zeros((0, 64)), {}), (np.zeros(64), {}), (np.full((1, 64), np.nan), {}),
                              (np.zeros((4, 64)), {"columns": 3, "lines": 1}), (np.zeros((1, 64)), {"kind": "smell"})]:  # fmt: skip
            with self.assertRaises(realizar.InvalidArgument):
                realizar.Media.from_rows(self.model, rows, **options)
        for parts in ([[512]], [realizar.Prompt.MEDIA_TOKEN], [[realizar.Prompt.MEDIA_TOKEN]]):
            with self.assertRaises(realizar.InvalidArgument):
                realizar.Prompt(self.model, parts)
        prompt = realizar.Prompt(self.model, [media])
        with self.model.session() as session, realizar.Model(STORY, threads=1) as other, other.session() as strange:
            with self.assertRaises(realizar.InvalidArgument):
                session.prefill(prompt, first=len(prompt))
            with self.assertRaises(realizar.Mismatch):
                strange.prefill(prompt)
            with self.assertRaises(realizar.Mismatch):
                realizar.Prompt(other, [media])
        with self.assertRaises(realizar.Unsupported):
            realizar.Encoder(self.model, STORY)
        media.close()
        self.assertEqual(prompt.tokens.count(realizar.Prompt.MEDIA_TOKEN), 1)
        with self.assertRaises(realizar.Closed):
            realizar.Prompt(self.model, [media])

    def test_cancelling(self):
        with realizar.Cancel() as cancel, self.model.session() as session:
            pieces = session.generate(PROMPT, cancel=cancel)
            next(pieces)
            threading.Thread(target=cancel.fire).start()
            with self.assertRaises(realizar.Cancelled):
                for _ in pieces:
                    pass
            self.assertEqual(len(session), len(session.tokens))
            cancel.reset()
            self.assertTrue("".join(session.generate(PROMPT, max_tokens=25, cancel=cancel)).startswith(", there"))

    def test_deadlines(self):
        ids = self.model.tokenize(PROMPT)
        with realizar.Cancel() as cancel, self.model.session(4096) as session:
            for seconds in (0, -1, -1e300):
                cancel.deadline(seconds)
                with self.assertRaises(realizar.DeadlineExceeded) as caught:
                    session.prefill(ids, cancel=cancel)
                self.assertIsInstance(caught.exception, TimeoutError)
            for seconds in (None, 1e300, float("inf"), 60):
                cancel.deadline(seconds)
                session.prefill(ids, cancel=cancel)
            began = time.monotonic()
            cancel.deadline(0.1)
            with self.assertRaises(realizar.DeadlineExceeded):
                while True:
                    session.truncate(1)
                    session.prefill(ids, cancel=cancel)
            self.assertGreaterEqual(time.monotonic() - began, 0.1)
            cancel.reset()
            session.prefill(ids, cancel=cancel)
            # An interruption that is over leaves what the owner asked for.
            cancel.deadline(0)
            cancel._interrupt()
            cancel._resume()
            with self.assertRaises(realizar.DeadlineExceeded):
                session.prefill(ids, cancel=cancel)
            cancel.fire()
            cancel._resume()
            with self.assertRaises(realizar.Cancelled):
                session.prefill(ids, cancel=cancel)

    def test_probabilities(self):
        ids = self.model.tokenize(PROMPT)
        with self.model.session() as session, self.model.session() as scored:
            scores = scored.score(ids)
            self.assertEqual(scored.tokens, ids)
            self.assertEqual(scores[0], 0)
            for i, token in enumerate(ids):
                if i:
                    logits = session.logits().astype(np.float64)
                    wanted = logits - logits.max() - np.log(np.exp(logits - logits.max()).sum())
                    self.assertAlmostEqual(float(scores[i]), float(wanted[token]), places=5)
                    likely = session.logprobs(5)
                    self.assertEqual([token for token, _ in likely], np.argsort(-wanted, kind="stable")[:5].tolist())
                    np.testing.assert_allclose([logprob for _, logprob in likely], np.sort(wanted)[::-1][:5], rtol=1e-5)
                session.prefill([token])
            self.assertEqual(len(session.logprobs(10**6)), 512)

    def test_jobs_tell_probabilities(self):
        with self.model.session() as session, self.model.session() as other:
            ids = self.model.tokenize(PROMPT)
            with session.job(ids, max_tokens=6, logprobs=3) as job:
                job.step()
                rows = job.logprobs()
                self.assertEqual((len(rows), job.logprobs()), (1, []))
                while job.step():
                    pass
                rows += job.logprobs()
                made = job.tokens()
            self.assertEqual([row.token for row in rows], made)
            other.prefill(ids)
            for row in rows:
                self.assertEqual(row.likeliest, other.logprobs(3))
                self.assertEqual(row.likeliest[0], (row.token, row.logprob))  # greedily
                other.prefill([row.token])
            with session.job(ids, max_tokens=100, logprobs=32) as job:
                "".join(job)
                self.assertEqual({len(row.likeliest) for row in job.logprobs()}, {32})
            with session.job(ids) as job, self.assertRaises(realizar.InvalidArgument):
                job.logprobs()
            with self.assertRaises(realizar.InvalidArgument):
                session.job(ids, logprobs=33)

    def test_a_job_that_fails_ends_alone(self):
        nothing = realizar.Sampling(logit_bias={token: float("-inf") for token in range(512)})
        with self.model.session() as one, self.model.session() as other:
            with one.job(PROMPT, nothing) as failing, other.job(PROMPT, max_tokens=3) as going:
                self.assertIsNone(failing.error)
                while realizar.step_jobs([failing, going]):
                    pass
                self.assertEqual((failing.end, going.end, going.error, len(going.tokens())), ("failed", "length", None, 3))
                self.assertTrue(str(failing.error))
                with self.assertRaises(type(failing.error)) as caught:
                    failing.step()
                self.assertEqual(str(caught.exception), str(failing.error))
            with self.assertRaises(realizar.Error):
                list(one.generate(PROMPT, nothing))

    def test_unknown_keys_and_what_the_makers_advise(self):
        self.assertIsNone(self.model.advised_sampling())
        self.assertEqual(self.model.info.n_unknown, 0)
        with tempfile.TemporaryDirectory() as folder:
            for name, text in ("config", '{"model_type": "llama", "magic_norm": true}'), ("generation_config", '{"temperature": 0.5, "top_k": 20}'):
                with open(os.path.join(folder, name + ".json"), "w", encoding="utf-8") as file:
                    file.write(text)
            with self.assertRaises(realizar.Unsupported) as caught:
                realizar.Model(folder, text_only=True)
            self.assertIn("magic_norm", str(caught.exception))
            with realizar.Model(folder, text_only=True, allow_unknown=True) as model:
                self.assertEqual(model.info.n_unknown, 1)
                self.assertEqual(model.advised_sampling(), realizar.Sampling(temperature=0.5, top_k=20, temperature_first=True))

    def test_shifts_and_releases(self):
        ids = self.model.tokenize(PROMPT)
        with self.model.session() as session, self.model.session() as fresh:
            session.prefill(ids)
            session.shift(1, 2)
            fresh.prefill(ids[:1] + ids[3:])
            self.assertEqual(session.tokens, fresh.tokens)
            self.assertEqual(session.decode(ids[0]), fresh.decode(ids[0]))
            np.testing.assert_array_equal(session.logits(), fresh.logits())
            before = session.logits()
            session.release()
            np.testing.assert_array_equal(session.logits(), before)
            self.assertEqual(session.decode(ids[1]), fresh.decode(ids[1]))
            np.testing.assert_array_equal(session.logits(), fresh.logits())

    def test_models_of_bytes(self):
        with open(STORY, "rb") as file:
            data = file.read()
            text = "".join(self.model.session().generate(PROMPT, max_tokens=9))
            for files in (data, bytearray(data), memoryview(data), np.frombuffer(data, np.uint8), file, {"a.gguf": data}):
                with realizar.Model.from_files(files, threads=1) as model, model.session() as session:
                    self.assertEqual("".join(session.generate(PROMPT, max_tokens=9)), text)
        with self.assertRaises(realizar.FormatError):
            realizar.Model.from_files(b"GGUF")
        with self.assertRaises(realizar.InvalidArgument):
            realizar.Model.from_files({"a\0": data})

    def test_plans(self):
        with realizar.Runtime(threads=1) as runtime:
            one = realizar.plan(STORY, capacity=256, runtime=runtime)
            three = realizar.plan(STORY, sessions=3, capacity=256, runtime=runtime)
            with open(STORY, "rb") as file:
                of_bytes = realizar.plan(file.read(), capacity=256, runtime=runtime)
            self.assertEqual((of_bytes.weights_host, of_bytes.cache_host), (one.weights_host, one.cache_host))
            with realizar.Model(STORY, runtime=runtime) as model:
                self.assertEqual(one.weights_host, model.info.weight_bytes)
        self.assertEqual(three.total_host - one.total_host, 2 * one.cache_host)
        self.assertEqual((one.gpu_layers, one.devices, one.total_device), (0, (), 0))
        with self.assertRaises(realizar.FileError):
            realizar.plan("/none.gguf")

    def test_streams_arrays_and_counters(self):
        text = "größe €"
        with self.model.text_stream() as stream:
            pieces = [stream.push(token) for token in self.model.tokenize(text)]
            self.assertIn("", pieces)
            self.assertEqual("".join(pieces) + stream.flush(), text)
            # Behind a prompt the space of a word stays.
            prompt, more = self.model.tokenize("Once upon a"), self.model.tokenize("Once upon a time")[-1]
            self.assertEqual(stream.push(more) + stream.flush(), "time")
            stream.follow(prompt)
            self.assertEqual(stream.push(more) + stream.flush(), " time")
            with self.assertRaises(realizar.InvalidArgument):
                stream.follow([512])
        with realizar.Model(STORY, threads=1) as model, model.session() as session:
            session.prefill([1, 2])
            self.assertEqual(model.metrics()["prefill"].count, 1)
            work = model.work()
            self.assertTrue(work.dispatches == sum(work.latency_histogram) > 0 and work.latency_min_ns <= work.latency_max_ns)
            model.reset_metrics()
            self.assertEqual((model.metrics()["prefill"].count, model.work().dispatches), (0, 0))
        with tempfile.TemporaryDirectory() as folder, realizar.Model(chat_model(folder), text_only=True) as model:
            with self.assertRaises(realizar.InvalidArgument):
                model.meta_list("general.architecture")
            with self.assertRaises(realizar.NotFound):
                model.meta_list("none")
            key = next((key for key in model.meta_keys() if model.meta(key).startswith("[") and "token" not in key), None)
            if key is not None:
                self.assertTrue(model.meta_list(key))

    def test_threads_change(self):
        with realizar.Runtime(threads=1) as runtime, realizar.Model(STORY, runtime=runtime) as model, model.session() as session:
            before = "".join(session.generate(PROMPT, max_tokens=20))
            runtime.set_threads(3)
            session.truncate(0)
            self.assertEqual("".join(session.generate(PROMPT, max_tokens=20)), before)
            with self.assertRaises(realizar.InvalidArgument):
                runtime.set_threads(1 << 20)

    def test_a_session_is_true_and_names_are_listed(self):
        with self.model.session() as session:
            self.assertEqual((len(session), bool(session)), (0, True))
        public = {name for name, value in vars(realizar).items() if getattr(value, "__module__", "").startswith("realizar")}
        public = {name for name in public if not name.startswith("_")}
        kinds = {"Adapters", "Draft", "CacheType", "Capability", "GrammarKind", "Filter", "ElementType", "Message", "Messages", "Pooling", "Progress", "Reasoning", "Source", "Tokens"}
        self.assertEqual(set(realizar.__all__), public | kinds)
        star = types.ModuleType("star")
        exec("from realizar import *", vars(star))
        self.assertTrue(callable(star.Model) and not hasattr(star, "np") and not hasattr(star, "os"))

    @unittest.skipIf(sys.platform == "win32", "SIGINT is sent by a system call")
    def test_signals_end_long_calls(self):
        """Each call takes seconds; SIGINT ends it, and what it was made on goes on."""
        calls = {
            "load": "realizar.Model(LARGE, threads=2, quantize='q4_0')",
            "load of files": "realizar.Model.from_files(open(LARGE, 'rb'), threads=2, quantize='q4_0')",
            "load with a cancel": "realizar.Model(LARGE, threads=2, quantize='q4_0', cancel=cancel)",
            "prefill": "session.prefill([1, 403, 407] * 60000)",
            "prefill with a cancel": "session.prefill([1, 403, 407] * 60000, cancel=cancel)",
            "score": "session.score([1, 403, 407] * 60000)",
            "generate": "list(session.generate([1] + [403] * 100000))",
            "step": "session.job([1, 403], max_tokens=100000).step(60)",
            "reply": "list(realizar.Conversation(talker, capacity=200000).say('Once upon a time ' * 20000))",
            "replies": "realizar.step_conversations(talks)",
            "jobs": "realizar.step_jobs([session.job([1] + [403] * 100000), other.job([1] + [407] * 100000)])",
            "embeddings": "model.embed([[1, 403] * 250] * 20000, pooling='mean')",
            "recomputation": "session.decode(1)",
            "batch": "realizar.decode_batch([other, session], [1, 2])",
        }
        prepare = {"recomputation": 30000, "batch": 30000}
        program = """
import os, signal, sys, threading, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # what was started in the background ignores it
import realizar
STORY, LARGE, held = sys.argv[1], sys.argv[2], int(sys.argv[3])
model = realizar.Model(STORY, threads=2)
session, other, cancel = model.session(200000), model.session(200000), realizar.Cancel()
talker = realizar.Model(sys.argv[4], threads=2)
talks = [realizar.Conversation(talker, capacity=200000) for _ in range(2)]
for talk in talks:
    talk.add("Once upon a time " * 20000)
    talk.begin()
if held:
    session.prefill([1, 403, 407] * (held // 3))
    session.release()
sent = []
def send():
    time.sleep(0.3)
    sent.append(time.monotonic())
    os.kill(os.getpid(), signal.SIGINT)
sender = threading.Thread(target=send)
sender.start()
try:
    CALL
    print("it was not interrupted")
except KeyboardInterrupt:
    print(time.monotonic() - sent[0])
sender.join()
# All of it goes on.
with model.session() as fresh:
    fresh.prefill([1, 403], cancel=cancel)
for each in (session, other):
    try:
        each.truncate(0)
        each.prefill([1, 403])
        assert each.tokens == [1, 403]
    except realizar.Busy:
        pass  # a job that was not closed
assert model.embed([[1, 403]], pooling="mean").shape[0] == 1
"""
        with tempfile.TemporaryDirectory() as folder:
            large, chat = large_model(folder), chat_model(folder)
            for name, call in calls.items():
                with self.subTest(name):
                    said = []
                    for _ in range(5):  # where others keep the processors busy the best counts
                        arguments = [sys.executable, "-c", program.replace("CALL", call), STORY, large, str(prepare.get(name, 0)), chat]
                        child = subprocess.run(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                        self.assertEqual((child.returncode, child.stderr), (0, ""), child.stdout)
                        said.append(float(child.stdout))
                        if said[-1] <= 0.1:
                            break
                    self.assertLess(min(said), 1)  # of calls that take seconds; a tenth of one on an idle machine

    def test_the_end_of_the_interpreter_ends_calls_that_call_back(self):
        """A thread that is in such a call when the main thread ends must not be ended in the middle of it: the exit code counts."""
        program = """
import io, sys, threading
import realizar
STORY, CALL = sys.argv[1], sys.argv[2]
begun = threading.Event()
class File(io.RawIOBase):
    def __init__(self, data=b""):
        self.data, self.at = data, 0
    def readable(self): return True
    def writable(self): return True
    def read(self, n=-1):
        begun.set()
        piece = self.data[self.at : self.at + n]
        self.at += n
        return piece
    def write(self, data):
        begun.set()
        return len(data)
model = realizar.Model(STORY, threads=1)
session = model.session(8000)
session.prefill([1, 403] * 2000)
kept = io.BytesIO()
session.save(kept)
def work():
    while True:
        if CALL == "load":
            realizar.Model(STORY, threads=1, progress=lambda done, total: begun.set())
        elif CALL == "load without progress":
            begun.set()
            realizar.Model(STORY, threads=1)
        elif CALL == "save":
            session.save(File())
        else:
            model.restore(File(kept.getvalue()))
for _ in range(2 if CALL.startswith("load") else 1):
    threading.Thread(target=work, daemon=True).start()
begun.wait()
sys.exit(7)
"""
        for call in ("load", "load without progress", "save", "restore"):
            for _ in range(3):
                child = subprocess.run([sys.executable, "-c", program, STORY, call], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                self.assertEqual((child.returncode, child.stdout), (7, ""), (call, child.stderr))

    def test_whole_numbers_that_do_not_fit_are_refused(self):
        """Each whole number that a function takes, so that a new one cannot be forgotten."""
        tools = {"messages": [{"role": "user", "content": "x"}]}
        with tempfile.TemporaryDirectory() as folder, realizar.Model(chat_model(folder), threads=1) as model, model.session(64) as session:
            session.prefill([1, 403])
            talk = realizar.Conversation(model, **tools)
            stream, prompt, store = model.text_stream(), realizar.Prompt(model, [[1, 403]]), realizar.Store(model)
            parser = model.chat_parser("x")
            rows = np.zeros((1, model.info.hidden_dim), np.float32)
            load = lambda **options: realizar.Model(STORY, **options)
            calls = {
                realizar.Runtime: lambda **n: realizar.Runtime(**n),
                realizar.Runtime.set_threads: lambda **n: realizar.Runtime(1).set_threads(**n),
                realizar.Runtime.set_memory_limit: lambda **n: realizar.Runtime(1).set_memory_limit(**n),
                realizar.Sampling: lambda **n: realizar.Sampler(realizar.Sampling(**n)),
                realizar._loading.Loading: load,
                realizar.plan: lambda **n: realizar.plan(STORY, **n),
                realizar.Model.session: model.session,
                realizar.Model.token_bytes: model.token_bytes,
                realizar.Model.is_end: model.is_end,
                realizar._media.encoder_params: lambda **n: realizar.Encoder.plan(model, "/none", **n),
                realizar.Media.from_rows: lambda **n: realizar.Media.from_rows(model, rows, **n),
                realizar.TextStream.push: stream.push,
                realizar.ChatParser.push: parser.push,
                realizar.Session.truncate: session.truncate,
                realizar.Session.shift: lambda **n: session.shift(**{"keep": 0, "drop": 0, **n}),
                realizar.Session.prefill: lambda **n: session.prefill(prompt, **n),
                realizar.Session.decode: session.decode,
                realizar.Session.logprobs: session.logprobs,
                realizar.Session.job: lambda **n: session.job([1], **n),
                realizar.Store: lambda **n: realizar.Store(model, **n),
                realizar.Store.take: lambda **n: store.take([1], **n),
                realizar.Conversation: lambda **n: realizar.Conversation(model, **n),
                realizar.Conversation.begin: talk.begin,
                realizar.Conversation.begin_read: talk.begin_read,
                realizar.Conversation.messages: talk.messages,
                realizar.Conversation.rewind: talk.rewind,
                realizar.Conversation.set_capacity: talk.set_capacity,
            }
            known = {realizar.Encoder, realizar.Encoder.encode_sound, realizar.Encoder.measure, realizar.Conversation.load, realizar.Job}
            functions = [value for name, value in vars(realizar).items() if callable(value) and name in realizar.__all__]
            functions += [value for kind in functions if isinstance(kind, type) for value in vars(kind).values() if callable(value)]
            found = 0
            for function in [*calls, *functions]:
                if isinstance(function, type) and issubclass(function, (tuple, Exception)):
                    continue
                try:
                    parameters = inspect.signature(function).parameters
                except (TypeError, ValueError):
                    continue
                names = [name for name, p in parameters.items() if p.annotation in (int, "int", Optional[int])]
                call = calls.get(function)
                if call is None:
                    is_public = not getattr(function, "__name__", "_").startswith("_")
                    self.assertTrue(not names or not is_public or function in known or self._has(calls, function), function)
                    continue
                for name in names:
                    most = 64 if name in ("seed", "memory_limit", "disk_limit", "max_entries") else 32
                    form = f"^{name} is .*; it must be a whole number from -?[0-9]+ to [0-9]+$"
                    for wrong in (1 << most, 1 << 80, 0.5, "1", True, float("nan"), *(() if name == "priority" else (-1,))):
                        with self.subTest(function=function, name=name, wrong=wrong), self.assertRaisesRegex(realizar.InvalidArgument, form):
                            call(**{name: wrong})
                        found += 1
            self.assertGreater(found, 200)
            for wrong in ([-1], [1 << 32], [0.5], 5, [[1, 2]], b"ab"):
                for call in (session.prefill, model.detokenize, session.score, lambda ids: model.embed([ids])):
                    with self.assertRaises(realizar.InvalidArgument, msg=wrong):
                        call(wrong)
            for options in ({"logit_bias": {-1: 1.0}}, {"banned_sequences": [[-1]]}, {"order": "top_k"}, {"order": ["top_x"]}, {"temperature": "hot"}):
                with self.assertRaises(realizar.InvalidArgument, msg=options):
                    realizar.Sampler(realizar.Sampling(**options))

    @staticmethod
    def _has(calls, function):
        """Its class is called in its place."""
        return any(isinstance(kind, type) and function is vars(kind).get("__init__") for kind in calls)

    def test_every_option_of_sampling_counts_alone(self):
        values = {"order": ("top_p", "temperature"), "logit_bias": {3: 1.0}, "dry_breakers": [[3]], "banned_sequences": [[3, 4]]}
        for field in dataclasses.fields(realizar.Sampling):
            value = values.get(field.name, True if field.type == "bool" or field.type is bool else 1)
            changed = realizar.Sampling(**{field.name: value})
            self.assertNotEqual(changed, realizar.Sampling(), field.name)
            realizar.Sampler(changed).close()
        with self.model.session() as session:
            tokens = self.model.tokenize(PROMPT)
            with session.job(tokens, max_tokens=1) as job:
                job.step()
                usual = job.tokens()
            with session.job(tokens, realizar.Sampling(banned_sequences=[usual]), max_tokens=1) as job:
                job.step()
                self.assertNotEqual(job.tokens(), usual)
            with session.job(tokens, realizar.Sampling(logit_bias={usual[0]: -math.inf}), max_tokens=1) as job:
                job.step()
                self.assertNotEqual(job.tokens(), usual)

    def test_switches_and_numbers_are_what_they_must_be(self):
        loads = {"mmap": "no", "text_only": 1, "deterministic": None, "quantize": "q9", "gpu_layers": -2, "device": 1.5}
        for name, value in loads.items():
            with self.assertRaisesRegex(realizar.InvalidArgument, f"^{name} is "):
                realizar.Model(STORY, **{name: value})
        for name, value in {"temperature": math.nan, "top_p": "1", "temperature_first": "yes", "top_k": 1.0, "seed": -1}.items():
            with self.assertRaisesRegex(realizar.InvalidArgument, f"^{name} is "):
                realizar.Sampler(realizar.Sampling(**{name: value}))
        with self.model.session() as session:
            for name, value in {"max_tokens": -1, "draft_max": 0.5, "logprobs": -1, "priority": 1 << 31}.items():
                with self.assertRaisesRegex(realizar.InvalidArgument, f"^{name} is "):
                    session.job(PROMPT, **{name: value})
        calls = {
            "special": lambda: self.model.tokenize("a", special="no"), "parse": lambda: self.model.tokenize("a", parse=1),
            "normalize": lambda: self.model.embed([[1]], normalize=0), "whitespace": lambda: self.model.grammar("json", whitespace="no"),
            "bare": lambda: realizar.Prompt(self.model, [[1]], bare=None), "runtime": lambda: realizar.Model(STORY, runtime=3),
        }  # fmt: skip
        for name, call in calls.items():
            with self.assertRaisesRegex(realizar.InvalidArgument, f"^{name} is "):
                call()
        with self.assertRaisesRegex(TypeError, "the option sesions is unknown; the nearest is sessions"):
            realizar.plan(STORY, sesions=2)
        with self.assertRaisesRegex(TypeError, "the option overflw is unknown; the nearest is overflow"):
            realizar.Conversation(self.model, overflw="forget")
        with self.assertRaisesRegex(TypeError, "the option thread is unknown; the nearest is threads"):
            realizar.Model(STORY, thread=2)
        with self.assertRaisesRegex(TypeError, "the option n_devices is unknown"):
            realizar.Model(STORY, n_devices=2)

    def test_texts_are_no_lists_and_names_are_known(self):
        with tempfile.TemporaryDirectory() as folder, realizar.Model(chat_model(folder), threads=1) as model:
            session, talk = model.session(64), realizar.Conversation(model)
            wrong = {
                "stops": [lambda: talk.begin(stops="five"), lambda: session.job([1], stops="five")],
                "texts": [lambda: model.embed("hello"), lambda: model.embed(b"hello")],
                "parts": [lambda: realizar.Prompt(model, "hello")],
                "messages": [lambda: realizar.Conversation(model, messages="hello")],
                "order": [lambda: realizar.Sampler(realizar.Sampling(order="top_k"))],
            }
            for name, calls in wrong.items():
                for call in calls:
                    with self.assertRaisesRegex(realizar.InvalidArgument, f"^{name} is (a str|bytes); it must be a list( of .*)?$"):
                        call()
            for grammar in (("regex", ["yes", "no"]), ("gbnf", {}), "json", ("json_schema", {}, True), ("none", ""), ("best_effort", {}), 5):
                with self.assertRaisesRegex(realizar.InvalidArgument, "it must be", msg=grammar):
                    talk.begin(grammar=grammar)
            for name, call in {
                "k_type": lambda: model.session(k_type="q8"), "pooling": lambda: model.embed(["a"], pooling="meen"), "kind": lambda: model.work("tpu"),
                r"order\[0\]": lambda: realizar.Sampler(realizar.Sampling(order=["top"])), "reasoning": lambda: talk.begin(reasoning=None),
            }.items():  # fmt: skip
                with self.assertRaisesRegex(realizar.InvalidArgument, f"^{name} is .*; it must be one of "):
                    call()
            for name, nearest, call in (
                ("sytem", None, lambda: realizar.Conversation(model, sytem="x")), ("tols", "tools", lambda: realizar.Conversation(model, tols=[])),
                ("variable", "variables", lambda: model.render("x", variable={})), ("tol_choice", "tool_choice", lambda: model.tokenize_chat("x", tol_choice="auto")),
                ("thread", None, lambda: realizar.Model(STORY, thread=2)), ("temp", None, lambda: realizar.Sampling(temp=1)),
                ("max_token", None, lambda: list(talk.say("x", max_token=2))),
            ):  # fmt: skip
                with self.assertRaisesRegex(TypeError, f"{name} is unknown; the nearest is {nearest}" if nearest else name):
                    call()

    def test_what_is_of_a_wrong_type_is_named(self):
        nothing, nan = object(), float("nan")
        with tempfile.TemporaryDirectory() as folder, realizar.Model(chat_model(folder), threads=1) as model:
            session, talk = model.session(64), realizar.Conversation(model)
            texts = {
                "text": [lambda: model.tokenize(b"a"), lambda: model.tokenize(None), lambda: model.tokenize(5)],
                "key": [lambda: model.meta(b"a")],
                "role": [lambda: talk.add("x", role=None)],
                r"stops\[0\]": [lambda: talk.begin(stops=[b"a"]), lambda: session.job([1], stops=[1])],
            }
            for name, calls in texts.items():
                for call in calls:
                    with self.subTest(name), self.assertRaisesRegex(realizar.InvalidArgument, f"^{name} is .*; it must be a str$"):
                        call()
            numbers = {
                "temperature": [lambda: realizar.Sampler(realizar.Sampling(temperature=True)), lambda: realizar.Sampler(realizar.Sampling(temperature="1"))],
                "a bias of logit_bias": [lambda: realizar.Sampler(realizar.Sampling(logit_bias={1: "x"}))],
                r"shares\[0\]": [lambda: realizar.Model(STORY, devices=[1], shares=["x"])],
                r"the scale of adapters\[0\]": [lambda: session.set_adapters({model.adapter(ADAPTER): "1"})],
                "seconds": [lambda: talk.step(nan), lambda: talk.step("1"), lambda: talk.step(True), lambda: realizar.Cancel().deadline("1")],
            }
            for name, calls in numbers.items():
                for call in calls:
                    with self.subTest(name), self.assertRaisesRegex(realizar.InvalidArgument, f"^{name} is .*; it must be a number$"):
                        call()
            for call in (
                lambda: talk.add(None), lambda: talk.begin(stops=None), lambda: model.render(None), lambda: realizar.Conversation(model, messages=5),
                lambda: realizar.Sampler(realizar.Sampling(logit_bias=[(1, 2)])), lambda: talk.begin({"temperature": 1}), lambda: talk.begin(cancel=5),
                lambda: session.job([1], {"temperature": 1}), lambda: realizar.Model(STORY, cancel=model), lambda: realizar.Model(STORY, runtime=5),
                lambda: realizar.Store(5), lambda: realizar.Conversation(model, store=nothing), lambda: realizar.Conversation(None),
                lambda: session.set_adapters([5]), lambda: realizar.step_jobs([5]), lambda: realizar.step_conversations(talk), lambda: realizar.Runtime(log=5),
                lambda: realizar.Runtime(cpus="0"), lambda: realizar.decode_batch([5], [1]), lambda: realizar.Conversation(model, store=model),
                lambda: session.logits([0.0]), lambda: realizar.Media.from_rows(model, np.ones((1, 64)) * 1j), lambda: realizar.Media.from_rows(model, [["a"]]),
            ):  # fmt: skip
                with self.assertRaisesRegex(realizar.InvalidArgument, " (must be|are no numbers|is no contiguous array|is a handle of another kind|is NULL)", msg=inspect.getsource(call)):
                    call()
            # What can be read once is read once.
            vectors = model.embed((text for text in ["a", "b"]), pooling="mean")
            self.assertTrue(np.array_equal(vectors, model.embed(["a", "b"], pooling="mean")))
            self.assertEqual(model.embed([], pooling="mean").shape, (0, 64))
            self.assertFalse(realizar.step_jobs(job for job in ()))
            sampling = realizar.Sampling(banned_sequences=((token,) for token in range(3, 5)), order=(name for name in ["top_k", "temperature"]))
            realizar.Sampler(sampling).close()

    def test_files_that_move_a_part_at_a_time(self):
        """What a raw file takes and gives, often less than it is asked for, is what is kept."""

        class Raw(io.RawIOBase):
            def __init__(self, data=b""):
                self.data, self.at = data, 0

            def write(self, data):
                self.data += bytes(data[:1000])
                return len(data[:1000])

            def read(self, n=-1):
                piece = self.data[self.at : self.at + min(n, 700)]
                self.at += len(piece)
                return piece

        with self.model.session(64) as session:
            session.prefill([1, 403, 407])
            whole, raw = io.BytesIO(), Raw()
            session.save(whole)
            session.save(raw)
            self.assertEqual(raw.data, whole.getvalue())
            with self.model.restore(Raw(raw.data)) as again:
                self.assertEqual(again.tokens, [1, 403, 407])
            with self.assertRaisesRegex(OSError, "no more bytes"):
                self.model.restore(Raw(raw.data[:-1]))
            blocked = Raw()
            blocked.write = lambda data: None
            with self.assertRaises(BlockingIOError):
                session.save(blocked)
            blocked.read = lambda n: None
            with self.assertRaises(BlockingIOError):
                self.model.restore(blocked)
            # A file that does not keep to its protocol is refused, and writes past no end.
            for count in 0, -1, 1 << 40:
                blocked.write = lambda data, count=count: count
                with self.assertRaisesRegex(OSError, f"took {count} bytes"):
                    session.save(blocked)
            blocked.read = lambda n: raw.data + bytes(1 << 24)
            with self.assertRaisesRegex(OSError, "must give at most"):
                self.model.restore(blocked)
            blocked.read = lambda n: "text" * n
            with self.assertRaises(TypeError):
                self.model.restore(blocked)
            blocked.read = lambda n: memoryview(raw.data)[:n]
            with self.assertRaises(realizar.FormatError):  # the same bytes once more in the place of those that follow
                self.model.restore(blocked)

    def test_progress_and_its_exceptions(self):
        seen = []
        realizar.Model(STORY, threads=1, progress=lambda done, total: seen.append((done, total))).close()
        self.assertEqual(seen[-1][0], seen[-1][1])
        with self.assertRaises(realizar.Cancelled):
            realizar.Model(STORY, progress=lambda done, total: False)
        with self.assertRaises(ZeroDivisionError):
            realizar.Model(STORY, progress=lambda done, total: 1 // 0)

    def test_errors(self):
        with self.assertRaises(OSError) as caught:
            realizar.Model("/none.gguf")
        self.assertIsInstance(caught.exception, realizar.FileError)
        self.assertIsInstance(caught.exception, FileNotFoundError)
        self.assertEqual((caught.exception.name, caught.exception.errno), ("RZ_ERR_IO", 2))
        with self.assertRaises(realizar.FormatError):
            realizar.Model(__file__)
        with self.assertRaises(realizar.Limit), realizar.Runtime(memory_limit=1000) as runtime:
            realizar.Model(STORY, runtime=runtime)
        with self.assertRaises(realizar.Unsupported):
            self.model.render("no template")
        with self.assertRaises(ValueError):
            self.model.detokenize([-1])
        with self.assertRaises(realizar.InvalidArgument):
            realizar.Model("nul\0.gguf")

    def test_the_log_is_heard(self):
        lines = []
        with realizar.Runtime(threads=1, log=lambda level, text: lines.append((level, text))) as runtime:
            realizar.Model(STORY, runtime=runtime).close()
        self.assertTrue(lines and all(level in (1, 2, 3) and text for level, text in lines), lines)
        # The log outlives the objects that it was given with, as what the model has made does.
        log = weakref.ref(runtime._log)
        del runtime
        gc.collect()
        self.assertIsNotNone(log())

    def test_closing(self):
        model = realizar.Model(STORY, threads=1)
        session = model.session()
        model.close()
        model.close()
        with self.assertRaises(realizar.Closed):
            model.tokenize("x")
        with self.assertRaises(realizar.Closed):
            session.prefill([1])
        session.close()
        with self.assertRaises(realizar.Closed):
            len(session)
        forgotten = realizar.Model(STORY, threads=1)
        state = forgotten._state
        gone = weakref.ref(forgotten)
        del forgotten
        gc.collect()
        self.assertIsNone(gone())
        self.assertIsNone(state.pointer)

    def test_other_threads_run_meanwhile_and_a_second_call_is_refused(self):
        ids = (self.model.tokenize(PROMPT) * 200)[:500]
        with self.model.session() as session:
            outcomes = []

            def contend():
                try:
                    session.prefill(ids)
                    outcomes.append("done")
                except (realizar.Busy, realizar.ContextFull):
                    outcomes.append("refused")

            threads = [threading.Thread(target=contend) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertIn("done", outcomes)
            self.assertEqual(len(outcomes), 4)
        self.assertGreater(self.model.metrics()["prefill"].count, 0)


class Conversations(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.model = realizar.Model(chat_model(cls.folder.name), threads=2)
        cls.reasons = realizar.Model(chat_model(cls.folder.name, REASONS), threads=2)

    @classmethod
    def tearDownClass(cls):
        cls.model.close()
        cls.reasons.close()
        cls.folder.cleanup()

    def talk(self, *arguments, model=None, capacity=256, **options):
        talk = realizar.Conversation(model or self.model, *arguments, capacity=capacity, **options)
        self.addCleanup(talk.close)
        return talk

    def test_replies_come_in_pieces_and_the_next_turn_costs_its_new_end(self):
        talk = self.talk()
        pieces = list(talk.say(PROMPT, max_tokens=25))
        self.assertTrue("".join(pieces).startswith(EXPECTED[:60]) and len(pieces) > 10, pieces)
        first = talk.info
        self.assertEqual((first.state, first.end, first.n_tokens, first.n_messages, first.reused_tokens), ("ended", "length", 25, 2, 0))
        self.assertEqual(first.prompt_tokens, len(self.model.tokenize_chat(PROMPT)))
        parts = list(self.talk(messages=[{"role": "user", "content": PROMPT}]).reply(max_tokens=25))
        self.assertEqual("".join(part.text for part in parts), "".join(pieces))
        self.assertEqual({part.kind for part in parts[:-1]}, {"content"})
        self.assertEqual(parts[-1], ("end", 0, "", False))
        again = "".join(talk.say("And then?", max_tokens=5))
        info = talk.info
        self.assertTrue(first.prompt_tokens <= info.reused_tokens < info.prompt_tokens)
        self.assertEqual(info.prompt_tokens, len(self.model.tokenize_chat(talk.messages()[:3])))
        self.assertEqual(talk.messages(2), [{"role": "user", "content": "And then?"}, {"role": "assistant", "content": again, "finish_reason": "length"}])
        self.assertEqual("".join(self.talk().say(PROMPT, stops=[" She", "never"])), EXPECTED[: EXPECTED.index(" She")])

    def test_messages(self):
        talk = self.talk("Be brief.", messages=[{"role": "user", "content": "größe"}], variables={"a": 1}, tool_choice="none")
        talk.add("A text")
        talk.add("Of a role", role="system")
        talk.add({"role": "user", "content": "0", "name": "x"})
        with self.assertRaises(realizar.InvalidArgument):
            talk.add({"role": "user", "content": None})
        talk.add([{"role": "assistant", "content": "1"}, {"role": "user", "content": "2"}])
        self.assertEqual([m["content"] for m in talk.messages()], ["Be brief.", "größe", "A text", "Of a role", "0", "1", "2"])
        self.assertEqual((talk.messages(4)[0]["name"], talk.messages(7)), ("x", []))
        talk.rewind(2)
        self.assertEqual(talk.info.n_messages, 2)
        for wrong in ([1], {"content": "x"}, [{"role": "user", "content": 1}]):
            with self.assertRaises(realizar.InvalidArgument):
                talk.add(wrong)
        with self.assertRaisesRegex(realizar.InvalidArgument, "no number of a medium"):
            talk.add({"role": "user", "content": [{"type": "image_url"}]})
        for wrong in (lambda: talk.rewind(3), lambda: talk.add("x", role="a\0")):
            with self.assertRaises(realizar.InvalidArgument):
                wrong()
        self.assertEqual(talk.info.n_messages, 2)

    def test_sampling_is_advised_or_given(self):
        greedy = "".join(self.talk().say(PROMPT, max_tokens=20))
        self.assertEqual("".join(self.talk().say(PROMPT, realizar.Sampling(), max_tokens=20)), greedy)
        warm = realizar.Sampling(temperature=1.5, seed=7)
        one, two = ("".join(self.talk().say(PROMPT, warm, max_tokens=20)) for _ in range(2))
        self.assertEqual(one, two)
        self.assertNotEqual(one, greedy)
        banned = realizar.Sampling(logit_bias={self.model.tokenize(",", special=False)[-1]: float("-inf")})
        self.assertNotIn(",", "".join(self.talk().say(PROMPT, banned, max_tokens=5)))

    def test_tools(self):
        talk = self.talk(tools=[GO], tool_choice="required", parallel_tool_calls=False)
        talk.add(PROMPT)
        for turn in range(2):
            parts = list(talk.reply(max_tokens=200))
            self.assertEqual([part.text for part in parts if part.kind == "tool_name"], ["go"])
            arguments = "".join(part.text for part in parts if part.kind == "tool_arguments")
            self.assertIn(json.loads(arguments), ({"by": "car"}, {"by": "bus"}))
            message = talk.messages()[-1]
            self.assertEqual((message["finish_reason"], message["tool_calls"][0]["function"]), ("tool_calls", {"name": "go", "arguments": arguments}))
            talk.add({"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "done"})

    def test_tools_of_one_reply_and_reading_ahead(self):
        tools = {"tools": [GO], "tool_choice": "required", "parallel_tool_calls": False}
        of_life, talk = self.talk(**tools, variables={"a": 1}), self.talk()
        of_life.add(PROMPT)
        talk.add(PROMPT)
        list(of_life.reply(max_tokens=200))
        talk.read(**tools)
        self.assertEqual((talk.info.end, talk.info.n_tokens, talk.info.n_messages), ("length", 0, 1))
        list(talk.reply(max_tokens=200, **tools, variables={"a": 1}))
        self.assertEqual((talk.messages(), talk.info.reused_tokens), (of_life.messages(), talk.info.prompt_tokens - 1))
        self.assertEqual(talk.messages()[1]["finish_reason"], "tool_calls")
        talk.add("And now?")
        list(talk.reply(max_tokens=3))
        self.assertNotIn("tool_calls", talk.messages()[3])
        with self.assertRaisesRegex(realizar.InvalidArgument, "there are no tools"):
            talk.reply(tool_choice="required")

    def test_conversations_are_changed_between_replies(self):
        plain, talk = self.talk(), self.talk()
        for change in (
            talk.release, lambda: talk.set_capacity(300), lambda: talk.set_overflow("forget"), lambda: talk.set_adapters([]), lambda: talk.set_store(None)
        ):  # fmt: skip
            for each in (plain, talk):
                "".join(each.say("Go on", max_tokens=5))
            self.assertEqual(talk.messages(), plain.messages())
            change()
        self.assertEqual(talk.info.cache_capacity, 300)
        talk.begin_read()
        with self.assertRaises(realizar.Busy):
            talk.release()
        talk.stop()
        talk.release()
        self.assertEqual(talk.info.cache_len, 0)
        with self.model.adapter(ADAPTER) as adapter:
            adapted = self.talk(adapters=[adapter])
            talk.rewind(0)
            talk.set_adapters([adapter])
        self.assertEqual("".join(talk.say(PROMPT, max_tokens=9)), "".join(adapted.say(PROMPT, max_tokens=9)))
        with realizar.Cancel() as cancel:
            talk.set_cancel(cancel)
            talk.begin(max_tokens=9)
            cancel.fire()
            with self.assertRaises(realizar.Cancelled):
                talk.step()
            talk.stop()
            talk.set_cancel(None)
            list(talk.reply(max_tokens=3))
        with self.assertRaises(realizar.InvalidArgument):
            talk.set_overflow("drop")

    def test_grammars_and_probabilities(self):
        talk = self.talk(model=self.reasons)
        text = "".join(talk.say(PROMPT, grammar=("json_schema", DIGIT), reasoning="on", reasoning_tokens=6, logprobs=2, max_tokens=99))
        self.assertIn(json.loads(text)["n"], range(10))
        rows = talk.logprobs()
        self.assertEqual(self.model.detokenize([row.token for row in rows]).lstrip(), text)
        self.assertTrue(all(len(row.likeliest) == 2 and row.logprob <= row.likeliest[0][1] for row in rows))
        self.assertEqual(talk.logprobs(), [])
        self.assertIn("".join(talk.say("So?", grammar=("choices", ["yes", "no"]), reasoning="off")), ("yes", "no"))
        self.assertEqual(talk.info.end, "grammar")
        blanks = realizar.Sampling(logit_bias={token: 100.0 for token in range(512) if self.model.token_bytes(token) == b" "})
        spaced = "".join(talk.say("And?", blanks, grammar=("json_schema", json.dumps(DIGIT)), whitespace=True, reasoning="off"))
        self.assertTrue(" " in spaced and json.loads(spaced)["n"] in range(10), spaced)
        with self.reasons.grammar("choices", ["yes", "no"]) as grammar:
            for other in (self.talk(model=self.reasons) for _ in range(2)):
                self.assertIn("".join(other.say("So?", grammar=grammar, reasoning="off")), ("yes", "no"))

    def test_a_chat_template_of_the_caller(self):
        with realizar.Model(STORY, chat_template=REASONS) as model:
            self.assertTrue(model.info.has_chat_template)
            talks = self.talk(model=model), self.talk(model=self.reasons)
            self.assertEqual(*("".join(talk.say(PROMPT, max_tokens=9)) for talk in talks))
        with self.assertRaisesRegex(realizar.InvalidArgument, "chat_template:1"):
            realizar.Model(STORY, chat_template="{% if %}")

    def test_reasoning_is_bounded_or_off(self):
        talk = self.talk(model=self.reasons)
        talk.add(PROMPT)
        parts = list(talk.reply(reasoning="on", reasoning_tokens=5, max_tokens=30))
        info, message = talk.info, talk.messages(1)[0]
        self.assertEqual((info.reasoning_tokens, info.n_tokens), (5, 30))
        for kind, member in ("reasoning", "reasoning_content"), ("content", "content"):
            text = "".join(part.text for part in parts if part.kind == kind)
            self.assertTrue(text)
            self.assertEqual(message[member], text)
        talk.rewind(1)
        self.assertNotIn("reasoning", [part.kind for part in talk.reply(reasoning="off", max_tokens=9)])
        with self.assertRaises(realizar.Unsupported):
            self.talk().say(PROMPT, reasoning="on")

    def test_a_reply_that_ends_early_is_kept_or_leaves_no_trace(self):
        whole = "".join(self.talk().say(PROMPT, max_tokens=24))
        talk = self.talk()
        for piece in talk.say(PROMPT):
            break
        message = {"role": "assistant", "content": piece, "finish_reason": "cancelled"}
        self.assertEqual(talk.messages(1), [message])
        talk.rewind(1)
        parts = talk.reply()
        next(parts)
        parts.close()
        self.assertEqual((talk.info.n_messages, talk.info.state), (1, None))
        # A cancel stops steps; the reply goes on.
        cancel = realizar.Cancel()
        talk.begin(cancel=cancel, max_tokens=24)
        self.assertTrue(talk.step())
        cancel.fire()
        with self.assertRaises(realizar.Cancelled):
            talk.step()
        self.assertEqual(talk.info.stopped, "cancelled")
        cancel.reset()
        while talk.step():
            pass
        self.assertEqual("".join(part.text for part in talk.parts()), whole)
        talk.rewind(0)
        said = ""
        with self.assertRaises(realizar.Cancelled):
            for piece in talk.say(PROMPT, cancel=cancel):
                said += piece
                cancel.fire()
        self.assertEqual(talk.messages(1), [{**message, "content": said}])
        # A stop keeps what was said too, and the reply goes on.
        talk.rewind(1)
        talk.begin(max_tokens=24)
        self.assertTrue(talk.step())
        talk.stop()
        said = "".join(part.text for part in talk.parts())
        self.assertEqual((talk.info.state, talk.info.end, talk.error), ("ended", "cancelled", None))
        self.assertEqual(talk.messages(1), [{**message, "content": said}])
        self.assertTrue(said and whole.startswith(said))
        said += "".join(part.text for part in talk.reply(max_tokens=23, resume=True))
        self.assertEqual(said, whole)
        # That of the conversation stops every call.
        late = realizar.Cancel()
        stopped = self.talk(cancel=late)
        late.deadline(0)
        with self.assertRaises(realizar.DeadlineExceeded):
            list(stopped.say(PROMPT))
        self.assertEqual(stopped.info.stopped, None)

    def test_a_reply_that_was_cut_goes_on(self):
        whole, cut = self.talk(), self.talk()
        text = "".join(whole.say(PROMPT, max_tokens=24))
        begun = "".join(cut.say(PROMPT, max_tokens=9))
        self.assertEqual(begun + "".join(part.text for part in cut.reply(max_tokens=15, resume=True)), text)
        self.assertEqual(cut.messages(), whole.messages())
        whole.add("More")
        with self.assertRaises(realizar.InvalidArgument):
            whole.begin(resume=True)
        # One that was given up goes on too.
        cut.rewind(1)
        cut.begin(keep=True)
        cut.step()
        list(cut.reply(max_tokens=23, resume=True))
        self.assertEqual(cut.messages(), whole.messages()[:2])

    def test_drafts_and_adapters(self):
        text = "".join(self.talk().say(PROMPT, max_tokens=80))
        for draft in ("lookup", self.model):
            talk = self.talk()
            self.assertEqual("".join(talk.say(PROMPT, max_tokens=80, draft=draft, draft_max=4)), text)
        self.assertTrue(0 < talk.info.accepted <= talk.info.drafted)
        with self.model.adapter(ADAPTER) as adapter:
            adapted, half = self.talk(adapters=[adapter]), self.talk(adapters={adapter: 0.5})
        self.assertTrue("".join(adapted.say(PROMPT, max_tokens=40)).startswith(ADAPTED))
        self.assertNotEqual("".join(half.say(PROMPT, max_tokens=80)), text)

    def test_forks_and_saved_conversations_go_on_alike(self):
        talk, file = self.talk("S", variables={"a": 1}), io.BytesIO()
        "".join(talk.say(PROMPT, max_tokens=9))
        talk.save(file)
        file.seek(0)
        with talk.fork() as fork, realizar.Conversation.load(self.model, file) as loaded:
            for each in (talk, fork, loaded):
                "".join(each.say("Go on", max_tokens=9))
                self.assertGreater(each.info.reused_tokens, 9)
                self.assertEqual(each.messages(), talk.messages())
        talk.begin()
        with talk.fork() as fork:
            self.assertEqual(fork.messages(), talk.messages())
        with self.assertRaises(realizar.Busy):
            talk.save(io.BytesIO())
        with self.assertRaises(OSError):
            realizar.Conversation.load(self.model, io.BytesIO(file.getvalue()[:-1]))
        with self.assertRaises(realizar.FormatError):
            realizar.Conversation.load(self.model, io.BytesIO(b"x" + file.getvalue()[1:]))
        talk.stop()
        with open(os.devnull, "rb") as unwritable, self.assertRaises(io.UnsupportedOperation):
            talk.save(unwritable)

    def test_a_store_shares_prefixes(self):
        said = "".join(self.talk("Be brief. " * 9).say(PROMPT, max_tokens=20))
        with tempfile.TemporaryDirectory() as folder:
            store = realizar.Store(self.model, folder, min_tokens=30)
            for known in (False, True):
                talk = self.talk("Be brief. " * 9, store=store)
                self.assertEqual("".join(talk.say(PROMPT, max_tokens=20)), said)
                self.assertEqual(talk.info.reused_tokens > 30, known)
                talk.close()
            info = store.info
            self.assertEqual((info.n_entries, info.n_files, info.hits, info.misses), (1, 0, 1, 1))
            with self.assertRaises(realizar.Mismatch):
                self.talk(model=self.reasons, store=store)
            # What a closed store knew is in the folder.
            store.close()
            with self.assertRaises(realizar.Closed):
                self.talk(store=store)
            with realizar.Store(self.model, folder, min_tokens=30) as store:
                self.assertEqual((store.info.n_entries, store.info.n_files), (0, 1))
                store.clear()
                self.assertEqual((store.info.n_files, os.listdir(folder)), (0, []))
        with self.assertRaises(realizar.InvalidArgument):
            realizar.Store(self.model, "a\0b")

    def test_sessions_share_prefixes(self):
        ids, tokens = self.model.tokenize(PROMPT), []
        with realizar.Store(self.model, min_tokens=3) as store:
            for known in (0, 4):
                with store.take(ids, 64) as session:
                    self.assertEqual((len(session), session.capacity), (known, 64))
                    session.prefill(ids[known:])
                    tokens.append(session.sample())
                    store.put(session)
            self.assertEqual(tokens[0], tokens[1])
            store.clear()
            self.assertEqual(len(store.take(ids, 64)), 0)
            with self.reasons.session(64) as session, self.assertRaises(realizar.Mismatch):
                store.put(session)

    def test_old_turns_are_forgotten_or_refused(self):
        short, long = self.talk(capacity=64), self.talk("S", capacity=64, overflow="forget")
        for i in range(8):
            "".join(long.say(f"Question {i} of some length", max_tokens=5))
        self.assertGreater(long.info.first_in_prompt, 0)
        self.assertEqual(long.info.n_messages, 17)
        "".join(short.say("Hi", max_tokens=5))
        before = short.messages()
        with self.assertRaises(realizar.ContextFull) as raised:
            short.say("long " * 99)
        self.assertGreater(raised.exception.needed, 99)
        self.assertEqual(short.messages(), before)

    def test_many_reply_at_once_and_one_fails_alone(self):
        nothing = realizar.Sampling(logit_bias={token: float("-inf") for token in range(512)})
        talks = [self.talk() for _ in range(4)]
        for i, talk in enumerate(talks):
            talk.add(PROMPT[: 4 + i])
            talk.begin(nothing if i == 0 else None, max_tokens=5 + i)
        while realizar.step_conversations(talks, 0.001):
            pass
        failed = talks[0]
        self.assertEqual((failed.info.end, [talk.error for talk in talks[1:]]), ("failed", [None] * 3))
        with self.assertRaises(type(failed.error)) as caught:
            failed.step()
        self.assertEqual(str(caught.exception), str(failed.error))
        for i, talk in enumerate(talks[1:], 1):
            alone = self.talk()
            "".join(alone.say(PROMPT[: 4 + i], max_tokens=5 + i))
            self.assertEqual(talk.messages(), alone.messages())
        with self.assertRaises(realizar.InvalidArgument):
            realizar.step_conversations([talks[1], talks[1]])
        self.assertFalse(realizar.step_conversations([]))
        # What fails while it is said leaves no trace.
        failed.rewind(0)
        with self.assertRaises(realizar.Error):
            list(failed.say(PROMPT, nothing))
        self.assertEqual(failed.messages(), [])

    def test_what_is_wrong_is_named(self):
        for wrong in ({"overflow": "none"}, {"tool_choice": 1}, {"messages": [1]}, {"messages": "text"}):
            with self.assertRaises(realizar.InvalidArgument):
                self.talk(**wrong)
        talk = self.talk(messages=[{"role": "user", "content": PROMPT}])
        for wrong in ({"reasoning": "some"}, {"grammar": ("regex", "(")}, {"grammar": ("none", "")}, {"draft": "guess"}, {"logprobs": 33},
                      {"sampling": realizar.Sampling(top_p=2)}, {"stops": ["a\0"]}):  # fmt: skip
            with self.assertRaises(realizar.InvalidArgument, msg=wrong):
                talk.begin(**wrong)
        with self.assertRaises(realizar.Unsupported):
            talk.begin(draft="mtp")
        self.assertEqual((talk.info.state, talk.parts(), talk.step()), (None, [], False))
        with realizar.Model(STORY, threads=1) as plain, self.assertRaises(realizar.Unsupported):
            realizar.Conversation(plain)

    def test_it_is_closed_or_forgotten_in_the_middle_of_a_reply(self):
        talk = self.talk()
        pieces = talk.say(PROMPT)
        next(pieces)
        talk.close()
        with self.assertRaises(realizar.Closed):
            next(pieces)
        with self.assertRaises(realizar.Closed):
            talk.add("x")
        forgotten = realizar.Conversation(self.model)
        pieces, state = forgotten.say(PROMPT), forgotten._state
        next(pieces)
        del forgotten
        gc.collect()
        self.assertTrue(next(pieces))  # which holds it
        del pieces
        gc.collect()
        self.assertIsNone(state.pointer)
        # An older iteration neither takes part in a newer reply nor ends it.
        talk = self.talk(messages=[{"role": "user", "content": PROMPT}])
        older = talk.reply()
        next(older)
        newer = talk.reply(max_tokens=5)
        next(newer)
        with self.assertRaisesRegex(realizar.InvalidArgument, "the reply is given up"):
            list(older)
        del older
        self.assertEqual(len(list(newer)), 5)

    def test_a_change_in_the_middle_of_a_reply_stays(self):
        """The reply that the change gave up ends with an error, and takes no messages away."""
        talk = realizar.Conversation(self.model)
        for name, change, left in (
            ("add", lambda: talk.add("x"), ["x"]), ("say", lambda: list(talk.say("b", max_tokens=2)), ["b", None]), ("begin", lambda: talk.begin(), []),
            ("rewind", lambda: talk.rewind(1), None),
        ):  # fmt: skip
            with self.subTest(name):
                talk.rewind(0)
                talk.add("first")
                with self.assertRaisesRegex(realizar.InvalidArgument, "is given up"):
                    for _ in talk.say("a"):
                        change()
                contents = [message["content"] for message in talk.messages()]
                if left is None:
                    self.assertEqual(contents, ["first"])
                else:
                    self.assertEqual((contents[:2], len(contents)), (["first", "a"], 3 + len(left)))
                    self.assertTrue(all(wanted in (None, content) for wanted, content in zip(left, contents[3:])))

    def test_a_second_call_is_refused(self):
        talk = self.talk(capacity=8192)
        talk.add((PROMPT + " ") * 400)
        talk.begin(max_tokens=1)

        def work():
            while True:
                try:
                    return talk.step(60)
                except realizar.Busy:  # the question of the other thread
                    pass

        worker = threading.Thread(target=work)
        worker.start()
        refused = 0
        while worker.is_alive():
            self.assertIn(PROMPT, talk.messages()[0]["content"])
            try:
                talk.step(0)
            except realizar.Busy:
                refused += 1
        worker.join()
        self.assertGreater(refused, 0)
        self.assertEqual(talk.info.end, "length")


@unittest.skipUnless(os.environ.get("MODEL"), "MODEL names no model")
class Real(unittest.TestCase):
    def test_it_answers_in_two_turns(self):
        with realizar.Model(os.environ["MODEL"], threads=2) as model, model.session() as session:
            self.assertIn("Paris", "".join(session.generate("The capital of France is", max_tokens=8)))
        with realizar.Model(os.environ["MODEL"], threads=2) as model, realizar.Conversation(model) as talk:
            self.assertTrue("".join(talk.say("What is the capital of Japan?", max_tokens=30)))
            held = talk.info.cache_len
            self.assertTrue("".join(talk.say("And of Germany?", max_tokens=10)))
            self.assertGreaterEqual(talk.info.reused_tokens, held - 30)
            self.assertEqual([message["role"] for message in talk.messages()], ["user", "assistant"] * 2)


if __name__ == "__main__":
    unittest.main()
