package realizar;

import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.Map;

/** The vision or audio encoder of a multimodal model. Any number of threads may use it at once. */
public final class Encoder extends Handle {

    /** Options of a load, all of which are optional. Each method sets one and returns the object. */
    public static final class Load extends EncoderOptions<Load> {
        private int flags;

        /** All options are the default. */
        public Load() {}

        /** Which encoder of a file to load, if the file has both; by default the vision encoder. */
        public Load kind(Media.Kind kind) {
            flags |= Native.given(kind, "kind") == Media.Kind.AUDIO ? Header.RZ_ENCODER_AUDIO : Header.RZ_ENCODER_IMAGE;
            return this;
        }

        /** Ignores unknown keys and tensors. */
        public Load allowUnknown() {
            flags |= Header.RZ_MODEL_ALLOW_UNKNOWN;
            return this;
        }
    }

    /** Options of an image, all of which are optional. Each method sets one and returns the object. */
    public static final class Choices extends MediaOptions<Choices> {
        private int flags;

        /** All options are the default. */
        public Choices() {}

        /** The background color of transparent pixels, 0xffRRGGBB; 0: white. */
        public Choices background(int colour) {
            background = colour;
            return this;
        }

        /** {@link Media#step} computes, in slices of time. The progress callback and the cancel are ignored. */
        public Choices inSteps() {
            flags = Header.RZ_ENCODE_STEPS;
            return this;
        }

        private Memory params(Arena arena) {
            var params = Native.sized(arena, Header.rz_media_params);
            set(params);
            Native.set(params, Header.rz_media_params, "flags", flags);
            return params;
        }
    }

    /** The order of the bytes of a pixel. */
    public enum PixelFormat {
        /** Red, green, blue. */
        RGB8(Header.RZ_PIXELS_RGB8, 3),
        /** Red, green, blue, alpha. */
        RGBA8(Header.RZ_PIXELS_RGBA8, 4),
        /** Blue, green, red, alpha. */
        BGRA8(Header.RZ_PIXELS_BGRA8, 4),
        /** Shades of gray. */
        GRAY8(Header.RZ_PIXELS_GRAY8, 1);

        final int number, bytes;

        PixelFormat(int number, int bytes) {
            this.number = number;
            this.bytes = bytes;
        }
    }

    /** Description of an encoder. {@code isMutual}: the rows of an image attend to each other, so that one step of the
     * model computes them. {@code tileSide}: side of a tile in pixels; 0: an image is one tile of any size. {@code
     * grain}: the sides of tiles are multiples of so many pixels. {@code hears}: true for an audio encoder, which
     * resamples sound to {@code sampleRate} samples per second. {@code device}: index of the device that it is on. */
    public record Info(String projector, boolean isMutual, int rowDim, int layers, int tileSide, int grain, int minRows, int maxRows,
        long weightBytes, long scratchBytes, boolean hears, int sampleRate, int device) {}

    /** Memory that an encoder takes in addition to its model, in bytes. {@code maxRows}: rows of the largest image.
     * {@code row}: bytes of one row. {@code weights} and {@code scratch} are in host memory, {@code deviceWeights} and
     * {@code deviceScratch} on the GPU with the index {@code device}. */
    public record Plan(int maxRows, long weights, long scratch, long row, long deviceWeights, long deviceScratch, int device) {}

    private final Info info;

    private Encoder(Memory pointer) {
        super(pointer, Header::rz_encoder_free);
        info = call(Results::encoderInfo);
    }

    /** A call with parameters. */
    private interface Call {
        int apply(Memory model, Memory path, Memory params, Memory error);
    }

    /** Loads an encoder without options. */
    public static Encoder load(Model model, Path path) {
        return load(model, path, new Load());
    }

    /** Loads the encoder of a model from the .gguf file with the projector ("mmproj-..."), or from a folder with a
     * config.json, which may be that of the model. */
    public static Encoder load(Model model, Path path, Load load) {
        try (Arena arena = new Arena()) {
            Memory out = arena.allocate(Memory.POINTER);
            with(arena, model, path, load, (pointer, name, params, e) -> Header.rz_encoder_load(pointer, name, params, out, e));
            return new Encoder(out.getPointer(0));
        }
    }

