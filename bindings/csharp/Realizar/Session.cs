using System;
using System.Collections.Generic;
using System.Linq;
using System.Runtime.InteropServices;
using System.Threading;
using System.Threading.Tasks;

namespace Realizar
{
    /// <summary>How tokens are chosen; zero switches a part off, so that all zeros choose the most likely token.</summary>
    public sealed class Sampling
    {
        public float Temperature, TopP, MinP, RepeatPenalty, PresencePenalty, FrequencyPenalty;
        public int TopK, PenaltyWindow;
        public ulong Seed;
        public IReadOnlyDictionary<uint, float> LogitBias = new Dictionary<uint, float>();

        internal bool IsGreedy => Temperature == 0 && RepeatPenalty == 0 && PresencePenalty == 0 && FrequencyPenalty == 0 && LogitBias.Count == 0;
    }

    /// <summary>Chooses tokens; it has random numbers of its own, so that a seed repeats itself.</summary>
    public sealed class Sampler : IDisposable
    {
        internal readonly SamplerHandle Handle = new SamplerHandle();

        public unsafe Sampler(Sampling s)
        {
            Native.Initialize();
            var biases = s.LogitBias.Select(bias => new rz_logit_bias { token = bias.Key, bias = bias.Value }).ToArray();
            fixed (rz_logit_bias* b = biases)
            {
                var p = new rz_sampler_params {
                    struct_size = (uint)sizeof(rz_sampler_params), temperature = s.Temperature, top_k = checked((uint)s.TopK), top_p = s.TopP,
                    min_p = s.MinP, repeat_penalty = s.RepeatPenalty, presence_penalty = s.PresencePenalty,
                    frequency_penalty = s.FrequencyPenalty, penalty_window = checked((uint)s.PenaltyWindow), seed = s.Seed,
                    biases = (IntPtr)b, n_biases = (UIntPtr)biases.Length,
                };
                rz_error err;
                IntPtr pointer;
                RealizarException.Check(Native.rz_sampler_new(&p, &pointer, &err), &err);
                Handle.Take(pointer);
            }
        }

        public void Dispose() { Handle.Dispose(); }
    }

    /// <summary>A low-rank adapter of a model. Immutable: any number of sessions may use it at once.</summary>
    public sealed class Adapter : IDisposable
    {
        internal readonly AdapterHandle Handle = new AdapterHandle();

        internal Adapter(IntPtr pointer) { Handle.Take(pointer); }

        public void Dispose() { Handle.Dispose(); }
    }

    /// <summary>One line of conversation. It keeps what it has computed: a prompt that begins like the one before, as that of the
    /// next turn does, costs only its new end. One call at a time: a second one gets Status.Busy.</summary>
    public sealed class Session : IDisposable
    {
        private readonly CacheHandle handle = new CacheHandle();
        public Model Model { get; }

        internal unsafe Session(Model model, int capacity)
        {
            Model = model;
            var p = new rz_cache_params { struct_size = (uint)sizeof(rz_cache_params), capacity = checked((uint)capacity) };
            rz_error err;
            IntPtr pointer;
            RealizarException.Check(Native.rz_cache_new(model.Handle, &p, &pointer, &err), &err);
            handle.Take(pointer);
        }

        private Session(Session of, IntPtr fork)
        {
            Model = of.Model;
            handle.Take(fork);
        }

        public int Length => (int)Native.rz_cache_len(handle);
        public int Capacity => (int)Native.rz_cache_capacity(handle);

        /// <summary>A second session with the same past.</summary>
        public unsafe Session Fork()
        {
            rz_error err;
            IntPtr pointer;
            RealizarException.Check(Native.rz_cache_fork(handle, &pointer, &err), &err);
            return new Session(this, pointer);
        }

        /// <summary>Rewinds to the first <paramref name="length"/> tokens.</summary>
        public unsafe void Truncate(int length)
        {
            rz_error err;
            RealizarException.Check(Native.rz_cache_truncate(handle, checked((uint)length), &err), &err);
        }

        /// <summary>Has the session use some adapters, each with a scale, or none; empties it.</summary>
        public unsafe void SetAdapters(IReadOnlyDictionary<Adapter, float> adapters)
        {
            var handles = adapters.Keys.Select(adapter => adapter.Handle).ToArray();
            var pointers = new IntPtr[handles.Length];
            var held = 0;
            try
            {
                for (; held < handles.Length; held++)
                {
                    var added = false;
                    handles[held].DangerousAddRef(ref added);
                    pointers[held] = handles[held].DangerousGetHandle();
                }
                rz_error err;
                fixed (IntPtr* at = pointers)
                fixed (float* scales = adapters.Values.ToArray())
                    RealizarException.Check(Native.rz_cache_adapters_set(handle, at, scales, (UIntPtr)held, &err), &err);
            }
            finally { while (held-- > 0) handles[held].DangerousRelease(); }
        }

