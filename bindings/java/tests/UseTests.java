import java.io.IOException;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import realizar.BusyException;
import realizar.Cancel;
import realizar.Conversation;
import realizar.Generation;
import realizar.Model;
import realizar.Options;
import realizar.Part;
import realizar.RealizarException.Status;
import realizar.Reply;
import realizar.Session;
import realizar.Transcript;

/** Tests of objects that are used twice at once, closed by another thread, or left when the program ends, with a model
 * that has a chat template (argument 1). A second argument, "exit", ends the program in the middle of calls, with the
 * exit code 7. Prints "ok", or throws. */
class UseTests {
    private static final String PROMPT = "Once upon a time";

    private interface Action {
        void run() throws Throwable;
    }

    private static void check(boolean holds, String what) {
        if (!holds) throw new AssertionError(what);
    }

    private static Throwable thrown(Action action) {
        try {
            action.run();
            return null;
        } catch (Throwable e) {
            return e;
        }
    }

    private static void busy(Action action, String what) {
        Throwable met = thrown(action);
        check(met instanceof BusyException && met.getMessage().contains("in use"), what + ": " + met);
    }

    /** What an action on a thread of its own throws. */
    private static CompletableFuture<Throwable> begun(Thread.Builder threads, Action action) {
        var met = new CompletableFuture<Throwable>();
        threads.start(() -> met.complete(thrown(action)));
        return met;
    }

    private static Throwable end(CompletableFuture<Throwable> met) throws Exception {
        return met.get(100, TimeUnit.SECONDS);
    }

    /** Closing ends a call with one exception, whenever it comes. */
    private static void closed(Throwable met, String name) {
        check(met instanceof IllegalStateException && !(met instanceof CancellationException) && met.getMessage().equals(name + " is closed"),
            name + " is closed: " + met);
    }

    public static void main(String[] arguments) throws Exception {
        var path = Path.of(arguments[0]);
        if (arguments.length > 1) exit(path);
        try (var model = Model.load(path, new Model.Load().threads(2))) {
            callbacks(model);
            threads(model);
            batches(model);
            texts(model);
            kept(model);
            for (var threads : List.of(Thread.ofPlatform(), Thread.ofVirtual())) {
                loops(model, threads);
                calls(path, threads);
                interrupts(model, threads);
            }
            memory(model);
        }
        System.out.println("ok");
    }

    /** Every use in the callback of a say is refused, and changes nothing. */
    private static void callbacks(Model model) throws Exception {
        try (var chat = new Conversation(model, "Be kind. "); var cancel = new Cancel()) {
            String alone = chat.say(PROMPT, new Options().maxTokens(20));
            var before = chat.messages();
            chat.rewind(1);
            Map<String, Action> uses = new java.util.LinkedHashMap<>();
            uses.put("add", () -> chat.add("user", "x"));
            uses.put("add a message", () -> chat.add(Map.of("role", "user", "content", "x")));
            uses.put("addJson", () -> chat.addJson("[]"));
            uses.put("say", () -> chat.say("x"));
            uses.put("sayWhile", () -> chat.sayWhile("x", piece -> true));
            uses.put("reply", () -> chat.reply());
            uses.put("read", () -> chat.read());
            uses.put("rewind", () -> chat.rewind(0));
            uses.put("release", chat::release);
            uses.put("setCapacity", () -> chat.setCapacity(64));
            uses.put("setOverflow", () -> chat.setOverflow(Conversation.Overflow.FORGET));
            uses.put("setAdapters", () -> chat.setAdapters(Map.of()));
            uses.put("setStore", () -> chat.setStore(null));
            uses.put("setCancel", () -> chat.setCancel(cancel));
            uses.put("close", chat::close);
            var pieces = new StringBuilder();
            chat.say(PROMPT, new Options().maxTokens(20), piece -> {
                pieces.append(piece);
                uses.forEach((what, use) -> busy(use, what));
                check(chat.info().messages() == chat.messages().size() && chat.messages().size() >= 2, "what only reads: " + chat.messages());
                var other = begun(Thread.ofPlatform(), () -> uses.forEach((what, use) -> {
                    if (!what.equals("close")) busy(use, what + " of another thread");
                }));
                Throwable met = other.join();
                check(met == null, "another thread: " + met);
            });
            check(pieces.toString().equals(alone) && chat.messages().equals(before), "the reply goes on: " + pieces);
            // A refusal that the callback does not catch ends the reply, whose text stays.
            check(thrown(() -> chat.say(" And then", piece -> chat.say("x"))) instanceof BusyException && chat.messages().size() == 5, "it is rethrown");
            check(!chat.say(PROMPT).isEmpty(), "it is in use no longer");
        }
    }

