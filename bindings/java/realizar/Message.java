package realizar;

/** One message of a conversation. {@code role}: "system", "user" or "assistant". */
public record Message(String role, String content) {}
