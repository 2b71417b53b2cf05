package realizar;

import org.jspecify.annotations.Nullable;

/** Options of a text that is generated. Each method sets one and returns the object; a number out of range throws
 * an IllegalArgumentException that names it. The build writes this file: make header. */
public abstract class TextOptions<T extends TextOptions<T>> extends SamplingOptions<T> {
    int maxTokens;
    Options.Reasoning reasoning = Options.Reasoning.MODEL;
    int reasoningTokens;
    int draftMax;
    @Nullable Integer logprobs;
    int priority;
    int flags;

    TextOptions() {}

    /** Maximum number of tokens to generate, including reasoning; 0: until the cache is full. */
    public T maxTokens(int maxTokens) {
        this.maxTokens = Native.whole(maxTokens, "maxTokens");
        return self();
    }

    /** Keeps the text of an abandoned reply as a message; otherwise the text is removed. */
    public T keep() {
        flags |= Header.RZ_REPLY_KEEP;
        return self();
    }

    /** Continues the last message, which must be a reply with the "finish_reason" "length", "context" or
     * "cancelled". */
    public T continuing() {
        flags |= Header.RZ_REPLY_CONTINUE;
        return self();
    }

    /** Whether a reply begins with reasoning; MODEL: as the chat template decides. */
    public T reasoning(Options.Reasoning reasoning) {
        this.reasoning = Native.given(reasoning, "reasoning");
        return self();
    }

    /** Maximum number of reasoning tokens (thinking budget); 0: no limit. After that number, and up to three more
     * tokens that complete a character, the library inserts the end of reasoning, and the model continues with its
     * answer. Ignored for a model that does not reason, and if maxTokens leaves no tokens for an answer. */
    public T reasoningTokens(int reasoningTokens) {
        this.reasoningTokens = Native.whole(reasoningTokens, "reasoningTokens");
        return self();
    }

    /** Number of most likely tokens to return with each token, at most 32; 0: only the log probability of the token
     * itself; not set: none. */
    public T logprobs(int logprobs) {
        this.logprobs = Native.whole(logprobs, "logprobs");
        return self();
    }

    /** Scheduling priority: higher first, may be negative; 0: normal. */
    public T priority(int priority) {
        this.priority = priority;
        return self();
    }

    /** Writes the numbers of the struct. */
    void setJob(Memory params) {
        Native.set(params, Header.rz_job_params, "max_tokens", maxTokens);
        Native.set(params, Header.rz_job_params, "draft_max", draftMax);
        Native.setOrNone(params, Header.rz_job_params, "logprobs", logprobs);
        Native.set(params, Header.rz_job_params, "priority", priority);
    }

    /** Writes the numbers of the struct. */
    void setReply(Memory params) {
        Native.set(params, Header.rz_reply_params, "max_tokens", maxTokens);
        Native.set(params, Header.rz_reply_params, "reasoning", reasoning.ordinal());
        Native.set(params, Header.rz_reply_params, "reasoning_tokens", reasoningTokens);
        Native.set(params, Header.rz_reply_params, "draft_max", draftMax);
        Native.setOrNone(params, Header.rz_reply_params, "logprobs", logprobs);
        Native.set(params, Header.rz_reply_params, "priority", priority);
        Native.set(params, Header.rz_reply_params, "flags", flags);
    }
}
