package realizar;

import java.util.ArrayList;
import java.util.List;

/** Memory that a model and its sessions take, in bytes. {@code cacheToken}: what one more token of capacity adds to a
 * session. */
public record Plan(int gpuLayers, long weightsHost, long weightsDevice, long cacheHost, long cacheDevice, long cacheToken, long scratchHost,
    long scratchDevice, long loadPeakHost, long totalHost, long totalDevice, List<OnDevice> devices, Experts experts) {
    /** Experts of layers on GPUs: the first layer whose experts are on the CPU, the number of layers up to the last,
     * and the bytes on either side. */
    public record Experts(int firstOnHost, int layersOnHost, long host, long device) {}

    /** What lies on one GPU. */
    public record OnDevice(int device, int layers, long weights, long cache, long scratch, long total) {}

    static Plan of(Memory c, Memory parts, int n) {
        var layout = Header.rz_model_plan;
        var onDevices = new ArrayList<OnDevice>();
        for (int i = 0; i < n; i++) {
            var device = Header.rz_model_plan_device;
            Memory part = parts.part((long) device.size * i, device.size);
            onDevices.add(Results.modelPlanDevice(part));
        }
        return Results.modelPlan(c, List.copyOf(onDevices), new Experts(Native.integer(c, layout, "experts_host_first"),
            Native.integer(c, layout, "experts_host_layers"), Native.number(c, layout, "experts_host"), Native.number(c, layout, "experts_device")));
    }
}
