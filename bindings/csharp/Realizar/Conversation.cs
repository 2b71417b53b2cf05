using System;
using System.Collections.Generic;
using System.Linq;
using System.Threading;

namespace Realizar
{
    /// <summary>The beginning of a conversation, and its KV cache.</summary>
    public sealed class ConversationOptions
    {
        /// <summary>{"messages": [...], "tools": [...], "tool_choice": "auto", "variables": {...}}, any of which may be
        /// absent; null: none.</summary>
        public string? Json;
        /// <summary>A system message after the messages of Json; null: none.</summary>
        public string? SystemMessage;
        /// <summary>Context length in tokens; 0: the model's, at most 8192.</summary>
        public int Capacity;
        /// <summary>Element type of the keys in the KV cache.</summary>
        public CacheType Keys = CacheType.F16;
        /// <summary>Element type of the values in the KV cache.</summary>
        public CacheType Values = CacheType.F16;
        /// <summary>What happens if messages and a reply exceed the context.</summary>
        public Overflow Overflow;
        /// <summary>LoRA adapters, each with a scale.</summary>
        public IReadOnlyDictionary<Adapter, float> Adapters = new Dictionary<Adapter, float>();
        /// <summary>Prefix cache in which prompts are looked up, and to which prompts and replies are added, for forks
        /// too.</summary>
        public Store? Store;
        /// <summary>Stops every call that computes, for forks too.</summary>
        public CancellationToken Cancellation;
    }

    /// <summary>Options of a reply.</summary>
    public sealed partial class ReplyOptions : TextOptions
    {
        /// <summary>Grammar of the content, which follows the reasoning; null: none but that of tool calls.</summary>
        public string? Grammar;
        /// <summary>The language of Grammar. Json needs no text.</summary>
        public GrammarKind GrammarKind = GrammarKind.JsonSchema;
        /// <summary>JSON may have white space between its parts.</summary>
        public bool Whitespace;
        /// <summary>A compiled grammar in place of the text, so that Begin compiles nothing: of the content, or of
        /// GrammarKind.Tools for the whole reply.</summary>
        public Grammar? Compiled;
        /// <summary>Tools and variables of this reply only: {"tools": [...], "tool_choice": "required", "variables":
        /// {...}}. The tools replace the conversation's tools ([]: none), variables are set in addition to its own.
        /// Null: the tools of the conversation.</summary>
        public string? Json;
    }

    /// <summary>Messages with a model, their KV cache, and the reply that is being generated. Only tokens that are new
    /// since the last reply are computed. One call at a time: a second one is an InvalidOperationException. Dispose
    /// stops a call of another thread, which ends with an ObjectDisposedException.</summary>
    public sealed partial class Conversation
    {
        private readonly Cancelling always; // of ConversationOptions.Cancellation, and of Dispose
        private Cancelling? cancelling; // of the reply
        private int row = 1;
        private int replies; // Number of the last reply, and of changes that end one.
        private int read; // Number of the reply that was enumerated last.
        private bool isReading; // That enumeration goes on.
        /// <summary>The model of the conversation.</summary>
        public Model Model { get; }

        private unsafe delegate int Making(rz_conversation_params* p, IntPtr* pointer, rz_error* err);

        private unsafe Conversation(Model model, ConversationOptions options, Making make)
        {
            Model = Native.Given(model, nameof(model));
            Native.Given(options.Adapters, nameof(options.Adapters));
            options.Cancellation.ThrowIfCancellationRequested();
            always = new Cancelling(options.Cancellation, true);
            try
            {
                using (var pins = new Pins())
                {
                    var (json, length) = pins.Sized(options.Json, nameof(options.Json));
                    var p = (rz_conversation_params*)pins.Of(new rz_conversation_params {
                        struct_size = (uint)sizeof(rz_conversation_params), overflow = Native.Choice(options.Overflow, nameof(options.Overflow)), json = json, json_len = length,
                        n_adapters = (UIntPtr)options.Adapters.Count,
                        cache = pins.Of(Session.Parameters(options.Capacity, options.Keys, options.Values, nameof(options.Capacity),
                            nameof(options.Keys), nameof(options.Values))), cancel = pins.Of(always.Handle),
                        adapters = pins.Of(options.Adapters.Keys.Select(adapter => adapter.Handle)), scales = pins.Of(options.Adapters.Values.ToArray()),
                        store = pins.Of(options.Store?.Handle),
                    });
                    Handle.Take(Native.Made((pointer, err) => make(p, pointer, err)));
                }
            }
            catch
            {
                Dispose();
                throw;
            }
        }

