package realizar;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/** Converts between JSON and Java values: maps, lists, strings, numbers (Long or BigDecimal), booleans and null. */
public final class Json {
    private static final int DEEPEST = 500;
    private static final Pattern NUMBER = Pattern.compile("-?(?:0|[1-9][0-9]*)(?:\\.[0-9]+)?(?:[eE][-+]?[0-9]+)?");
    private final String text;
    private int at, depth;

    private Json(String text) {
        this.text = text;
    }

    /** The JSON of a value. @throws IllegalArgumentException for a value that has no form in JSON */
    public static String write(@Nullable Object value) {
        return write(value, 0);
    }

    private static String write(@Nullable Object value, int depth) {
        if (depth > DEEPEST) throw new IllegalArgumentException("a value of JSON is deeper than " + DEEPEST + " lists and maps; it must not be, nor contain itself");
        if (value instanceof Number number && !Double.isFinite(number.doubleValue()) && !(value instanceof BigDecimal || value instanceof BigInteger)) {
            throw new IllegalArgumentException("a value of JSON is " + value + "; it must be finite");
        }
        if (value == null || value instanceof Boolean || value instanceof Number) return String.valueOf(value);
        if (value instanceof Json json) return json.text;
        if (value instanceof Collection<?> list) {
            return list.stream().map(each -> write(each, depth + 1)).collect(Collectors.joining(", ", "[", "]"));
        }
        if (value instanceof CharSequence || value instanceof Character || value instanceof Enum) return quoted(value.toString());
        if (!(value instanceof Map<?, ?> map)) {
            throw new IllegalArgumentException("a value of JSON is a " + value.getClass().getTypeName()
                + "; it must be a map, a collection, a string, a number, a boolean or null");
        }
        return map.entrySet().stream().map(entry -> quoted(Native.given(entry.getKey(), "a name in an object of JSON").toString()) + ": " + write(entry.getValue(), depth + 1))
            .collect(Collectors.joining(", ", "{", "}"));
    }

    /** A text that is JSON already, as a value. */
    static Object raw(String json) {
        return new Json(json);
    }

    private static String quoted(String text) {
        var json = new StringBuilder("\"");
        for (char c : text.toCharArray()) {
            json.append(c < 32 || c == '"' || c == '\\' ? String.format("\\u%04x", (int) c) : String.valueOf(c));
        }
        return json.append('"').toString();
    }

    /** The value of some JSON. @throws IllegalArgumentException for a text that is none */
    public static @Nullable Object read(String text) {
        var json = new Json(Native.given(text, "text"));
        Object value = json.value();
        if (json.peek() != 0) throw json.wrong();
        return value;
    }

    private IllegalArgumentException wrong() {
        return new IllegalArgumentException("no JSON at character " + at);
    }

    /** The next character that is no space, 0 at the end. */
    private char peek() {
        while (at < text.length() && " \t\r\n".indexOf(text.charAt(at)) >= 0) at++;
        return at < text.length() ? text.charAt(at) : 0;
    }

    private boolean skips(String word) {
        peek();
        boolean found = text.startsWith(word, at);
        if (found) at += word.length();
        return found;
    }

    private void expect(String word) {
        if (!skips(word)) throw wrong();
    }

    private @Nullable Object value() {
        if (skips("null")) return null;
        if (skips("true")) return true;
        if (skips("false")) return false;
        return switch (peek()) {
            case '"' -> string();
            case '[' -> list();
            case '{' -> map();
            default -> number();
        };
    }

    private List<Object> list() {
        var list = new ArrayList<Object>();
        entries("[", "]", () -> list.add(value()));
        return list;
    }

    private Map<String, Object> map() {
        var map = new LinkedHashMap<String, Object>();
        entries("{", "}", () -> {
            peek();
            String name = string();
            expect(":");
            map.put(name, value());
        });
        return map;
    }

    private void entries(String open, String close, Runnable entry) {
        expect(open);
        if (++depth > DEEPEST) throw wrong();
        if (!skips(close)) {
            do entry.run();
            while (skips(","));
            expect(close);
        }
        depth--;
    }

    private String string() {
        expect("\"");
        var out = new StringBuilder();
        for (; at < text.length() && text.charAt(at) != '"'; at++) {
            char c = text.charAt(at);
            if (c < ' ') throw wrong();
            if (c == '\\' && ++at < text.length()) c = escaped(text.charAt(at));
            out.append(c);
        }
        if (at++ >= text.length()) throw wrong();
        return out.toString();
    }

    private char escaped(char c) {
        int plain = "\"\\/bfnrt".indexOf(c);
        if (plain >= 0) return "\"\\/\b\f\n\r\t".charAt(plain);
        if (c != 'u' || at + 4 >= text.length()) throw wrong();
        int unit = 0;
        for (int i = 0; i < 4; i++) {
            int digit = Character.digit(text.charAt(++at), 16);
            if (digit < 0) throw wrong();
            unit = 16 * unit + digit;
        }
        return (char) unit;
    }

    private Number number() {
        var found = NUMBER.matcher(text).region(at, text.length());
        if (!found.lookingAt()) throw wrong();
        at = found.end();
        var number = new BigDecimal(found.group());
        try {
            return number.longValueExact();
        } catch (ArithmeticException e) {
            return number;
        }
    }
}
