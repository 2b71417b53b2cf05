using System;
using System.Collections.Generic;
using System.Linq;
using System.Runtime.InteropServices;
using System.Threading;

namespace Realizar
{
    /// <summary>Options of loading an encoder. Zero stands for the default.</summary>
    public sealed partial class EncoderOptions
    {
        /// <summary>Which encoder of a file to load, if the file has both; null: the vision encoder, if there is
        /// one.</summary>
        public MediaKind? Kind;
        /// <summary>Ignores unknown keys and tensors.</summary>
        public bool AllowUnknown;
    }

    /// <summary>Options of encoding an image. Zero stands for the default.</summary>
    public sealed partial class MediaOptions
    {
        /// <summary>Media.Step computes, in slices of time. Progress and the cancellation token are ignored.</summary>
        public bool InSteps;

        internal rz_media_params Parameters()
        {
            var p = Numbers();
            p.flags = InSteps ? Native.RZ_ENCODE_STEPS : 0u;
            return p;
        }
    }

    /// <summary>The vision or audio encoder of a multimodal model. Any number of threads may use it at once.</summary>
    public sealed partial class Encoder
    {
        /// <summary>Description of the encoder.</summary>
        public EncoderInfo Info { get; }

        private unsafe delegate int Loading(byte* path, rz_encoder_params* p, rz_error* err);
        private unsafe delegate int Encoding(rz_media_params* p, IntPtr* pointer, rz_error* err);

        /// <summary>Loads the encoder of a model from the .gguf file with the projector ("mmproj-..."), from a folder
        /// with a config.json, which may be that of the model, or from the Hub ("hf:owner/name").</summary>
        public unsafe Encoder(Model model, string path, EncoderOptions? options = null, CancellationToken cancellationToken = default)
            : this(model, Fetched(path, options, cancellationToken), options, cancellationToken, (name, p, out_, err) => Native.rz_encoder_load(model.Handle, name, p, out_, err)) { }

        /// <summary>The same for files that are bytes in memory, as Model.Load takes them.</summary>
        public unsafe Encoder(Model model, IReadOnlyDictionary<string, byte[]> files, EncoderOptions? options = null, CancellationToken cancellationToken = default)
            : this(model, "", options, cancellationToken, (name, p, out_, err) => Model.WithSources(files, (sources, n) =>
                Native.rz_encoder_load_from(model.Handle, (rz_source*)sources, n, p, out_, err))) { }

        private static string Fetched(string path, EncoderOptions? options, CancellationToken cancellationToken) =>
            !Native.Given(path, nameof(path)).StartsWith(Hub.Prefix, StringComparison.Ordinal) ? path
                : Model.Fetch(Hub.Choose(path).Encoder, options?.Progress, cancellationToken);

        private unsafe delegate int Making(byte* path, rz_encoder_params* p, IntPtr* pointer, rz_error* err);

        private unsafe Encoder(Model model, string path, EncoderOptions? options, CancellationToken cancellationToken, Making make)
        {
            Native.Given(model, nameof(model));
            var pointer = new IntPtr[1];
            With(path, options, cancellationToken, (name, p, err) => {
                fixed (IntPtr* at = pointer) return make(name, p, at, err);
            });
            Handle.Take(pointer[0]);
            Info = EncoderInfo.Get(Handle);
        }

        /// <summary>The memory that an encoder will take. Reads no weights.</summary>
        public static unsafe EncoderPlan Plan(Model model, string path, EncoderOptions? options = null)
        {
            Native.Given(model, nameof(model));
            var plan = new[] { new rz_encoder_plan { struct_size = (uint)sizeof(rz_encoder_plan) } };
            With(path, options, default, (name, p, err) => {
                fixed (rz_encoder_plan* at = plan) return Native.rz_encoder_plan_get(model.Handle, name, null, UIntPtr.Zero, p, at, err);
            });
            fixed (rz_encoder_plan* at = plan) return EncoderPlan.Of(at);
        }

