package realizar;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.function.BiFunction;
import java.util.function.Consumer;
import java.util.function.Predicate;
import org.jspecify.annotations.Nullable;

/** Messages with a model, their KV cache, and the reply that is being generated. Only tokens that are new since the
 * last reply are computed. One call at a time: a second one throws {@link BusyException} at once and changes nothing,
 * in the callback of {@link #say} too. Any thread may call {@link #info}, {@link #messages} and {@link #cancel} at any
 * time. {@link #close} ends a loop over a reply and a {@code say} of another thread with IllegalStateException. */
public final class Conversation extends Handle {
    /** What happens if messages and a reply exceed the context, in the order of the library's numbers from 0. */
    public enum Overflow {
        /** The reply fails with the status CONTEXT_FULL. */
        FAIL,
        /** The oldest turns are left out of the prompt. */
        FORGET
    }

    /** The state of a reply, in the order of the library's numbers from 0. */
    public enum State {
        /** There is no reply. */
        NONE,
        /** The prompt is being computed. */
        PROMPT,
        /** Tokens are being generated. */
        TOKENS,
        /** The reply has ended. */
        ENDED
    }

    /** Options of a conversation, all of which are optional. Each method sets one and returns the object. */
    public static final class Setup {
        private int capacity;
        private CacheType keys = CacheType.F16, values = CacheType.F16;
        private Overflow overflow = Overflow.FAIL;
        private Map<Adapter, Float> adapters = Map.of();
        private @Nullable Store store;
        private @Nullable Cancel cancel;

        /** All options are the default. */
        public Setup() {}

        /** Context length in tokens; 0: the model's, at most 8192. */
        public Setup capacity(int tokens) {
            capacity = Native.whole(tokens, "tokens");
            return this;
        }

        /** Element types of the keys and the values in the KV cache. */
        public Setup types(CacheType keys, CacheType values) {
            this.keys = Native.given(keys, "keys");
            this.values = Native.given(values, "values");
            return this;
        }

        /** What happens if messages and a reply exceed the context; by default FAIL. */
        public Setup overflow(Overflow overflow) {
            this.overflow = Native.given(overflow, "overflow");
            return this;
        }

        /** LoRA adapters of every reply, each with a scale. */
        public Setup adapters(Map<Adapter, Float> adapters) {
            this.adapters = Adapter.scaled(adapters);
            return this;
        }

        /** Prefix cache in which prompts are looked up, and to which prompts and replies are added, for forks too. */
        public Setup store(@Nullable Store store) {
            this.store = store;
            return this;
        }

        /** Stops every call that computes, for forks too. */
        public Setup cancel(@Nullable Cancel cancel) {
            this.cancel = cancel;
            return this;
        }
    }

    /** The state of a conversation and of its last reply. {@code firstInPrompt}: number of the first message of a turn
     * that prompts have; not 0 if older turns were left out. {@code stopped}: CANCELLED or DEADLINE if steps fail
     * because of a cancel or a deadline, else null. {@code reusedTokens}: prompt tokens that the KV cache held already.
     * {@code promptDone}: other prompt tokens that are computed by now. {@code firstToken}: the time from the beginning
     * to the first token. */
    public record Info(int messages, int firstInPrompt, State state, Generation.@Nullable End end,
        RealizarException.@Nullable Status stopped, int promptTokens, int reusedTokens, int promptDone, int tokens, int reasoningTokens, int drafted, int accepted,
        int cacheLength, int cacheCapacity, int media, Duration promptTime, Duration tokensTime, Duration firstToken) {}

    private final Model model;
    /** The reply that was begun last; null if a change has ended it. */
    private volatile @Nullable Reply reply;

    private Conversation(Model model, Memory pointer) {
        super(pointer, Header::rz_conversation_free);
        this.model = model;
    }

    /** A conversation without messages. */
    public Conversation(Model model) {
        this(model, new Transcript());
    }

    /** A conversation that begins with a system message. */
    public Conversation(Model model, String system) {
        this(model, new Transcript().add("system", Native.given(system, "system")));
    }

    /** A conversation that begins with messages, tools and variables. */
    public Conversation(Model model, Transcript begun) {
        this(model, begun, new Setup());
    }

    /** The same with options. */
    public Conversation(Model model, Transcript begun, Setup setup) {
        this(model, make(model, begun, setup));
    }

    private static Memory make(Model model, Transcript begun, Setup setup) {
        Native.given(model, "model");
        String json = Native.given(begun, "begun").json();
        Native.given(setup, "setup");
        try (Arena arena = new Arena()) {
            return with(arena, model, json, setup, (pointer, params) -> Native.made(arena, out -> e ->
                Header.rz_conversation_new(pointer, params, out, e)));
        }
    }