        /// <summary>Appends tokens; afterwards there are logits of the last one.</summary>
        public unsafe void Prefill(uint[] more, CancellationToken cancellation = default(CancellationToken))
        {
            rz_error err;
            using (var cancelling = new Cancelling(cancellation))
                fixed (uint* at = more)
                    RealizarException.Check(Native.rz_prefill(handle, at, (UIntPtr)more.Length, cancelling.Handle, &err), &err, cancellation);
        }

        /// <summary>Chooses a token from the logits, the most likely one without a sampler.</summary>
        public unsafe uint Sample(Sampler sampler = null)
        {
            rz_error err;
            uint token;
            RealizarException.Check(Native.rz_sample(handle, sampler?.Handle ?? SamplerHandle.None, &token, &err), &err);
            return token;
        }

        /// <summary>Appends a token and chooses the next one.</summary>
        public unsafe uint Decode(uint token, Sampler sampler = null)
        {
            rz_error err;
            uint next;
            RealizarException.Check(Native.rz_decode_token(handle, token, sampler?.Handle ?? SamplerHandle.None, &next, &err), &err);
            return next;
        }

        /// <summary>Logits after the last token, one for each entry of the vocabulary, which the library writes to the array itself.</summary>
        public unsafe void Logits(float[] logits)
        {
            rz_error err;
            UIntPtr n;
            fixed (float* at = logits)
                RealizarException.Check(Native.rz_logits_into(handle, at, (UIntPtr)logits.Length, &n, &err), &err);
        }

        /// <summary>Continues tokens in a job; those that the session holds already, from its start, are not computed again.</summary>
        public unsafe Job NewJob(uint[] prompt, JobOptions options = null, CancellationToken cancellation = default(CancellationToken))
        {
            rz_error err;
            uint common;
            fixed (uint* at = prompt) RealizarException.Check(Native.rz_cache_match(handle, at, (UIntPtr)prompt.Length, &common, &err), &err);
            // The last token of a prompt is always computed, because the answer starts from its logits.
            var kept = Math.Min((int)common, Math.Max(prompt.Length - 1, 0));
            Truncate(kept);
            return new Job(handle, prompt.Skip(kept).ToArray(), options ?? new JobOptions(), cancellation);
        }

        /// <summary>Continues a text piece by piece; each piece is whole characters.</summary>
        /// <param name="maxTokens">Tokens of the answer at most; 0: no limit but the capacity.</param>
        public IEnumerable<string> Generate(string prompt, Sampling sampling = null, int maxTokens = 0, CancellationToken cancellation = default(CancellationToken)) =>
            Run(Model.Tokenize(prompt), new JobOptions { Sampling = sampling ?? new Sampling(), MaxTokens = maxTokens }, cancellation);

        /// <summary>Answers a conversation, given as a whole, piece by piece.</summary>
        public IEnumerable<string> Chat(IReadOnlyList<Message> messages, Sampling sampling = null, int maxTokens = 0, CancellationToken cancellation = default(CancellationToken)) =>
            Run(Model.TokenizeChat(messages), new JobOptions { Sampling = sampling ?? new Sampling(), MaxTokens = maxTokens }, cancellation);

        /// <summary>Generate, computed on threads of the pool.</summary>
        public IAsyncEnumerable<string> GenerateAsync(string prompt, Sampling sampling = null, int maxTokens = 0) =>
            new Pieces(cancellation => Generate(prompt, sampling, maxTokens, cancellation));

        /// <summary>Chat, computed on threads of the pool.</summary>
        public IAsyncEnumerable<string> ChatAsync(IReadOnlyList<Message> messages, Sampling sampling = null, int maxTokens = 0) =>
            new Pieces(cancellation => Chat(messages, sampling, maxTokens, cancellation));

        private IEnumerable<string> Run(uint[] prompt, JobOptions options, CancellationToken cancellation)
        {
            using (var job = NewJob(prompt, options, cancellation))
                for (var going = true; going;)
                {
                    going = job.Step();
                    var piece = job.Text();
                    if (piece.Length > 0) yield return piece;
                }
        }

        public void Dispose() { handle.Dispose(); }

        /// <summary>Pieces that are computed on threads of the pool, one at a time.</summary>
        private sealed class Pieces : IAsyncEnumerable<string>
        {
            private readonly Func<CancellationToken, IEnumerable<string>> begin;
            internal Pieces(Func<CancellationToken, IEnumerable<string>> begin) { this.begin = begin; }
            public IAsyncEnumerator<string> GetAsyncEnumerator(CancellationToken cancellation = default(CancellationToken)) =>
                new Enumerator(begin(cancellation).GetEnumerator());

            private sealed class Enumerator : IAsyncEnumerator<string>
            {
                private readonly IEnumerator<string> pieces;
                internal Enumerator(IEnumerator<string> pieces) { this.pieces = pieces; }
                public string Current => pieces.Current;
                public ValueTask<bool> MoveNextAsync() => new ValueTask<bool>(Task.Run(() => pieces.MoveNext()));
                public ValueTask DisposeAsync() => new ValueTask(Task.Run(() => pieces.Dispose()));
            }
        }
    }
}
