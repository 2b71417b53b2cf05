package realizar;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_BYTE;
import static java.lang.foreign.ValueLayout.JAVA_DOUBLE;
import static java.lang.foreign.ValueLayout.JAVA_FLOAT;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemoryLayout.PathElement;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.StructLayout;
import java.lang.foreign.SymbolLookup;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.CancellationException;
import java.util.stream.Collectors;

/** The functions and structs of the library, which is looked for once, when the first class of the package is used. */
final class Native {
    static final int ABI_VERSION = 1;
    static final int DONE = 2;
    static final long NO_LIMIT = -1;
    private static final int CANCELLED = -10;
    private static final int BUFFER_TOO_SMALL = -13;

    private static MemoryLayout field(MemoryLayout layout, String name) {
        return layout.withName(name);
    }

    /** A struct whose fields stand at their natural places. */
    private static StructLayout struct(String name, MemoryLayout... fields) {
        var members = new java.util.ArrayList<MemoryLayout>();
        long at = 0, align = 1;
        for (MemoryLayout field : fields) {
            long gap = Math.floorMod(-at, field.byteAlignment());
            if (gap > 0) members.add(MemoryLayout.paddingLayout(gap));
            members.add(field);
            at += gap + field.byteSize();
            align = Math.max(align, field.byteAlignment());
        }
        long gap = Math.floorMod(-at, align);
        if (gap > 0) members.add(MemoryLayout.paddingLayout(gap));
        return MemoryLayout.structLayout(members.toArray(MemoryLayout[]::new)).withName(name);
    }

    private static MemoryLayout[] fields(MemoryLayout layout, String... names) {
        return Arrays.stream(names).map(name -> field(layout, name)).toArray(MemoryLayout[]::new);
    }

    private static MemoryLayout[] join(Object... parts) {
        return Arrays.stream(parts)
            .flatMap(part -> part instanceof MemoryLayout[] many ? Arrays.stream(many) : Arrays.stream(new MemoryLayout[] {(MemoryLayout) part}))
            .toArray(MemoryLayout[]::new);
    }

    private static MemoryLayout chars(int n, String name) {
        return MemoryLayout.sequenceLayout(n, JAVA_BYTE).withName(name);
    }

