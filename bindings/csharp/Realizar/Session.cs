using System;
using System.Collections.Generic;
using System.Linq;
using System.Threading;
using System.Threading.Tasks;

namespace Realizar
{
    /// <summary>A filter of tokens, or the temperature.</summary>
    public enum Filter
    {
        TopNSigma = Native.RZ_FILTER_TOP_N_SIGMA, TopK = Native.RZ_FILTER_TOP_K, TypicalP = Native.RZ_FILTER_TYPICAL_P,
        TopP = Native.RZ_FILTER_TOP_P, MinP = Native.RZ_FILTER_MIN_P, Xtc = Native.RZ_FILTER_XTC,
        Temperature = Native.RZ_FILTER_TEMPERATURE,
    }

    /// <summary>Chooses tokens. A sampler has a random generator of its own, so that the same seed gives the same
    /// tokens.</summary>
    public sealed class Sampler : IDisposable
    {
        internal readonly SamplerHandle Handle = new SamplerHandle();

        public unsafe Sampler(Sampling s)
        {
            Native.Initialize();
            Native.Given(s, nameof(s));
            using (var pins = new Pins())
            {
                var p = (rz_sampler_params*)pins.Of(Parameters(s, pins));
                Handle.Take(Native.Made((sampler, err) => Native.rz_sampler_new(p, sampler, err)));
            }
        }

        internal static unsafe rz_sampler_params Parameters(Sampling s, Pins pins)
        {
            Native.Given(s.DryBreakers, nameof(s.DryBreakers));
            Native.Given(s.BannedSequences, nameof(s.BannedSequences));
            Native.Given(s.Order, nameof(s.Order));
            var biases = Native.Given(s.LogitBias, nameof(s.LogitBias)).Select(bias => new rz_logit_bias { token = bias.Key, bias = bias.Value }).ToArray();
            var p = s.Numbers();
            (p.biases, p.n_biases) = (pins.Of(biases), (UIntPtr)biases.Length);
            (p.dry_breakers, p.n_dry_breakers) = (Sequences(s.DryBreakers, pins), (UIntPtr)s.DryBreakers.Count);
            (p.banned_sequences, p.n_banned_sequences) = (Sequences(s.BannedSequences, pins), (UIntPtr)s.BannedSequences.Count);
            (p.order, p.n_order) = (pins.Of(s.Order.Select(filter => (uint)filter).ToArray()), (UIntPtr)s.Order.Count);
            return p;
        }

        private static IntPtr Sequences(IEnumerable<uint[]> all, Pins pins) => pins.Of(
            all.Select(tokens => new rz_token_sequence { tokens = pins.Of(tokens), n_tokens = (UIntPtr)tokens.Length }).ToArray());

        /// <summary>Restricts tokens to texts of the grammar, from its start (constrained decoding); null: no
        /// restriction.</summary>
        public unsafe void SetGrammar(Grammar grammar) => Native.Call(err => Native.rz_sampler_grammar_set(Handle, grammar?.Handle ?? GrammarHandle.None, err));

        public void Dispose() { Handle.Dispose(); }
    }

    /// <summary>A token and its log probability.</summary>
    public struct Logprob
    {
        public uint Token;
        public float Value;
    }

    /// <summary>A LoRA adapter of a model. Immutable: any number of sessions may use it at once.</summary>
    public sealed class Adapter : IDisposable
    {
        internal readonly AdapterHandle Handle = new AdapterHandle();

        internal Adapter(IntPtr pointer) { Handle.Take(pointer); }

        public void Dispose() { Handle.Dispose(); }
    }

    /// <summary>The tokens of a text with their KV cache, so that only new tokens are computed. One call at a time: a
    /// second one fails with Status.Busy.</summary>
    public sealed class Session : IDisposable
    {
        internal readonly CacheHandle Handle = new CacheHandle();
        public Model Model { get; }