    /** Reads the conversation that {@link #save} has written. {@code setup} must have no adapters; its overflow is
     * ignored in favor of the saved one. */
    public static Conversation load(Model model, InputStream in, Setup setup) throws IOException {
        Native.given(model, "model");
        Native.given(in, "in");
        Native.given(setup, "setup");
        try (Arena arena = new Arena()) {
            return Transfer.load(in, (read, user, out, e) -> with(arena, model, null, setup, (pointer, params) ->
                Header.rz_conversation_load(pointer, params, read, user, out, e)), made -> new Conversation(model, made));
        }
    }

    /** The same without options. */
    public static Conversation load(Model model, InputStream in) throws IOException {
        return load(model, in, new Setup());
    }

    /** A call with a model and the parameters of a conversation. */
    private interface Making<T> {
        T apply(Memory model, Memory params);
    }

    private static <T> T with(Arena arena, Model model, @Nullable String json, Setup setup, Making<T> call) {
        var params = Native.sized(arena, Header.rz_conversation_params);
        Memory text = json == null ? Memory.NULL : Native.bytes(arena, json, "begun");
        Native.set(params, Header.rz_conversation_params, "overflow", setup.overflow.ordinal());
        Native.set(params, Header.rz_conversation_params, "json", text);
        Native.set(params, Header.rz_conversation_params, "json_len", text.size);
        Memory cache = Session.params(arena, setup.capacity, setup.keys, setup.values);
        Native.set(params, Header.rz_conversation_params, "cache", cache);
        return model.use(pointer -> use(setup.cancel, cancel -> use(setup.store, store -> Adapter.useAll(arena, setup.adapters, (all, scales, n) -> {
            Native.set(params, Header.rz_conversation_params, "adapters", all);
            Native.set(params, Header.rz_conversation_params, "scales", scales);
            Native.set(params, Header.rz_conversation_params, "n_adapters", n);
            Native.set(params, Header.rz_conversation_params, "cancel", cancel);
            Native.set(params, Header.rz_conversation_params, "store", store);
            return call.apply(pointer, params);
        }))));
    }

    /** The model of the conversation. */
    public Model model() {
        return model;
    }

    /** Appends a text of a role, such as "user" or "system". Nothing is computed. Gives up an unfinished reply, as each
     * method does that changes the conversation. */
    public void add(String role, String text) {
        Native.given(role, "role");
        Native.given(text, "text");
        change((arena, conversation) -> {
            Memory name = Native.terminated(arena, role, "role"), bytes = Native.bytes(arena, text, "text");
            return e -> Header.rz_conversation_add_text(conversation, name, bytes, bytes.size, e);
        });
    }

    /** Appends a message with all its members, such as the result of a tool: "role", "tool_call_id" and "content". */
    public void add(Map<String, ?> message) {
        addJson(Json.write(Native.given(message, "message")));
    }

    /** Appends messages. */
    public void add(List<? extends Map<String, ?>> messages) {
        add(messages, List.of());
    }

    /** Appends a message or a list of messages in JSON. */
    public void addJson(String json) {
        addJson(json, List.of());
    }

    /** Appends messages whose content has parts with numbers of the list {@code media}: {"type": "image", "media": 0}.
     * The media may be closed afterwards. */
    public void add(List<? extends Map<String, ?>> messages, List<Media> media) {
        Native.all(media, "media");
        addJson(Json.write(Native.all(messages, "messages")), media);
    }

    /** The same for messages in JSON. */
    public void addJson(String json, List<Media> media) {
        Native.given(json, "json");
        var held = Native.<Media>all(media, "media");
        change((arena, conversation) -> {
            Memory bytes = Native.bytes(arena, json, "json");
            return e -> useAll(arena, held, all -> Header.rz_conversation_add(conversation, bytes, bytes.size, all, held.size(), e));
        });
    }

    /** A media item by its number in the parts of {@link #messages}, of which there are {@link Info#media}. */
    public Media media(int number) {
        Native.whole(number, "number");
        return call((arena, conversation) -> new Media(Native.made(arena, out -> e ->
            Header.rz_conversation_media(conversation, number, out, e))));
    }

    private void change(BiFunction<Arena, Memory, Native.Call> call) {
        alone(() -> {
            set(call);
            return reply = null;
        });
    }

    /** Begins a reply to the messages. Its parts are computed when they are asked for. */
    public Reply reply(Options options) {
        return reply(options, 0);
    }

    /** The same without options. */
    public Reply reply() {
        return reply(new Options());
    }