        /// <summary>Makes a call with the parameters of a load.</summary>
        private static unsafe void With(string path, EncoderOptions? options, CancellationToken cancellationToken, Loading call)
        {
            var name = Native.Terminated(path, nameof(path));
            options = options ?? new EncoderOptions();
            var p = options.Numbers();
            if (options.Kind != null && options.Kind != MediaKind.Image && options.Kind != MediaKind.Audio)
                throw new ArgumentOutOfRangeException(nameof(options.Kind), $"Kind is {options.Kind}; it must be Image or Audio");
            p.flags = options.AllowUnknown ? Native.RZ_MODEL_ALLOW_UNKNOWN : 0u;
            p.flags |= options.Kind == MediaKind.Image ? Native.RZ_ENCODER_IMAGE : options.Kind == MediaKind.Audio ? Native.RZ_ENCODER_AUDIO : 0u;
            rz_error err;
            using (var pins = new Pins())
            using (var cancelling = new Cancelling(cancellationToken))
            using (var progressing = new Progressing(options.Progress))
            {
                p.cancel = pins.Of(cancelling.Handle);
                (p.progress, p.progress_user) = (progressing.Callback, progressing.User);
                fixed (byte* at = name) progressing.Check(call(at, &p, &err), &err, cancellationToken);
            }
        }

        /// <summary>Encodes an image from the bytes of a PNG, JPEG, WebP, GIF or BMP file.</summary>
        public unsafe Media Encode(byte[] file, MediaOptions? options = null, CancellationToken cancellationToken = default) =>
            Encoded(options, cancellationToken, (p, pointer, err) => {
                fixed (byte* at = Native.Given(file, nameof(file))) return Native.rz_media_from_image(Handle, at, (UIntPtr)file.Length, p, pointer, err);
            });

        /// <summary>Encodes an image in memory, whose rows start at the top.</summary>
        /// <param name="stride">Bytes from one row to the next; 0: rows follow one another.</param>
        public unsafe Media Encode(byte[] pixels, PixelFormat format, int width, int height, int stride = 0, MediaOptions? options = null,
            CancellationToken cancellationToken = default)
        {
            Native.Given(pixels, nameof(pixels));
            var row = BytesOf(format) * Native.Side(width, nameof(width));
            var step = stride == 0 ? row : Native.Whole(stride, nameof(stride));
            if (step < row) throw new ArgumentOutOfRangeException(nameof(stride), $"stride is {stride}; it must be at least {row}, the bytes of a row");
            // The library cannot see where the array ends.
            if (step * (Native.Side(height, nameof(height)) - 1) + row > pixels.LongLength)
                throw new ArgumentException($"{pixels.LongLength} bytes are no {width} x {height} pixels", nameof(pixels));
            return Encoded(options, cancellationToken, (p, pointer, err) => {
                fixed (byte* at = pixels)
                {
                    var picture = new rz_pixels {
                        struct_size = (uint)sizeof(rz_pixels), format = (uint)format, width = (uint)width, height = (uint)height,
                        stride = (UIntPtr)Native.Whole(stride, nameof(stride)), data = (IntPtr)at,
                    };
                    return Native.rz_media_from_pixels(Handle, &picture, p, pointer, err);
                }
            });
        }

        /// <summary>Encodes a video: at least two frames of equal size, one after the other without gaps, and the time
        /// of each in seconds from its beginning. MaxTiles and MaxPixels are ignored; MaxRows is a bound on all frames
        /// together.</summary>
        public unsafe Media EncodeFrames(byte[] pixels, double[] times, PixelFormat format, int width, int height, MediaOptions? options = null,
            CancellationToken cancellationToken = default)
        {
            Native.Given(pixels, nameof(pixels));
            Native.Given(times, nameof(times));
            var row = BytesOf(format) * Native.Side(width, nameof(width));
            // The library cannot see where the array ends.
            if (row * Native.Side(height, nameof(height)) * times.Length != pixels.LongLength)
                throw new ArgumentException($"{pixels.LongLength} bytes are no {times.Length} frames of {width} x {height}", nameof(pixels));
            var frames = new rz_pixels[times.Length];
            return Encoded(options, cancellationToken, (p, pointer, err) => {
                fixed (byte* at = pixels)
                fixed (rz_pixels* first = frames)
                fixed (double* seconds = times)
                {
                    for (var i = 0; i < frames.Length; i++)
                        first[i] = new rz_pixels {
                            struct_size = (uint)sizeof(rz_pixels), format = (uint)format, width = (uint)width, height = (uint)height,
                            data = (IntPtr)(at + row * height * i),
                        };
                    return Native.rz_media_from_frames(Handle, first, seconds, (UIntPtr)frames.Length, p, pointer, err);
                }
            });
        }

