using System;
using System.Collections.Generic;
using System.Linq;
using System.Threading;
using System.Threading.Tasks;

namespace Realizar
{
    /// <summary>Chooses tokens. A sampler has a random generator of its own, so that the same seed gives the same
    /// tokens.</summary>
    public sealed partial class Sampler
    {
        /// <summary>A sampler with these parameters.</summary>
        public unsafe Sampler(Sampling sampling)
        {
            Native.Initialize();
            Native.Given(sampling, nameof(sampling));
            using (var pins = new Pins())
            {
                var p = (rz_sampler_params*)pins.Of(Parameters(sampling, pins));
                Handle.Take(Native.Made((sampler, err) => Native.rz_sampler_new(p, sampler, err)));
            }
        }

        internal static unsafe rz_sampler_params Parameters(Sampling s, Pins pins)
        {
            Native.GivenAll(s.DryBreakers, nameof(s.DryBreakers));
            Native.GivenAll(s.BannedSequences, nameof(s.BannedSequences));
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
        public unsafe void SetGrammar(Grammar? grammar) => Native.Call(err => Native.rz_sampler_grammar_set(Handle, grammar?.Handle ?? GrammarHandle.None, err));
    }

    /// <summary>A token and its log probability.</summary>
    public struct Logprob
    {
        /// <summary>Id of the token.</summary>
        public uint Token;
        /// <summary>Natural logarithm of its probability.</summary>
        public float Value;
    }

    /// <summary>A LoRA adapter of a model. Immutable: any number of sessions may use it at once.</summary>
    public sealed partial class Adapter { }

    /// <summary>The tokens of a text with their KV cache, so that only new tokens are computed. One call at a time: a
    /// second one is an InvalidOperationException. Dispose stops a call of another thread, which ends with an
    /// ObjectDisposedException.</summary>
    public sealed partial class Session
    {
        private readonly Cancelling disposing = new Cancelling(default, true);
        /// <summary>The model of the session.</summary>
        public Model Model { get; }

        internal static unsafe rz_cache_params Parameters(int capacity, CacheType keys, CacheType values, string ofCapacity = "capacity",
            string ofKeys = "keys", string ofValues = "values") => new rz_cache_params {
            struct_size = (uint)sizeof(rz_cache_params), capacity = Native.Whole(capacity, ofCapacity), k_type = Native.Choice(keys, ofKeys),
            v_type = Native.Choice(values, ofValues),
        };

        internal unsafe Session(Model model, IntPtr pointer)
        {
            Model = model;
            Handle.Take(pointer);
            Call(err => Native.rz_cache_cancel_set(Handle, disposing.Handle, err));
        }

        private unsafe int Call(Native.Calling call, CancellationToken cancellationToken = default) => Native.Call(call, cancellationToken, Handle);

        /// <summary>Makes a call that heeds a token.</summary>
        private unsafe void Computed(CancellationToken cancellationToken, Func<CancelHandle, Native.Calling> call)
        {
            using (var cancelling = new Cancelling(cancellationToken)) Call(call(cancelling.Handle), cancellationToken);
        }

        /// <summary>Number of tokens.</summary>
        public int Length => (int)Native.rz_cache_len(Handle);
        /// <summary>Context length in tokens.</summary>
        public int Capacity => (int)Native.rz_cache_capacity(Handle);

        /// <summary>A second session with the same tokens, which shares their KV cache (copy-on-write).</summary>
        public unsafe Session Fork() => new Session(Model, Native.Made((fork, err) => Native.rz_cache_fork(Handle, fork, err)));

        /// <summary>Keeps the first <paramref name="length"/> tokens and removes the others.</summary>
        public unsafe void Truncate(int length) => Call(err => Native.rz_cache_truncate(Handle, Native.Whole(length, nameof(length)), err));

        /// <summary>The tokens of the session.</summary>
        public unsafe uint[] Tokens() =>
            Native.Sized<uint>(Length, (tokens, capacity, n, err) => Native.rz_cache_tokens_into(Handle, (uint*)tokens, capacity, n, err));