    /** The same with flags in addition to those of the options. */
    private Reply reply(Options options, int flags) {
        return begin(options, flags, Header::rz_conversation_reply);
    }

    /** Begins a prefill of the messages, which lowers the next reply's time to first token. {@link Reply#step}
     * computes; there are no parts, and no message is added. Pass the options of the next reply: tools, reasoning and
     * priority apply. */
    public Reply read(Options options) {
        return begin(options, 0, Header::rz_conversation_read);
    }

    /** The same without options. */
    public Reply read() {
        return read(new Options());
    }

    /** A call that begins a reply. */
    private interface Beginning {
        int apply(Memory conversation, Memory params, Memory error);
    }

    private Reply begin(Options options, int flags, Beginning beginning) {
        Native.given(options, "options");
        return alone(() -> {
            var cancel = new Cancel();
            begin(options, flags, cancel, beginning);
            return reply = new Reply(this, cancel, options);
        });
    }

    private void begin(Options options, int flags, Cancel stop, Beginning beginning) {
        call((arena, conversation) -> {
            var params = Native.sized(arena, Header.rz_reply_params);
            options.setReply(params);
            boolean compiles = options.grammar == null;
            Memory grammar = Native.bytes(arena, compiles ? options.grammarText : "", "grammar");
            var sampler = options.isSampled ? Sampler.params(arena, options) : Memory.NULL;
            Native.set(params, Header.rz_reply_params, "sampler", sampler);
            Native.set(params, Header.rz_reply_params, "grammar_kind", compiles ? options.grammarKind : 0);
            Native.set(params, Header.rz_reply_params, "grammar_flags", compiles ? options.grammarFlags : 0);
            Native.set(params, Header.rz_reply_params, "grammar", grammar);
            Native.set(params, Header.rz_reply_params, "grammar_len", grammar.size);
            Native.set(params, Header.rz_reply_params, "flags", options.flags | flags);
            Native.set(params, Header.rz_reply_params, "stops", Native.texts(arena, options.stops, "stops"));
            Native.set(params, Header.rz_reply_params, "n_stops", (long) options.stops.size());
            Native.set(params, Header.rz_reply_params, "draft", options.draft.ordinal());
            Memory json = options.transcript == null ? Memory.NULL : Native.bytes(arena, options.transcript.replyJson(), "tools");
            Native.set(params, Header.rz_reply_params, "json", json);
            Native.set(params, Header.rz_reply_params, "json_len", json.size);
            return use(options.draftModel, draft -> use(stop, cancel -> use(options.grammar, compiled -> {
                Native.set(params, Header.rz_reply_params, "draft_model", draft);
                Native.set(params, Header.rz_reply_params, "compiled_grammar", compiled);
                Native.set(params, Header.rz_reply_params, "cancel", cancel);
                return Blocking.call(List.of(stop), () -> Native.check(arena, e -> beginning.apply(conversation, params, e)));
            })));
        });
    }

    boolean isReplying(Reply reply) {
        return this.reply == reply;
    }

    /** Gives up a reply that has not ended, after its step, which {@code cancel} ends. With {@link Options#keep} the
     * text so far becomes a message. */
    void giveUp(Reply given, Cancel cancel) {
        if (!isReplying(given)) return;
        try {
            aloneAfter(cancel::fire, () -> {
                if (isReplying(given) && info().state() != State.ENDED) addJson("[]");
            });
        } catch (IllegalStateException e) {
            if (!isClosed()) throw e;
        }
    }

    /** Ends the reply that another thread is waiting for, with CancellationException, as {@link Reply#cancel} does. */
    public void cancel() {
        var last = reply;
        if (last != null) last.cancel();
    }

    /** Adds a user message and generates the whole reply. {@code onText} receives the content piece by piece; an
     * exception of {@code onText} ends the reply and is rethrown. {@link #cancel} and an interrupt of the thread end
     * the reply with CancellationException. In these cases the text so far stays as a message; any other failure
     * restores the messages. In {@code onText} the conversation is in use: what changes it throws BusyException. */
    public void say(String text, Consumer<String> onText) {
        say(text, new Options(), onText);
    }

    /** The same with options of the reply. */
    public void say(String text, Options options, Consumer<String> onText) {
        Native.given(onText, "onText");
        sayWhile(text, options, piece -> {
            onText.accept(piece);
            return true;
        });
    }

    /** The same; the reply ends when {@code onText} returns false. */
    public void sayWhile(String text, Predicate<String> onText) {
        sayWhile(text, new Options(), onText);
    }

