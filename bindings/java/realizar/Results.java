package realizar;

import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Collectors;

/** Reads what calls return. The build writes this file: make header. */
final class Results {
    private Results() {}

    static Device deviceInfo(Memory c) {
        var struct = Header.rz_device_info;
        return new Device(
            Native.integer(c, struct, "index"),
            Native.text(c, struct, "id"),
            Native.text(c, struct, "name"),
            Device.Kind.values()[Native.integer(c, struct, "kind") - 1],
            Native.integer(c, struct, "available") != 0,
            Native.text(c, struct, "isa"),
            Native.number(c, struct, "memory_total"),
            Native.number(c, struct, "memory_free"),
            Native.text(c, struct, "unavailable"));
    }

    static Device deviceInfo(Arena arena, int index) {
        var c = Native.sized(arena, Header.rz_device_info);
        Native.check(arena, e -> Header.rz_device_info_get(index, c, e));
        return deviceInfo(c);
    }

    static Model.Info modelInfo(Memory c, List<Integer> devices, List<Integer> layers) {
        var struct = Header.rz_model_info;
        return new Model.Info(
            Native.text(c, struct, "architecture"),
            Native.text(c, struct, "name"),
            Native.integer(c, struct, "n_layers"),
            Native.integer(c, struct, "hidden_dim"),
            Native.integer(c, struct, "vocab_size"),
            Native.integer(c, struct, "context_length"),
            Native.integer(c, struct, "bos_token"),
            Native.integer(c, struct, "eos_token"),
            Native.number(c, struct, "n_params"),
            Native.number(c, struct, "weight_bytes"),
            Native.integer(c, struct, "device"),
            devices,
            layers,
            (Native.integer(c, struct, "chat_template") & Header.RZ_TEMPLATE_PRESENT) != 0,
            Native.integer(c, struct, "n_unknown"),
            Model.Capability.of(Native.integer(c, struct, "capabilities")),
            Native.integer(c, struct, "embedding_dim"),
            Model.Pooling.values()[Native.integer(c, struct, "pooling")],
            Native.integer(c, struct, "n_scores"));
    }

    static Plan modelPlan(Memory c, List<Plan.OnDevice> devices, Plan.Experts experts) {
        var struct = Header.rz_model_plan;
        return new Plan(
            Native.integer(c, struct, "gpu_layers"),
            Native.number(c, struct, "weights_host"),
            Native.number(c, struct, "weights_device"),
            Native.number(c, struct, "cache_host"),
            Native.number(c, struct, "cache_device"),
            Native.number(c, struct, "cache_token"),
            Native.number(c, struct, "scratch_host"),
            Native.number(c, struct, "scratch_device"),
            Native.number(c, struct, "load_peak_host"),
            Native.number(c, struct, "total_host"),
            Native.number(c, struct, "total_device"),
            devices,
            experts);
    }

    static Plan.OnDevice modelPlanDevice(Memory c) {
        var struct = Header.rz_model_plan_device;
        return new Plan.OnDevice(
            Native.integer(c, struct, "device"),
            Native.integer(c, struct, "n_layers"),
            Native.number(c, struct, "weights"),
            Native.number(c, struct, "cache"),
            Native.number(c, struct, "scratch"),
            Native.number(c, struct, "total"));
    }

    static Encoder.Info encoderInfo(Memory c) {
        var struct = Header.rz_encoder_info;
        return new Encoder.Info(
            Native.text(c, struct, "projector"),
            Native.integer(c, struct, "is_mutual") != 0,
            Native.integer(c, struct, "row_dim"),
            Native.integer(c, struct, "n_layers"),
            Native.integer(c, struct, "tile_side"),
            Native.integer(c, struct, "grain"),
            Native.integer(c, struct, "min_rows"),
            Native.integer(c, struct, "max_rows"),
            Native.number(c, struct, "weight_bytes"),
            Native.number(c, struct, "scratch_bytes"),
            (Native.integer(c, struct, "kinds") & Header.RZ_MEDIA_AUDIO) != 0,
            Native.integer(c, struct, "sample_rate"),
            Native.integer(c, struct, "device"));
    }

    static Encoder.Info encoderInfo(Arena arena, Memory encoder) {
        var c = Native.sized(arena, Header.rz_encoder_info);
        Native.check(arena, e -> Header.rz_encoder_info_get(encoder, c, e));
        return encoderInfo(c);
    }

    static Encoder.Plan encoderPlan(Memory c) {
        var struct = Header.rz_encoder_plan;
        return new Encoder.Plan(
            Native.integer(c, struct, "max_rows"),
            Native.number(c, struct, "weights_host"),
            Native.number(c, struct, "scratch_host"),
            Native.number(c, struct, "row"),
            Native.number(c, struct, "weights_device"),
            Native.number(c, struct, "scratch_device"),
            Native.integer(c, struct, "device"));
    }