        /// <summary>A conversation with a model.</summary>
        public unsafe Conversation(Model model, ConversationOptions? options = null)
            : this(model, options ?? new ConversationOptions(), (p, pointer, err) => Native.rz_conversation_new(model.Handle, p, pointer, err))
        {
            if (options?.SystemMessage != null) Add(options.SystemMessage, "system");
        }

        /// <summary>A conversation that begins with a system message.</summary>
        public Conversation(Model model, string system) : this(model, new ConversationOptions { SystemMessage = system }) { }

        private unsafe Conversation(Conversation past, IntPtr pointer)
        {
            Model = past.Model;
            Handle.Take(pointer);
            always = new Cancelling(past.always.Token, true);
            Native.Call(err => Native.rz_conversation_cancel_set(Handle, always.Handle, err)); // not that of the other one
        }

        /// <summary>Reads the conversation that Save has written. Of the options, those of the KV cache, Store and
        /// Cancellation apply.</summary>
        public static unsafe Conversation Load(Model model, System.IO.Stream stream, ConversationOptions? options = null)
        {
            Native.Given(model, nameof(model));
            using (var transfer = new Transfer(stream))
                return new Conversation(model, options ?? new ConversationOptions(), (p, pointer, err) => {
                    var status = Native.rz_conversation_load(model.Handle, p, Transfer.ReadCallback, transfer.User, pointer, err);
                    transfer.Check(status, err);
                    return status;
                });
        }

        /// <summary>Writes the conversation with its KV cache. Load reads it, in another process too.</summary>
        public unsafe void Save(System.IO.Stream stream) =>
            Transfer.Save(stream, (write, user, err) => Native.rz_conversation_save(Handle, write, user, CancelHandle.None, err));

        /// <summary>A second conversation with the same messages, which shares their KV cache
        /// (copy-on-write).</summary>
        public unsafe Conversation Fork() => new Conversation(this, Native.Made((fork, err) => Native.rz_conversation_fork(Handle, fork, err)));

        /// <summary>Appends a message. Computes nothing.</summary>
        public void Add(string text, string role = "user") => Add(Native.Encoded(text, nameof(text)), role);

        private unsafe void Add(byte[] text, string role)
        {
            using (var pins = new Pins())
                Changed(err => Native.rz_conversation_add_text(Handle, (byte*)pins.Of(role ?? throw new ArgumentNullException(nameof(role)), nameof(role)),
                    (byte*)pins.Of(text), (UIntPtr)(text.Length - 1), err));
        }

        /// <summary>Makes a call that discards an unfinished reply. An enumeration of that reply ends with an
        /// InvalidOperationException.</summary>
        private int Changed(Native.Calling call)
        {
            var status = Native.Call(call);
            replies++;
            return status;
        }

        /// <summary>Appends a message in JSON, or a list of them, such as the result of a tool: {"role": "tool",
        /// "tool_call_id": "...", "content": "..."}. Parts of contents have numbers of the array
        /// <paramref name="media"/>: {"type": "image", "media": 0}. The media may be disposed of afterwards.</summary>
        public unsafe void AddJson(string json, params Media[] media)
        {
            Native.GivenAll(media, nameof(media));
            using (var pins = new Pins())
            {
                var raw = pins.Of(media.Select(one => one.Handle));
                Native.Pinned(Native.Encoded(json, nameof(json)), (at, len) =>
                    Changed(err => Native.rz_conversation_add(Handle, at, len, (IntPtr*)raw, (UIntPtr)media.Length, err)));
            }
        }

        /// <summary>Returns a media item by its number in the parts of Messages. Info.Media is the number of
        /// media.</summary>
        public unsafe Media Media(int number) =>
            new Media(Native.Made((media, err) => Native.rz_conversation_media(Handle, Native.Whole(number, nameof(number)), media, err)));

        /// <summary>Begins a reply, which Step computes, and discards an unfinished one.</summary>
        public void Begin(ReplyOptions? options = null, CancellationToken cancellationToken = default) =>
            Begin(options ?? new ReplyOptions(), cancellationToken, false);

