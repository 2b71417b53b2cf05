package realizar;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.util.List;

/** The encoded rows of an image, a video or a sound, which take the place of tokens in any number of prompts. Any
 * number of threads may use a media item at once. */
public final class Media extends Handle {
    /** The kind of a media item. */
    public enum Kind {
        /** An image. */
        IMAGE(Header.RZ_MEDIA_IMAGE),
        /** A sound. */
        AUDIO(Header.RZ_MEDIA_AUDIO),
        /** The embedding of an image, of encoders such as CLIP, which prompts reject. */
        VECTOR(Header.RZ_MEDIA_VECTOR),
        /** Frames of a video. */
        VIDEO(Header.RZ_MEDIA_VIDEO);

        final int number;

        Kind(int number) {
            this.number = number;
        }

        static Kind of(int number) {
            for (var kind : values()) if (kind.number == number) return kind;
            return IMAGE;
        }
    }

    /** Description of a media item. {@code rows}: number of rows, each of which takes the place of a token.
     * {@code tokens}: number of prompt tokens, which are the rows and the model's tokens around and between them.
     * {@code columns}, {@code lines}: the grid of rows of the image, of a tile if there are several, or of one of the
     * {@code pairs} of frames of a video. {@code tileColumns}, {@code tileLines}: the grid of tiles; 0 if the image is
     * one tile. {@code width}, {@code height}: size of the upright image in pixels. {@code seenWidth},
     * {@code seenHeight}: size in pixels after resizing, to which coordinates in the model's output refer.
     * {@code hash}: 32 bytes, the same for the same pixels, choices and encoder. */
    public record Info(Kind kind, int rows, int tokens, int rowDim, int columns, int lines, int tileColumns, int tileLines, boolean hasOverview,
        int width, int height, int seenWidth, int seenHeight, long bytes, long encodeNanoseconds, byte[] hash, int pairs) {}

    private volatile Info info;

    Media(Memory pointer) {
        super(pointer, Header::rz_media_free);
        info = call(Results::mediaInfo);
    }

    /**
     * Encodes a media item of {@link Encoder.Choices#inSteps} to its end. Prompts reject it before that. Returns false.
     */
    public boolean step() {
        return advance(Header.RZ_NO_LIMIT);
    }

    /** Encodes for about {@code microseconds}; a negative number counts as 0. Returns true if work remains. */
    public boolean step(long microseconds) {
        return advance(Math.max(microseconds, 0));
    }

    private boolean advance(long microseconds) {
        boolean more = call((arena, media) ->
            Blocking.call(List.of(), () -> Native.check(arena, e -> Header.rz_media_step(media, microseconds, e))) == Header.RZ_AGAIN);
        info = call(Results::mediaInfo);
        return more;
    }

    /** Returns a media item from rows that the caller has encoded, one after the other. {@code columns} times
     * {@code lines} is their number, for models with two-dimensional positions (M-RoPE); 0 for both: one line. */
    public static Media ofRows(Model model, Kind kind, float[] rows, int rowDim, int columns, int lines) {
        Native.given(model, "model");
        Native.given(kind, "kind");
        Native.whole(columns, "columns");
        Native.whole(lines, "lines");
        if (Native.given(rows, "rows").length % Math.max(Native.whole(rowDim, "rowDim"), 1) != 0 || rowDim == 0) {
            throw new IllegalArgumentException("rows has " + rows.length + " numbers; it must have a multiple of rowDim, " + rowDim);
        }
        return model.call((arena, pointer) -> {
            Memory all = arena.allocate(4L * rows.length);
            all.copy(rows);
            return new Media(Native.made(arena, out -> e ->
                Header.rz_media_from_rows(pointer, kind.number, all, rows.length / rowDim, rowDim, columns, lines, out, e)));
        });
    }

    /** Reads the media item that {@link #save} has written. No encoder is needed. */
    public static Media load(Model model, InputStream in) throws IOException {
        Native.given(model, "model");
        Native.given(in, "in");
        return Transfer.load(in, (read, user, out, e) -> model.use(pointer ->
            Header.rz_media_load(pointer, read, user, Memory.NULL, out, e)), Media::new);
    }

    /** Writes the media item, for {@link #load}. */
    public void save(OutputStream out) throws IOException {
        Transfer.save(this, out, Header::rz_media_save);
    }

    /** The description of the media item. */
    public Info info() {
        return info;
    }

    /** The hash of {@link #info}, a key for caches. */
    public byte[] hash() {
        return info.hash.clone();
    }

    /** The rows one after the other, each of {@link Info#rowDim} numbers. */
    public float[] rows() {
        return call((arena, media) -> Native.filled(arena, 4, (long) info.rows * info.rowDim, (out, capacity, written, e) ->
            Header.rz_media_rows_into(media, out, capacity, written, e)).floats());
    }
}
