"""The Python code of docs/guides/asyncio.md, a section per guide, as a program that tests/docs.sh
runs: web.py MODEL"""

import asyncio
import queue
import sys
import threading

import realizar


# --8<-- [start:asyncio]
async def stream(chat, text):
    """Streams a reply without blocking the event loop: each step runs on a thread, without the GIL."""
    cancel = realizar.Cancel()
    pieces = chat.say(text, cancel=cancel)
    try:
        while (piece := await asyncio.to_thread(next, pieces, None)) is not None:
            yield piece
    finally:
        cancel.fire()  # if the client has disconnected
# --8<-- [end:asyncio]


# --8<-- [start:engine]
class Engine:
    """Continuous batching for asyncio: one thread steps all conversations of a model."""

    def __init__(self):
        self.requests = queue.SimpleQueue()
        threading.Thread(target=self._run, daemon=True).start()

    async def reply(self, chat, text, **options):
        """Adds a user message and yields the parts of the reply."""
        loop, parts, cancel = asyncio.get_running_loop(), asyncio.Queue(), realizar.Cancel()
        send = lambda part: loop.call_soon_threadsafe(parts.put_nowait, part)
        self.requests.put((chat, text, {"cancel": cancel, **options}, send))
        try:
            while (part := await parts.get()) is not None:
                if isinstance(part, Exception):
                    raise part
                yield part
        finally:
            cancel.fire()

    def _run(self):
        running = {}
        while True:
            while not running or not self.requests.empty():
                chat, text, options, send = self.requests.get()
                try:
                    chat.add(text)
                    chat.begin(**options)
                    running[chat] = send
                except realizar.Error as error:
                    send(error)
            try:
                realizar.step_conversations(list(running), 0.05)
            except (realizar.Cancelled, realizar.DeadlineExceeded):
                pass  # every running reply is cancelled; they are removed below
            for chat, send in list(running.items()):
                for part in chat.parts():
                    send(part)
                if chat.info.stopped:
                    chat.stop()  # keeps the text so far as a message
                if chat.info.state == "ended":
                    send(chat.error)
                    del running[chat]
# --8<-- [end:engine]


async def main(path):
    model = realizar.Model(path)
    chat = realizar.Conversation(model)
    text = "".join([piece async for piece in stream(chat, "Once upon a time")])
    engine, chats = Engine(), [realizar.Conversation(model) for _ in range(3)]

    async def one(chat):
        return "".join([part.text async for part in engine.reply(chat, "Once upon a time") if part.kind == "content"])

    assert await asyncio.gather(*map(one, chats)) == [text] * 3

    # A client that disconnects ends only its own reply.
    left, other = realizar.Conversation(model), realizar.Conversation(model)
    rest = asyncio.create_task(one(other))
    parts = engine.reply(left, "Once upon a time")
    await parts.__anext__()
    await parts.aclose()
    assert await rest == text
    while left.info.state != "ended":
        await asyncio.sleep(0.01)
    assert left.messages()[-1]["finish_reason"] in ("cancelled", "stop")

    # A request that fails raises in its own handler.
    try:
        async for _ in engine.reply(realizar.Conversation(model, capacity=4), "Once upon a time"):
            pass
        raise AssertionError("a full context")
    except realizar.ContextFull:
        pass
    print(text)


asyncio.run(main(sys.argv[1]))