        private unsafe void Begin(ReplyOptions options, CancellationToken cancellationToken, bool keep) =>
            Begin(options, cancellationToken, keep, (p, err) => Native.rz_conversation_reply(Handle, p, err));

        /// <summary>Begins to read the messages, which Step computes, so that the next reply begins sooner: a long
        /// document, the world of a game. No message is added. The options are the options of the next reply:
        /// Json, Reasoning and Priority apply.</summary>
        public unsafe void BeginRead(ReplyOptions? options = null, CancellationToken cancellationToken = default) =>
            Begin(options ?? new ReplyOptions(), cancellationToken, false, (p, err) => Native.rz_conversation_read(Handle, p, err));

        /// <summary>The same, and reads all of them.</summary>
        public void Read(ReplyOptions? options = null, CancellationToken cancellationToken = default)
        {
            BeginRead(options, cancellationToken);
            var reading = replies;
            var isWhole = false;
            try
            {
                while (Step()) { }
                isWhole = true;
            }
            finally { if (!isWhole && reading == replies) GiveUp(); }
        }

        private unsafe delegate int Beginning(rz_reply_params* p, rz_error* err);

        private unsafe void Begin(ReplyOptions options, CancellationToken cancellationToken, bool keep, Beginning begin)
        {
            NotReading();
            var kind = options.GrammarKind;
            var number = Native.Choice(kind, nameof(options.GrammarKind));
            if (options.Grammar == null && kind != GrammarKind.Json && (kind != GrammarKind.JsonSchema || options.Whitespace))
                throw new ArgumentNullException(nameof(options.Grammar), $"Grammar is null; GrammarKind {kind}{(options.Whitespace ? " with Whitespace" : "")} needs its text");
            var hasGrammar = options.Grammar != null || kind == GrammarKind.Json;
            var stop = new Cancelling(cancellationToken, true);
            try
            {
                using (var pins = new Pins())
                {
                    var p = options.Numbers();
                    p.flags |= keep ? Native.RZ_REPLY_KEEP : 0u;
                    p.sampler = options.Sampling == null ? IntPtr.Zero : pins.Of(Sampler.Parameters(options.Sampling, pins));
                    (p.grammar_kind, p.compiled_grammar) = (hasGrammar ? number : 0u, pins.Of(options.Compiled?.Handle));
                    p.grammar_flags = hasGrammar && options.Whitespace ? Native.RZ_GRAMMAR_FLAG_WHITESPACE : 0u;
                    (p.stops, p.n_stops) = (pins.Of(options.Stops, nameof(options.Stops)), (UIntPtr)options.Stops.Count);
                    (p.draft, p.draft_model) = (Native.Choice(options.Draft, nameof(options.Draft)), pins.Of(options.DraftModel?.Handle));
                    p.cancel = pins.Of(stop.Handle);
                    (p.grammar, p.grammar_len) = pins.Sized(hasGrammar ? options.Grammar ?? "" : null, nameof(options.Grammar));
                    (p.json, p.json_len) = pins.Sized(options.Json, nameof(options.Json));
                    var at = pins.Of(p);
                    Native.Call(err => begin((rz_reply_params*)at, err), Stopping(cancellationToken), Handle);
                }
            }
            catch
            {
                stop.Dispose();
                throw;
            }
            cancelling?.Dispose();
            cancelling = stop;
            row = options.Row(Model);
            replies++;
        }

        /// <summary>Returns the token that stops the calls.</summary>
        private CancellationToken Stopping(CancellationToken own) => always.Token.IsCancellationRequested ? always.Token : own;

        /// <summary>Rejects what would take the reply from its enumeration.</summary>
        private void NotReading()
        {
            if (isReading && read == replies)
                throw new InvalidOperationException("a reply of the conversation is being enumerated; leave that loop first, or call Stop");
        }

        /// <summary>Computes until the reply has a token, or the end. True if there is more to compute.</summary>
        public bool Step() => Step(Native.RZ_NO_LIMIT);

        /// <summary>Computes for about so many microseconds; a negative number counts as 0. True if there is more to
        /// compute.</summary>
        public bool Step(long microseconds) => Step((ulong)Math.Max(microseconds, 0));

