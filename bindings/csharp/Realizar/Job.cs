using System;
using System.Collections.Generic;
using System.Linq;
using System.Threading;

namespace Realizar
{
    /// <summary>The language of a grammar.</summary>
    public enum GrammarKind
    {
        JsonSchema = Native.RZ_GRAMMAR_JSON_SCHEMA, Regex = Native.RZ_GRAMMAR_REGEX, Lark = Native.RZ_GRAMMAR_LARK,
        Gbnf = Native.RZ_GRAMMAR_GBNF, Json = Native.RZ_GRAMMAR_JSON, Choices = Native.RZ_GRAMMAR_CHOICES,
        Tools = Native.RZ_GRAMMAR_TOOLS,
    }

    /// <summary>What may be written. Immutable: any number of jobs may use it at once.</summary>
    public sealed class Grammar : IDisposable
    {
        internal readonly GrammarHandle Handle = new GrammarHandle();

        internal Grammar(IntPtr pointer) { Handle.Take(pointer); }

        public void Dispose() { Handle.Dispose(); }
    }

    /// <summary>The way in which next tokens are guessed, which changes nothing but the time.</summary>
    public enum Draft
    {
        None = Native.RZ_DRAFT_NONE, Lookup = Native.RZ_DRAFT_LOOKUP, Model = Native.RZ_DRAFT_MODEL, Mtp = Native.RZ_DRAFT_MTP,
    }

    /// <summary>How a text is generated.</summary>
    public abstract class TextOptions
    {
        /// <summary>Null: always the most likely token; of a reply what the makers of the model advise.</summary>
        public Sampling Sampling;
        /// <summary>Tokens at most; 0: no limit but the capacity.</summary>
        public int MaxTokens;
        /// <summary>The text ends ahead of the first of these, that of a reply in its content.</summary>
        public IReadOnlyList<string> Stops = new string[0];
        /// <summary>How many of the likeliest tokens are told with each, at most 32.</summary>
        public int Logprobs;
        /// <summary>Lookup: out of the text; Model: by DraftModel, a small one of the same vocabulary; Mtp: by a layer
        /// of the model itself, of LoadOptions.Mtp.</summary>
        public Draft Draft;
        public Model DraftModel;
        /// <summary>Tokens of a draft at most; 0: as many as the library chooses.</summary>
        public int DraftMax;
        /// <summary>Priority among the jobs of one step: the higher go first; 0 by default.</summary>
        public int Priority;

        internal int Row(Model model) => Math.Min(Logprobs, model.Info.VocabSize) + 1;
    }

    public sealed class JobOptions : TextOptions
    {
        public Grammar Grammar;
    }

    /// <summary>Why a text has ended.</summary>
    public enum JobEnd
    {
        None, Token = Native.RZ_JOB_END, Length = Native.RZ_JOB_LENGTH, Stop = Native.RZ_JOB_STOP,
        Context = Native.RZ_JOB_CONTEXT, Grammar = Native.RZ_JOB_GRAMMAR, Failed = Native.RZ_JOB_FAILED,
    }

    /// <summary>A token that was made, and the likeliest ones in its place, the likeliest first.</summary>
    public sealed class TokenLogprobs
    {
        public Logprob Made { get; internal set; }
        public IReadOnlyList<Logprob> Likeliest { get; internal set; }

        internal unsafe delegate int Into(uint* tokens, float* values, UIntPtr capacity, UIntPtr* n, rz_error* err);

        /// <summary>The rows that a function has ready.</summary>
        internal static unsafe IReadOnlyList<TokenLogprobs> All(int row, Into call)
        {
            var values = new float[0];
            var tokens = Native.Sized<uint>(64, (ids, capacity, n, err) => {
                values = new float[(int)capacity];
                fixed (float* at = values) return call((uint*)ids, at, capacity, n, err);
            });
            Func<int, Logprob> entry = i => new Logprob { Token = tokens[i], Value = values[i] };
            return Enumerable.Range(0, tokens.Length / row).Select(i => new TokenLogprobs {
                Made = entry(i * row), Likeliest = Enumerable.Range(i * row + 1, row - 1).Select(entry).ToArray(),
            }).ToArray();
        }
    }

    /// <summary>A generation that works when it is told to. Its session is busy until it is disposed of, which ends it
    /// at any moment; the session keeps the tokens that are complete.</summary>
    public sealed class Job : IDisposable
    {
        private readonly JobHandle handle = new JobHandle();
        private readonly Cancelling cancelling;
        private readonly CancellationToken cancellation;
        private readonly int row;

