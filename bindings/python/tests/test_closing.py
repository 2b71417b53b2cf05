"""What is closed: calls that use it end at once, and later ones name it. Threads, asyncio and the end of the interpreter."""

import asyncio
import io
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import realizar

from support import PROMPT, STORY, chat_model

LONG = 30_000


class Closing(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.model = realizar.Model(chat_model(self.folder.name), threads=1)

    def tearDown(self):
        self.model.close()
        self.folder.cleanup()

    def long_talk(self):
        """A conversation whose next reply takes seconds to read."""
        talk = realizar.Conversation(self.model, capacity=LONG)
        talk.add("word " * (LONG // 4))
        return talk

    def closed_during(self, call, close):
        """The error of a call during which something is closed by another thread, and how long it took to end."""
        raised = []

        def work():
            try:
                call()
            except realizar.Error as error:
                raised.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        time.sleep(0.1)
        self.assertTrue(thread.is_alive())
        begin = time.monotonic()
        close()
        self.assertLess(time.monotonic() - begin, 0.5)
        thread.join()
        self.assertLess(time.monotonic() - begin, 1)
        (error,) = raised
        self.assertIs(type(error), realizar.Closed)
        return str(error)

    def test_a_call_ends_when_its_object_is_closed(self):
        talk = self.long_talk()
        self.assertEqual(self.closed_during(lambda: "".join(talk.say(PROMPT)), talk.close), "the Conversation is closed")
        session = self.model.session(LONG)
        self.assertEqual(self.closed_during(lambda: session.prefill([403] * (LONG - 1)), session.close), "the Session is closed")
        texts = [[403] * 500] * 1000
        self.assertEqual(self.closed_during(lambda: self.model.embed(texts, pooling="mean"), self.model.close), "the Model is closed")

    def test_a_call_ends_when_its_model_is_closed(self):
        talk = self.long_talk()
        message = self.closed_during(lambda: "".join(talk.say(PROMPT)), self.model.close)
        self.assertEqual(message, "the Model of the Conversation is closed")

    def test_a_cancel_of_the_caller_is_as_it_was(self):
        cancel, talk = realizar.Cancel(), self.long_talk()
        self.closed_during(lambda: "".join(talk.say(PROMPT, cancel=cancel)), talk.close)
        self.assertTrue("".join(realizar.Conversation(self.model).say(PROMPT, max_tokens=2, cancel=cancel)))
        cancel, talk = realizar.Cancel(), self.long_talk()
        self.closed_during(lambda: (cancel.deadline(60), "".join(talk.say(PROMPT, cancel=cancel))), talk.close)
        cancel.fire()
        with self.assertRaises(realizar.Cancelled):
            "".join(realizar.Conversation(self.model).say(PROMPT, cancel=cancel))

    def test_the_model_of_what_computes_is_named(self):
        model, file = self.model, io.BytesIO()
        talk, session, store = realizar.Conversation(model), model.session(64), realizar.Store(model)
        adapter_free = [model.grammar("choices", ["a"]), realizar.Prompt(model, [[1, 2]]), model.text_stream()]
        job = session.job([1], max_tokens=3)
        self.assertFalse(talk.closed or session.closed or job.closed)
        model.close()
        self.assertTrue(model.closed and talk.closed and session.closed and job.closed and store.closed)
        for call, message in [
            (lambda: talk.info, "the Model of the Conversation is closed"), (talk.messages, "the Model of the Conversation is closed"),
            (lambda: talk.add("x"), "the Model of the Conversation is closed"), (lambda: talk.save(file), "the Model of the Conversation is closed"),
            (lambda: list(talk.say("x")), "the Model of the Conversation is closed"), (talk.fork, "the Model of the Conversation is closed"),
            (lambda: session.tokens, "the Model of the Session is closed"), (lambda: session.prefill([1]), "the Model of the Session is closed"),
            (lambda: list(session.generate("x")), "the Model is closed"), (job.step, "the Session of the Job is closed"),
            (store.clear, "the Model of the Store is closed"), (lambda: model.tokenize("x"), "the Model is closed"),
            (lambda: realizar.Conversation(model), "the Model is closed"), (lambda: realizar.step_conversations([talk]), "the Model of the Conversation is closed"),
        ]:  # fmt: skip
            with self.subTest(message), self.assertRaises(realizar.Closed) as caught:
                call()
            self.assertEqual((str(caught.exception), caught.exception.code), (message, -1))
        for closed in (talk, session, job, store, model, *adapter_free):
            closed.close()
            closed.close()

    def test_one_of_several_is_closed(self):
        talks = [self.long_talk() for _ in range(2)]
        for talk in talks:
            talk.begin(max_tokens=3)
        message = self.closed_during(lambda: [realizar.step_conversations(talks, 0.05) for _ in range(100)], talks[0].close)
        self.assertEqual(message, "the Conversation is closed")
        talks[1].rewind(0)
        self.assertTrue("".join(talks[1].say(PROMPT, max_tokens=2)))

    def test_two_uses_at_once(self):
        talk, failed = self.long_talk(), []
        talk.begin()
        thread = threading.Thread(target=lambda: failed.append(self.assertRaises(realizar.Closed, talk.step)))
        thread.start()
        time.sleep(0.05)
        for call in (lambda: talk.step(0), lambda: talk.add("x"), talk.fork, lambda: talk.save(io.BytesIO())):
            with self.assertRaises(realizar.Busy):
                call()
        talk.close()
        thread.join()
        self.assertEqual(len(failed), 1)

    def test_asyncio_goes_on(self):
        talk = self.long_talk()

        async def beats(done):
            times = []
            while not done.is_set():
                times.append(time.monotonic())
                await asyncio.sleep(0.005)
            return max(after - before for before, after in zip(times, times[1:]))

        async def main():
            done = asyncio.Event()
            heart = asyncio.ensure_future(beats(done))
            await asyncio.get_running_loop().run_in_executor(None, lambda: "".join(talk.say(PROMPT, max_tokens=5)))
            done.set()
            return await heart

        self.assertLess(asyncio.run(main()), 0.5)

    @unittest.skipIf(sys.platform == "win32", "the interpreter ends in another way")
    def test_the_end_of_the_interpreter_is_quiet(self):
        """With a load, a prompt, a reply and an embedding under way on threads that nobody waits for."""
        program = (
            "import realizar, sys, threading, time\n"
            "model = realizar.Model(sys.argv[1], threads=1)\n"
            "def prompt(): model.session(30000).prefill([403] * 29000)\n"
            "def embed(): model.embed([[403] * 500] * 1000, pooling='mean')\n"
            "def reply():\n    while True: list(realizar.Conversation(model).say('x', max_tokens=50))\n"
            "def load():\n    while True: realizar.Model(sys.argv[1], threads=1, progress=lambda *_: None)\n"
            "for call in (prompt, embed, reply, load): threading.Thread(target=call, daemon=True).start()\n"
            "time.sleep(0.2)\n"
            "sys.exit(7)\n"
        )
        for _ in range(3):
            begin = time.monotonic()
            child = subprocess.run([sys.executable, "-c", program, chat_model(self.folder.name)], stderr=subprocess.PIPE, text=True)
            self.assertEqual((child.returncode, child.stderr), (7, ""))
            self.assertLess(time.monotonic() - begin, 10)

    def test_memory_of_many_chats_is_given_back(self):
        if not sys.platform.startswith("linux"):
            self.skipTest("the resident set is that of Linux")

        def chats(n):
            for _ in range(n):
                with realizar.Conversation(self.model, "Be brief.", capacity=128) as talk:
                    "".join(talk.say(PROMPT, max_tokens=4))
            with open("/proc/self/statm") as file:
                return int(file.read().split()[1]) * 4096

        begin = chats(100)
        self.assertLess(chats(200) - begin, 4 << 20)


if __name__ == "__main__":
    unittest.main()