        internal static unsafe rz_cache_params Parameters(int capacity, ElementType keys, ElementType values) => new rz_cache_params {
            struct_size = (uint)sizeof(rz_cache_params), capacity = Native.Whole(capacity, nameof(capacity)), k_type = (uint)keys, v_type = (uint)values,
        };

        internal unsafe Session(Model model, int capacity, ElementType keys, ElementType values)
        {
            Model = model;
            var p = Parameters(capacity, keys, values);
            rz_error err;
            IntPtr pointer;
            RealizarException.Check(Native.rz_cache_new(model.Handle, &p, &pointer, &err), &err);
            Handle.Take(pointer);
        }

        internal Session(Model model, IntPtr pointer)
        {
            Model = model;
            Handle.Take(pointer);
        }

        public int Length => (int)Native.rz_cache_len(Handle);
        public int Capacity => (int)Native.rz_cache_capacity(Handle);

        /// <summary>A second session with the same tokens, which shares their KV cache (copy-on-write).</summary>
        public unsafe Session Fork() => new Session(Model, Native.Made((fork, err) => Native.rz_cache_fork(Handle, fork, err)));

        /// <summary>Keeps the first <paramref name="length"/> tokens and removes the others.</summary>
        public unsafe void Truncate(int length) => Native.Call(err => Native.rz_cache_truncate(Handle, Native.Whole(length, nameof(length)), err));

        /// <summary>The tokens of the session.</summary>
        public unsafe uint[] Tokens() =>
            Native.Sized<uint>(Length, (tokens, capacity, n, err) => Native.rz_cache_tokens_into(Handle, (uint*)tokens, capacity, n, err));

        /// <summary>Removes <paramref name="drop"/> tokens after the first <paramref name="keep"/>, to make room. The
        /// next call computes the tokens after them again.</summary>
        public unsafe void Shift(int keep, int drop) => Native.Call(err => Native.rz_cache_shift(Handle, Native.Whole(keep, nameof(keep)), Native.Whole(drop, nameof(drop)), err));

        /// <summary>Frees the KV cache and keeps the tokens. The next call computes the KV cache again.</summary>
        public unsafe void Release() => Native.Call(err => Native.rz_cache_release(Handle, err));

        /// <summary>Writes the tokens and their KV cache. Model.Restore reads them, in another process too.</summary>
        public unsafe void Save(System.IO.Stream stream)
        {
            using (var transfer = new Transfer(stream))
            {
                rz_error err;
                transfer.Check(Native.rz_cache_save(Handle, Transfer.WriteCallback, transfer.User, CancelHandle.None, &err), &err);
            }
        }

        /// <summary>Sets the LoRA adapters of the session, each with a scale, and removes all tokens, whose KV cache
        /// was computed without them.</summary>
        public unsafe void SetAdapters(IReadOnlyDictionary<Adapter, float> adapters)
        {
            using (var pins = new Pins())
                Native.Call(err => Native.rz_cache_adapters_set(Handle, (IntPtr*)pins.Of(adapters.Keys.Select(adapter => adapter.Handle)),
                    (float*)pins.Of(adapters.Values.ToArray()), (UIntPtr)adapters.Count, err));
        }

        /// <summary>Appends tokens and computes the logits after the last one.</summary>
        public unsafe void Prefill(uint[] more, CancellationToken cancellation = default(CancellationToken))
        {
            rz_error err;
            using (var cancelling = new Cancelling(cancellation))
                fixed (uint* at = Native.Given(more, nameof(more)))
                    RealizarException.Check(Native.rz_prefill(Handle, at, (UIntPtr)more.Length, cancelling.Handle, &err), &err, cancellation);
        }

        /// <summary>The number of leading tokens of a prompt that the KV cache holds already.</summary>
        public unsafe int Match(Prompt prompt)
        {
            rz_error err;
            uint common;
            RealizarException.Check(Native.rz_cache_match_prompt(Handle, prompt.Handle, &common, &err), &err);
            return (int)common;
        }