        internal unsafe Job(CacheHandle cache, Model model, uint[] tokens, Prompt prompt, int first, JobOptions options, CancellationToken cancellation)
        {
            this.cancellation = cancellation;
            row = options.Row(model);
            cancelling = new Cancelling(cancellation, true);
            try
            {
                using (var pins = new Pins())
                using (var sampler = new Sampler(options.Sampling ?? new Sampling()))
                {
                    var p = new rz_job_params {
                        struct_size = (uint)sizeof(rz_job_params), max_tokens = Native.Whole(options.MaxTokens, nameof(options.MaxTokens)), tokens = pins.Of(tokens),
                        n_tokens = (UIntPtr)(tokens?.Length ?? 0), prompt = pins.Of(prompt?.Handle), prompt_first = (UIntPtr)Native.Whole(first, nameof(first)), grammar = pins.Of(options.Grammar?.Handle),
                        stops = pins.Of(options.Stops, nameof(options.Stops)), n_stops = (UIntPtr)options.Stops.Count,
                        cancel = pins.Of(cancelling.Handle), draft = (uint)options.Draft, draft_max = Native.Whole(options.DraftMax, nameof(options.DraftMax)),
                        draft_model = pins.Of(options.DraftModel?.Handle), logprobs = Native.Whole(options.Logprobs, nameof(options.Logprobs)), priority = options.Priority,
                        sampler = options.Sampling == null ? IntPtr.Zero : pins.Of(sampler.Handle),
                    };
                    rz_error err;
                    IntPtr pointer;
                    RealizarException.Check(Native.rz_job_new(cache, &p, &pointer, &err), &err, cancellation);
                    handle.Take(pointer);
                }
            }
            catch
            {
                cancelling.Dispose();
                throw;
            }
        }

        /// <summary>Works until it has made a token or has ended; true: there is more to do.</summary>
        public bool Step() => Step(Native.RZ_NO_LIMIT);

        /// <summary>Works for about so many microseconds, of which a negative number is none; true: there is more to
        /// do.</summary>
        public bool Step(long microseconds) => Step((ulong)Math.Max(microseconds, 0));

        private unsafe bool Step(ulong microseconds) =>
            Native.Call(err => Native.rz_job_step(handle, microseconds, err), cancellation) != Native.RZ_DONE;

        /// <summary>Steps several jobs of one model, prompts and single tokens together, in common passes over the
        /// weights, until one of them has made a token; true: there is more to do. One that fails ends alone: Error
        /// tells why.</summary>
        public static bool StepAll(IReadOnlyList<Job> jobs) => StepAll(jobs, Native.RZ_NO_LIMIT);

        /// <summary>The same for about so many microseconds.</summary>
        public static bool StepAll(IReadOnlyList<Job> jobs, long microseconds) => StepAll(jobs, (ulong)Math.Max(microseconds, 0));

        private static unsafe bool StepAll(IReadOnlyList<Job> jobs, ulong microseconds)
        {
            using (var pins = new Pins())
                return Native.Call(err => Native.rz_jobs_step((IntPtr*)pins.Of(jobs.Select(job => job.handle)), (UIntPtr)jobs.Count, microseconds, err)) != Native.RZ_DONE;
        }

        /// <summary>Has steps end with Status.Deadline after so long, at once where that has passed; null takes that
        /// back.</summary>
        public void SetDeadline(TimeSpan? time) { cancelling.SetDeadline(time); }

        /// <summary>Takes a deadline back, and a cancel: the job goes on with the next step.</summary>
        public void Resume() { cancelling.Reset(); }

        /// <summary>Text that has come since this was asked last, in whole characters, stop strings cut out.</summary>
        public unsafe string Text() =>
            Native.SizedText(128, (text, capacity, n, err) => Native.rz_job_text_into(handle, (byte*)text, capacity, n, err));

        /// <summary>Tokens that have come since this was asked last, one that ends the text included.</summary>
        public unsafe uint[] Tokens() =>
            Native.Sized<uint>(64, (tokens, capacity, n, err) => Native.rz_job_tokens_into(handle, (uint*)tokens, capacity, n, err));

        /// <summary>Tokens that have come since this was asked last with their probabilities, of
        /// JobOptions.Logprobs.</summary>
        public unsafe IReadOnlyList<TokenLogprobs> Logprobs() => TokenLogprobs.All(row, (tokens, values, capacity, n, err) =>
            Native.rz_job_logprobs_into(handle, tokens, values, capacity, n, err));

        /// <summary>Why the generation has ended.</summary>
        public JobEnd End => (JobEnd)Info().end;
        /// <summary>Number of tokens made.</summary>
        public int Count => (int)Info().n_tokens;
        /// <summary>Number of tokens of the prompt that the session did not hold.</summary>
        public int PromptCount => (int)Info().prompt_total;

        /// <summary>The error by which it has ended (JobEnd.Failed), which Step throws and StepAll does not; null for
        /// any other job.</summary>
        public unsafe RealizarException Error
        {
            get
            {
                if (End != JobEnd.Failed) return null;
                try { Native.Call(err => Native.rz_job_error(handle, err)); }
                catch (RealizarException e) { return e; }
                return null;
            }
        }

        /// <summary>Tokens of drafts that were computed, and those of them that were right.</summary>
        public int Drafted => (int)Info().drafted;
        public int Accepted => (int)Info().accepted;

        private unsafe rz_job_info Info()
        {
            rz_error err;
            rz_job_info info;
            info.struct_size = (uint)sizeof(rz_job_info);
            RealizarException.Check(Native.rz_job_info_get(handle, &info, &err), &err);
            return info;
        }

        public void Dispose()
        {
            handle.Dispose();
            cancelling.Dispose();
        }
    }
}