        private unsafe bool Step(ulong microseconds) =>
            Native.Call(err => Native.rz_conversation_step(Handle, microseconds, err), Stopping(cancelling?.Token ?? default), Handle) != Native.RZ_DONE;

        /// <summary>Steps the replies of several conversations of one model as a batch, until one of them has a token.
        /// True if work remains. A failed reply does not affect others; its Error is the reason. Cancels and deadlines
        /// throw nothing here: they pause only their reply, and Info.Stopped is the reason.</summary>
        public static bool StepAll(IReadOnlyList<Conversation> conversations) => StepAll(conversations, Native.RZ_NO_LIMIT);

        /// <summary>The same for about so many microseconds.</summary>
        public static bool StepAll(IReadOnlyList<Conversation> conversations, long microseconds) => StepAll(conversations, (ulong)Math.Max(microseconds, 0));

        private static unsafe bool StepAll(IReadOnlyList<Conversation> conversations, ulong microseconds) =>
            Native.StepAll(conversations, nameof(conversations), each => each.Handle, (all, n, err) =>
                Native.rz_conversations_step((IntPtr*)all, n, microseconds, (rz_error*)err));

        /// <summary>The parts of the reply since the last call.</summary>
        public IReadOnlyList<Part> Parts()
        {
            NotReading();
            return Taken();
        }

        private unsafe IReadOnlyList<Part> Taken() => Part.All((kind, flags, index, text, capacity, len, err) =>
            Native.rz_conversation_next_into(Handle, kind, flags, index, text, capacity, len, err));

        /// <summary>Replies to the messages: reasoning, content, tool calls and the end, as they are generated. An
        /// iteration that ends early gives the reply up. The result can be enumerated once; a second reply in its loop
        /// is an InvalidOperationException.</summary>
        public IEnumerable<Part> Reply(ReplyOptions? options = null, CancellationToken cancellationToken = default)
        {
            Begin(options, cancellationToken);
            return Made(replies);
        }

        /// <summary>Adds a message of the user and returns the content of the reply, piece by piece; it can be
        /// enumerated once, and a second reply in its loop is an InvalidOperationException. If the iteration ends
        /// early, is cancelled or reaches a deadline, the text so far stays as a message; any other failure restores
        /// the messages.</summary>
        public IEnumerable<string> Say(string text, ReplyOptions? options = null, CancellationToken cancellationToken = default)
        {
            var message = Native.Encoded(text, nameof(text));
            cancellationToken.ThrowIfCancellationRequested();
            NotReading();
            Stop();
            var n = Info.Messages;
            Add(message, "user");
            try { Begin(options ?? new ReplyOptions(), cancellationToken, true); }
            catch
            {
                Rewind(n);
                throw;
            }
            return Content(Made(replies), n);
        }

        /// <summary>Reply, computed on threads of the pool.</summary>
        public IAsyncEnumerable<Part> ReplyAsync(ReplyOptions? options = null, CancellationToken cancellationToken = default) =>
            new AsyncPieces<Part>(token => Reply(options, token), cancellationToken);

        /// <summary>Say, computed on threads of the pool.</summary>
        public IAsyncEnumerable<string> SayAsync(string text, ReplyOptions? options = null, CancellationToken cancellationToken = default)
        {
            Native.Encoded(text, nameof(text));
            return new AsyncPieces<string>(token => Say(text, options, token), cancellationToken);
        }

        private IEnumerable<Part> Made(int reply)
        {
            if (read == reply) throw new InvalidOperationException("the reply was read before; its parts come once");
            IsCurrent(reply);
            (read, isReading) = (reply, true);
            var going = true;
            try
            {
                while (going)
                {
                    IsCurrent(reply);
                    var more = Step();
                    var parts = Taken();
                    isReading = more;
                    foreach (var part in parts) yield return part;
                    going = more;
                }
            }
            finally
            {
                if (read == reply) isReading = false;
                if (going && reply == replies) GiveUp();
            }
        }

        private void IsCurrent(int reply)
        {
            if (reply != replies) throw new InvalidOperationException("the reply is given up; the conversation has gone on without it");
        }

