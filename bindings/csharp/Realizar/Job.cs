using System;
using System.Collections.Generic;
using System.Linq;
using System.Threading;

namespace Realizar
{
    /// <summary>A compiled grammar for constrained decoding. Immutable: any number of jobs may use it at
    /// once.</summary>
    public sealed partial class Grammar { }

    /// <summary>Options of a generated text.</summary>
    public abstract partial class TextOptions
    {
        /// <summary>Null: the most likely token; for a reply the sampling that the authors of the model
        /// advise.</summary>
        public Sampling? Sampling;
        /// <summary>Stop sequences: the text ends before the first of them. In a reply they apply to the
        /// content.</summary>
        public IReadOnlyList<string> Stops = new string[0];
        /// <summary>Lookup: from the text itself; Model: by DraftModel, a small model with the same vocabulary; Mtp: by
        /// the MTP head of the model, which LoadOptions.Mtp loads.</summary>
        public Draft Draft;
        /// <summary>The model of Draft.Model.</summary>
        public Model? DraftModel;

        internal int Row(Model model) => Math.Min(Logprobs ?? 0, model.Info.VocabSize) + 1;
    }

    /// <summary>Options of a job.</summary>
    public sealed partial class JobOptions : TextOptions
    {
        /// <summary>Grammar of the text; null: none.</summary>
        public Grammar? Grammar;
    }

    /// <summary>A generated token, and the most likely tokens at its place in descending order.</summary>
    public sealed class TokenLogprobs
    {
        /// <summary>The generated token.</summary>
        public Logprob Made { get; internal set; }
        /// <summary>The most likely tokens at its place.</summary>
        public IReadOnlyList<Logprob> Likeliest { get; internal set; } = new Logprob[0];

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

    /// <summary>A generation that computes when it is stepped. Its session is busy until the job is disposed of, which
    /// is allowed at any moment; the session keeps the tokens computed so far.</summary>
    public sealed partial class Job
    {
        private readonly Cancelling cancelling;
        private readonly int row;

        internal unsafe Job(Session session, uint[]? tokens, Prompt? prompt, int first, JobOptions options, CancellationToken cancellationToken)
        {
            cancellationToken.ThrowIfCancellationRequested();
            row = options.Row(session.Model);
            cancelling = new Cancelling(cancellationToken, true);
            try
            {
                using (var pins = new Pins())
                using (var sampler = new Sampler(options.Sampling ?? new Sampling()))
                {
                    var p = options.Numbers();
                    (p.tokens, p.n_tokens) = (pins.Of(tokens), (UIntPtr)(tokens?.Length ?? 0));
                    (p.prompt, p.prompt_first) = (pins.Of(prompt?.Handle), (UIntPtr)Native.Whole(first, nameof(first)));
                    (p.stops, p.n_stops) = (pins.Of(options.Stops, nameof(options.Stops)), (UIntPtr)options.Stops.Count);
                    (p.draft, p.draft_model) = (Native.Choice(options.Draft, nameof(options.Draft)), pins.Of(options.DraftModel?.Handle));
                    (p.grammar, p.cancel) = (pins.Of(options.Grammar?.Handle), pins.Of(cancelling.Handle));
                    p.sampler = options.Sampling == null ? IntPtr.Zero : pins.Of(sampler.Handle);
                    var at = pins.Of(p);
                    Handle.Take(Native.Made((job, err) => Native.rz_job_new(session.Handle, (rz_job_params*)at, job, err)));
                }
            }
            catch
            {
                cancelling.Dispose();
                throw;
            }
        }

        /// <summary>Computes until there is a token, or the end. True if there is more to compute.</summary>
        public bool Step() => Step(Native.RZ_NO_LIMIT);

        /// <summary>Computes for about so many microseconds; a negative number counts as 0. True if there is more to
        /// compute.</summary>
        public bool Step(long microseconds) => Step((ulong)Math.Max(microseconds, 0));