    static final StructLayout ERROR = struct("rz_error", join(fields(JAVA_INT, "code", "system_code"), chars(504, "message")));
    static final StructLayout RUNTIME_PARAMS = struct("rz_runtime_params", join(
        fields(JAVA_INT, "struct_size", "threads"), field(JAVA_LONG, "memory_limit"), field(ADDRESS, "cpus"), field(JAVA_LONG, "n_cpus"),
        fields(ADDRESS, "log", "log_user", "parallel", "parallel_user")));
    static final StructLayout MODEL_PARAMS = struct("rz_model_params", join(
        fields(JAVA_INT, "struct_size", "device"), field(ADDRESS, "runtime"), fields(JAVA_INT, "flags", "gpu_layers", "quantize", "reserved"),
        fields(ADDRESS, "progress", "progress_user", "cancel", "packed_path", "devices"), field(JAVA_LONG, "n_devices"), field(ADDRESS, "shares")));
    static final StructLayout MODEL_INFO = struct("rz_model_info", join(
        field(JAVA_INT, "struct_size"), chars(32, "architecture"), chars(64, "name"),
        fields(JAVA_INT, "n_layers", "hidden_dim", "ffn_dim", "n_heads", "n_kv_heads", "head_dim", "vocab_size", "context_length", "device",
            "bos_token", "eos_token"),
        fields(JAVA_LONG, "n_params", "weight_bytes"), fields(JAVA_INT, "gpu_layers", "chat_template"),
        fields(MemoryLayout.sequenceLayout(16, JAVA_INT), "devices", "device_layers"), fields(JAVA_INT, "n_unknown", "reserved")));
    static final StructLayout MODEL_SAMPLING = struct("rz_model_sampling", join(
        fields(JAVA_INT, "struct_size", "told"), field(JAVA_FLOAT, "temperature"), field(JAVA_INT, "top_k"),
        fields(JAVA_FLOAT, "top_p", "min_p", "repeat_penalty"), field(JAVA_INT, "penalty_window")));
    static final StructLayout SOURCE = struct("rz_source", join(
        fields(JAVA_INT, "struct_size", "kind"), fields(ADDRESS, "name", "data"), field(JAVA_LONG, "size"), fields(JAVA_INT, "fd", "reserved"),
        field(JAVA_LONG, "offset"), fields(ADDRESS, "read", "user")));
    static final StructLayout PLAN = struct("rz_plan", join(
        fields(JAVA_INT, "struct_size", "gpu_layers"),
        fields(JAVA_LONG, "weights_host", "weights_device", "cache_host", "cache_device", "cache_token", "scratch_host", "scratch_device",
            "load_peak_host", "total_host", "total_device"),
        fields(MemoryLayout.sequenceLayout(16, JAVA_INT), "devices", "device_layers"),
        fields(MemoryLayout.sequenceLayout(16, JAVA_LONG), "device_weights", "device_cache", "device_scratch", "device_total")));
    static final StructLayout DEVICE_INFO = struct("rz_device_info", join(
        fields(JAVA_INT, "struct_size", "index"), chars(64, "name"), fields(JAVA_INT, "kind", "available"), chars(32, "isa"),
        fields(JAVA_LONG, "memory_total", "memory_free"), chars(256, "unavailable")));
    static final StructLayout LOGIT_BIAS = struct("rz_logit_bias", join(field(JAVA_INT, "token"), field(JAVA_FLOAT, "bias")));
    static final StructLayout EMBED_PARAMS = struct("rz_embed_params", fields(JAVA_INT, "struct_size", "pooling", "flags", "reserved"));
    static final StructLayout PHASE = struct("rz_phase_metrics", fields(JAVA_LONG, "count", "sum_ns"));
    static final String[] PHASES = {"load", "tokenize", "prefill", "decode", "sample", "detokenize", "gpu_products", "gpu_attention", "gpu_experts",
        "gpu_head", "gpu_other"};
    static final StructLayout METRICS = struct("rz_metrics", join(fields(JAVA_INT, "struct_size", "reserved"), fields(PHASE, PHASES)));
    static final StructLayout BACKEND_METRICS = struct("rz_backend_metrics", join(
        fields(JAVA_INT, "struct_size", "device_kind"),
        fields(JAVA_LONG, "dispatches", "bytes", "latency_sum_ns", "latency_min_ns", "latency_max_ns"),
        fields(JAVA_DOUBLE, "latency_mean_ns", "latency_variance_ns2"), field(MemoryLayout.sequenceLayout(32, JAVA_LONG), "latency_histogram")));
    static final StructLayout SAMPLER_PARAMS = struct("rz_sampler_params", join(
        field(JAVA_INT, "struct_size"), field(JAVA_FLOAT, "temperature"), field(JAVA_INT, "top_k"),
        fields(JAVA_FLOAT, "top_p", "min_p", "repeat_penalty", "presence_penalty", "frequency_penalty"),
        fields(JAVA_INT, "penalty_window", "flags"), field(JAVA_LONG, "seed"), field(ADDRESS, "biases"), field(JAVA_LONG, "n_biases")));
    static final StructLayout CACHE_PARAMS = struct("rz_cache_params", fields(JAVA_INT, "struct_size", "capacity", "k_type", "v_type"));
    static final StructLayout JOB_PARAMS = struct("rz_job_params", join(
        fields(JAVA_INT, "struct_size", "max_tokens"), field(ADDRESS, "tokens"), field(JAVA_LONG, "n_tokens"), fields(ADDRESS, "sampler", "grammar", "stops"),
        field(JAVA_LONG, "n_stops"), field(ADDRESS, "cancel"), fields(JAVA_INT, "flags", "reserved", "draft", "draft_max"),
        field(ADDRESS, "draft_model"), fields(JAVA_INT, "logprobs", "reserved_1"), field(ADDRESS, "chat"), field(JAVA_LONG, "chat_len")));
    static final StructLayout JOB_INFO = struct("rz_job_info", join(
        fields(JAVA_INT, "struct_size", "state", "end", "stopped", "prompt_total", "prompt_done", "n_tokens", "cache_len"),
        fields(JAVA_LONG, "prompt_ns", "tokens_ns", "first_token_ns"), fields(JAVA_INT, "drafted", "accepted")));
    private static final StructLayout LAYOUT = struct("rz_layout", join(
        fields(JAVA_INT, "struct_size", "offset", "size"), chars(32, "struct_name"), chars(32, "field_name")));
    private static final StructLayout[] STRUCTS = {ERROR, RUNTIME_PARAMS, MODEL_PARAMS, MODEL_INFO, MODEL_SAMPLING, SOURCE, PLAN, DEVICE_INFO,
        LOGIT_BIAS, EMBED_PARAMS, PHASE, METRICS, BACKEND_METRICS, SAMPLER_PARAMS, CACHE_PARAMS, JOB_PARAMS, JOB_INFO, LAYOUT};