    /** The same for a path, or the encoder of a model of the Hub, "hf:owner/name". */
    public static Encoder load(Model model, String name, Load load) {
        Native.given(model, "model");
        Native.given(name, "name");
        Native.given(load, "load");
        return load(model, name.startsWith(Hub.PREFIX) ? Model.fetch(Hub.choose(name, null, 0, 0).encoder(), load.progress) : Paths.get(name), load);
    }

    /** The same for files that are bytes in memory, as {@link Model#load(Map, Model.Load)} takes them. */
    public static Encoder load(Model model, Map<String, ?> files, Load load) {
        Native.given(model, "model");
        Native.given(load, "load");
        try (Arena arena = new Arena()) {
            Memory sources = Loading.sources(arena, files), out = arena.allocate(Memory.POINTER);
            with(arena, model, Paths.get(""), load, (pointer, name, params, e) ->
                Header.rz_encoder_load_from(pointer, sources, files.size(), params, out, e));
            return new Encoder(out.getPointer(0));
        }
    }

    /** The memory that a load will take. Reads no weights. */
    public static Plan plan(Model model, Path path, Load load) {
        try (Arena arena = new Arena()) {
            var out = Native.sized(arena, Header.rz_encoder_plan);
            with(arena, model, path, load, (pointer, name, params, e) -> Header.rz_encoder_plan_get(pointer, name, Memory.NULL, 0, params, out, e));
            return Results.encoderPlan(out);
        }
    }

    private static void with(Arena arena, Model model, Path path, Load load, Call call) {
        Native.given(model, "model");
        Native.given(load, "load");
        Memory name = Native.terminated(arena, Native.given(path, "path").toString(), "path");
        var params = Native.sized(arena, Header.rz_encoder_params);
        load.set(params);
        Native.set(params, Header.rz_encoder_params, "flags", load.flags);
        model.use(pointer -> Reported.call(arena, params, Header.rz_encoder_params, load.progress, load.cancel, () ->
            Native.check(arena, e -> call.apply(pointer, name, params, e))));
    }

    /** The description of the encoder. */
    public Info info() {
        return info;
    }

    /** Encodes an image from the bytes of a PNG, JPEG, WebP, GIF or BMP file. */
    public Media encode(byte[] file, Choices choices) {
        return encode(ByteBuffer.wrap(Native.given(file, "file")), choices);
    }

    /** The same for bytes in a buffer. */
    public Media encode(ByteBuffer file, Choices choices) {
        Native.given(file, "file");
        return encoded(choices, arena -> {
            Memory data = Native.PLATFORM.source(arena, file);
            return (encoder, params, out, e) -> Header.rz_media_from_image(encoder, data, data.size, params, out, e);
        });
    }

    /** Encodes an image in memory, whose rows start at the top. {@code stride}: bytes from one row to the next; 0:
     * contiguous. */
    public Media encode(ByteBuffer pixels, PixelFormat format, int width, int height, int stride, Choices choices) {
        Native.given(pixels, "pixels");
        Native.given(choices, "choices");
        long row = (long) Native.given(format, "format").bytes * Native.whole(width, "width"), step = stride == 0 ? row : stride;
        // The library cannot see where the buffer ends.
        Native.whole(height, "height");
        Native.whole(stride, "stride");
        if (width < 1 || height < 1 || width > 65535 || height > 65535 || step < row || step * (height - 1) + row > pixels.remaining()) {
            throw new IllegalArgumentException("pixels has " + pixels.remaining() + " bytes; it must have " + width + " x " + height + " pixels");
        }
        return encoded(choices, arena -> {
            var picture = Native.sized(arena, Header.rz_pixels);
            Native.set(picture, Header.rz_pixels, "format", format.number);
            Native.set(picture, Header.rz_pixels, "width", width);
            Native.set(picture, Header.rz_pixels, "height", height);
            Native.set(picture, Header.rz_pixels, "stride", (long) stride);
            Native.set(picture, Header.rz_pixels, "data", Native.PLATFORM.source(arena, pixels));
            return (encoder, params, out, e) -> Header.rz_media_from_pixels(encoder, picture, params, out, e);
        });
    }

