package realizar;

import java.util.ArrayList;
import java.util.List;

/** A device. {@code id}: what names it in every process on this machine, "cpu" or the UUID of a GPU, empty if unknown.
 * {@code available}: true if models can be loaded to it. {@code unavailable}: the reason why it cannot be used, empty
 * for one that can. {@code memoryTotal}, {@code memoryFree}: bytes, 0 if unknown. */
public record Device(int index, String id, String name, Kind kind, boolean available, String isa, long memoryTotal, long memoryFree, String unavailable) {
    /** The kind of a device, in the order of the library's numbers from 1. */
    public enum Kind {
        /** The processors. */
        CPU,
        /** A graphics card. */
        GPU
    }

    /** All devices, with those that cannot be used. The first is the CPU. */
    public static List<Device> all() {
        var found = new ArrayList<Device>();
        try (Arena arena = new Arena()) {
            for (int i = 1; i <= Header.rz_device_count(); i++) found.add(Results.deviceInfo(arena, i));
        }
        return found;
    }
}
