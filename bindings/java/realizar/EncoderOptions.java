package realizar;

import org.jspecify.annotations.Nullable;

/** Options of a load of an encoder. Each method sets one and returns the object; a number out of range throws an
 * IllegalArgumentException that names it. The build writes this file: make header. */
public abstract class EncoderOptions<T extends EncoderOptions<T>> {
    int device;
    ElementType quantize = ElementType.DEFAULT;
    int maxRows;
    Model.Load.@Nullable Progress progress;
    @Nullable Cancel cancel;

    EncoderOptions() {}

    @SuppressWarnings("unchecked")
    final T self() {
        return (T) this;
    }

    /** Index of a device; 0: the model's first GPU if the encoder fits there, otherwise the CPU. */
    public T device(int device) {
        this.device = Native.whole(device, "device");
        return self();
    }

    /** Element type to which float matrices are quantized during the load. */
    public T quantize(ElementType quantize) {
        this.quantize = Native.given(quantize, "quantize");
        return self();
    }

    /** Maximum number of rows of an image or an audio clip; 0: the maximum in the files, but at most 4096. */
    public T maxRows(int maxRows) {
        this.maxRows = Native.whole(maxRows, "maxRows");
        return self();
    }

    /** Receives the number of bytes loaded so far and in total, on the thread that loads. An exception ends the
     * load, which rethrows it. */
    public T progress(Model.Load.@Nullable Progress progress) {
        this.progress = progress;
        return self();
    }

    /** Stops the load. */
    public T cancel(@Nullable Cancel cancel) {
        this.cancel = cancel;
        return self();
    }

    /** Writes the numbers of the struct. */
    void set(Memory params) {
        Native.set(params, Header.rz_encoder_params, "device", device);
        Native.set(params, Header.rz_encoder_params, "quantize", quantize.number);
        Native.set(params, Header.rz_encoder_params, "max_rows", maxRows);
    }
}
