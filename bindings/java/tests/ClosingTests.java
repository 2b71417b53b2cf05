import java.io.InputStream;
import java.io.OutputStream;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.ReentrantLock;
import realizar.Cancel;
import realizar.Model;
import realizar.Prompt;
import realizar.RealizarRuntime;

/** Tests of handles that are closed, used and interrupted in callbacks, on platform threads and on virtual ones. */
class ClosingTests {
    private interface Action {
        void run() throws Throwable;
    }

    private static void check(boolean holds, String what) {
        if (!holds) throw new AssertionError(what);
    }

    /** What an action throws on a thread of its own, null for nothing. A thread that hangs fails the test. */
    private static Throwable thrown(Thread.Builder threads, Action action) throws Exception {
        var met = new CompletableFuture<Throwable>();
        threads.start(() -> {
            try {
                action.run();
                met.complete(null);
            } catch (Throwable e) {
                met.complete(e);
            }
        });
        return met.get(100, TimeUnit.SECONDS);
    }

    private static void fine(Throwable met) {
        if (met != null) throw new AssertionError(met);
    }

    private static boolean isRefused(Runnable action, String why) {
        try {
            action.run();
            return false;
        } catch (IllegalStateException e) {
            return e.getMessage().endsWith(why);
        }
    }

    /** A thread that closes something which is in use, and waits by now. */
    private static Thread closing(AutoCloseable handle) {
        var thread = Thread.ofPlatform().start(() -> {
            try {
                handle.close();
            } catch (Exception e) {
                throw new AssertionError(e);
            }
        });
        while (thread.getState() != Thread.State.WAITING) Thread.onSpinWait();
        return thread;
    }

    static void run(Model model, Path path) throws Exception {
        for (var threads : List.of(Thread.ofPlatform(), Thread.ofVirtual())) {
            callbacks(threads, path);
            interrupts(threads, path);
            transfers(threads, model);
        }
        pipe(model);
        var many = new Prompt.Parts();
        for (int i = 0; i < 20_000; i++) many.tokens(1);
        try (var prompt = Prompt.of(model, many)) {
            check(prompt.length() == 20_000, "many parts");
        }
    }

    /** A callback runs on the thread of its call: it has the locks of that thread, and does not wait for it. */
    private static void callbacks(Thread.Builder threads, Path path) throws Exception {
        var listened = new AtomicReference<String>("");
        var of = new AtomicReference<RealizarRuntime>();
        var runtime = new RealizarRuntime(1, 0, (level, text) -> {
            try {
                of.get().close();
            } catch (IllegalStateException e) {
                listened.set(e.getMessage());
            }
        });
        of.set(runtime);
        var lock = new ReentrantLock();
        fine(thrown(threads, () -> {
            var thread = Thread.currentThread();
            lock.lock();
            Model.load(path, new Model.Load().runtime(runtime).progress((done, total) -> {
                lock.lock();
                lock.unlock();
                check(Thread.currentThread() == thread, "another thread");
                check(isRefused(runtime::close, "is in use by another call"), "its call waits for it");
                return true;
            })).close();
        }));
        check(listened.get().equals("RealizarRuntime is in use by another call"), "the listener to the log: " + listened);
        var closer = new AtomicReference<Thread>();
        var other = new RealizarRuntime(1);
        var met = thrown(threads, () -> Model.load(path, new Model.Load().runtime(other).progress((done, total) -> {
            if (closer.get() == null) closer.set(closing(other));
            check(isRefused(() -> other.setThreads(1), "is closed"), "another thread closes it");
            return true;
        })));
        check(met instanceof IllegalStateException && met.getMessage().equals("RealizarRuntime is closed"), "a load whose runtime is closed: " + met);
        closer.get().join();
    }

