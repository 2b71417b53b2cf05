using System;
using System.Collections.Generic;
using System.Linq;
using System.Threading;

namespace Realizar
{
    /// <summary>What a reply does where messages have no room: it fails with Status.ContextFull, or leaves the oldest
    /// turns out of its prompt.</summary>
    public enum Overflow { Fail = Native.RZ_OVERFLOW_FAIL, Forget = Native.RZ_OVERFLOW_FORGET }

    /// <summary>Reasoning of a reply: as the chat template has it, none, or some ahead of the answer.</summary>
    public enum Reasoning { Model = Native.RZ_REASONING_MODEL, Off = Native.RZ_REASONING_OFF, On = Native.RZ_REASONING_ON }

    public enum ReplyState
    {
        None, Prompt = Native.RZ_JOB_STATE_PROMPT, Tokens = Native.RZ_JOB_STATE_TOKENS, Ended = Native.RZ_JOB_STATE_ENDED,
    }

    /// <summary>How a conversation begins, and what its cache is.</summary>
    public sealed class ConversationOptions
    {
        /// <summary>{"messages": [...], "tools": [...], "tool_choice": "auto", "variables": {...}}, any of which may be
        /// absent; null: none.</summary>
        public string Json;
        /// <summary>A message of the system, behind those of Json; null: none.</summary>
        public string SystemMessage;
        /// <summary>Room for tokens; 0: as many as the model was made for, at most 8192.</summary>
        public int Capacity;
        public CacheType Keys = CacheType.F16, Values = CacheType.F16;
        public Overflow Overflow;
        /// <summary>Adapters, each with a scale.</summary>
        public IReadOnlyDictionary<Adapter, float> Adapters = new Dictionary<Adapter, float>();
        /// <summary>Store in which prompts are looked up, and in which they and replies are left, of forks
        /// too.</summary>
        public Store Store;
        /// <summary>Stops all that is computed, of forks too.</summary>
        public CancellationToken Cancellation;
    }

    public sealed class ReplyOptions : TextOptions
    {
        /// <summary>A grammar of the content, which comes after reasoning; null: that of calls, where there are
        /// tools.</summary>
        public string Grammar;
        public GrammarKind GrammarKind = GrammarKind.JsonSchema;
        /// <summary>JSON may have some between its parts.</summary>
        public bool Whitespace;
        public Reasoning Reasoning;
        /// <summary>Tokens of reasoning at most, after which the model answers; 0: no bound.</summary>
        public int ReasoningTokens;
        /// <summary>What was said of a reply that is given up becomes a message, as it always does of Say.</summary>
        public bool Keep;
        /// <summary>It goes on with the last message, a reply that was cut; its parts are those that come after
        /// it.</summary>
        public bool Continue;
    }

    /// <summary>The state of a conversation and of its last reply.</summary>
    public sealed class ConversationInfo
    {
        public int Messages { get; internal set; }
        /// <summary>The first message of a turn that is in prompts: not 0 where turns were left out
        /// (Overflow.Forget).</summary>
        public int FirstInPrompt { get; internal set; }
        public ReplyState State { get; internal set; }
        public JobEnd End { get; internal set; }
        /// <summary>Why steps end now though the reply has not: Status.Cancelled or Deadline; else null.</summary>
        public Status? Stopped { get; internal set; }
        /// <summary>Tokens of the prompt, those that were not computed again, and those that were by now.</summary>
        public int PromptTokens { get; internal set; }
        public int ReusedTokens { get; internal set; }
        public int PromptDone { get; internal set; }
        /// <summary>Tokens made, and those of them that are reasoning.</summary>
        public int Tokens { get; internal set; }
        public int ReasoningTokens { get; internal set; }
        /// <summary>Tokens of drafts that were computed, and those of them that were right.</summary>
        public int Drafted { get; internal set; }
        public int Accepted { get; internal set; }
        public int CacheLength { get; internal set; }
        public int CacheCapacity { get; internal set; }
        /// <summary>Media that messages name.</summary>
        public int Media { get; internal set; }
        /// <summary>Nanoseconds of the prompt, of the tokens, and from the begin to the first token.</summary>
        public ulong PromptTime { get; internal set; }
        public ulong TokensTime { get; internal set; }
        public ulong FirstTokenTime { get; internal set; }
    }