    /** Two threads with one object: each call is done as a whole, or is refused. */
    private static void threads(Model model) throws Exception {
        try (var chat = new Conversation(model, new Transcript().user(PROMPT)); var session = model.newSession(2000)) {
            var refused = new AtomicInteger();
            var parts = new AtomicInteger();
            var reply = chat.reply(new Options().maxTokens(200));
            session.prefill(model.tokenize(PROMPT));
            int length = session.length();
            var decoded = new AtomicInteger();
            Action reads = () -> {
                for (boolean more = true; more; ) {
                    try {
                        more = reply.hasNext() && reply.next() != null;
                        if (more) parts.incrementAndGet();
                    } catch (BusyException e) {
                        refused.incrementAndGet();
                    } catch (java.util.NoSuchElementException e) {
                        more = false; // the other thread has taken the last one
                    }
                    try {
                        session.decode(5, null);
                        decoded.incrementAndGet();
                    } catch (BusyException e) {
                        refused.incrementAndGet();
                    }
                }
            };
            var one = begun(Thread.ofPlatform(), reads);
            var two = begun(Thread.ofPlatform(), reads);
            check(end(one) == null && end(two) == null, "two threads: " + one.get() + ", " + two.get());
            check(parts.get() > 20 && session.length() == length + decoded.get(), "each is done once: " + parts + ", " + decoded);
            check(refused.get() > 0, "none was refused");
        }
    }

    /** A batch whose only unfinished member is stopped ends, and tells so of that one. */
    private static void batches(Model model) throws Exception {
        try (var one = new Conversation(model, new Transcript().user(PROMPT)); var two = new Conversation(model, new Transcript().user(PROMPT));
            var session = model.newSession(200); var made = session.generate(PROMPT, new Options().maxTokens(9))) {
            List<Reply> replies = List.of(one.reply(new Options().maxTokens(9)), two.reply(new Options().maxTokens(3)));
            check(Reply.stepAll(replies), "a first step");
            replies.get(0).cancel();
            while (Reply.stepAll(replies)) {}
            check(replies.get(0).end() == null && replies.get(0).stopped() == Status.CANCELLED && replies.get(1).end() == Generation.End.LENGTH
                && replies.get(1).stopped() == null, "a reply that is cancelled");
            check(!Reply.stepAll(replies) && !Reply.stepAll(replies, 100), "it is cancelled still");
            replies.get(0).resume();
            replies.get(0).deadline(Duration.ZERO);
            check(!Reply.stepAll(replies) && replies.get(0).stopped() == Status.DEADLINE, "a deadline that has passed");
            replies.get(0).resume();
            while (Reply.stepAll(replies)) {}
            check(replies.get(0).end() == Generation.End.LENGTH && one.info().tokens() == 9, "it goes on");
            made.cancel();
            check(!Generation.stepAll(List.of(made)) && made.stopped() == Status.CANCELLED && made.end() == null, "a generation that is cancelled");
            made.resume();
            Thread.currentThread().interrupt();
            check(thrown(() -> Generation.stepAll(List.of(made))) instanceof CancellationException && Thread.interrupted(), "an interrupt");
            made.resume();
            while (Generation.stepAll(List.of(made))) {}
            check(made.count() == 9 && made.stopped() == null, "it goes on");
        }
    }

