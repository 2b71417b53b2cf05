"""Arguments that are wrong: each is an error that names the argument in the words of Python, what it is and what it must be."""

import collections
import enum
import fractions
import io
import pickle
import tempfile
import types
import unittest

import numpy as np

import realizar

from support import PROMPT, STORY, chat_model


class Number(enum.IntEnum):
    THREE = 3


class Text(str):
    pass


class Raises:
    """An object all of whose conversions raise an error of its own."""

    def __index__(self):
        raise ZeroDivisionError("own")

    __float__ = __fspath__ = __index__


class Arguments(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.model = realizar.Model(chat_model(cls.folder.name), threads=1)

    @classmethod
    def tearDownClass(cls):
        cls.model.close()
        cls.folder.cleanup()

    def setUp(self):
        self.session = self.model.session(64)
        self.talk = realizar.Conversation(self.model, messages=[{"role": "user", "content": PROMPT}], capacity=200)

    def tearDown(self):
        self.session.close()
        self.talk.close()

    def check(self, calls, kind=realizar.InvalidArgument):
        for call, message in calls:
            with self.subTest(message), self.assertRaises(kind) as caught:
                call()
            self.assertEqual(str(caught.exception), message)
            self.assertEqual((caught.exception.code, caught.exception.name), (-1, "RZ_ERR_INVALID_ARGUMENT"))

    def test_types_are_named(self):
        model, talk, session = self.model, self.talk, self.session
        a_path = 'it must be a str, such as "model.gguf" or "hf:owner/name", or an os.PathLike'
        a_file = "it must be bytes, or an open binary file, or a dict of such"
        whole = "it must be a list of whole numbers"
        calls = [
            (lambda: realizar.Model(5), f"path is 5; {a_path}"),
            (lambda: realizar.Model(None), f"path is None; {a_path}"),
            (lambda: realizar.Model.from_files(5), f"files is 5; {a_file}"),
            (lambda: realizar.Model.from_files({"a": "text"}), f"files['a'] is a str; {a_file}"),
            (lambda: realizar.Model(STORY, progress=5), "progress is 5; it must be a function of numbers done and in all"),
            (lambda: realizar.Model(STORY, cancel=5), "cancel is 5; it must be a Cancel"),
            (lambda: realizar.Model(STORY, runtime=model), "runtime is a Model; it must be a Runtime"),
            (lambda: realizar.Model(STORY, devices="1"), f"devices is a str; {whole}"),
            (lambda: realizar.Model(STORY, placements=["cpu"]), "placements[0] is a str; it must be a Placement"),
            (lambda: realizar.Model(STORY, chat_template=b"x"), "chat_template is bytes; it must be a str"),
            (lambda: realizar.Model(STORY, packed_path=5), "packed_path is 5; it must be a str or an os.PathLike"),
            (lambda: realizar.fetch(5), 'model is 5; it must be a str, such as "hf:owner/name"'),
            (lambda: realizar.Runtime(log=5), "log is 5; it must be a function of a level and a text"),
            (lambda: realizar.Conversation(None), "model is None; it must be a Model"),
            (lambda: realizar.Conversation(session), "model is a Session; it must be a Model"),
            (lambda: realizar.Conversation(model, system=5), "system is 5; it must be a str"),
            (lambda: realizar.Conversation(model, messages="x"), "messages is a str; it must be a list of dicts with role and content"),
            (lambda: realizar.Conversation(model, messages={}), "messages is a dict; it must be a list of dicts with role and content"),
            (lambda: realizar.Conversation(model, messages=["x"]), "messages[0] is a str; it must be a dict with role and content"),
            (lambda: realizar.Conversation(model, store=model), "store is a Model; it must be a Store"),
            (lambda: realizar.Conversation(model, adapters=5), "adapters is 5; it must be a list of Adapter"),
            (lambda: realizar.Conversation(model, adapters=[model]), "adapters[0] is a Model; it must be an Adapter"),
            (lambda: talk.say(None), "text is None; it must be a str"),
            (lambda: talk.say(b"x"), "text is bytes; it must be a str"),
            (lambda: talk.add(5), "messages is 5; it must be a str or a list of dicts with role and content"),
            (lambda: talk.add("x", role=5), "role is 5; it must be a str"),
            (lambda: talk.begin(tools="x"), "tools is a str; it must be a list of tools"),
            (lambda: talk.begin(tools={}), "tools is a dict; it must be a list of tools"),
            (lambda: talk.begin(tools=["x"]), "tools[0] is a str; it must be a dict"),
            (lambda: talk.begin(tool_choice=5), 'tool_choice is 5; it must be a str ("auto", "none", "required") or a dict that names a function'),
            (lambda: talk.begin(variables=[1]), "variables is a list; it must be a dict"),
            (lambda: talk.begin(variables={"a": {1}}), "the reply has a value that is not of JSON: a set has no JSON; it must be a value of JSON"),
            (lambda: talk.begin(stops="five"), "stops is a str; it must be a list of str"),
            (lambda: talk.begin(stops=["a", 5]), "stops[1] is 5; it must be a str"),
            (lambda: talk.begin(grammar="json"), "grammar is a str; it must be a Grammar, or a pair of a kind and a text"),
            (lambda: talk.begin(grammar=("regex", ["yes", "no"])), "grammar is a list; it must be a str, because its kind is regex"),
            (lambda: talk.begin(grammar=("choices", "no")), None),
            (lambda: talk.begin(sampling=0.7), "sampling is 0.7; it must be a Sampling"),
            (lambda: talk.begin(cancel=True), "cancel is True; it must be a Cancel"),
            (lambda: session.prefill((i for i in (1, 2))), f"tokens is a generator; {whole}"),
            (lambda: session.prefill(bytearray(b"ab")), f"tokens is a bytearray; {whole}"),
            (lambda: session.prefill({1: 2}), f"tokens is a dict; {whole}"),
            (lambda: session.prefill(np.ma.masked_array([1, 2], [0, 1])), f"tokens is a MaskedArray; {whole}"),
            (lambda: session.save(None), "file is None; it must be a binary file, which has write"),
            (lambda: session.save(io.StringIO()), "file is a StringIO; it must be a binary file, which has write"),
            (lambda: model.restore("path"), "file is a str; it must be a binary file, which has read"),
            (lambda: session.logits([0.0]), "out is a list; it must be a contiguous array of float32 that can be written"),
            (lambda: session.sample(session), "sampler is a Session; it must be a Sampler"),
            (lambda: session.job([1], grammar="x"), "grammar is a str; it must be a Grammar"),
            (lambda: model.tokenize(b"x"), "text is bytes; it must be a str"),
            (lambda: model.meta(5), "key is 5; it must be a str"),
            (lambda: model.embed("hello"), "texts is a str; it must be a list"),
            (lambda: model.embed(["a", 5]), f"texts[1] is 5; {whole}"),
            (lambda: realizar.decode_batch(session, [1]), "sessions is a Session; it must be a list of Session"),
            (lambda: realizar.decode_batch([session, 5], [1, 2]), "sessions[1] is 5; it must be a Session"),
            (lambda: realizar.step_jobs([session]), "jobs[0] is a Session; it must be a Job"),
            (lambda: realizar.Sampler(realizar.Sampling(logit_bias=[(1, 2)])), "logit_bias is a list; it must be a dict of tokens and biases"),
        ]
        self.check([call for call in calls if call[1]], TypeError)

    def test_values_are_named(self):
        model, talk, session = self.model, self.talk, self.session
        token, whole = "it must be a list of whole numbers from 0 to 4294967295", "it must be a whole number from 0 to 4294967295"
        json = "it must be a value of JSON"
        sampler = lambda **options: lambda: realizar.Sampler(realizar.Sampling(**options))
        loop = {}
        loop["a"] = loop
        self.check([
            (lambda: session.prefill([1, True]), f"tokens has [1, True]; {token}"),
            (lambda: session.prefill([1, np.bool_(True)]), f"tokens has [1, {np.bool_(True)!r}]; {token}"),
            (lambda: session.prefill([-1]), f"tokens has [-1]; {token}"),
            (lambda: session.prefill([1.0]), f"tokens has [1.0]; {token}"),
            (lambda: session.prefill([float("nan")]), f"tokens has [nan]; {token}"),
            (lambda: model.session(-1), f"capacity is -1; {whole}"),
            (lambda: model.session(True), f"capacity is True; {whole}"),
            (lambda: model.session(8.0), f"capacity is 8.0; {whole}"),
            (lambda: model.session(fractions.Fraction(8)), f"capacity is Fraction(8, 1); {whole}"),
            (lambda: model.session(np.float32(8)), f"capacity is {np.float32(8)!r}; {whole}"),
            (lambda: model.session(k_type="q2_k"), "k_type is 'q2_k'; it must be one of default, f32, f16, q4_0, q8_0"),
            (lambda: model.session(v_type=1), "v_type is 1; it must be one of default, f32, f16, q4_0, q8_0"),
            (lambda: talk.begin(max_tokens=-1), f"max_tokens is -1; {whole}"),
            (lambda: talk.begin(max_tokens=2**33), f"max_tokens is 8589934592; {whole}"),
            (lambda: talk.begin(priority=1 << 31), "priority is 2147483648; it must be a whole number from -2147483648 to 2147483647"),
            (lambda: talk.begin(keep="no"), "keep is 'no'; it must be True or False"),
            (lambda: talk.begin(keep=1), "keep is 1; it must be True or False"),
            (lambda: talk.begin(parallel_tool_calls="no"), "parallel_tool_calls is 'no'; it must be True or False"),
            (lambda: talk.begin(reasoning="none"), "reasoning is 'none'; it must be one of model, off, on"),
            (lambda: talk.begin(draft=5), 'draft is 5; it must be None, "lookup", "mtp" or a Model'),
            (lambda: talk.begin(draft=["mtp"]), 'draft is a list; it must be None, "lookup", "mtp" or a Model'),
            (lambda: talk.begin(grammar=("prose", "")),
             "the kind of grammar is 'prose'; it must be one of json_schema, regex, lark, gbnf, json, choices, tools"),
            (lambda: talk.begin(grammar=("tools", {"tools": []})),
             'grammar is "tools"; it must be a kind for the content: calls follow the tools of the conversation'),
            (lambda: talk.begin(variables={"a": float("nan")}),
             f"the reply has NaN or an infinity as a value; {json}"),
            (lambda: talk.begin(variables=loop), f"the reply has itself as a value; {json}"),
            (lambda: talk.say("a\ud800"), "text has half of a surrogate pair at 1; it must be a text of Unicode"),
            (lambda: talk.add([{"role": "user", "content": "\udc00"}]), "the conversation has half of a surrogate pair; it must be a text of Unicode"),
            (lambda: talk.begin(stops=["a\0"]), "stops[0] has a NUL at 1; it must be a text without one"),
            (lambda: talk.step(True), "seconds is True; it must be a number"),
            (lambda: talk.step("1"), "seconds is '1'; it must be a number"),
            (lambda: realizar.Cancel().deadline(float("nan")), "seconds is nan; it must be a number"),
            (lambda: realizar.Model("a\0b"), "path has a NUL at 1; it must be a path without one"),
            (lambda: realizar.Model(STORY, shares=[1], devices=[]), "shares has 1 numbers; it must have one for each of 0 devices"),
            (lambda: realizar.Model(STORY, mmap=True, packed_path="x"), "mmap and packed_path are both set; set one"),
            (lambda: realizar.Model(STORY, placements=[realizar.Placement("gpu")]),
             'placements[0].bytes is 0; it must be positive with "gpu" ("cpu" leaves GPUs none)'),
            (lambda: realizar.Model(STORY, placements=[realizar.Placement("tpu")]), "placements[0].place is 'tpu'; it must be one of auto, cpu, gpu"),
            (lambda: realizar.Model(STORY, placements=[realizar.Placement("cpu", layers=-1)]), f"placements[0].layers is -1; {whole}"),
            (lambda: model.grammar("regex", "a", whitespace=True), "whitespace needs a grammar of JSON, not a grammar of another kind"),
            (sampler(temperature=True), "temperature is True; it must be a number"),
            (sampler(temperature="hot"), "temperature is 'hot'; it must be a number"),
            (sampler(temperature=1e39), "temperature is 1e+39; it must be at most 3.402823e+38"),
            (sampler(temperature=float("inf")), "temperature is inf; it must be finite and not negative"),
            (sampler(top_k=-1), f"top_k is -1; {whole}"),
            (sampler(seed=2**64), "seed is 18446744073709551616; it must be a whole number from 0 to 18446744073709551615"),
            (sampler(logit_bias={"5": 1}), f"a token of logit_bias is '5'; {whole}"),
            (sampler(logit_bias={5: 1e300}), "a bias of logit_bias is 1e+300; it must be at most 3.402823e+38"),
            (sampler(order=["top"]), "order[0] is 'top'; it must be one of top_n_sigma, top_k, typical_p, top_p, min_p, xtc, temperature"),
            (lambda: realizar.decode_batch([session], [1, 2]), "tokens are 2, and samplers 1; they must be as many as sessions, 1"),
        ])  # fmt: skip

    def test_unknown_options_are_named(self):
        talk, model = self.talk, self.model
        self.check([
            (lambda: realizar.Conversation(model, sytem="x"), "the option sytem is unknown; the nearest is system"),
            (lambda: realizar.Model(STORY, thread=2), "the option thread is unknown; the nearest is threads"),
            (lambda: model.tokenize_chat("x", tool=[]), "the option tool is unknown; the nearest is tools"),
            (lambda: realizar.plan(STORY, session=2), "the option session is unknown; the nearest is sessions"),
        ], TypeError)  # fmt: skip
        for call in (lambda: talk.say("x", max_token=5), lambda: talk.read(max_tokens=5), lambda: realizar.Sampling(temprature=1)):
            with self.assertRaises(TypeError):
                call()
        self.assertEqual(len(talk.messages()), 1)

    def test_what_is_alike_is_taken(self):
        """Subclasses of numbers, texts, dicts and lists, numpy's scalars, and other mappings and sequences."""
        model, talk, session = self.model, self.talk, self.session
        for three in (3, Number.THREE, np.int64(3), np.uint8(3)):
            talk.begin(realizar.Sampling(top_k=three, temperature=three), max_tokens=three)
            self.assertEqual(len(model.session(three).tokens), 0)
        for half in (0.5, np.float32(0.5), np.float16(0.5), fractions.Fraction(1, 2)):
            talk.begin(realizar.Sampling(temperature=half, logit_bias={np.int32(3): half}))
            talk.step(half / 1000)
        for ids in ([1, 403], (1, 403), range(1, 3), np.array([1, 403], np.uint16), [np.int64(1), Number.THREE], collections.deque([1, 3])):
            session.truncate(0)
            session.prefill(ids)
            self.assertEqual(session.tokens, [int(token) for token in ids])
        message = types.MappingProxyType({"role": Text("user"), "content": Text("x")})
        for messages in ([message], (message,), collections.deque([message]), iter([message]), [collections.OrderedDict(message)]):
            self.assertEqual(realizar.Conversation(model, messages=messages).messages(), [{"role": "user", "content": "x"}])
        talk.begin(variables=types.MappingProxyType({"a": np.float32(1), "b": np.bool_(True), "c": (1, 2)}), stops={"x"})
        talk.begin(keep=np.bool_(True), stops=(Text(text) for text in "ab"), tools=())

    def test_errors_of_the_caller_go_on(self):
        for call in (
            lambda: self.model.session(Raises()), lambda: realizar.Model(Raises()), lambda: self.talk.begin(stops=(1 / 0 for _ in "a")),
            lambda: self.talk.begin(max_tokens=Raises()),
        ):  # fmt: skip
            with self.assertRaises(ZeroDivisionError):
                call()

    def test_files_in_memory_are_files(self):
        with open(STORY, "rb") as file:
            data = file.read()
        for source in (io.BytesIO(data), data, memoryview(data), bytearray(data), np.frombuffer(data, np.uint8)):
            with realizar.Model.from_files(source, threads=1) as model:
                self.assertEqual(model.info.vocab_size, 512)

    def test_errors_are_python_s(self):
        for name, kind in vars(realizar).items():
            if isinstance(kind, type) and issubclass(kind, realizar.Error) and kind is not realizar.Error:
                self.assertLess(kind.code, 0, name)
                self.assertTrue(kind.name.startswith("RZ_ERR_"), name)
                self.assertGreater(len(kind.__doc__), 10, name)
        for call in (lambda: realizar.Model("/none"), lambda: realizar.Model(5), lambda: self.model.meta("none")):
            with self.assertRaises(realizar.Error) as caught:
                call()
            again = pickle.loads(pickle.dumps(caught.exception))
            self.assertEqual((type(again), str(again), again.code), (type(caught.exception), str(caught.exception), caught.exception.code))
        with self.assertRaises(FileNotFoundError):
            realizar.Model("/none")


if __name__ == "__main__":
    unittest.main()