    /// <summary>Messages with a model, which remembers what it has computed of them, and the reply that is being made.
    /// One call at a time: a second one gets Status.Busy.</summary>
    public sealed class Conversation : IDisposable
    {
        private readonly ConversationHandle handle = new ConversationHandle();
        private readonly Cancelling always; // of ConversationOptions.Cancellation
        private readonly CancellationToken alwaysToken;
        private Cancelling cancelling; // of the reply
        private CancellationToken cancellation;
        private int row = 1, replies;
        public Model Model { get; }

        private unsafe delegate int Making(rz_conversation_params* p, IntPtr* pointer, rz_error* err);

        private unsafe Conversation(Model model, ConversationOptions options, Making make)
        {
            Model = Native.Given(model, nameof(model));
            Native.Given(options.Adapters, nameof(options.Adapters));
            alwaysToken = options.Cancellation;
            always = new Cancelling(alwaysToken);
            try
            {
                using (var pins = new Pins())
                {
                    var json = options.Json == null ? null : Native.Terminated(options.Json, nameof(options.Json));
                    var p = (rz_conversation_params*)pins.Of(new rz_conversation_params {
                        struct_size = (uint)sizeof(rz_conversation_params), overflow = (uint)options.Overflow, json = pins.Of(json),
                        json_len = (UIntPtr)(json == null ? 0 : json.Length - 1), n_adapters = (UIntPtr)options.Adapters.Count,
                        cache = pins.Of(Session.Parameters(options.Capacity, options.Keys, options.Values)), cancel = pins.Of(always.Handle),
                        adapters = pins.Of(options.Adapters.Keys.Select(adapter => adapter.Handle)), scales = pins.Of(options.Adapters.Values.ToArray()),
                        store = pins.Of(options.Store?.Handle),
                    });
                    handle.Take(Native.Made((pointer, err) => make(p, pointer, err)));
                }
            }
            catch
            {
                Dispose();
                throw;
            }
        }

        public unsafe Conversation(Model model, ConversationOptions options = null)
            : this(model, options ?? new ConversationOptions(), (p, pointer, err) => Native.rz_conversation_new(model.Handle, p, pointer, err))
        {
            if (options?.SystemMessage != null) Add(options.SystemMessage, "system");
        }

        /// <summary>One with a message of the system.</summary>
        public Conversation(Model model, string system) : this(model, new ConversationOptions { SystemMessage = system }) { }

        private Conversation(Conversation past, IntPtr pointer)
        {
            Model = past.Model;
            (always, alwaysToken) = (past.always.Share(), past.alwaysToken);
            handle.Take(pointer);
        }

        /// <summary>The conversation that Save has written; it goes on as the saved one would have. Of the options
        /// those of the cache, Store and Cancellation count.</summary>
        public static unsafe Conversation Load(Model model, System.IO.Stream stream, ConversationOptions options = null)
        {
            using (var transfer = new Transfer(stream))
                return new Conversation(model, options ?? new ConversationOptions(), (p, pointer, err) => {
                    var status = Native.rz_conversation_load(model.Handle, p, Transfer.ReadCallback, transfer.User, pointer, err);
                    transfer.Check(status, err);
                    return status;
                });
        }

        /// <summary>Writes the conversation and what is computed of it; Load reads it.</summary>
        public unsafe void Save(System.IO.Stream stream)
        {
            using (var transfer = new Transfer(stream))
            {
                rz_error err;
                transfer.Check(Native.rz_conversation_save(handle, Transfer.WriteCallback, transfer.User, &err), &err);
            }
        }

        /// <summary>A second conversation with the same past.</summary>
        public unsafe Conversation Fork() => new Conversation(this, Native.Made((fork, err) => Native.rz_conversation_fork(handle, fork, err)));

