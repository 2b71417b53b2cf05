"""Models, sessions and jobs."""

import io
import json
import os
import tempfile
import threading
import time

import numpy as np

import realizar

from support import ADAPTED, ADAPTER, DIGIT, EXPECTED, GO, PROMPT, STORY, Tiny, chat_model


class Models(Tiny):
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
        self.assertTrue(realizar.devices()[0].available)

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