        private static long BytesOf(PixelFormat format)
        {
            switch (format)
            {
                case PixelFormat.Gray8: return 1;
                case PixelFormat.Rgb8: return 3;
                case PixelFormat.Rgba8: case PixelFormat.Bgra8: return 4;
                default: throw new ArgumentOutOfRangeException(nameof(format), $"format is {format}; it must be one of PixelFormat");
            }
        }

        /// <summary>Encodes a sound: samples of so many channels, one of each after the other, from -1 to 1, <paramref
        /// name="rate"/> of each a second. Several channels become their mean. Of the options, MaxRows and Progress
        /// apply; Progress counts parts.</summary>
        public unsafe Media EncodeSamples(float[] samples, int channels, int rate, MediaOptions? options = null,
            CancellationToken cancellationToken = default) =>
            Encoded(options, cancellationToken, (p, pointer, err) => {
                fixed (float* at = Native.Given(samples, nameof(samples)))
                    return Native.rz_media_from_samples(Handle, at, (UIntPtr)samples.Length, Native.Whole(channels, nameof(channels)), Native.Whole(rate, nameof(rate)), p, pointer, err);
            });

        /// <summary>Encodes audio from the bytes of a WAV, MP3, FLAC or Ogg file.</summary>
        public unsafe Media EncodeAudio(byte[] file, MediaOptions? options = null, CancellationToken cancellationToken = default) =>
            Encoded(options, cancellationToken, (p, pointer, err) => {
                fixed (byte* at = Native.Given(file, nameof(file))) return Native.rz_media_from_audio(Handle, at, (UIntPtr)file.Length, p, pointer, err);
            });

        private unsafe Media Encoded(MediaOptions? options, CancellationToken cancellationToken, Encoding call)
        {
            options = options ?? new MediaOptions();
            var p = options.Parameters();
            rz_error err;
            IntPtr pointer;
            using (var pins = new Pins())
            using (var cancelling = new Cancelling(cancellationToken))
            using (var progressing = new Progressing(options.Progress))
            {
                if (!options.InSteps) // later steps would find neither
                {
                    p.cancel = pins.Of(cancelling.Handle);
                    (p.progress, p.progress_user) = (progressing.Callback, progressing.User);
                }
                progressing.Check(call(&p, &pointer, &err), &err, cancellationToken);
            }
            return new Media(pointer);
        }

        /// <summary>The info of an image of this size, without the image. For sound, <paramref name="width"/> is the
        /// number of samples per channel at the rate of the encoder, and the height is 0. Time and hash are
        /// zero.</summary>
        public unsafe MediaInfo Measure(int width, int height, MediaOptions? options = null)
        {
            var p = (options ?? new MediaOptions()).Parameters();
            var info = new rz_media_info { struct_size = (uint)sizeof(rz_media_info) };
            rz_error err;
            RealizarException.Check(Native.rz_media_measure(Handle, Native.Whole(width, nameof(width)), Native.Whole(height, nameof(height)), &p, &info, &err), &err);
            return MediaInfo.Of(&info);
        }
    }

    /// <summary>The encoded rows of an image, a video or a sound, which take the place of tokens in any number of
    /// prompts. Any number of threads may use a media item at once.</summary>
    public sealed partial class Media
    {
        /// <summary>Description of the media item.</summary>
        public MediaInfo Info { get; private set; }
        /// <summary>The hash of Info.</summary>
        public byte[] Hash => Info.Hash;

        internal unsafe Media(IntPtr pointer)
        {
            Handle.Take(pointer);
            Info = MediaInfo.Get(Handle);
        }

        /// <summary>Computes for about this time on a media item of MediaOptions.InSteps; null: to its end. True if
        /// there is more to compute.</summary>
        public unsafe bool Step(TimeSpan? budget = null)
        {
            rz_error err;
            var status = Native.rz_media_step(Handle, budget == null ? Native.RZ_NO_LIMIT : (ulong)Math.Max(budget.Value.Ticks / 10, 0), &err);
            RealizarException.Check(status, &err);
            Info = MediaInfo.Get(Handle);
            return status == Native.RZ_AGAIN;
        }