    private static final String FILE = file();
    private static final SymbolLookup LIBRARY = open();
    private static final MethodHandle VERSION = function("rz_abi_version", JAVA_INT);

    // Ahead of the other functions, which another interface may lack.
    static {
        checkVersion();
    }

    private static final MethodHandle LAYOUT_GET = call("rz_layout_get", JAVA_INT, ADDRESS);
    static final MethodHandle RUNTIME_NEW = call("rz_runtime_new", ADDRESS, ADDRESS);
    static final MethodHandle RUNTIME_FREE = free("rz_runtime_free");
    static final MethodHandle RUNTIME_THREADS_SET = call("rz_runtime_threads_set", ADDRESS, JAVA_INT);
    static final MethodHandle LIBRARY_VERSION = function("rz_version", ADDRESS);
    static final MethodHandle STATUS_NAME = function("rz_status_name", ADDRESS, JAVA_INT);
    static final MethodHandle DEVICE_COUNT = function("rz_device_count", JAVA_INT);
    static final MethodHandle DEVICE_INFO_GET = call("rz_device_info_get", JAVA_INT, ADDRESS);
    static final MethodHandle CANCEL_NEW = call("rz_cancel_new", ADDRESS);
    static final MethodHandle CANCEL_FIRE = free("rz_cancel_fire");
    static final MethodHandle CANCEL_DEADLINE = call("rz_cancel_deadline", ADDRESS, JAVA_LONG);
    static final MethodHandle CANCEL_RESET = free("rz_cancel_reset");
    static final MethodHandle CANCEL_FREE = free("rz_cancel_free");
    static final MethodHandle MODEL_LOAD = call("rz_model_load", ADDRESS, ADDRESS, ADDRESS);
    static final MethodHandle MODEL_LOAD_FROM = call("rz_model_load_from", ADDRESS, JAVA_LONG, ADDRESS, ADDRESS);
    static final MethodHandle MODEL_PLAN = call("rz_model_plan", ADDRESS, ADDRESS, JAVA_LONG, ADDRESS, ADDRESS, JAVA_INT, ADDRESS);
    static final MethodHandle MODEL_FREE = free("rz_model_free");
    static final MethodHandle MODEL_INFO_GET = call("rz_model_info_get", ADDRESS, ADDRESS);
    static final MethodHandle MODEL_SAMPLING_GET = call("rz_model_sampling_get", ADDRESS, ADDRESS);
    static final MethodHandle MODEL_META_KEY = call("rz_model_meta_key_into", ADDRESS, JAVA_LONG, ADDRESS, JAVA_LONG, ADDRESS);
    static final MethodHandle MODEL_META_ELEMENT = call("rz_model_meta_element_into", ADDRESS, ADDRESS, JAVA_LONG, ADDRESS, JAVA_LONG, ADDRESS);
    static final MethodHandle MODEL_META = call("rz_model_meta_into", ADDRESS, ADDRESS, ADDRESS, JAVA_LONG, ADDRESS);
    static final MethodHandle TOKENIZE = call("rz_tokenize_into", ADDRESS, ADDRESS, JAVA_LONG, JAVA_INT, ADDRESS, JAVA_LONG, ADDRESS);
    static final MethodHandle DETOKENIZE = call("rz_detokenize_into", ADDRESS, ADDRESS, JAVA_LONG, JAVA_INT, ADDRESS, JAVA_LONG, ADDRESS);
    static final MethodHandle TOKEN_IS_END = function("rz_token_is_end", JAVA_INT, ADDRESS, JAVA_INT);
    static final MethodHandle TOKEN_BYTES = call("rz_token_bytes_into", ADDRESS, JAVA_INT, ADDRESS, JAVA_LONG, ADDRESS, ADDRESS);
    static final MethodHandle TEXTSTREAM_NEW = call("rz_textstream_new", ADDRESS, ADDRESS);
    static final MethodHandle TEXTSTREAM_FOLLOW = call("rz_textstream_follow", ADDRESS, ADDRESS, JAVA_LONG);
    static final MethodHandle TEXTSTREAM_PUSH = call("rz_textstream_push_into", ADDRESS, JAVA_INT, ADDRESS, JAVA_LONG, ADDRESS);
    static final MethodHandle TEXTSTREAM_FLUSH = call("rz_textstream_flush_into", ADDRESS, ADDRESS, JAVA_LONG, ADDRESS);
    static final MethodHandle TEXTSTREAM_FREE = free("rz_textstream_free");
    static final MethodHandle CHAT_RENDER = call("rz_chat_render_json_into", ADDRESS, ADDRESS, JAVA_LONG, JAVA_INT, ADDRESS, JAVA_LONG, ADDRESS);
    static final MethodHandle CHAT_TOKENIZE = call("rz_chat_tokenize_into", ADDRESS, ADDRESS, JAVA_LONG, JAVA_INT, ADDRESS, JAVA_LONG, ADDRESS);
    static final MethodHandle GRAMMAR_NEW = call("rz_grammar_new", ADDRESS, JAVA_INT, ADDRESS, JAVA_LONG, ADDRESS);
    static final MethodHandle GRAMMAR_FREE = free("rz_grammar_free");
    static final MethodHandle CHAT_PARSER_NEW = call("rz_chat_parser_new", ADDRESS, ADDRESS, JAVA_LONG, ADDRESS);
    static final MethodHandle CHAT_PARSER_PUSH = call("rz_chat_parser_push", ADDRESS, JAVA_INT);
    static final MethodHandle CHAT_PARSER_END = call("rz_chat_parser_end", ADDRESS);
    static final MethodHandle CHAT_PARSER_NEXT = call("rz_chat_parser_next_into", ADDRESS, ADDRESS, ADDRESS, ADDRESS, JAVA_LONG, ADDRESS);
    static final MethodHandle CHAT_PARSER_FREE = free("rz_chat_parser_free");
    static final MethodHandle ADAPTER_LOAD = call("rz_adapter_load", ADDRESS, ADDRESS, ADDRESS);
    static final MethodHandle ADAPTER_FREE = free("rz_adapter_free");
    static final MethodHandle ADAPTERS_SET = call("rz_cache_adapters_set", ADDRESS, ADDRESS, ADDRESS, JAVA_LONG);
    static final MethodHandle SAMPLER_NEW = call("rz_sampler_new", ADDRESS, ADDRESS);
    static final MethodHandle SAMPLER_FREE = free("rz_sampler_free");
    static final MethodHandle SAMPLER_GRAMMAR_SET = call("rz_sampler_grammar_set", ADDRESS, ADDRESS);
    static final MethodHandle CACHE_NEW = call("rz_cache_new", ADDRESS, ADDRESS, ADDRESS);
    static final MethodHandle CACHE_FREE = free("rz_cache_free");
    static final MethodHandle CACHE_LEN = function("rz_cache_len", JAVA_INT, ADDRESS);
    static final MethodHandle CACHE_CAPACITY = function("rz_cache_capacity", JAVA_INT, ADDRESS);
    static final MethodHandle CACHE_TOKENS = call("rz_cache_tokens_into", ADDRESS, ADDRESS, JAVA_LONG, ADDRESS);
    static final MethodHandle CACHE_SHIFT = call("rz_cache_shift", ADDRESS, JAVA_INT, JAVA_INT);
    static final MethodHandle CACHE_RELEASE = call("rz_cache_release", ADDRESS);
    static final MethodHandle CACHE_SAVE = call("rz_cache_save", ADDRESS, ADDRESS, ADDRESS);
    static final MethodHandle CACHE_LOAD = call("rz_cache_load", ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS);
    static final MethodHandle PREFILL = call("rz_prefill", ADDRESS, ADDRESS, JAVA_LONG, ADDRESS);
    static final MethodHandle SAMPLE = call("rz_sample", ADDRESS, ADDRESS, ADDRESS);
    static final MethodHandle DECODE = call("rz_decode_token", ADDRESS, JAVA_INT, ADDRESS, ADDRESS);
    static final MethodHandle DECODE_BATCH = call("rz_decode_batch", ADDRESS, ADDRESS, JAVA_LONG, ADDRESS, ADDRESS);
    static final MethodHandle LOGPROBS = call("rz_logprobs_into", ADDRESS, JAVA_INT, ADDRESS, ADDRESS, ADDRESS);
    static final MethodHandle SCORE = call("rz_score_into", ADDRESS, ADDRESS, JAVA_LONG, ADDRESS, ADDRESS);
    static final MethodHandle CACHE_TRUNCATE = call("rz_cache_truncate", ADDRESS, JAVA_INT);
    static final MethodHandle CACHE_MATCH = call("rz_cache_match", ADDRESS, ADDRESS, JAVA_LONG, ADDRESS);
    static final MethodHandle CACHE_FORK = call("rz_cache_fork", ADDRESS, ADDRESS);
    static final MethodHandle LOGITS = call("rz_logits_into", ADDRESS, ADDRESS, JAVA_LONG, ADDRESS);
    static final MethodHandle JOB_NEW = call("rz_job_new", ADDRESS, ADDRESS, ADDRESS);
    static final MethodHandle JOB_STEP = call("rz_job_step", ADDRESS, JAVA_LONG);
    static final MethodHandle JOBS_STEP = call("rz_jobs_step", ADDRESS, JAVA_LONG, JAVA_LONG);
    static final MethodHandle JOB_ERROR = call("rz_job_error", ADDRESS);
    static final MethodHandle JOB_NEXT = call("rz_job_next_into", ADDRESS, ADDRESS, ADDRESS, ADDRESS, JAVA_LONG, ADDRESS);
    static final MethodHandle JOB_TOKENS = call("rz_job_tokens_into", ADDRESS, ADDRESS, JAVA_LONG, ADDRESS);
    static final MethodHandle JOB_LOGPROBS = call("rz_job_logprobs_into", ADDRESS, ADDRESS, ADDRESS, JAVA_LONG, ADDRESS);
    static final MethodHandle JOB_TEXT = call("rz_job_text_into", ADDRESS, ADDRESS, JAVA_LONG, ADDRESS);
    static final MethodHandle JOB_INFO_GET = call("rz_job_info_get", ADDRESS, ADDRESS);
    static final MethodHandle JOB_FREE = free("rz_job_free");
    static final MethodHandle METRICS_GET = call("rz_metrics_get", ADDRESS, ADDRESS);
    static final MethodHandle METRICS_RESET = free("rz_metrics_reset");
    static final MethodHandle BACKEND_METRICS_GET = call("rz_backend_metrics_get", ADDRESS, JAVA_INT, ADDRESS);
    static final MethodHandle EMBED = call("rz_embed_into", ADDRESS, ADDRESS, ADDRESS, ADDRESS, JAVA_LONG, ADDRESS, JAVA_LONG, ADDRESS, ADDRESS);