        /// <summary>Removes <paramref name="drop"/> tokens after the first <paramref name="keep"/>, to make room. The
        /// next call computes the tokens after them again.</summary>
        public unsafe void Shift(int keep, int drop) => Call(err => Native.rz_cache_shift(Handle, Native.Whole(keep, nameof(keep)), Native.Whole(drop, nameof(drop)), err));

        /// <summary>Frees the KV cache and keeps the tokens. The next call computes the KV cache again.</summary>
        public unsafe void Release() => Call(err => Native.rz_cache_release(Handle, err));

        /// <summary>Writes the tokens and their KV cache. Model.Restore reads them, in another process too.</summary>
        public unsafe void Save(System.IO.Stream stream) =>
            Transfer.Save(stream, (write, user, err) => Native.rz_cache_save(Handle, write, user, CancelHandle.None, err));

        /// <summary>Sets the LoRA adapters of the session, each with a scale, and removes all tokens, whose KV cache
        /// was computed without them.</summary>
        public unsafe void SetAdapters(IReadOnlyDictionary<Adapter, float> adapters)
        {
            Native.Given(adapters, nameof(adapters));
            using (var pins = new Pins())
                Call(err => Native.rz_cache_adapters_set(Handle, (IntPtr*)pins.Of(adapters.Keys.Select(adapter => adapter.Handle)),
                    (float*)pins.Of(adapters.Values.ToArray()), (UIntPtr)adapters.Count, err));
        }

        /// <summary>Appends tokens and computes the logits after the last one.</summary>
        public unsafe void Prefill(uint[] tokens, CancellationToken cancellationToken = default)
        {
            using (var pins = new Pins())
            {
                var at = pins.Of(Native.Given(tokens, nameof(tokens)));
                Computed(cancellationToken, cancel => err => Native.rz_prefill(Handle, (uint*)at, (UIntPtr)tokens.Length, cancel, err));
            }
        }

        /// <summary>The number of leading tokens of a prompt that the KV cache holds already.</summary>
        public unsafe int Match(Prompt prompt)
        {
            uint common;
            var at = &common;
            Native.Given(prompt, nameof(prompt));
            Call(err => Native.rz_cache_match_prompt(Handle, prompt.Handle, at, err));
            return (int)common;
        }

        /// <summary>Appends the tokens of a prompt from number <paramref name="first"/> on, at least one. <paramref
        /// name="first"/> is 0, or the result of Match after the session was truncated to it.</summary>
        public unsafe void Prefill(Prompt prompt, int first = 0, CancellationToken cancellationToken = default)
        {
            Native.Given(prompt, nameof(prompt));
            Computed(cancellationToken, cancel => err =>
                Native.rz_prefill_prompt(Handle, prompt.Handle, (UIntPtr)Native.Whole(first, nameof(first)), cancel, err));
        }

        /// <summary>Chooses a token by the logits; the most likely one if <paramref name="sampler"/> is null.</summary>
        public unsafe uint Sample(Sampler? sampler = null)
        {
            uint token;
            var at = &token;
            Call(err => Native.rz_sample(Handle, sampler?.Handle ?? SamplerHandle.None, at, err));
            return token;
        }

        /// <summary>Appends a token and chooses the next one.</summary>
        public unsafe uint Decode(uint token, Sampler? sampler = null)
        {
            uint next;
            var at = &next;
            Call(err => Native.rz_decode_token(Handle, token, sampler?.Handle ?? SamplerHandle.None, at, err));
            return next;
        }