        /// <summary>A media item of rows that the caller has encoded, one after the other.</summary>
        /// <param name="columns">Columns of the grid of rows, for models with two-dimensional positions (M-RoPE):
        /// <paramref name="columns"/> times <paramref name="lines"/> is the number of rows. 0 for both: one
        /// line.</param>
        public static unsafe Media FromRows(Model model, float[] rows, int rowDim, MediaKind kind = MediaKind.Image, int columns = 0, int lines = 0)
        {
            Native.Given(model, nameof(model));
            if (rowDim < 1) throw new ArgumentOutOfRangeException(nameof(rowDim), $"rowDim is {rowDim}; it must be positive");
            if (Native.Given(rows, nameof(rows)).Length % rowDim != 0)
                throw new ArgumentException($"{rows.Length} numbers are no rows of {rowDim}", nameof(rows));
            rz_error err;
            IntPtr pointer;
            fixed (float* at = rows)
                RealizarException.Check(Native.rz_media_from_rows(model.Handle, Native.Choice(kind, nameof(kind)), at, (UIntPtr)(rows.Length / rowDim), (uint)rowDim,
                    Native.Whole(columns, nameof(columns)), Native.Whole(lines, nameof(lines)), &pointer, &err), &err);
            return new Media(pointer);
        }

        /// <summary>Reads the media item that Save has written. No encoder is needed.</summary>
        public static unsafe Media Load(Model model, System.IO.Stream stream)
        {
            Native.Given(model, nameof(model));
            return new Media(Transfer.Load(stream, (read, user, pointer, err) =>
                Native.rz_media_load(model.Handle, read, user, CancelHandle.None, pointer, err)));
        }

        /// <summary>Writes the media item, for Load.</summary>
        public unsafe void Save(System.IO.Stream stream) =>
            Transfer.Save(stream, (write, user, err) => Native.rz_media_save(Handle, write, user, CancelHandle.None, err));

        /// <summary>The rows one after the other, each of Info.RowDim numbers.</summary>
        public unsafe float[] Rows() => Native.Sized<float>(Info.Rows * Info.RowDim, (rows, capacity, n, err) =>
            Native.rz_media_rows_into(Handle, (float*)rows, capacity, n, err));
    }

    /// <summary>A part of a prompt: tokens, or a media item.</summary>
    public struct PromptPart
    {
        internal readonly uint[]? Tokens;
        internal readonly Media? Media;

        /// <summary>A part of tokens.</summary>
        public PromptPart(uint[] tokens) { Tokens = Native.Given(tokens, nameof(tokens)); Media = null; }
        /// <summary>A part that is a media item.</summary>
        public PromptPart(Media media) { Tokens = null; Media = Native.Given(media, nameof(media)); }

        /// <summary>A part of tokens.</summary>
        public static implicit operator PromptPart(uint[] tokens) => new PromptPart(tokens);
        /// <summary>A part that is a media item.</summary>
        public static implicit operator PromptPart(Media media) => new PromptPart(media);
    }

    /// <summary>A sequence of tokens and media. Any number of threads may use it at once.</summary>
    public sealed partial class Prompt
    {
        /// <summary>Stands for a row of a media item in the tokens of sessions and prompts.</summary>
        public const uint MediaToken = Native.RZ_TOKEN_MEDIA;

        /// <summary>A prompt of parts, which keeps their media alive.</summary>
        public Prompt(Model model, params PromptPart[] parts) : this(model, parts, false) { }

        /// <param name="bare">Leaves out the model's tokens around and between the rows of media.</param>
        public unsafe Prompt(Model model, IReadOnlyList<PromptPart> parts, bool bare)
        {
            Native.Given(model, nameof(model));
            for (var i = 0; i < Native.Given(parts, nameof(parts)).Count; i++)
                if (parts[i].Tokens == null && parts[i].Media == null) throw new ArgumentNullException(nameof(parts), $"parts[{i}] is null");
            using (var pins = new Pins())
            {
                var raw = parts.Select(part => new rz_part {
                    tokens = pins.Of(part.Tokens), n_tokens = (UIntPtr)(part.Tokens?.Length ?? 0), media = pins.Of(part.Media?.Handle),
                }).ToArray();
                Handle.Take(Native.Made((prompt, err) => Native.rz_prompt_new(model.Handle, (rz_part*)pins.Of(raw), (UIntPtr)raw.Length,
                    bare ? Native.RZ_PROMPT_BARE : 0u, prompt, err)));
            }
        }

