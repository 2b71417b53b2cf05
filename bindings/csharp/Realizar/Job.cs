using System;
using System.Collections.Generic;
using System.Linq;
using System.Runtime.InteropServices;
using System.Threading;

namespace Realizar
{
    /// <summary>The language of a grammar.</summary>
    public enum GrammarKind { JsonSchema = 1, Regex, Lark, Gbnf, Json, Choices, Tools }

    /// <summary>What may be written. Immutable: any number of jobs may use it at once.</summary>
    public sealed class Grammar : IDisposable
    {
        internal readonly GrammarHandle Handle = new GrammarHandle();

        internal Grammar(IntPtr pointer) { Handle.Take(pointer); }

        public void Dispose() { Handle.Dispose(); }
    }

    /// <summary>The way in which next tokens are guessed, which changes nothing but the time.</summary>
    public enum Draft { None, Lookup, Model }

    /// <summary>How a text is generated, beside how its tokens are chosen.</summary>
    public sealed class JobOptions
    {
        public Sampling Sampling = new Sampling();
        /// <summary>Tokens at most; 0: no limit but the capacity.</summary>
        public int MaxTokens;
        /// <summary>The text ends ahead of the first of these.</summary>
        public IReadOnlyList<string> Stops = new string[0];
        public Grammar Grammar;
        /// <summary>Lookup: out of the text; Model: by DraftModel, a small one of the same vocabulary.</summary>
        public Draft Draft;
        public Model DraftModel;
        /// <summary>Tokens of a draft at most; 0: as many as the library chooses.</summary>
        public int DraftMax;
    }

    /// <summary>Why a text has ended.</summary>
    public enum JobEnd { None, Token, Length, Stop, Context, Grammar }

    /// <summary>A generation that works when it is told to. Its session is busy until it is disposed of, which ends it at any moment;
    /// the session keeps the tokens that are complete.</summary>
    public sealed class Job : IDisposable
    {
        private readonly JobHandle handle = new JobHandle();
        private readonly Cancelling cancelling;
        private readonly CancellationToken cancellation;

        internal unsafe Job(CacheHandle cache, uint[] tokens, JobOptions options, CancellationToken cancellation)
        {
            this.cancellation = cancellation;
            var stops = options.Stops.Select(stop => GCHandle.Alloc(Native.Terminated(stop, nameof(options.Stops)), GCHandleType.Pinned)).ToArray();
            var grammar = options.Grammar == null ? GrammarHandle.None : options.Grammar.Handle;
            var draftModel = options.DraftModel == null ? ModelHandle.None : options.DraftModel.Handle;
            bool heldSampler = false, heldGrammar = false, heldCancel = false, heldModel = false;
            cancelling = new Cancelling(cancellation);
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
                    fixed (IntPtr* ends = stops.Select(stop => stop.AddrOfPinnedObject()).ToArray())
                    {
                        var p = new rz_job_params {
                            struct_size = (uint)sizeof(rz_job_params), max_tokens = checked((uint)options.MaxTokens), tokens = (IntPtr)at,
                            n_tokens = (UIntPtr)tokens.Length, grammar = grammar.DangerousGetHandle(), stops = (IntPtr)ends,
                            n_stops = (UIntPtr)stops.Length, cancel = cancelling.Handle.DangerousGetHandle(),
                            draft = (uint)options.Draft, draft_max = checked((uint)options.DraftMax), draft_model = draftModel.DangerousGetHandle(),
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
        public bool Step() => Step(Native.NoLimit);

        /// <summary>Works for about so many microseconds, of which a negative number is none; true: there is more to do.</summary>
        public bool Step(long microseconds) => Step((ulong)Math.Max(microseconds, 0));

        private unsafe bool Step(ulong microseconds)
        {
            rz_error err;
            var status = Native.rz_job_step(handle, microseconds, &err);
            RealizarException.Check(status, &err, cancellation);
            return status != Native.Done;
        }

        /// <summary>Steps several jobs of one model, prompts and single tokens together, in common passes over the weights, until one of them
        /// has made a token; true: there is more to do.</summary>
        public static bool StepAll(IReadOnlyList<Job> jobs) => StepAll(jobs, Native.NoLimit);

        /// <summary>The same for about so many microseconds.</summary>
        public static bool StepAll(IReadOnlyList<Job> jobs, long microseconds) => StepAll(jobs, (ulong)Math.Max(microseconds, 0));

        private static unsafe bool StepAll(IReadOnlyList<Job> jobs, ulong microseconds)
        {
            var held = 0;
            var pointers = new IntPtr[jobs.Count + 1]; // so that it is never empty
            try
            {
                for (; held < jobs.Count; held++)
                {
                    var added = false;
                    jobs[held].handle.DangerousAddRef(ref added);
                    pointers[held] = jobs[held].handle.DangerousGetHandle();
                }
                rz_error err;
                int status;
                fixed (IntPtr* at = pointers) status = Native.rz_jobs_step(at, (UIntPtr)jobs.Count, microseconds, &err);
                RealizarException.Check(status, &err);
                return status != Native.Done;
            }
            finally { while (held-- > 0) jobs[held].handle.DangerousRelease(); }
        }

        /// <summary>Text that has come since this was asked last, in whole characters, stop strings cut out.</summary>
        public unsafe string Text() =>
            Native.SizedText(128, (text, capacity, n, err) => Native.rz_job_text_into(handle, (byte*)text, capacity, n, err));

        /// <summary>Why the generation has ended.</summary>
        public JobEnd End => (JobEnd)Info().end;
        /// <summary>Tokens made.</summary>
        public int Tokens => (int)Info().n_tokens;

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
