package realizar;

/** A prefix cache: keeps the KV cache of prompts, for sessions and conversations of one model that begin with the same
 * tokens. With a folder, other processes share it. Any number of threads may use it at once. */
public final class Store extends Handle {
    /** Options of a store, all of which are optional. Each method sets one and returns the object. */
    public static final class Setup extends StoreOptions<Setup> {

        /** All options are the default. */
        public Setup() {}
    }

    /** {@code entries}, {@code files}: prefixes in memory, and in files of the model. {@code hits}, {@code misses}: how
     * often a prefix was found, and was not. {@code reusedTokens}: tokens that were not computed because a prefix was
     * found. {@code unwritten}: prefixes that were dropped because they could not be written. */
    public record Info(int entries, int files, long memoryBytes, long diskBytes, long hits, long misses, long reusedTokens, int unwritten) {}

    private final Model model;

    /** A store in memory. */
    public Store(Model model) {
        this(model, new Setup());
    }

    /** A store with options. */
    public Store(Model model, Setup setup) {
        super(make(model, setup), Header::rz_store_free);
        this.model = model;
    }

    private static Memory make(Model model, Setup setup) {
        Native.given(setup, "setup");
        return Native.given(model, "model").call((arena, pointer) -> {
            var params = Native.sized(arena, Header.rz_store_params);
            setup.set(params);
            if (setup.path != null) {
                Native.set(params, Header.rz_store_params, "path", Native.terminated(arena, setup.path.toString(), "path"));
            }
            return Native.made(arena, out -> e -> Header.rz_store_new(pointer, params, out, e));
        });
    }

    /** A session that holds the leading tokens of a prompt that the store knows, but never the last one. The caller
     * appends the tokens from {@link Session#length} on. {@code capacity} and types as in {@link Model#newSession}. */
    public Session take(int[] tokens, int capacity, CacheType keys, CacheType values) {
        Native.wholes(tokens, "tokens");
        Session.check(capacity, keys, values);
        return call((arena, store) -> {
            Memory ids = Native.ints(arena, tokens, "tokens"), common = arena.allocate(4);
            var params = Session.params(arena, capacity, keys, values);
            return new Session(model, Cancel.call(null, fired -> Native.made(arena, out -> e ->
                Header.rz_store_take(store, ids, tokens.length, params, fired, out, common, e))));
        });
    }

    /** The same for a {@link Prompt}; the caller appends the rest from token {@link Session#length} on. */
    public Session take(Prompt prompt, int capacity, CacheType keys, CacheType values) {
        Native.given(prompt, "prompt");
        Session.check(capacity, keys, values);
        return call((arena, store) -> prompt.use(whole -> {
            var common = arena.allocate(4);
            var params = Session.params(arena, capacity, keys, values);
            return new Session(model, Cancel.call(null, fired -> Native.made(arena, out -> e ->
                Header.rz_store_take_prompt(store, whole, params, fired, out, common, e))));
        }));
    }

    /** The same with the default capacity and types. */
    public Session take(int... tokens) {
        return take(tokens, 0, CacheType.F16, CacheType.F16);
    }

    /** Adds the tokens of a session with their KV cache. The session remains usable. */
    public void put(Session session) {
        Native.given(session, "session");
        call((arena, store) -> session.use(cache ->
            Native.check(arena, e -> Header.rz_store_put(store, cache, e))));
    }

    /** Removes all prefixes, and the files of the model in the folder. */
    public void clear() {
        call((arena, store) -> Native.check(arena, e -> Header.rz_store_clear(store, e)));
    }

    /** What the store holds, and has done. */
    public Info info() {
        return call(Results::storeInfo);
    }
}