    private static void interrupts(Thread.Builder threads, Path path) throws Exception {
        // A cancel that is being closed still ends its call.
        var cancel = new Cancel();
        var closer = new AtomicReference<Thread>();
        var met = thrown(threads, () -> Model.load(path, new Model.Load().threads(1).cancel(cancel).progress((done, total) -> {
            if (closer.get() == null) {
                closer.set(closing(cancel));
                Thread.currentThread().interrupt();
                // Time for the interrupt to be seen.
                for (long end = System.nanoTime() + 100_000_000; System.nanoTime() < end; ) Thread.onSpinWait();
            }
            check(Thread.currentThread().isInterrupted(), "the callback sees the interrupt");
            return true;
        })).close());
        check(met instanceof IllegalStateException && met.getMessage().equals("Cancel is closed"), "an interrupt and a close: " + met);
        closer.get().join();
        // An interrupt ends what a callback waits for.
        var loading = new AtomicReference<Thread>();
        var begun = new CountDownLatch(1);
        var ended = CompletableFuture.supplyAsync(() -> {
            try {
                return thrown(threads, () -> {
                    loading.set(Thread.currentThread());
                    Model.load(path, new Model.Load().threads(1).progress((done, total) -> {
                        begun.countDown();
                        try {
                            new CountDownLatch(1).await();
                        } catch (InterruptedException e) {
                            throw new ArithmeticException("interrupted");
                        }
                        return true;
                    }));
                });
            } catch (Exception e) {
                return e;
            }
        });
        begun.await();
        loading.get().interrupt();
        check(ended.get() instanceof ArithmeticException, "a callback that waits: " + ended.get());
    }

    /** What a stream throws goes on where the call ends, and so does what a closed session throws in it. */
    private static void transfers(Thread.Builder threads, Model model) throws Exception {
        try (var session = model.newSession(64)) {
            session.prefill(1, 403, 407);
            var failing = new OutputStream() {
                @Override
                public void write(int b) {
                    throw new StackOverflowError("a stream");
                }
            };
            check(thrown(threads, () -> session.save(failing)) instanceof StackOverflowError, "what a stream throws");
            var closer = new AtomicReference<Thread>();
            var closed = thrown(threads, () -> session.save(new OutputStream() {
                @Override
                public void write(int b) {
                    throw new AssertionError(b);
                }

                @Override
                public void write(byte[] bytes) {
                    if (closer.get() == null) closer.set(closing(session));
                    check(session.length() < 0, "a closed session is used");
                }
            }));
            check(closed instanceof IllegalStateException && closed.getMessage().equals("Session is closed"), "it is closed meanwhile: " + closed);
            closer.get().join();
        }
    }

    /** Two virtual threads, one of which waits for the bytes of the other, with one processor. */
    private static void pipe(Model model) throws Exception {
        BlockingQueue<byte[]> pieces = new LinkedBlockingQueue<>(1);
        var out = new OutputStream() {
            @Override
            public void write(int b) {
                throw new AssertionError(b);
            }

            @Override
            public void write(byte[] bytes) {
                try {
                    pieces.put(bytes);
                } catch (InterruptedException e) {
                    throw new AssertionError(e);
                }
            }
        };
        var in = new InputStream() {
            private byte[] piece = {};
            private int at;

            @Override
            public int read() {
                throw new AssertionError();
            }

            @Override
            public int read(byte[] bytes, int offset, int n) {
                try {
                    while (at == piece.length) {
                        piece = pieces.take();
                        at = 0;
                    }
                } catch (InterruptedException e) {
                    throw new AssertionError(e);
                }
                int taken = Math.min(n, piece.length - at);
                System.arraycopy(piece, at, bytes, offset, taken);
                at += taken;
                return taken;
            }
        };
        try (var session = model.newSession(64)) {
            session.prefill(1, 403, 407);
            var tokens = new CompletableFuture<int[]>();
            Thread.startVirtualThread(() -> {
                try (var restored = model.restore(in)) {
                    tokens.complete(restored.tokens());
                } catch (Throwable e) {
                    tokens.completeExceptionally(e);
                }
            });
            fine(thrown(Thread.ofVirtual(), () -> session.save(out)));
            check(Arrays.equals(tokens.get(100, TimeUnit.SECONDS), session.tokens()), "bytes of another virtual thread");
        }
    }
}