        /// <summary>Appends a message; nothing is computed.</summary>
        public unsafe void Add(string text, string role = "user")
        {
            var (who, what) = (Native.Terminated(role, nameof(role)), Native.Utf8.GetBytes(Native.Given(text, nameof(text)) + "\0"));
            fixed (byte* r = who, t = what)
            {
                var (at, to) = ((IntPtr)r, (IntPtr)t);
                Native.Call(err => Native.rz_conversation_add_text(handle, (byte*)at, (byte*)to, (UIntPtr)(what.Length - 1), err));
            }
        }

        /// <summary>Appends a message in JSON, or a list of them, such as the result of a tool: {"role": "tool",
        /// "tool_call_id": "...", "content": "..."}.</summary>
        public unsafe void AddJson(string json) => Native.Pinned(Native.Terminated(json, nameof(json)), (at, len) =>
            Native.Call(err => Native.rz_conversation_add(handle, at, len, err)));

        /// <summary>The same for messages whose contents have parts with the numbers of media:
        /// {"type": "image", "media": 0}. The conversation keeps the media alive.</summary>
        public unsafe void AddJson(string json, params Media[] media)
        {
            using (var pins = new Pins())
            {
                var raw = pins.Of(media.Select(one => one.Handle));
                Native.Pinned(Native.Terminated(json, nameof(json)), (at, len) =>
                    Native.Call(err => Native.rz_conversation_add_media(handle, at, len, (IntPtr*)raw, (UIntPtr)media.Length, err)));
            }
        }

        /// <summary>A medium by its number in the parts of Messages, of which there are Info.Media.</summary>
        public unsafe Media Media(int number) =>
            new Media(Native.Made((media, err) => Native.rz_conversation_media_get(handle, Native.Whole(number, nameof(number)), media, err)));

        /// <summary>Begins a reply, which Step works on; of an unfinished one nothing more comes.</summary>
        public unsafe void Begin(ReplyOptions options = null, CancellationToken token = default(CancellationToken)) =>
            Begin(options ?? new ReplyOptions(), token, false);

        private unsafe void Begin(ReplyOptions options, CancellationToken token, bool keep)
        {
            var stop = new Cancelling(token, true);
            try
            {
                using (var pins = new Pins())
                {
                    var grammar = options.Grammar == null ? null : Native.Terminated(options.Grammar, nameof(options.Grammar));
                    var p = new rz_reply_params {
                        struct_size = (uint)sizeof(rz_reply_params), max_tokens = Native.Whole(options.MaxTokens, nameof(options.MaxTokens)),
                        sampler = options.Sampling == null ? IntPtr.Zero : pins.Of(Sampler.Parameters(options.Sampling, pins)),
                        grammar_kind = grammar == null ? 0u : (uint)options.GrammarKind | (options.Whitespace ? Native.RZ_GRAMMAR_WHITESPACE : 0u),
                        flags = (options.Keep || keep ? Native.RZ_REPLY_KEEP : 0u) | (options.Continue ? Native.RZ_REPLY_CONTINUE : 0u),
                        grammar = pins.Of(grammar), grammar_len = (UIntPtr)(grammar == null ? 0 : grammar.Length - 1),
                        stops = pins.Of(options.Stops, nameof(options.Stops)), n_stops = (UIntPtr)options.Stops.Count,
                        reasoning = (uint)options.Reasoning, reasoning_tokens = Native.Whole(options.ReasoningTokens, nameof(options.ReasoningTokens)),
                        draft = (uint)options.Draft, draft_max = Native.Whole(options.DraftMax, nameof(options.DraftMax)), draft_model = pins.Of(options.DraftModel?.Handle),
                        logprobs = Native.Whole(options.Logprobs, nameof(options.Logprobs)), priority = options.Priority, cancel = pins.Of(stop.Handle),
                    };
                    rz_error err;
                    RealizarException.Check(Native.rz_conversation_reply(handle, &p, &err), &err);
                }
            }
            catch
            {
                stop.Dispose();
                throw;
            }
            cancelling?.Dispose();
            (cancelling, cancellation, row) = (stop, token, options.Row(Model));
            replies++;
        }

