package realizar;

import java.util.Map;

/** The parameters of loads of models, and files that are bytes in memory. */
final class Loading {
    /** A call with the parameters of a load. */
    interface Call {
        int apply(Memory params, Memory error);
    }

    private Loading() {}

    /** Sources of bytes, each under its name. */
    static Memory sources(Arena arena, Map<String, ?> files) {
        var layout = Header.rz_source;
        Memory sources = arena.allocate((long) layout.size * Native.all(files, "files").size());
        int i = 0;
        for (var file : files.entrySet()) {
            Memory source = sources.part((long) layout.size * i++, layout.size), bytes = Native.PLATFORM.source(arena, file.getValue());
            if (bytes == null) {
                throw new IllegalArgumentException("files[" + file.getKey() + "] is a " + file.getValue().getClass().getTypeName()
                    + "; it must be a ByteBuffer, or a MemorySegment where Java has foreign functions");
            }
            Native.set(source, layout, "struct_size", layout.size);
            Native.set(source, layout, "kind", Header.RZ_SOURCE_MEMORY);
            Native.set(source, layout, "name", Native.terminated(arena, file.getKey(), "a name of files"));
            Native.set(source, layout, "data", bytes);
            Native.set(source, layout, "size", bytes.size);
        }
        return sources;
    }

    /** Makes a call with the parameters of a load. */
    static void with(Arena arena, Model.Load load, Call call) {
        // A model keeps its runtime alive.
        try (RealizarRuntime own = load.runtime == null ? new RealizarRuntime(load.threads) : null) {
            var params = Native.sized(arena, Header.rz_model_params);
            load.set(params);
            Native.set(params, Header.rz_model_params, "devices", Native.ints(arena, load.devices.stream().mapToInt(Integer::intValue).toArray(), "devices"));
            Native.set(params, Header.rz_model_params, "n_devices", (long) load.devices.size());
            if (!load.shares.isEmpty()) {
                Memory shares = arena.allocate(4L * load.shares.size());
                for (int i = 0; i < load.shares.size(); i++) shares.set(4 * i, load.shares.get(i));
                Native.set(params, Header.rz_model_params, "device_split", shares);
            }
            Native.set(params, Header.rz_model_params, "placements", Placement.all(arena, load.placements));
            Native.set(params, Header.rz_model_params, "n_placements", (long) load.placements.size());
            if (load.packedPath != null) Native.set(params, Header.rz_model_params, "packed_path", Native.terminated(arena, load.packedPath.toString(), "packedPath"));
            if (load.testedPath != null) Native.set(params, Header.rz_model_params, "tested_path", Native.terminated(arena, load.testedPath.toString(), "testedPath"));
            if (load.chatTemplate != null) {
                Memory template = Native.bytes(arena, load.chatTemplate, "chatTemplate");
                Native.set(params, Header.rz_model_params, "chat_template", template);
                Native.set(params, Header.rz_model_params, "chat_template_len", template.size);
            }
            Handle.use(own == null ? load.runtime : own, runtime -> {
                Native.set(params, Header.rz_model_params, "runtime", runtime);
                return Reported.call(arena, params, Header.rz_model_params, load.progress, load.cancel, () ->
                    Native.check(arena, e -> call.apply(params, e)));
            });
        }
    }
}