    static {
        check();
    }

    private Native() {}

    private static String file() {
        String named = System.getProperty("realizar.library", System.getenv("REALIZAR_LIBRARY"));
        return named != null ? Path.of(named).toAbsolutePath().toString() : System.mapLibraryName("realizar");
    }

    private static SymbolLookup open() {
        try {
            boolean isPath = Path.of(FILE).isAbsolute();
            return isPath ? SymbolLookup.libraryLookup(Path.of(FILE), Arena.global()) : SymbolLookup.libraryLookup(FILE, Arena.global());
        } catch (IllegalArgumentException e) {
            throw new UnsatisfiedLinkError("the library " + FILE + " cannot be loaded: name it in the property realizar.library (" + e.getMessage() + ")");
        }
    }

    private static MethodHandle handle(String name, FunctionDescriptor descriptor) {
        MemorySegment at = LIBRARY.find(name).orElseThrow(() -> new UnsatisfiedLinkError("the library " + FILE + " has no function " + name));
        return Linker.nativeLinker().downcallHandle(at, descriptor);
    }

    private static MethodHandle function(String name, MemoryLayout result, MemoryLayout... arguments) {
        return handle(name, FunctionDescriptor.of(result, arguments));
    }

    /** A function that can fail. */
    private static MethodHandle call(String name, MemoryLayout... arguments) {
        return function(name, JAVA_INT, join(arguments, ADDRESS));
    }