    /** The same with options of the reply. */
    public void sayWhile(String text, Options options, Predicate<String> onText) {
        Native.given(text, "text");
        Native.given(options, "options");
        Native.given(onText, "onText");
        alone(() -> {
            addJson("[]"); // an unfinished reply is discarded
            int before = info().messages();
            add("user", text);
            try (var said = saying(before, options)) {
                while (said.hasNext(before)) {
                    var part = said.next();
                    boolean isPiece = part.kind() == Part.Kind.CONTENT && !part.text().isEmpty();
                    if (isPiece && !callBack(() -> onText.test(part.text()))) break;
                }
            }
            return null;
        });
    }

    private Reply saying(int before, Options options) {
        try {
            return reply(options, Header.RZ_REPLY_KEEP);
        } catch (RuntimeException e) {
            rewind(before);
            throw e;
        }
    }

    /** The same; returns the content. */
    public String say(String text) {
        return say(text, new Options());
    }

    /** The same with options of the reply. */
    public String say(String text, Options options) {
        var all = new StringBuilder();
        say(text, options, all::append);
        return all.toString();
    }

    /** All messages. Replies have "reasoning_content", "tool_calls" and "finish_reason". An unfinished reply is not
     * among them. */
    public List<Map<String, @Nullable Object>> messages() {
        return messages(0);
    }

    /** The messages from number {@code first} on. */
    @SuppressWarnings("unchecked")
    public List<Map<String, @Nullable Object>> messages(int first) {
        return (List<Map<String, @Nullable Object>>) Json.read(messagesJson(first));
    }

    /** The same in JSON. */
    public String messagesJson(int first) {
        Native.whole(first, "first");
        return call((arena, conversation) -> Native.filled(arena, 1, 4096, (out, capacity, written, e) ->
            Header.rz_conversation_json_into(conversation, first, out, capacity, written, e)).text());
    }

    /** Removes the messages after the first {@code messages}. */
    public void rewind(int messages) {
        Native.whole(messages, "messages");
        change((arena, conversation) -> e -> Header.rz_conversation_rewind(conversation, messages, e));
    }

    /** Frees the KV cache and keeps the messages. The next reply computes the KV cache again. Throws BusyException
     * while a reply is unfinished, as {@link #setCapacity}, {@link #setAdapters} and {@link #setCancel} do. */
    public void release() {
        set((arena, conversation) -> e -> Header.rz_conversation_release(conversation, e));
    }

    /** Sets the context length in tokens; 0: the model's, at most 8192. The next reply computes the KV cache
     * again. */
    public void setCapacity(int tokens) {
        Native.whole(tokens, "tokens");
        set((arena, conversation) -> e -> Header.rz_conversation_capacity_set(conversation, tokens, e));
    }

    /** Sets what later replies do if they exceed the context. */
    public void setOverflow(Overflow overflow) {
        Native.given(overflow, "overflow");
        set((arena, conversation) -> e -> Header.rz_conversation_overflow_set(conversation, overflow.ordinal(), e));
    }

    /** Sets the LoRA adapters of later replies, each with a scale. The next reply computes the KV cache again. */
    public void setAdapters(Map<Adapter, Float> adapters) {
        var scaled = Adapter.scaled(adapters);
        set((arena, conversation) -> e -> Adapter.useAll(arena, scaled, (all, scales, n) ->
            Header.rz_conversation_adapters_set(conversation, all, scales, n, e)));
    }

    /** Sets the prefix cache for later replies; null: none. */
    public void setStore(@Nullable Store store) {
        set((arena, conversation) -> e -> use(store, pointer -> Header.rz_conversation_store_set(conversation, pointer, e)));
    }

    /** Sets the cancel of later computing calls, instead of {@link Setup#cancel}; null: none. */
    public void setCancel(@Nullable Cancel cancel) {
        set((arena, conversation) -> e -> use(cancel, pointer -> Header.rz_conversation_cancel_set(conversation, pointer, e)));
    }

    /** Makes a call that leaves the last reply. */
    private void set(BiFunction<Arena, Memory, Native.Call> call) {
        alone(() -> call((arena, conversation) -> Native.check(arena, call.apply(arena, conversation))));
    }

    /** Returns a copy of the conversation, which shares the KV cache copy-on-write. */
    public Conversation fork() {
        return call((arena, conversation) -> new Conversation(model, Native.made(arena, out -> e ->
            Header.rz_conversation_fork(conversation, out, e))));
    }

    /** Writes the conversation with its KV cache. {@link #load} reads it, in another process too. */
    public void save(OutputStream out) throws IOException {
        Transfer.save(this, out, Header::rz_conversation_save);
    }

    /** The state of the conversation and of its last reply. */
    public Info info() {
        return call(Results::conversationInfo);
    }
}