        private unsafe bool Step(ulong microseconds) =>
            Native.Call(err => Native.rz_job_step(Handle, microseconds, err), cancelling.Token, Handle) != Native.RZ_DONE;

        /// <summary>Steps several jobs of one model as a batch, until one of them has a token. True if there is more to
        /// compute. A job that fails ends without the others; Error is the reason. Cancels and deadlines throw nothing
        /// here: such a job pauses without the others, and Stopped is the reason.</summary>
        public static bool StepAll(IReadOnlyList<Job> jobs) => StepAll(jobs, Native.RZ_NO_LIMIT);

        /// <summary>The same for about so many microseconds.</summary>
        public static bool StepAll(IReadOnlyList<Job> jobs, long microseconds) => StepAll(jobs, (ulong)Math.Max(microseconds, 0));

        private static unsafe bool StepAll(IReadOnlyList<Job> jobs, ulong microseconds) =>
            Native.StepAll(jobs, nameof(jobs), job => job.Handle, (all, n, err) => Native.rz_jobs_step((IntPtr*)all, n, microseconds, (rz_error*)err));

        /// <summary>Lets steps fail with Status.Deadline after this time, at once if it is not positive; null removes
        /// the deadline.</summary>
        public void SetDeadline(TimeSpan? time) => OfJob().SetDeadline(time);

        /// <summary>Takes back a deadline or a cancel, so that the next step continues.</summary>
        public void Resume() => OfJob().Reset();

        private Cancelling OfJob()
        {
            Native.Open(handle, nameof(Job));
            return cancelling;
        }

        /// <summary>The text since the last call: whole characters without stop strings.</summary>
        public unsafe string Text() =>
            Native.SizedText(128, (text, capacity, n, err) => Native.rz_job_text_into(Handle, (byte*)text, capacity, n, err));

        /// <summary>The tokens since the last call, with the one that ends the text.</summary>
        public unsafe uint[] Tokens() =>
            Native.Sized<uint>(64, (tokens, capacity, n, err) => Native.rz_job_tokens_into(Handle, (uint*)tokens, capacity, n, err));

        /// <summary>The tokens since the last call with their log probabilities, if JobOptions.Logprobs is
        /// set.</summary>
        public unsafe IReadOnlyList<TokenLogprobs> Logprobs() => TokenLogprobs.All(row, (tokens, values, capacity, n, err) =>
            Native.rz_job_logprobs_into(Handle, tokens, values, capacity, n, err));

        /// <summary>Status.Cancelled or Deadline if steps fail because of a cancel or a deadline; else null.</summary>
        public Status? Stopped
        {
            get
            {
                var stopped = Info().stopped;
                return stopped == 0 ? (Status?)null : (Status)stopped;
            }
        }

        /// <summary>Why the generation has ended.</summary>
        public JobEnd End => (JobEnd)Info().end_reason;
        /// <summary>Number of tokens made.</summary>
        public int Count => (int)Info().n_tokens;
        /// <summary>Number of prompt tokens that the session did not hold.</summary>
        public int PromptCount => (int)Info().prompt_total;

        /// <summary>The error of a job that has ended with JobEnd.Failed, else null. Step throws this error, StepAll
        /// does not.</summary>
        public unsafe RealizarException? Error
        {
            get
            {
                if (End != JobEnd.Failed) return null;
                try { Native.Call(err => Native.rz_job_error(Handle, err)); }
                catch (RealizarException e) { return e; }
                return null;
            }
        }

        /// <summary>Number of draft tokens that were verified, and the number of them that were accepted.</summary>
        public int Drafted => (int)Info().drafted;
        /// <summary>Number of draft tokens that were accepted.</summary>
        public int Accepted => (int)Info().accepted;

        private unsafe rz_job_info Info()
        {
            rz_error err;
            rz_job_info info;
            info.struct_size = (uint)sizeof(rz_job_info);
            RealizarException.Check(Native.rz_job_info_get(Handle, &info, &err), &err);
            return info;
        }

        partial void Closed()
        {
            cancelling.Fire();
            cancelling.Dispose();
        }
    }
}
