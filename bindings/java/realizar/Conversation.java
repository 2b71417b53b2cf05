package realizar;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;

/** A whole conversation: messages, tools, and variables of the model's template. Methods add to it and return it. */
public final class Conversation {
    private final List<Object> messages = new ArrayList<>(), tools = new ArrayList<>();
    private final Map<String, Object> variables = new LinkedHashMap<>(), others = new LinkedHashMap<>();
    private int calls;

    /** A value that is JSON already. */
    private record Json(String text) {}

    public static Conversation of(List<Message> messages) {
        var conversation = new Conversation();
        messages.forEach(message -> conversation.add(message.role(), message.content()));
        return conversation;
    }

    public Conversation add(String role, String content) {
        messages.add(object("role", role, "content", content));
        return this;
    }

    public Conversation system(String content) {
        return add("system", content);
    }

    public Conversation user(String content) {
        return add("user", content);
    }

    public Conversation assistant(String content) {
        return add("assistant", content);
    }

    /** A call of a tool that the assistant made, with its arguments in JSON, and what came of it. */
    public Conversation call(String tool, String arguments, String result) {
        String id = "call_" + calls++;
        var function = object("name", tool, "arguments", new Json(arguments));
        messages.add(object("role", "assistant", "tool_calls", List.of(object("id", id, "type", "function", "function", function))));
        messages.add(object("role", "tool", "tool_call_id", id, "name", tool, "content", result));
        return this;
    }

    /** A tool that the model may call. {@code parameters}: the JSON schema of its arguments. */
    public Conversation tool(String name, String description, String parameters) {
        tools.add(object("type", "function", "function", object("name", name, "description", description, "parameters", new Json(parameters))));
        return this;
    }

    /** Which tools are called: "auto", "none", "required", or the name of one. */
    public Conversation toolChoice(String choice) {
        boolean isKind = List.of("auto", "none", "required").contains(choice);
        others.put("tool_choice", isKind ? choice : object("type", "function", "function", object("name", choice)));
        return this;
    }

    /** Whether a reply may call several tools; it may where nothing is said. */
    public Conversation parallelToolCalls(boolean several) {
        others.put("parallel_tool_calls", several);
        return this;
    }

    /** A variable of the template, such as "enable_thinking": a text, a number, a truth value, or lists and maps of
     * such. */
    public Conversation variable(String name, Object value) {
        variables.put(name, value);
        return this;
    }

    /** The conversation as the library takes it. */
    public String json() {
        var all = new LinkedHashMap<String, Object>();
        all.put("messages", messages);
        if (!tools.isEmpty()) all.put("tools", tools);
        if (!variables.isEmpty()) all.put("variables", variables);
        all.putAll(others);
        return json(all);
    }

    /** Members in their order. */
    private static Map<String, Object> object(Object... members) {
        var object = new LinkedHashMap<String, Object>();
        for (int i = 0; i < members.length; i += 2) object.put((String) members[i], members[i + 1]);
        return object;
    }

    private static String json(Object value) {
        return switch (value) {
            case null -> "null";
            case Json json -> json.text;
            case Boolean truth -> truth.toString();
            case Number number -> number.toString();
            case List<?> list -> list.stream().map(Conversation::json).collect(Collectors.joining(", ", "[", "]"));
            case Map<?, ?> map -> map.entrySet().stream().map(entry -> quoted(entry.getKey().toString()) + ": " + json(entry.getValue()))
                .collect(Collectors.joining(", ", "{", "}"));
            default -> quoted(value.toString());
        };
    }

    private static String quoted(String text) {
        var json = new StringBuilder("\"");
        text.chars().forEach(c -> json.append(c < 32 || c == '"' || c == '\\' ? String.format("\\u%04x", c) : String.valueOf((char) c)));
        return json.append('"').toString();
    }
}
