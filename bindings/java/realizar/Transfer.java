package realizar;

import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.util.List;
import java.util.concurrent.CancellationException;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/** The stream of a save or a load, and the exception that the stream has thrown. An interrupt, and a close of what is
 * saved, end the transfer at the next piece. */
final class Transfer implements Platform.Callback {
    private static final int EIO = 5;

    /** A function that saves a handle. */
    interface Saving {
        int apply(Memory handle, Memory write, Memory user, Memory cancel, Memory error);
    }

    /** A function that loads a handle. */
    interface Loading {
        int apply(Memory read, Memory user, Memory out, Memory error);
    }

    private final @Nullable InputStream in;
    private final @Nullable OutputStream out;
    private @Nullable Throwable met;

    private Transfer(@Nullable InputStream in, @Nullable OutputStream out) {
        this.in = in;
        this.out = out;
    }

    static void save(Handle handle, OutputStream out, Saving function) throws IOException {
        var transfer = new Transfer(null, Native.given(out, "out"));
        handle.call((arena, pointer) -> {
            var write = Native.callback(arena, Platform.Kind.WRITE, transfer);
            return transfer.check(arena, e -> function.apply(pointer, write.function(), write.user(), Memory.NULL, e));
        });
        transfer.rethrow();
    }

    static <T> T load(InputStream in, Loading function, Function<Memory, T> make) throws IOException {
        var transfer = new Transfer(in, null);
        try (Arena arena = new Arena()) {
            var read = Native.callback(arena, Platform.Kind.READ, transfer);
            Memory made = arena.allocate(Memory.POINTER);
            transfer.check(arena, e -> function.apply(read.function(), read.user(), made, e));
            transfer.rethrow();
            return make.apply(made.getPointer(0));
        }
    }

    @Override
    public int call(long data, long n, int level) {
        try {
            if (Blocking.isToEnd()) throw new CancellationException("the thread is interrupted");
            if (in == null) out.write(new Memory(data, n).bytes());
            else new Memory(data, n).copy(read((int) n));
            return 0;
        } catch (Throwable e) {
            met = e;
            return EIO;
        }
    }

    private byte[] read(int n) throws IOException {
        byte[] bytes = new byte[n];
        for (int at = 0, got; at < n; at += got) {
            got = in.read(bytes, at, n - at);
            if (got < 0) throw new EOFException("the input has no more bytes");
            if (got > n - at) throw new IOException("the input read " + got + " bytes; it was asked for " + (n - at));
        }
        return bytes;
    }

    /** Makes a call; if the stream has thrown, {@link #rethrow} throws that exception in place of the error of the
     * call. */
    private int check(Arena arena, Native.Call call) {
        try {
            return Blocking.call(List.of(), () -> Native.check(arena, call));
        } catch (RealizarException e) {
            if (met == null) throw e;
            return e.systemCode();
        }
    }

    private void rethrow() throws IOException {
        if (met instanceof IOException e) throw e;
        if (met != null) throw Native.rethrown(met);
    }
}