        /// <summary>Appends the tokens of a prompt from number <paramref name="first"/> on, at least one. <paramref
        /// name="first"/> is 0, or the result of Match after the session was truncated to it.</summary>
        public unsafe void Prefill(Prompt prompt, int first = 0, CancellationToken cancellation = default(CancellationToken))
        {
            rz_error err;
            using (var cancelling = new Cancelling(cancellation))
                RealizarException.Check(Native.rz_prefill_prompt(Handle, prompt.Handle, (UIntPtr)Native.Whole(first, nameof(first)), cancelling.Handle, &err), &err, cancellation);
        }

        /// <summary>Chooses a token by the logits; the most likely one if <paramref name="sampler"/> is null.</summary>
        public unsafe uint Sample(Sampler sampler = null)
        {
            rz_error err;
            uint token;
            RealizarException.Check(Native.rz_sample(Handle, sampler?.Handle ?? SamplerHandle.None, &token, &err), &err);
            return token;
        }

        /// <summary>Appends a token and chooses the next one.</summary>
        public unsafe uint Decode(uint token, Sampler sampler = null)
        {
            rz_error err;
            uint next;
            RealizarException.Check(Native.rz_decode_token(Handle, token, sampler?.Handle ?? SamplerHandle.None, &next, &err), &err);
            return next;
        }

        /// <summary>Decode for several sessions of one model in one batch.</summary>
        /// <param name="samplers">A sampler per session, any of which may be null; null: no samplers.</param>
        public static unsafe uint[] DecodeAll(IReadOnlyList<Session> sessions, uint[] tokens, IReadOnlyList<Sampler> samplers = null)
        {
            if (tokens.Length != sessions.Count || samplers != null && samplers.Count != sessions.Count)
                throw new ArgumentException("a batch has as many tokens and samplers as sessions");
            var next = new uint[tokens.Length];
            using (var pins = new Pins())
                Native.Call(err => Native.rz_decode_batch((IntPtr*)pins.Of(sessions.Select(session => session.Handle)), (uint*)pins.Of(tokens),
                    (UIntPtr)tokens.Length, (IntPtr*)pins.Of((samplers ?? new Sampler[tokens.Length]).Select(sampler => sampler?.Handle)), (uint*)pins.Of(next), err));
            return next;
        }

        /// <summary>The <paramref name="k"/> likeliest tokens after the last one, the likeliest first.</summary>
        public unsafe IReadOnlyList<Logprob> Logprobs(int k)
        {
            var most = Math.Min(Native.Whole(k, nameof(k)), (uint)Model.Info.VocabSize);
            var tokens = new uint[most + 1];
            var values = new float[most + 1];
            rz_error err;
            UIntPtr n;
            fixed (uint* t = tokens)
            fixed (float* v = values)
                RealizarException.Check(Native.rz_top_logprobs(Handle, most, t, v, &n, &err), &err);
            return Enumerable.Range(0, (int)n).Select(i => new Logprob { Token = tokens[i], Value = values[i] }).ToArray();
        }

        /// <summary>Appends tokens, as Prefill does, and returns the log probability of each one, given all tokens
        /// before it.</summary>
        public unsafe float[] Score(uint[] more, CancellationToken cancellation = default(CancellationToken))
        {
            var scores = new float[Native.Given(more, nameof(more)).Length];
            rz_error err;
            using (var cancelling = new Cancelling(cancellation))
                fixed (uint* at = more)
                fixed (float* to = scores)
                    RealizarException.Check(Native.rz_score(Handle, at, (UIntPtr)more.Length, to, cancelling.Handle, &err), &err, cancellation);
            return scores;
        }

        /// <summary>Writes the logits after the last token to an array, one per token of the vocabulary.</summary>
        public unsafe void Logits(float[] logits)
        {
            rz_error err;
            UIntPtr n;
            fixed (float* at = Native.Given(logits, nameof(logits)))
                RealizarException.Check(Native.rz_logits_into(Handle, at, (UIntPtr)logits.Length, &n, &err), &err);
        }

