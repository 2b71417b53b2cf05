package realizar;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** The beginning of a conversation: messages, tools, and variables of the chat template. Each method adds to it and
 * returns the object. */
public final class Transcript {
    private final List<Object> messages = new ArrayList<>(), tools = new ArrayList<>();
    private final Map<String, Object> variables = new LinkedHashMap<>(), others = new LinkedHashMap<>();
    private boolean hasNoTools;

    /** A transcript without messages. */
    public Transcript() {}

    /** A message with all its members, such as "role", "content" and "tool_calls". */
    public Transcript add(Map<String, ?> message) {
        messages.add(Native.given(message, "message"));
        return this;
    }

    /** A message of a role, such as "user". */
    public Transcript add(String role, String content) {
        return add(object("role", Native.given(role, "role"), "content", Native.given(content, "content")));
    }

    /** A system message. */
    public Transcript system(String content) {
        return add("system", content);
    }

    /** A message of the user. */
    public Transcript user(String content) {
        return add("user", content);
    }

    /** A reply. */
    public Transcript assistant(String content) {
        return add("assistant", content);
    }

    /** A tool that the model may call. {@code parameters}: the JSON schema of its arguments. */
    public Transcript tool(String name, String description, String parameters) {
        var function = object("name", Native.given(name, "name"), "description", Native.given(description, "description"),
            "parameters", Json.raw(Native.given(parameters, "parameters")));
        tools.add(object("type", "function", "function", function));
        return this;
    }

    /** No tools. For a reply of a conversation that has some: {@link Options#tools}. */
    public Transcript noTools() {
        tools.clear();
        hasNoTools = true;
        return this;
    }

    /** Which tools are called: "auto", "none", "required", or the name of one. */
    public Transcript toolChoice(String choice) {
        boolean isKind = List.of("auto", "none", "required").contains(Native.given(choice, "choice"));
        others.put("tool_choice", isKind ? choice : object("type", "function", "function", object("name", choice)));
        return this;
    }

    /** Whether a reply may call several tools; true by default. */
    public Transcript parallelToolCalls(boolean several) {
        others.put("parallel_tool_calls", several);
        return this;
    }

    /** A variable of the chat template, such as "enable_thinking": a string, a number, a boolean, or lists and maps of
     * these. */
    public Transcript variable(String name, @Nullable Object value) {
        variables.put(Native.given(name, "name"), value);
        return this;
    }

    /** The transcript in JSON, as the library takes it. */
    public String json() {
        return json(object("messages", messages));
    }

    /** The same for one reply, which has no messages of its own: they are left out if there are none. */
    String replyJson() {
        return messages.isEmpty() ? json(object()) : json();
    }

    private String json(Map<String, Object> all) {
        if (!tools.isEmpty() || hasNoTools) all.put("tools", tools);
        if (!variables.isEmpty()) all.put("variables", variables);
        all.putAll(others);
        return Json.write(all);
    }

    /** Members in their order. */
    private static Map<String, Object> object(Object... members) {
        var object = new LinkedHashMap<String, Object>();
        for (int i = 0; i < members.length; i += 2) object.put((String) members[i], members[i + 1]);
        return object;
    }
}
