package realizar;

import java.util.Arrays;
import java.util.List;
import java.util.stream.Collectors;

/** Memory that a model and its sessions take, in bytes. {@code cacheToken}: what one more token of capacity adds to a
 * session. */
public record Plan(int gpuLayers, long weightsHost, long weightsDevice, long cacheHost, long cacheDevice, long cacheToken, long scratchHost,
    long scratchDevice, long loadPeakHost, long totalHost, long totalDevice, List<OnDevice> devices, Experts experts) {
    /** Experts of layers on GPUs: the first layer whose experts are on the CPU, the number of layers up to the last,
     * and the bytes on either side. */
    public record Experts(int firstOnHost, int layersOnHost, long host, long device) {}

    /** What lies on one GPU. */
    public record OnDevice(int device, int layers, long weights, long cache, long scratch, long total) {}

    static Plan of(Memory c) {
        var layout = Header.rz_plan;
        int[] devices = Native.integers(c, layout, "devices"), layers = Native.integers(c, layout, "device_layers");
        int n = (int) Arrays.stream(devices).filter(device -> device != 0).count();
        var parts = Arrays.asList("device_weights", "device_cache", "device_scratch", "device_total").stream()
            .map(name -> Native.part(c, layout, name).longs()).collect(Collectors.toList());
        var onDevices = java.util.stream.IntStream.range(0, n).mapToObj(i -> new OnDevice(devices[i], layers[i], parts.get(0)[i], parts.get(1)[i],
            parts.get(2)[i], parts.get(3)[i])).collect(Collectors.toList());
        java.util.function.ToLongFunction<String> bytes = name -> Native.number(c, layout, name);
        return new Plan(Native.integer(c, layout, "gpu_layers"), bytes.applyAsLong("weights_host"), bytes.applyAsLong("weights_device"),
            bytes.applyAsLong("cache_host"), bytes.applyAsLong("cache_device"), bytes.applyAsLong("cache_token"), bytes.applyAsLong("scratch_host"),
            bytes.applyAsLong("scratch_device"), bytes.applyAsLong("load_peak_host"), bytes.applyAsLong("total_host"), bytes.applyAsLong("total_device"),
            onDevices, new Experts(Native.integer(c, layout, "experts_host_first"), Native.integer(c, layout, "experts_host_layers"),
                bytes.applyAsLong("experts_host"), bytes.applyAsLong("experts_device")));
    }
}
