"""Each option that functions take: values that do not fit, and names that there are not."""

import dataclasses
import inspect
import json
import math
import os
import tempfile
import types
from typing import Optional

import numpy as np

import realizar

from support import ADAPTER, PROMPT, STORY, Tiny, chat_model


class Options(Tiny):
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