        /// <summary>Makes a job that continues a prompt. Leading tokens that the KV cache holds already are not
        /// computed again.</summary>
        public unsafe Job NewJob(uint[] prompt, JobOptions options = null, CancellationToken cancellation = default(CancellationToken))
        {
            rz_error err;
            uint common;
            fixed (uint* at = Native.Given(prompt, nameof(prompt))) RealizarException.Check(Native.rz_cache_match(Handle, at, (UIntPtr)prompt.Length, &common, &err), &err);
            // The last token of a prompt is always computed, because the answer starts from its logits.
            var kept = Math.Min((int)common, Math.Max(prompt.Length - 1, 0));
            Truncate(kept);
            return new Job(Handle, Model, prompt.Skip(kept).ToArray(), null, 0, options ?? new JobOptions(), cancellation);
        }

        /// <summary>The same for a prompt with media.</summary>
        public Job NewJob(Prompt prompt, JobOptions options = null, CancellationToken cancellation = default(CancellationToken))
        {
            var kept = Match(prompt);
            var tokens = prompt.Tokens();
            // Rows at its end are computed as a whole, because they may see each other.
            if (kept == tokens.Length)
                for (kept = Math.Max(kept - 1, 0); kept > 0 && tokens[kept] == Prompt.MediaToken;) kept--;
            Truncate(kept);
            return new Job(Handle, Model, null, prompt, kept, options ?? new JobOptions(), cancellation);
        }

        /// <summary>Continues a text piece by piece; each piece is whole characters.</summary>
        /// <param name="maxTokens">Maximum number of generated tokens; 0: as many as fit into the context.</param>
        public IEnumerable<string> Generate(string prompt, Sampling sampling = null, int maxTokens = 0, CancellationToken cancellation = default(CancellationToken)) =>
            Generate(prompt, new JobOptions { Sampling = sampling, MaxTokens = maxTokens }, cancellation);

        /// <summary>The same with all options of a job.</summary>
        public IEnumerable<string> Generate(string prompt, JobOptions options, CancellationToken cancellation = default(CancellationToken)) =>
            Generated(() => NewJob(Model.Tokenize(prompt), options, cancellation));

        /// <summary>Generate, computed on threads of the pool.</summary>
        public IAsyncEnumerable<string> GenerateAsync(string prompt, Sampling sampling = null, int maxTokens = 0) =>
            new AsyncPieces<string>(cancellation => Generate(prompt, sampling, maxTokens, cancellation));

        private static IEnumerable<string> Generated(Func<Job> begin)
        {
            using (var job = begin())
                for (var going = true; going;)
                {
                    going = job.Step();
                    var piece = job.Text();
                    if (piece.Length > 0) yield return piece;
                }
        }

        public void Dispose() { Handle.Dispose(); }
    }

    /// <summary>Pieces that are computed on threads of the pool, one at a time.</summary>
    internal sealed class AsyncPieces<T> : IAsyncEnumerable<T>
    {
        private readonly Func<CancellationToken, IEnumerable<T>> begin;
        internal AsyncPieces(Func<CancellationToken, IEnumerable<T>> begin) { this.begin = begin; }
        public IAsyncEnumerator<T> GetAsyncEnumerator(CancellationToken cancellation = default(CancellationToken)) =>
            new Enumerator(() => begin(cancellation).GetEnumerator());

        private sealed class Enumerator : IAsyncEnumerator<T>
        {
            private readonly Func<IEnumerator<T>> begin;
            private IEnumerator<T> pieces;
            internal Enumerator(Func<IEnumerator<T>> begin) { this.begin = begin; }
            public T Current => pieces.Current;
            public ValueTask<bool> MoveNextAsync() => new ValueTask<bool>(Task.Run(() => (pieces ?? (pieces = begin())).MoveNext()));
            public ValueTask DisposeAsync() => new ValueTask(Task.Run(() => pieces?.Dispose()));
        }
    }
}