    private static MethodHandle free(String name) {
        return handle(name, FunctionDescriptor.ofVoid(ADDRESS));
    }

    private static void checkVersion() {
        try {
            int version = (int) VERSION.invokeExact();
            if (version == ABI_VERSION) return;
            throw new UnsatisfiedLinkError("the library " + FILE + " has the interface " + version + ", " + ABI_VERSION + " is needed");
        } catch (Throwable e) {
            throw rethrown(e);
        }
    }

    /** Compares the structs above with those of the library. */
    private static void check() {
        try (Arena arena = Arena.ofConfined()) {
            Map<String, String> mine = new HashMap<>();
            for (StructLayout struct : STRUCTS) {
                for (MemoryLayout member : struct.memberLayouts()) {
                    member.name().ifPresent(name -> mine.put(struct.name().get() + "." + name,
                        struct.byteOffset(PathElement.groupElement(name)) + ", " + member.byteSize()));
                }
            }
            MemorySegment layout = sized(arena, LAYOUT);
            for (int i = 0; (int) LAYOUT_GET.invokeExact(i, layout, MemorySegment.NULL) == 0; i++) {
                String name = text(layout, LAYOUT, "struct_name") + "." + text(layout, LAYOUT, "field_name");
                String found = integer(layout, LAYOUT, "offset") + ", " + integer(layout, LAYOUT, "size");
                String wanted = mine.remove(name);
                if (wanted != null && !wanted.equals(found)) {
                    throw new UnsatisfiedLinkError("the library " + FILE + " has " + name + " at offset and size " + found + ", " + wanted + " is needed");
                }
            }
            if (!mine.isEmpty()) throw new UnsatisfiedLinkError("the library " + FILE + " lacks " + mine.keySet().stream().sorted().collect(Collectors.joining(", ")));
        } catch (Throwable e) {
            throw rethrown(e);
        }
    }