    static Encoder.Plan encoderPlan(Arena arena, Memory model, Memory path, Memory sources, int n, Memory params) {
        var c = Native.sized(arena, Header.rz_encoder_plan);
        Native.check(arena, e -> Header.rz_encoder_plan_get(model, path, sources, n, params, c, e));
        return encoderPlan(c);
    }

    static Media.Info mediaInfo(Memory c) {
        var struct = Header.rz_media_info;
        return new Media.Info(
            Media.Kind.of(Native.integer(c, struct, "kind")),
            Native.integer(c, struct, "n_rows"),
            Native.integer(c, struct, "n_tokens"),
            Native.integer(c, struct, "row_dim"),
            Native.integer(c, struct, "columns"),
            Native.integer(c, struct, "lines"),
            Native.integer(c, struct, "tile_columns"),
            Native.integer(c, struct, "tile_lines"),
            Native.integer(c, struct, "has_overview") != 0,
            Native.integer(c, struct, "width"),
            Native.integer(c, struct, "height"),
            Native.integer(c, struct, "seen_width"),
            Native.integer(c, struct, "seen_height"),
            Native.number(c, struct, "bytes"),
            Native.number(c, struct, "encode_ns"),
            Native.part(c, struct, "hash").bytes(),
            Native.integer(c, struct, "pairs"));
    }

    static Media.Info mediaInfo(Arena arena, Memory media) {
        var c = Native.sized(arena, Header.rz_media_info);
        Native.check(arena, e -> Header.rz_media_info_get(media, c, e));
        return mediaInfo(c);
    }

    static Store.Info storeInfo(Memory c) {
        var struct = Header.rz_store_info;
        return new Store.Info(
            Native.integer(c, struct, "n_entries"),
            Native.integer(c, struct, "n_files"),
            Native.number(c, struct, "memory_bytes"),
            Native.number(c, struct, "disk_bytes"),
            Native.number(c, struct, "hits"),
            Native.number(c, struct, "misses"),
            Native.number(c, struct, "reused_tokens"),
            Native.integer(c, struct, "n_unwritten"));
    }

    static Store.Info storeInfo(Arena arena, Memory store) {
        var c = Native.sized(arena, Header.rz_store_info);
        Native.check(arena, e -> Header.rz_store_info_get(store, c, e));
        return storeInfo(c);
    }

    static Conversation.Info conversationInfo(Memory c) {
        var struct = Header.rz_conversation_info;
        return new Conversation.Info(
            Native.integer(c, struct, "n_messages"),
            Native.integer(c, struct, "first_in_prompt"),
            Conversation.State.values()[Native.integer(c, struct, "state")],
            Generation.End.of(Native.integer(c, struct, "end_reason")),
            Generation.stopped(Native.integer(c, struct, "stopped")),
            Native.integer(c, struct, "prompt_tokens"),
            Native.integer(c, struct, "reused_tokens"),
            Native.integer(c, struct, "prompt_done"),
            Native.integer(c, struct, "n_tokens"),
            Native.integer(c, struct, "reasoning_tokens"),
            Native.integer(c, struct, "drafted"),
            Native.integer(c, struct, "accepted"),
            Native.integer(c, struct, "cache_len"),
            Native.integer(c, struct, "cache_capacity"),
            Native.integer(c, struct, "n_media"),
            Duration.ofNanos(Native.number(c, struct, "prompt_ns")),
            Duration.ofNanos(Native.number(c, struct, "tokens_ns")),
            Duration.ofNanos(Native.number(c, struct, "first_token_ns")));
    }

    static Conversation.Info conversationInfo(Arena arena, Memory conversation) {
        var c = Native.sized(arena, Header.rz_conversation_info);
        Native.check(arena, e -> Header.rz_conversation_info_get(conversation, c, e));
        return conversationInfo(c);
    }

    static Model.Work backendMetrics(Memory c) {
        var struct = Header.rz_backend_metrics;
        return new Model.Work(
            Native.number(c, struct, "dispatches"),
            Native.number(c, struct, "bytes"),
            Native.number(c, struct, "latency_sum_ns"),
            Native.number(c, struct, "latency_min_ns"),
            Native.number(c, struct, "latency_max_ns"),
            Native.precise(c, struct, "latency_mean_ns"),
            Native.precise(c, struct, "latency_variance_ns2"),
            Arrays.stream(Native.part(c, struct, "latency_histogram").longs()).boxed().collect(Collectors.toList()));
    }

    static Model.Work backendMetrics(Arena arena, Memory model, int device_kind) {
        var c = Native.sized(arena, Header.rz_backend_metrics);
        Native.check(arena, e -> Header.rz_backend_metrics_get(model, device_kind, c, e));
        return backendMetrics(c);
    }
}