        /// <summary>A prompt of a conversation in JSON, up to where the reply begins. Messages may have parts with
        /// numbers of <paramref name="media"/>: {"type": "image", "media": 0}.</summary>
        public static unsafe Prompt OfChat(Model model, string json, params Media[] media)
        {
            Native.Given(model, nameof(model));
            var bytes = Native.Encoded(json, nameof(json));
            using (var pins = new Pins())
            {
                var raw = pins.Of(Native.GivenAll(media, nameof(media)).Select(one => one.Handle));
                return new Prompt(Native.Pinned(bytes, (at, len) => Native.Made((prompt, err) => Native.rz_prompt_from_chat(model.Handle, at, len,
                    Native.RZ_CHAT_ADD_GENERATION_PROMPT, (IntPtr*)raw, (UIntPtr)media.Length, CancelHandle.None, prompt, err))));
            }
        }

        /// <summary>The embeddings of prompts, as of Model.Embed.</summary>
        public static unsafe float[][] Embed(Model model, IReadOnlyList<Prompt> prompts, Pooling pooling = Pooling.Model, bool normalize = true,
            CancellationToken cancellationToken = default)
        {
            Native.Given(model, nameof(model));
            Native.GivenAll(prompts, nameof(prompts));
            var rows = pooling == Pooling.None ? prompts.Sum(prompt => prompt.Length) : prompts.Count;
            return model.Embedded(prompts.Count, rows, pooling, normalize, cancellationToken, (pins, p, cancel, vectors, capacity, n, err) =>
                Native.rz_embed_prompts_into(model.Handle, (rz_embed_params*)p, (IntPtr*)pins.Of(prompts.Select(prompt => prompt.Handle)),
                    (UIntPtr)prompts.Count, (float*)vectors, capacity, n, cancel, err));
        }

        /// <summary>Number of tokens, each row of a media item counted as one.</summary>
        public int Length => (int)Native.rz_prompt_len(Handle);

        /// <summary>The tokens, with MediaToken for each row of a media item.</summary>
        public unsafe uint[] Tokens() =>
            Native.Sized<uint>(Length, (tokens, capacity, n, err) => Native.rz_prompt_tokens_into(Handle, (uint*)tokens, capacity, n, err));
    }

    /// <summary>The progress callback of a call, and the exception that the callback has thrown.</summary>
    internal sealed class Progressing : IDisposable
    {
        private static readonly rz_progress_callback Forward = ForwardProgress;
        private static readonly IntPtr Forwarding = Marshal.GetFunctionPointerForDelegate(Forward);

        private readonly Action<ulong, ulong>? call;
        private readonly GCHandle self;
        private Exception? raised;

        internal Progressing(Action<ulong, ulong>? call)
        {
            this.call = call;
            self = GCHandle.Alloc(this);
        }

        internal IntPtr Callback => call == null ? IntPtr.Zero : Forwarding;
        internal IntPtr User => GCHandle.ToIntPtr(self);

        /// <summary>Throws the exception of the callback, else that of the call.</summary>
        internal unsafe void Check(int status, rz_error* err, CancellationToken cancellationToken)
        {
            if (raised != null) throw raised;
            RealizarException.Check(status, err, cancellationToken);
        }

        [MonoPInvokeCallback(typeof(rz_progress_callback))]
        private static int ForwardProgress(ulong done, ulong total, IntPtr user)
        {
            var progressing = (Progressing)GCHandle.FromIntPtr(user).Target!;
            try { progressing.call!(done, total); return 0; }
            catch (Exception e) { progressing.raised = e; return 1; } // an exception must not reach native code
        }

        /// <summary>Frees the object.</summary>
        public void Dispose() { self.Free(); }
    }
}