    /** Options that are wrong leave a session as it was. */
    private static void kept(Model model) {
        try (var session = model.newSession(64); var closed = Model.load(Path.of("tests/data/stories260K-f32.gguf"), new Model.Load().threads(1))) {
            closed.close();
            session.prefill(model.tokenize(PROMPT));
            int[] tokens = session.tokens();
            for (var options : List.of(new Options().grammar(realizar.Grammar.Kind.REGEX, "("), new Options().topP(2), new Options().stops("a\0"),
                new Options().draftModel(closed, 4))) {
                check(thrown(() -> session.generate("The end", options)) instanceof RuntimeException, "a wrong option");
                check(java.util.Arrays.equals(session.tokens(), tokens), "the tokens of a session: " + session.length());
            }
        }
    }

    /** Every character arrives, and what C cannot take is refused by name. */
    private static void texts(Model model) {
        try (var chat = new Conversation(model)) {
            String text = "a\0b \u2028 größe 𝄞 </s> <s>";
            chat.add("user", text);
            check(chat.messages().get(0).get("content").equals(text), "a text with a NUL");
            for (var wrong : Map.<String, Action>of("role has a NUL at 1", () -> chat.add("a\0b", "x"), "text has half", () -> chat.add("user", "half \ud834"),
                "stops[1] has a NUL", () -> chat.reply(new Options().stops("a", "b\0")), "key has a NUL", () -> model.meta("a\0")).entrySet()) {
                Throwable met = thrown(wrong.getValue());
                check(met instanceof IllegalArgumentException && met.getMessage().startsWith(wrong.getKey()), wrong.getKey() + ": " + met);
            }
            check(chat.messages().size() == 1, "nothing is added");
        }
    }

    /** Loops that another thread ends by closing what they loop over. */
    private static void loops(Model model, Thread.Builder threads) throws Exception {
        for (int i = 0; i < 12; i++) {
            int pause = i * 300_000;
            var setup = new Conversation.Setup().capacity(100_000);
            var endless = new Options().logitBias(Map.of(model.info().eosToken(), Float.NEGATIVE_INFINITY));
            var talks = new ArrayList<Conversation>();
            for (int k = 0; k < 3; k++) talks.add(new Conversation(model, new Transcript().user(PROMPT), setup));
            var session = model.newSession(100_000);
            var made = session.generate(PROMPT, endless);
            var left = talks.get(2).reply(endless.copy().keep());
            var began = List.of(new CountDownLatch(1), new CountDownLatch(1), new CountDownLatch(1), new CountDownLatch(1));
            var says = begun(threads, () -> talks.get(0).say(PROMPT, endless, piece -> began.get(0).countDown()));
            var loops = begun(threads, () -> {
                for (Part part : talks.get(1).reply(endless)) began.get(1).countDown();
            });
            var generates = begun(threads, () -> {
                for (String piece : made) began.get(2).countDown();
            });
            var replies = begun(threads, () -> {
                for (Part part : left) began.get(3).countDown();
            });
            for (var each : began) each.await();
            for (long until = System.nanoTime() + pause; System.nanoTime() < until; ) Thread.onSpinWait();
            talks.get(0).close();
            talks.get(1).close();
            made.close();
            left.close();
            closed(end(says), "Conversation");
            closed(end(loops), "Conversation");
            closed(end(generates), "Generation");
            closed(end(replies), "Reply");
            check(talks.get(2).info().messages() == 2 && session.length() > 0, "what was kept");
            talks.get(2).close();
            session.close();
        }
    }