    /** Encodes a video: at least two frames of one size, contiguous, and the time of each in seconds from its
     * beginning. The choices of rows are bounds for all frames together. */
    public Media encodeFrames(ByteBuffer pixels, double[] times, PixelFormat format, int width, int height, Choices choices) {
        Native.given(pixels, "pixels");
        Native.given(times, "times");
        Native.given(choices, "choices");
        Native.whole(height, "height");
        long frame = (long) Native.given(format, "format").bytes * Native.whole(width, "width") * height;
        // The library cannot see where the buffer ends.
        if (width < 1 || height < 1 || height > 65535 || width > 65535 || frame * times.length != pixels.remaining()) {
            throw new IllegalArgumentException("pixels has " + pixels.remaining() + " bytes; it must have " + times.length + " frames of " + width + " x " + height);
        }
        return encoded(choices, arena -> {
            var layout = Header.rz_pixels;
            Memory data = Native.PLATFORM.source(arena, pixels), seconds = arena.allocate(8L * Math.max(times.length, 1));
            Memory frames = arena.allocate((long) layout.size * Math.max(times.length, 1));
            seconds.copy(times);
            for (int i = 0; i < times.length; i++) {
                Memory picture = frames.part((long) layout.size * i, layout.size);
                Native.set(picture, layout, "struct_size", layout.size);
                Native.set(picture, layout, "format", format.number);
                Native.set(picture, layout, "width", width);
                Native.set(picture, layout, "height", height);
                Native.set(picture, layout, "data", data.part(frame * i, frame));
            }
            return (encoder, params, out, e) -> Header.rz_media_from_frames(encoder, frames, seconds, times.length, params, out, e);
        });
    }

    /** Encodes audio: interleaved samples of the channels, from -1 to 1, {@code rate} per channel and second. Several
     * channels are averaged. Of the choices, maxRows, cancel and progress (in parts) apply. */
    public Media encodeSamples(float[] samples, int channels, int rate, Choices choices) {
        Native.given(samples, "samples");
        Native.whole(channels, "channels");
        Native.whole(rate, "rate");
        return encoded(choices, arena -> {
            Memory data = arena.allocate(4L * samples.length);
            data.copy(samples);
            return (encoder, params, out, e) -> Header.rz_media_from_samples(encoder, data, samples.length, channels, rate, params, out, e);
        });
    }

    /** Encodes audio from the bytes of a WAV, MP3, FLAC or Ogg file. */
    public Media encodeAudio(byte[] file, Choices choices) {
        Native.given(file, "file");
        return encoded(choices, arena -> {
            Memory data = Native.PLATFORM.source(arena, ByteBuffer.wrap(file));
            return (encoder, params, out, e) -> Header.rz_media_from_audio(encoder, data, data.size, params, out, e);
        });
    }

    /** A call that creates media. */
    private interface Encoding {
        int apply(Memory encoder, Memory params, Memory out, Memory error);
    }

    private Media encoded(Choices choices, java.util.function.Function<Arena, Encoding> prepared) {
        Native.given(choices, "choices");
        return call((arena, encoder) -> {
            var params = choices.params(arena);
            Encoding encoding = prepared.apply(arena);
            if (choices.flags != 0) { // later steps would have neither
                return new Media(Native.made(arena, out -> e -> encoding.apply(encoder, params, out, e)));
            }
            return new Media(Reported.call(arena, params, Header.rz_media_params, choices.progress, choices.cancel, () ->
                Native.made(arena, out -> e -> encoding.apply(encoder, params, out, e))));
        });
    }

    /** The {@link Media#info} of an image of this size, without the image. For sound, {@code width} is the number of
     * samples per channel at the rate of the encoder, and the height is 0. Time and hash are zero. */
    public Media.Info measure(int width, int height, Choices choices) {
        Native.whole(width, "width");
        Native.whole(height, "height");
        Native.given(choices, "choices");
        return call((arena, encoder) -> {
            Memory params = choices.params(arena), out = Native.sized(arena, Header.rz_media_info);
            Native.check(arena, e -> Header.rz_media_measure(encoder, width, height, params, out, e));
            return Results.mediaInfo(out);
        });
    }
}