    /** Turns what an invocation throws, which declares everything, into something unchecked. */
    static RuntimeException rethrown(Throwable e) {
        if (e instanceof RuntimeException unchecked) return unchecked;
        if (e instanceof Error error) throw error;
        return new IllegalStateException(e);
    }

    /** A zeroed struct that begins with its size. */
    static MemorySegment sized(Arena arena, StructLayout layout) {
        MemorySegment struct = arena.allocate(layout);
        set(struct, layout, "struct_size", (int) layout.byteSize());
        return struct;
    }

    private static long offset(StructLayout layout, String field) {
        return layout.byteOffset(PathElement.groupElement(field));
    }

    static void set(MemorySegment struct, StructLayout layout, String field, int value) {
        struct.set(JAVA_INT, offset(layout, field), value);
    }

    static void set(MemorySegment struct, StructLayout layout, String field, long value) {
        struct.set(JAVA_LONG, offset(layout, field), value);
    }

    static void set(MemorySegment struct, StructLayout layout, String field, float value) {
        struct.set(JAVA_FLOAT, offset(layout, field), value);
    }

    static void set(MemorySegment struct, StructLayout layout, String field, MemorySegment value) {
        struct.set(ADDRESS, offset(layout, field), value);
    }

    static int integer(MemorySegment struct, StructLayout layout, String field) {
        return struct.get(JAVA_INT, offset(layout, field));
    }

    static int[] integers(MemorySegment struct, StructLayout layout, String field) {
        return part(struct, layout, field).toArray(JAVA_INT);
    }

    static long number(MemorySegment struct, StructLayout layout, String field) {
        return struct.get(JAVA_LONG, offset(layout, field));
    }

    static float real(MemorySegment struct, StructLayout layout, String field) {
        return struct.get(JAVA_FLOAT, offset(layout, field));
    }

    static double precise(MemorySegment struct, StructLayout layout, String field) {
        return struct.get(JAVA_DOUBLE, offset(layout, field));
    }

    /** A part of a struct. */
    static MemorySegment part(MemorySegment struct, StructLayout layout, String field) {
        return struct.asSlice(offset(layout, field), layout.select(PathElement.groupElement(field)).byteSize());
    }

    static String text(MemorySegment struct, StructLayout layout, String field) {
        return struct.getString(offset(layout, field), StandardCharsets.UTF_8);
    }

    /** A call of the library that is given where to write an error. */
    interface Call {
        int apply(MemorySegment error) throws Throwable;
    }

