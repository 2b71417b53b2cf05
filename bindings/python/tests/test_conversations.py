"""Conversations, and a real model where MODEL names one."""

import gc
import io
import json
import os
import tempfile
import threading
import unittest

import realizar

from support import ADAPTED, ADAPTER, DIGIT, EXPECTED, GO, PROMPT, REASONS, STORY, chat_model


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
        with self.assertRaisesRegex(realizar.InvalidArgument, r"content\[0\].media is no"):
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