    /** Long calls that end when an object which they use is closed. */
    private static void calls(Path path, Thread.Builder threads) throws Exception {
        try (var model = Model.load(path, new Model.Load().threads(1))) {
            int[] tokens = model.tokenize(PROMPT.repeat(10_000));
            for (boolean byCancel : new boolean[] {false, true}) {
                var session = model.newSession(100_000);
                var cancel = new Cancel();
                var began = new CountDownLatch(1);
                var prefills = begun(threads, () -> {
                    began.countDown();
                    session.prefill(tokens, cancel);
                });
                began.await();
                if (byCancel) cancel.close();
                else session.close();
                closed(end(prefills), byCancel ? "Cancel" : "Session");
                session.close();
            }
            var texts = java.util.Collections.nCopies(20_000, PROMPT);
            var began = new CountDownLatch(1);
            var embeds = begun(threads, () -> {
                began.countDown();
                model.embed(texts);
            });
            began.await();
            model.close();
            closed(end(embeds), "Model");
        }
    }

    /** An interrupt ends every call that takes long. */
    private static void interrupts(Model model, Thread.Builder threads) throws Exception {
        String text = PROMPT.repeat(100_000);
        try (var session = model.newSession(100_000)) {
            session.prefill(model.tokenize(PROMPT));
            var slow = new OutputStream() {
                @Override
                public void write(int b) {}
            };
            for (Action call : List.<Action>of(() -> model.tokenize(text), () -> model.render(new Transcript().user(text), true), () -> session.save(slow),
                () -> model.grammar(realizar.Grammar.Kind.JSON, ""), () -> model.adapter(Path.of("tests/data/story-adapter.gguf")))) {
                var met = end(begun(threads, () -> {
                    Thread.currentThread().interrupt();
                    try {
                        call.run();
                    } finally {
                        check(Thread.currentThread().isInterrupted(), "the thread stays interrupted");
                    }
                }));
                check(met instanceof CancellationException && List.of("cancelled", "the thread is interrupted").contains(met.getMessage()), "an interrupt: " + met);
            }
            check(model.tokenize(PROMPT).length == 5, "a later call");
        }
    }

    private static long resident() throws IOException {
        for (String line : Files.readAllLines(Path.of("/proc/self/status"))) {
            if (line.startsWith("VmRSS")) return Long.parseLong(line.replaceAll("\\D", ""));
        }
        throw new IOException("no VmRSS");
    }

    /** Short chats leave nothing: as many again take no more memory, of which one KV cache is half a megabyte. {@code
     * realizar.chats}: their number. The heap is of one size. */
    private static void memory(Model model) throws Exception {
        if (!Files.exists(Path.of("/proc/self/status"))) return;
        int n = Integer.getInteger("realizar.chats", 100);
        var after = new ArrayList<Long>();
        for (int i = 0; i < 2 * n; i++) {
            try (var chat = new Conversation(model)) {
                chat.say(PROMPT, new Options().maxTokens(3), piece -> {});
            }
            if ((i + 1) % n == 0) {
                System.gc();
                after.add(resident());
            }
        }
        if (n != 100) System.out.println("KB after " + n + " chats, and after as many again: " + after);
        check(after.get(1) - after.get(0) < 16_000, "KB of memory after chats: " + after);
    }

    /** Ends the program in the middle of calls. */
    private static void exit(Path path) throws Exception {
        var model = Model.load(path, new Model.Load().runtime(new realizar.RealizarRuntime(2, 0, (level, text) -> {})));
        var began = new CountDownLatch(8);
        for (var threads : List.of(Thread.ofPlatform().daemon(), Thread.ofVirtual())) {
            begun(threads, () -> new Conversation(model).say(PROMPT, new Options(), piece -> began.countDown()));
            begun(threads, () -> {
                for (;;) {
                    Model.load(path, new Model.Load().progress((done, total) -> true)).close();
                    began.countDown();
                }
            });
            begun(threads, () -> {
                Session session = model.newSession(8000);
                began.countDown();
                for (;;) {
                    session.truncate(0);
                    session.prefill(model.tokenize(PROMPT.repeat(400)));
                }
            });
            begun(threads, () -> {
                Session session = model.newSession(8000);
                session.prefill(model.tokenize(PROMPT.repeat(100)));
                began.countDown();
                for (;;) session.save(OutputStream.nullOutputStream());
            });
        }
        began.await();
        System.exit(7);
    }
}