        /// <summary>Decode for several sessions of one model in one batch.</summary>
        /// <param name="samplers">A sampler per session, any of which may be null; null: no samplers.</param>
        public static unsafe uint[] DecodeAll(IReadOnlyList<Session> sessions, uint[] tokens, IReadOnlyList<Sampler?>? samplers = null)
        {
            Native.GivenAll(sessions, nameof(sessions));
            if (Native.Given(tokens, nameof(tokens)).Length != sessions.Count || samplers != null && samplers.Count != sessions.Count)
                throw new ArgumentException($"{tokens.Length} tokens and {samplers?.Count ?? tokens.Length} samplers for {sessions.Count} sessions; there must be one for each", nameof(tokens));
            var next = new uint[tokens.Length];
            using (var pins = new Pins())
                Native.Call(err => Native.rz_decode_batch((IntPtr*)pins.Of(sessions.Select(session => session.Handle)), (uint*)pins.Of(tokens),
                    (UIntPtr)tokens.Length, (IntPtr*)pins.Of((samplers ?? new Sampler?[tokens.Length]).Select(sampler => sampler?.Handle)), (uint*)pins.Of(next), err));
            return next;
        }

        /// <summary>The <paramref name="k"/> likeliest tokens after the last one, the likeliest first.</summary>
        public unsafe IReadOnlyList<Logprob> Logprobs(int k)
        {
            var most = Math.Min(Native.Whole(k, nameof(k)), (uint)Model.Info.VocabSize);
            var tokens = new uint[most + 1];
            var values = new float[most + 1];
            var n = new UIntPtr[1];
            using (var pins = new Pins())
                Call(err => Native.rz_top_logprobs(Handle, most, (uint*)pins.Of(tokens), (float*)pins.Of(values), (UIntPtr*)pins.Of(n), err));
            return Enumerable.Range(0, (int)n[0]).Select(i => new Logprob { Token = tokens[i], Value = values[i] }).ToArray();
        }

        /// <summary>Appends tokens, as Prefill does, and returns the log probability of each one, given all tokens
        /// before it.</summary>
        public unsafe float[] Score(uint[] tokens, CancellationToken cancellationToken = default)
        {
            var scores = new float[Native.Given(tokens, nameof(tokens)).Length];
            using (var pins = new Pins())
            {
                var (at, to) = (pins.Of(tokens), pins.Of(scores));
                Computed(cancellationToken, cancel => err => Native.rz_score(Handle, (uint*)at, (UIntPtr)tokens.Length, (float*)to, cancel, err));
            }
            return scores;
        }

        /// <summary>Writes the logits after the last token to an array, one per token of the vocabulary.</summary>
        public unsafe void Logits(float[] logits)
        {
            var n = new UIntPtr[1];
            Native.Given(logits, nameof(logits));
            using (var pins = new Pins())
                Call(err => Native.rz_logits_into(Handle, (float*)pins.Of(logits), (UIntPtr)logits.Length, (UIntPtr*)pins.Of(n), err));
        }

        /// <summary>Makes a job that continues a prompt. Leading tokens that the KV cache holds already are not
        /// computed again.</summary>
        public unsafe Job NewJob(uint[] prompt, JobOptions? options = null, CancellationToken cancellationToken = default)
        {
            var common = new uint[1];
            Native.Given(prompt, nameof(prompt));
            using (var pins = new Pins())
                Call(err => Native.rz_cache_match(Handle, (uint*)pins.Of(prompt), (UIntPtr)prompt.Length, (uint*)pins.Of(common), err));
            // The last token of a prompt is always computed, because the answer starts from its logits.
            var kept = Math.Min((int)common[0], Math.Max(prompt.Length - 1, 0));
            Truncate(kept);
            return new Job(this, prompt.Skip(kept).ToArray(), null, 0, options ?? new JobOptions(), cancellationToken);
        }

        /// <summary>The same for a prompt with media.</summary>
        public Job NewJob(Prompt prompt, JobOptions? options = null, CancellationToken cancellationToken = default)
        {
            var kept = Match(prompt);
            var tokens = prompt.Tokens();
            // Rows at its end are computed as a whole, because they may see each other.
            if (kept == tokens.Length)
                for (kept = Math.Max(kept - 1, 0); kept > 0 && tokens[kept] == Prompt.MediaToken;) kept--;
            Truncate(kept);
            return new Job(this, null, prompt, kept, options ?? new JobOptions(), cancellationToken);
        }

