using System;
using System.Collections.Generic;
using System.Linq;
using System.Runtime.InteropServices;
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

    /// <summary>How a text is generated, beside how its tokens are chosen.</summary>
    public sealed class JobOptions
    {
        public Sampling Sampling = new Sampling();
        /// <summary>Tokens at most; 0: no limit but the capacity.</summary>
        public int MaxTokens;
        /// <summary>The text ends ahead of the first of these, that of a reply in its content.</summary>
        public IReadOnlyList<string> Stops = new string[0];
        public Grammar Grammar;
        /// <summary>How many of the likeliest tokens Job.Logprobs tells with each, at most 32.</summary>
        public int Logprobs;
        /// <summary>Lookup: out of the text; Model: by DraftModel, a small one of the same vocabulary; Mtp: by a layer
        /// of the model itself, of LoadOptions.Mtp.</summary>
        public Draft Draft;
        public Model DraftModel;
        /// <summary>Tokens of a draft at most; 0: as many as the library chooses.</summary>
        public int DraftMax;
    }

    /// <summary>Why a text has ended.</summary>
    public enum JobEnd
    {
        None, Token = Native.RZ_JOB_END, Length = Native.RZ_JOB_LENGTH, Stop = Native.RZ_JOB_STOP,
        Context = Native.RZ_JOB_CONTEXT, Grammar = Native.RZ_JOB_GRAMMAR, Failed = Native.RZ_JOB_FAILED,
    }

    /// <summary>A token that a job made, and the likeliest ones in its place, the likeliest first.</summary>
    public sealed class TokenLogprobs
    {
        public Logprob Made { get; internal set; }
        public IReadOnlyList<Logprob> Likeliest { get; internal set; }
    }

    /// <summary>A generation that works when it is told to. Its session is busy until it is disposed of, which ends it at any moment;
    /// the session keeps the tokens that are complete.</summary>
    public sealed class Job : IDisposable
    {
        private readonly JobHandle handle = new JobHandle();
        private readonly Cancelling cancelling;
        private readonly CancellationToken cancellation;
        private readonly bool isReply;
        private readonly int row;

        internal unsafe Job(CacheHandle cache, Model model, uint[] tokens, string chat, JobOptions options, CancellationToken cancellation)
        {
            this.cancellation = cancellation;
            isReply = chat != null;
            row = Math.Min(options.Logprobs, model.Info.VocabSize) + 1;
            var json = isReply ? Native.Terminated(chat, nameof(chat)) : new byte[1];
            var stops = options.Stops.Select(stop => GCHandle.Alloc(Native.Terminated(stop, nameof(options.Stops)), GCHandleType.Pinned)).ToArray();
            var grammar = options.Grammar == null ? GrammarHandle.None : options.Grammar.Handle;
            var draftModel = options.DraftModel == null ? ModelHandle.None : options.DraftModel.Handle;
            bool heldSampler = false, heldGrammar = false, heldCancel = false, heldModel = false;
            cancelling = new Cancelling(cancellation, true);
            using (var sampler = new Sampler(options.Sampling))
                try
                {
                    sampler.Handle.DangerousAddRef(ref heldSampler);
                    grammar.DangerousAddRef(ref heldGrammar);
                    cancelling.Handle.DangerousAddRef(ref heldCancel);
                    draftModel.DangerousAddRef(ref heldModel);
                    rz_error err;
                    IntPtr pointer;
                    fixed (uint* at = tokens)
                    fixed (byte* chatAt = json)
                    fixed (IntPtr* ends = stops.Select(stop => stop.AddrOfPinnedObject()).ToArray())
                    {
                        var p = new rz_job_params {
                            struct_size = (uint)sizeof(rz_job_params), max_tokens = checked((uint)options.MaxTokens), tokens = (IntPtr)at,
                            n_tokens = (UIntPtr)tokens.Length, grammar = grammar.DangerousGetHandle(), stops = (IntPtr)ends,
                            n_stops = (UIntPtr)stops.Length, cancel = cancelling.Handle.DangerousGetHandle(),
                            draft = (uint)options.Draft, draft_max = checked((uint)options.DraftMax), draft_model = draftModel.DangerousGetHandle(),
                            logprobs = checked((uint)options.Logprobs), chat = isReply ? (IntPtr)chatAt : IntPtr.Zero,
                            chat_len = (UIntPtr)(json.Length - 1),
                            sampler = options.Sampling.IsGreedy ? IntPtr.Zero : sampler.Handle.DangerousGetHandle(),
                        };
                        RealizarException.Check(Native.rz_job_new(cache, &p, &pointer, &err), &err, cancellation);
                    }
                    handle.Take(pointer);
                }
                catch
                {
                    cancelling.Dispose();
                    throw;
                }
                finally
                {
                    if (heldSampler) sampler.Handle.DangerousRelease();
                    if (heldGrammar) grammar.DangerousRelease();
                    if (heldCancel) cancelling.Handle.DangerousRelease();
                    if (heldModel) draftModel.DangerousRelease();
                    foreach (var stop in stops) stop.Free();
                }
        }

        /// <summary>Works until it has made a token or has ended; true: there is more to do.</summary>
        public bool Step() => Step(Native.RZ_NO_LIMIT);

        /// <summary>Works for about so many microseconds, of which a negative number is none; true: there is more to do.</summary>
        public bool Step(long microseconds) => Step((ulong)Math.Max(microseconds, 0));

        private unsafe bool Step(ulong microseconds) =>
            Native.Call(err => Native.rz_job_step(handle, microseconds, err), cancellation) != Native.RZ_DONE;

        /// <summary>Steps several jobs of one model, prompts and single tokens together, in common passes over the weights, until one of them
        /// has made a token; true: there is more to do. One that fails ends alone: Error tells why.</summary>
        public static bool StepAll(IReadOnlyList<Job> jobs) => StepAll(jobs, Native.RZ_NO_LIMIT);

        /// <summary>The same for about so many microseconds.</summary>
        public static bool StepAll(IReadOnlyList<Job> jobs, long microseconds) => StepAll(jobs, (ulong)Math.Max(microseconds, 0));

        private static unsafe bool StepAll(IReadOnlyList<Job> jobs, ulong microseconds) =>
            Native.Held(jobs.Select(job => job.handle).ToArray(), pointers => {
                rz_error err;
                int status;
                fixed (IntPtr* at = pointers) status = Native.rz_jobs_step(at, (UIntPtr)jobs.Count, microseconds, &err);
                RealizarException.Check(status, &err);
                return status != Native.RZ_DONE;
            });

        /// <summary>Has steps end with Status.Deadline after so long, at once where that has passed; null takes that
        /// back.</summary>
        public unsafe void SetDeadline(TimeSpan? time)
        {
            // A tick is 100 ns; a begun microsecond counts as a whole.
            var microseconds = time == null ? Native.RZ_NO_LIMIT : time.Value.Ticks <= 0 ? 0 : ((ulong)time.Value.Ticks + 9) / 10;
            Native.Call(err => Native.rz_cancel_deadline(cancelling.Handle, microseconds, err));
        }

        /// <summary>Takes a deadline back, and a cancel: the job goes on with the next step.</summary>
        public void Resume() { Native.rz_cancel_reset(cancelling.Handle); }

        /// <summary>Text that has come since this was asked last, in whole characters, stop strings cut out; of a reply
        /// its content, in place of Parts.</summary>
        public unsafe string Text()
        {
            if (isReply) return string.Concat(Parts().Where(part => part.Kind == PartKind.Content || part.Kind == PartKind.End).Select(part => part.Text));
            return Native.SizedText(128, (text, capacity, n, err) => Native.rz_job_text_into(handle, (byte*)text, capacity, n, err));
        }

        /// <summary>Parts of a reply, of Session.NewReply, that have come since this was asked last.</summary>
        public unsafe IReadOnlyList<Part> Parts() => Part.All((kind, index, text, capacity, len, err) =>
            Native.rz_job_next_into(handle, kind, index, text, capacity, len, err));

        /// <summary>Tokens that have come since this was asked last, one that ends the text included.</summary>
        public unsafe uint[] Tokens() =>
            Native.Sized<uint>(64, (tokens, capacity, n, err) => Native.rz_job_tokens_into(handle, (uint*)tokens, capacity, n, err));

        /// <summary>Tokens that have come since this was asked last with their probabilities, of
        /// JobOptions.Logprobs.</summary>
        public unsafe IReadOnlyList<TokenLogprobs> Logprobs()
        {
            var values = new float[0];
            var tokens = Native.Sized<uint>(64, (ids, capacity, n, err) => {
                values = new float[(int)capacity];
                fixed (float* at = values) return Native.rz_job_logprobs_into(handle, (uint*)ids, at, capacity, n, err);
            });
            Func<int, Logprob> entry = i => new Logprob { Token = tokens[i], Value = values[i] };
            return Enumerable.Range(0, tokens.Length / row).Select(i => new TokenLogprobs {
                Made = entry(i * row), Likeliest = Enumerable.Range(i * row + 1, row - 1).Select(entry).ToArray(),
            }).ToArray();
        }

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