        /// <summary>Works on the reply until it has made a token or has ended; true: there is more to do.</summary>
        public bool Step() => Step(Native.RZ_NO_LIMIT);

        /// <summary>Works for about so many microseconds, of which a negative number is none; true: there is more to
        /// do.</summary>
        public bool Step(long microseconds) => Step((ulong)Math.Max(microseconds, 0));

        private unsafe bool Step(ulong microseconds) =>
            Native.Call(err => Native.rz_conversation_step(handle, microseconds, err), alwaysToken.IsCancellationRequested ? alwaysToken : cancellation) != Native.RZ_DONE;

        /// <summary>Steps several conversations of one model in common passes over the weights, until one of them has
        /// made a token; true: there is more to do. A reply that fails ends alone: Error tells why.</summary>
        public static bool StepAll(IReadOnlyList<Conversation> conversations) => StepAll(conversations, Native.RZ_NO_LIMIT);

        /// <summary>The same for about so many microseconds.</summary>
        public static bool StepAll(IReadOnlyList<Conversation> conversations, long microseconds) => StepAll(conversations, (ulong)Math.Max(microseconds, 0));

        private static unsafe bool StepAll(IReadOnlyList<Conversation> conversations, ulong microseconds)
        {
            using (var pins = new Pins())
                return Native.Call(err => Native.rz_conversations_step((IntPtr*)pins.Of(conversations.Select(each => each.handle)),
                    (UIntPtr)conversations.Count, microseconds, err)) != Native.RZ_DONE;
        }

        /// <summary>Parts of the reply that have come since this was asked last.</summary>
        public unsafe IReadOnlyList<Part> Parts() => Part.All((kind, index, text, capacity, len, err) =>
            Native.rz_conversation_next_into(handle, kind, index, text, capacity, len, err));

        /// <summary>Replies to the messages: what the model thinks, content, calls of tools, and the end, as they come.
        /// An iteration that ends early gives the reply up.</summary>
        public IEnumerable<Part> Reply(ReplyOptions options = null, CancellationToken token = default(CancellationToken))
        {
            Begin(options, token);
            return Made(replies, new bool[1]);
        }

        /// <summary>A message of the user, and the content of the reply to it, piece by piece. What was said stays
        /// where the iteration ends early or is cancelled; any other failure leaves the messages as they
        /// were.</summary>
        public IEnumerable<string> Say(string text, ReplyOptions options = null, CancellationToken token = default(CancellationToken))
        {
            token.ThrowIfCancellationRequested();
            Stop();
            var n = Info.Messages;
            Add(text);
            try { Begin(options ?? new ReplyOptions(), token, true); }
            catch
            {
                Rewind(n);
                throw;
            }
            return Content(Made(replies, new bool[1]), n);
        }

        /// <summary>Reply, computed on threads of the pool.</summary>
        public IAsyncEnumerable<Part> ReplyAsync(ReplyOptions options = null) => new AsyncPieces<Part>(token => Reply(options, token));

        /// <summary>Say, computed on threads of the pool.</summary>
        public IAsyncEnumerable<string> SayAsync(string text, ReplyOptions options = null) => new AsyncPieces<string>(token => Say(text, options, token));

        /// <param name="isRead">Of one element, for all enumerations of the parts, which come once.</param>
        private IEnumerable<Part> Made(int reply, bool[] isRead)
        {
            if (isRead[0]) throw new InvalidOperationException("the reply was read before; its parts come once");
            isRead[0] = true;
            var going = true;
            try
            {
                while (going)
                {
                    if (reply != replies) throw new InvalidOperationException("the reply is given up; the conversation has gone on without it");
                    var more = Step();
                    foreach (var part in Parts()) yield return part;
                    going = more;
                }
            }
            finally { if (going && reply == replies) GiveUp(); }
        }