        /// <summary>Continues a text piece by piece; each piece is whole characters.</summary>
        /// <param name="maxTokens">Maximum number of generated tokens; 0: as many as fit into the context.</param>
        public IEnumerable<string> Generate(string prompt, Sampling? sampling = null, int maxTokens = 0, CancellationToken cancellationToken = default) =>
            Generate(prompt, new JobOptions { Sampling = sampling, MaxTokens = maxTokens }, cancellationToken);

        /// <summary>The same with all options of a job.</summary>
        public IEnumerable<string> Generate(string prompt, JobOptions? options, CancellationToken cancellationToken = default)
        {
            Native.Encoded(prompt, nameof(prompt));
            return Generated(() => NewJob(Model.Tokenize(prompt), options, cancellationToken));
        }

        /// <summary>Generate, computed on threads of the pool.</summary>
        public IAsyncEnumerable<string> GenerateAsync(string prompt, Sampling? sampling = null, int maxTokens = 0, CancellationToken cancellationToken = default) =>
            GenerateAsync(prompt, new JobOptions { Sampling = sampling, MaxTokens = maxTokens }, cancellationToken);

        /// <summary>The same with all options of a job.</summary>
        public IAsyncEnumerable<string> GenerateAsync(string prompt, JobOptions? options, CancellationToken cancellationToken = default)
        {
            Native.Encoded(prompt, nameof(prompt));
            return new AsyncPieces<string>(token => Generate(prompt, options, token), cancellationToken);
        }

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

        partial void Closed()
        {
            disposing.Fire();
            disposing.Dispose();
        }
    }

    /// <summary>Pieces that are computed on threads of the pool, one at a time.</summary>
    internal sealed class AsyncPieces<T> : IAsyncEnumerable<T>
    {
        private readonly Func<CancellationToken, IEnumerable<T>> begin;
        private readonly CancellationToken always;

        internal AsyncPieces(Func<CancellationToken, IEnumerable<T>> begin, CancellationToken always)
        {
            this.begin = begin;
            this.always = always;
        }

        public IAsyncEnumerator<T> GetAsyncEnumerator(CancellationToken cancellationToken = default) => new Enumerator(begin, always, cancellationToken);

        private sealed class Enumerator : IAsyncEnumerator<T>
        {
            private readonly Func<CancellationToken, IEnumerable<T>> begin;
            private readonly CancellationToken[] tokens;
            private readonly CancellationTokenSource stop;
            private IEnumerator<T>? pieces;
            private Task<bool> last = Task.FromResult(true);
            private bool isDisposed;

            internal Enumerator(Func<CancellationToken, IEnumerable<T>> begin, params CancellationToken[] tokens)
            {
                this.begin = begin;
                this.tokens = tokens;
                stop = CancellationTokenSource.CreateLinkedTokenSource(tokens);
            }

            public T Current => pieces == null ? default! : pieces.Current;

            public ValueTask<bool> MoveNextAsync()
            {
                if (!last.IsCompleted) throw new InvalidOperationException("the last MoveNextAsync has not ended");
                return new ValueTask<bool>(isDisposed ? Task.FromResult(false) : last = Task.Run((Func<bool>)MoveNext));
            }

            private bool MoveNext()
            {
                try { return (pieces ?? (pieces = begin(stop.Token).GetEnumerator())).MoveNext(); }
                catch (OperationCanceledException e) when (e.CancellationToken == stop.Token)
                {
                    throw new OperationCanceledException(e.Message, e, tokens.FirstOrDefault(token => token.IsCancellationRequested));
                }
            }

            public ValueTask DisposeAsync() => new ValueTask(End());

            /// <summary>Cancels a MoveNextAsync that goes on, and ends the enumeration.</summary>
            private async Task End()
            {
                if (isDisposed) return;
                isDisposed = true;
                if (!last.IsCompleted) stop.Cancel();
                try { await last.ConfigureAwait(false); }
                catch (Exception) { } // which MoveNextAsync has thrown
                await Task.Run(() => pieces?.Dispose()).ConfigureAwait(false);
                stop.Dispose();
            }
        }
    }
}