    /** Calls the library; returns a status that is no error. */
    static int check(Arena arena, Call call) {
        MemorySegment error = arena.allocate(ERROR);
        int status = status(error, call);
        if (status >= 0) return status;
        String message = text(error, ERROR, "message");
        if (status == CANCELLED) throw new CancellationException(message);
        throw new RealizarException(status, message, integer(error, ERROR, "system_code"));
    }

    /** A microsecond count as the library takes one, of a time that may be negative or, without a limit, null. */
    static long microseconds(Duration time) {
        if (time == null) return NO_LIMIT;
        if (time.isNegative()) return 0;
        try {
            return Math.ceilDiv(time.toNanos(), 1000);
        } catch (ArithmeticException e) {
            return Long.MAX_VALUE; // some hundred thousand years
        }
    }

    /** Something for the library to call: a method of an object, for as long as the arena. It may not throw. */
    static MemorySegment callback(Arena arena, MethodHandles.Lookup lookup, Object of, String method, FunctionDescriptor descriptor) {
        try {
            MethodHandle target = lookup.findVirtual(of.getClass(), method, descriptor.toMethodType());
            return Linker.nativeLinker().upcallStub(target.bindTo(of), descriptor, arena);
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException(e);
        }
    }

    /** A text that the library owns. */
    static String text(MemorySegment terminated) {
        return terminated.reinterpret(Long.MAX_VALUE).getString(0, StandardCharsets.UTF_8);
    }

    private static int status(MemorySegment error, Call call) {
        try {
            return call.apply(error);
        } catch (Throwable e) {
            throw rethrown(e);
        }
    }

    /** A function that writes to a buffer, and the number of what it has written, or would need. */
    interface Fill {
        int apply(MemorySegment out, long capacity, MemorySegment written, MemorySegment error) throws Throwable;
    }

    /** Fills a buffer with elements of some bytes; one that is too small is made larger, once. */
    static MemorySegment filled(Arena arena, int element, long capacity, Fill fill) {
        MemorySegment written = arena.allocate(JAVA_LONG), error = arena.allocate(ERROR);
        for (long room = capacity;; ) {
            long now = room;
            MemorySegment out = arena.allocate(Math.max(1, now) * element, 8);
            int status = status(error, e -> fill.apply(out, now, written, e));
            if (status != BUFFER_TOO_SMALL) {
                check(arena, e -> {
                    e.copyFrom(error);
                    return status;
                });
                return out.asSlice(0, written.get(JAVA_LONG, 0) * element);
            }
            room = written.get(JAVA_LONG, 0);
        }
    }

    /** A pointer that a call writes. */
    static MemorySegment made(Arena arena, java.util.function.Function<MemorySegment, Call> call) {
        MemorySegment out = arena.allocate(ADDRESS);
        check(arena, call.apply(out));
        return out.get(ADDRESS, 0);
    }

    static MemorySegment ints(Arena arena, int[] values) {
        return values.length == 0 ? MemorySegment.NULL : arena.allocateFrom(JAVA_INT, values);
    }

    /** UTF-8 without a NUL. A lone surrogate, which has none, is refused. */
    static byte[] utf8(String text) {
        try {
            var bytes = StandardCharsets.UTF_8.newEncoder().encode(java.nio.CharBuffer.wrap(text));
            return Arrays.copyOf(bytes.array(), bytes.limit());
        } catch (java.nio.charset.CharacterCodingException e) {
            throw new IllegalArgumentException("a text with half of a surrogate pair");
        }
    }

    static MemorySegment bytes(Arena arena, byte[] bytes) {
        return bytes.length == 0 ? MemorySegment.NULL : arena.allocateFrom(JAVA_BYTE, bytes);
    }

    /** NUL-terminated UTF-8. */
    static MemorySegment terminated(Arena arena, String text) {
        if (text.indexOf('\0') >= 0) throw new IllegalArgumentException("a text with a NUL");
        byte[] bytes = utf8(text);
        MemorySegment out = arena.allocate(bytes.length + 1);
        out.asSlice(0, bytes.length).copyFrom(MemorySegment.ofArray(bytes));
        return out;
    }

    static String string(MemorySegment bytes) {
        return new String(bytes.toArray(JAVA_BYTE), StandardCharsets.UTF_8);
    }
}
