package realizar;

import java.util.List;

/** A place for the experts (MoE) of layers that are on GPUs. {@code firstLayer}, {@code layers}: with CPU, so many
 * layers that have experts from one on, 0: all. {@code bytes}: with GPU, of experts on all GPUs together. */
public record Placement(Place place, int firstLayer, int layers, long bytes) {

    /** A place whose numbers are not negative. */
    public Placement {
        Native.given(place, "place");
        Native.whole(firstLayer, "firstLayer");
        Native.whole(layers, "layers");
        Native.whole(bytes, "bytes");
    }

    /** Where experts are. */
    public enum Place {
        /** On GPUs as many as fit, from the last layer on. */
        AUTO(Header.RZ_PLACE_AUTO),
        /** On the CPU. */
        CPU(Header.RZ_PLACE_CPU),
        /** On GPUs, in the last layers, as many as take at most so many bytes together. */
        GPU(Header.RZ_PLACE_GPU);

        final int number;

        Place(int number) {
            this.number = number;
        }
    }

    /** On GPUs as many as fit. */
    public static Placement auto() {
        return new Placement(Place.AUTO, 0, 0, 0);
    }

    /** The experts of the first layers that have experts are on the CPU, so many layers; 0: all. */
    public static Placement cpu(int layers) {
        return new Placement(Place.CPU, 0, layers, 0);
    }

    /** On GPUs as many as take at most so many bytes together. */
    public static Placement gpu(long bytes) {
        return new Placement(Place.GPU, 0, 0, bytes);
    }

    static Memory all(Arena arena, List<Placement> placements) {
        var layout = Header.rz_placement;
        if (placements.isEmpty()) return Memory.NULL;
        Memory all = arena.allocate((long) layout.size * placements.size());
        for (int i = 0; i < placements.size(); i++) {
            Memory one = all.part((long) layout.size * i, layout.size);
            Native.set(one, layout, "struct_size", layout.size);
            Native.set(one, layout, "what", Header.RZ_PLACED_EXPERTS);
            Native.set(one, layout, "place", placements.get(i).place.number);
            Native.set(one, layout, "first_layer", placements.get(i).firstLayer);
            Native.set(one, layout, "n_layers", placements.get(i).layers);
            Native.set(one, layout, "bytes", placements.get(i).bytes);
        }
        return all;
    }
}
