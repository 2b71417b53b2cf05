package realizar;

import org.jspecify.annotations.Nullable;

/** Threads, a log and a memory limit, which several models share. */
public final class RealizarRuntime extends Handle {
    /** Receives the log of the library, on any thread. */
    @FunctionalInterface
    public interface Log {
        /** {@code level}: 1 an error, 2 a warning, 3 information. */
        void said(int level, String text);
    }

    private record Forward(Log log) implements Platform.Callback {
        @Override
        public int call(long message, long length, int level) {
            try {
                String text = new Memory(message, length).text();
                Handle.listen(() -> log.said(level, text));
            } catch (Throwable e) {
                // It must not reach the library.
            }
            return 0;
        }
    }

    /** {@code threads}: number of threads that compute, the calling one included; 0: one per processor, or one per
     * fast core if cores differ. {@code memoryLimit}: maximum bytes of weights and KV caches; 0: no limit.
     * {@code processors}: the processors that threads are bound to; none: threads are not bound. */
    public RealizarRuntime(int threads, long memoryLimit, @Nullable Log log, int... processors) {
        super(make(threads, memoryLimit, log, processors), Header::rz_runtime_free);
    }

    /** A runtime without a log and a memory limit. */
    public RealizarRuntime(int threads) {
        this(threads, 0, null);
    }

    private static Memory make(int threads, long memoryLimit, @Nullable Log log, int[] processors) {
        try (Arena arena = new Arena()) {
            var params = Native.sized(arena, Header.rz_runtime_params);
            Native.set(params, Header.rz_runtime_params, "threads", threads);
            Native.set(params, Header.rz_runtime_params, "memory_limit", memoryLimit);
            Native.set(params, Header.rz_runtime_params, "cpus", Native.ints(arena, processors, "processors"));
            Native.set(params, Header.rz_runtime_params, "n_cpus", (long) processors.length);
            if (log != null) {
                // For as long as the process, because models may speak for as long.
                var said = Native.callback(Arena.GLOBAL, Platform.Kind.LOG, new Forward(log));
                Native.set(params, Header.rz_runtime_params, "log", said.function());
                Native.set(params, Header.rz_runtime_params, "log_user", said.user());
            }
            return Native.made(arena, out -> e -> Header.rz_runtime_new(params, out, e));
        }
    }

    /** Changes the number of threads that compute, from the next step on; 0: as for a new runtime. */
    public void setThreads(int threads) {
        Native.whole(threads, "threads");
        call((arena, runtime) -> Native.check(arena, e -> Header.rz_runtime_threads_set(runtime, threads, e)));
    }

    /** The version of the library, such as "0.1.0". */
    public static String version() {
        return Native.PLATFORM.text(Header.rz_version());
    }
}