        private void GiveUp()
        {
            try { Stop(); }
            catch (RealizarException) { } // another call may be at work
            catch (ObjectDisposedException) { }
        }

        private IEnumerable<string> Content(IEnumerable<Part> parts, int n)
        {
            using (var each = parts.GetEnumerator())
                while (HasNext(each, n))
                    if (each.Current.Kind == PartKind.Content) yield return each.Current.Text;
        }

        private bool HasNext(IEnumerator<Part> parts, int n)
        {
            try { return parts.MoveNext(); }
            catch (RealizarException e) when (e.Status != Status.Busy && e.Status != Status.Deadline)
            {
                Rewind(n);
                throw;
            }
        }

        /// <summary>Gives an unfinished reply up: with ReplyOptions.Keep what was said of it becomes a message, else it
        /// leaves no trace.</summary>
        public void Stop() { AddJson("[]"); }

        /// <summary>Has steps of the reply end with Status.Deadline after so long, at once where that has passed; null
        /// takes that back.</summary>
        public void SetDeadline(TimeSpan? time) { cancelling?.SetDeadline(time); }

        /// <summary>Takes a deadline back, and a cancel: the reply goes on with the next step.</summary>
        public void Resume() { cancelling?.Reset(); }

        /// <summary>Tokens of content that have come since this was asked last with their probabilities, of
        /// ReplyOptions.Logprobs.</summary>
        public unsafe IReadOnlyList<TokenLogprobs> Logprobs() => TokenLogprobs.All(row, (tokens, values, capacity, n, err) =>
            Native.rz_conversation_logprobs_into(handle, tokens, values, capacity, n, err));

        /// <summary>The messages from number <paramref name="first"/> on, a list in JSON, as they were added, and the
        /// replies; an unfinished one is not among them.</summary>
        public unsafe string Messages(int first = 0) => Native.SizedText(4096, (text, capacity, n, err) =>
            Native.rz_conversation_json_into(handle, Native.Whole(first, nameof(first)), (byte*)text, capacity, n, err));

        /// <summary>Forgets the messages after the first so many, to edit or to answer anew.</summary>
        public unsafe void Rewind(int messages) => Native.Call(err => Native.rz_conversation_rewind(handle, Native.Whole(messages, nameof(messages)), err));

        public unsafe ConversationInfo Info
        {
            get
            {
                rz_error err;
                rz_conversation_info i;
                i.struct_size = (uint)sizeof(rz_conversation_info);
                RealizarException.Check(Native.rz_conversation_info_get(handle, &i, &err), &err);
                return new ConversationInfo {
                    Messages = (int)i.n_messages, FirstInPrompt = (int)i.first_in_prompt, State = (ReplyState)i.state, End = (JobEnd)i.end,
                    Stopped = i.stopped == 0 ? (Status?)null : (Status)i.stopped, PromptTokens = (int)i.prompt_tokens,
                    ReusedTokens = (int)i.reused_tokens, PromptDone = (int)i.prompt_done, Tokens = (int)i.n_tokens,
                    ReasoningTokens = (int)i.reasoning_tokens, Drafted = (int)i.drafted, Accepted = (int)i.accepted,
                    CacheLength = (int)i.cache_len, CacheCapacity = (int)i.cache_capacity, Media = (int)i.n_media, PromptTime = i.prompt_ns, TokensTime = i.tokens_ns,
                    FirstTokenTime = i.first_token_ns,
                };
            }
        }

        /// <summary>The error by which the reply has ended (JobEnd.Failed), which Step throws and StepAll does not;
        /// else null.</summary>
        public RealizarException Error
        {
            get
            {
                if (Info.End != JobEnd.Failed) return null;
                try { Step(0); }
                catch (RealizarException e) { return e; }
                return null;
            }
        }

        public void Dispose()
        {
            if (handle.IsClosed) return;
            handle.Dispose();
            cancelling?.Dispose();
            always.Dispose();
        }
    }
}
