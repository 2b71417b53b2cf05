package realizar;

import java.util.List;
import java.util.Map;

/** A LoRA adapter of a model. Immutable: any number of sessions may use it at once. */
public final class Adapter extends Handle {
    Adapter(Memory pointer) {
        super(pointer, Header::rz_adapter_free);
    }

    /** A copy of a map of adapters and scales, which are finite. */
    static Map<Adapter, Float> scaled(Map<Adapter, Float> adapters) {
        var all = Native.<Adapter, Float>all(adapters, "adapters");
        all.values().forEach(scale -> Native.finite(scale, "a scale of adapters"));
        return all;
    }

    /** A call with an array of adapters and an array of their scales. */
    interface Use<T> {
        T apply(Memory adapters, Memory scales, long n);
    }

    static <T> T useAll(Arena arena, Map<Adapter, Float> adapters, Use<T> call) {
        Memory scales = arena.allocate(4L * adapters.size());
        int i = 0;
        for (float scale : adapters.values()) scales.set(4 * i++, scale);
        return useAll(arena, List.copyOf(adapters.keySet()), all -> call.apply(all, scales, adapters.size()));
    }
}
