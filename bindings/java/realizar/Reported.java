package realizar;

import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/** The progress callback of a long call, and the exception that the callback has thrown. */
final class Reported implements Platform.Callback {
    private final Model.Load.Progress progress;
    private @Nullable Throwable met;

    private Reported(Model.Load.Progress progress) {
        this.progress = progress;
    }

    @Override
    public int call(long done, long total, int level) {
        try {
            return progress.told(done, total) ? 0 : 1;
        } catch (Throwable e) {
            met = e;
            return 1;
        }
    }

    /** Makes a call with parameters that have a progress callback and a cancel. An exception of the callback takes
     * precedence over the exception of the call. */
    static <T> T call(Arena arena, Memory params, Struct struct, Model.Load.@Nullable Progress progress, @Nullable Cancel cancel, Supplier<T> call) {
        var reported = progress == null ? null : new Reported(progress);
        if (reported != null) {
            var told = Native.callback(arena, Platform.Kind.PROGRESS, reported);
            Native.set(params, struct, "progress", told.function());
            Native.set(params, struct, "progress_user", told.user());
        }
        try {
            return Cancel.call(cancel, fired -> {
                Native.set(params, struct, "cancel", fired);
                return call.get();
            });
        } catch (RuntimeException e) {
            if (reported != null && reported.met != null) throw Native.rethrown(reported.met);
            throw e;
        }
    }
}
