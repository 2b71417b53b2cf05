package realizar;

import org.jspecify.annotations.Nullable;

/** Options of a media item. Each method sets one and returns the object; a number out of range throws an
 * IllegalArgumentException that names it. The build writes this file: make header. */
public abstract class MediaOptions<T extends MediaOptions<T>> {
    int minRows;
    int maxRows;
    int maxTiles;
    int maxPixels;
    int background;
    Model.Load.@Nullable Progress progress;
    @Nullable Cancel cancel;

    MediaOptions() {}

    @SuppressWarnings("unchecked")
    final T self() {
        return (T) this;
    }

    /** Minimum number of rows, for models that accept images of any size: smaller images are enlarged; 0: the
     * model's. */
    public T minRows(int minRows) {
        this.minRows = Native.whole(minRows, "minRows");
        return self();
    }

    /** Maximum number of rows: larger images and frames are shrunk, or cut into fewer tiles; 0: the encoder's. */
    public T maxRows(int maxRows) {
        this.maxRows = Native.whole(maxRows, "maxRows");
        return self();
    }

    /** Maximum number of tiles, without an overview; 0: the model's; 1: only the whole image. */
    public T maxTiles(int maxTiles) {
        this.maxTiles = Native.whole(maxTiles, "maxTiles");
        return self();
    }

    /** Maximum number of pixels of an image file, checked by its header before memory is allocated; 0: 64 million. */
    public T maxPixels(int maxPixels) {
        this.maxPixels = Native.whole(maxPixels, "maxPixels");
        return self();
    }

    /** Receives the number of tiles encoded so far and in total. An exception ends the call, which rethrows it. */
    public T progress(Model.Load.@Nullable Progress progress) {
        this.progress = progress;
        return self();
    }

    /** Stops the call. */
    public T cancel(@Nullable Cancel cancel) {
        this.cancel = cancel;
        return self();
    }

    /** Writes the numbers of the struct. */
    void set(Memory params) {
        Native.set(params, Header.rz_media_params, "min_rows", minRows);
        Native.set(params, Header.rz_media_params, "max_rows", maxRows);
        Native.set(params, Header.rz_media_params, "max_tiles", maxTiles);
        Native.set(params, Header.rz_media_params, "max_pixels", maxPixels);
        Native.set(params, Header.rz_media_params, "background", background);
    }
}