        private void GiveUp()
        {
            try { AddJson("[]"); }
            catch (RealizarException) { }
            catch (InvalidOperationException) { } // another call may be at work, or the conversation disposed of
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
            catch (RealizarException e) when (e.Status != Status.Deadline)
            {
                Rewind(n);
                throw;
            }
        }

        /// <summary>Ends an unfinished reply at once: the text so far becomes a message, with ReplyOptions.Keep or
        /// without.</summary>
        public unsafe void Stop()
        {
            Native.Call(err => Native.rz_conversation_stop(Handle, err));
            isReading = false;
        }

        /// <summary>Lets steps of the reply fail with Status.Deadline after this time, at once if it is not positive;
        /// null removes the deadline.</summary>
        public void SetDeadline(TimeSpan? time) => OfReply().SetDeadline(time);

        /// <summary>Takes back a deadline or a cancel, so that the next step continues.</summary>
        public void Resume() => OfReply().Reset();

        private Cancelling OfReply() => Native.Open(handle, nameof(Conversation)) != null && cancelling != null ? cancelling : throw new InvalidOperationException("the conversation has no reply; begin one first");

        /// <summary>The tokens of the content since the last call with their log probabilities, if
        /// ReplyOptions.Logprobs is set.</summary>
        public unsafe IReadOnlyList<TokenLogprobs> Logprobs() => TokenLogprobs.All(row, (tokens, values, capacity, n, err) =>
            Native.rz_conversation_logprobs_into(Handle, tokens, values, capacity, n, err));

        /// <summary>The messages from number <paramref name="first"/> on, a list in JSON. An unfinished reply is not
        /// among them.</summary>
        public unsafe string Messages(int first = 0) => Native.SizedText(4096, (text, capacity, n, err) =>
            Native.rz_conversation_json_into(Handle, Native.Whole(first, nameof(first)), (byte*)text, capacity, n, err));

        /// <summary>Removes the messages after the first <paramref name="messages"/>.</summary>
        public unsafe void Rewind(int messages) => Changed(err => Native.rz_conversation_rewind(Handle, Native.Whole(messages, nameof(messages)), err));

        /// <summary>Frees the KV cache and keeps the messages. The next reply computes the KV cache again. Status.Busy
        /// while a reply is unfinished, as for SetCapacity and SetAdapters.</summary>
        public unsafe void Release() => Native.Call(err => Native.rz_conversation_release(Handle, err));

        /// <summary>Sets the context length in tokens; 0: the model's, at most 8192. The next reply computes the
        /// KV cache again.</summary>
        public unsafe void SetCapacity(int tokens) => Native.Call(err => Native.rz_conversation_capacity_set(Handle, Native.Whole(tokens, nameof(tokens)), err));

        /// <summary>Sets what later replies do if they exceed the context.</summary>
        public unsafe void SetOverflow(Overflow overflow) => Native.Call(err => Native.rz_conversation_overflow_set(Handle, Native.Choice(overflow, nameof(overflow)), err));

        /// <summary>Sets the LoRA adapters of later replies, each with a scale. The next reply computes the KV cache
        /// again.</summary>
        public unsafe void SetAdapters(IReadOnlyDictionary<Adapter, float> adapters)
        {
            Native.Given(adapters, nameof(adapters));
            using (var pins = new Pins())
                Native.Call(err => Native.rz_conversation_adapters_set(Handle, (IntPtr*)pins.Of(adapters.Keys.Select(adapter => adapter.Handle)),
                    (float*)pins.Of(adapters.Values.ToArray()), (UIntPtr)adapters.Count, err));
        }

        /// <summary>Sets the store of later replies; null: none.</summary>
        public unsafe void SetStore(Store? store) => Native.Call(err => Native.rz_conversation_store_set(Handle, store?.Handle ?? StoreHandle.None, err));

        /// <summary>The state of the conversation and of its last reply.</summary>
        public ConversationInfo Info => ConversationInfo.Get(Handle);

        /// <summary>The error of a reply that has ended with JobEnd.Failed, else null. Step throws this error, StepAll
        /// does not.</summary>
        public unsafe RealizarException? Error
        {
            get
            {
                try { Native.Call(err => Native.rz_conversation_error(Handle, err)); }
                catch (RealizarException e) { return e; }
                return null;
            }
        }

        partial void Closed()
        {
            always.Fire();
            cancelling?.Dispose();
            always.Dispose();
        }
    }
}
