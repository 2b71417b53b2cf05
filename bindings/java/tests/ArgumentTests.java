package realizar;

import java.lang.reflect.AnnotatedArrayType;
import java.lang.reflect.AnnotatedElement;
import java.lang.reflect.AnnotatedParameterizedType;
import java.lang.reflect.AnnotatedType;
import java.lang.reflect.Array;
import java.lang.reflect.Executable;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.lang.reflect.Parameter;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.Consumer;
import java.util.function.Predicate;
import org.jspecify.annotations.Nullable;

/** Gives every public method and constructor of the package (the folder of classes is argument 2, a model argument 1,
 * and a folder of a model that sees argument 3, optional) a null, a null within a list, an array or a map, a negative
 * number and a NaN, one at a time. All handles are closed, so that an argument which reached the library would be
 * reported as "is closed". Prints "ok", or throws. */
class ArgumentTests {
    /** Numbers that may be negative. */
    private static final Set<String> ANY = Set.of("seed", "priority", "colour", "microseconds");
    /** Real numbers that the library checks: finite ones of a range, or infinity with a meaning. */
    private static final Set<String> FREE = Set.of("samples", "rows", "times");
    private static final Map<Class<?>, Object> SAMPLES = new HashMap<>();

    private static void closed(AutoCloseable handle) throws Exception {
        SAMPLES.put(handle.getClass(), handle);
        handle.close();
    }

    private static void samples(Path path) throws Exception {
        for (Object value : List.of(1, 1L, 1f, 1.0, true, "text", path, Duration.ZERO, new int[] {1}, new float[] {1}, new double[] {1}, new byte[] {1},
            new Options(), new Transcript(), new Model.Load(), new Encoder.Load(), new Encoder.Choices(), new Conversation.Setup(), new Store.Setup(),
            new Prompt.Parts(), Placement.auto())) SAMPLES.put(value.getClass(), value);
        for (Class<?> kind : List.of(Integer.class, Long.class, Float.class, Double.class, Boolean.class)) {
            SAMPLES.put((Class<?>) kind.getField("TYPE").get(null), SAMPLES.get(kind));
        }
        SAMPLES.put(ByteBuffer.class, ByteBuffer.allocate(4));
        SAMPLES.put(Path.class, path);
        SAMPLES.put(Object.class, ByteBuffer.allocate(4));
        SAMPLES.put(java.io.InputStream.class, java.io.InputStream.nullInputStream());
        SAMPLES.put(java.io.OutputStream.class, java.io.OutputStream.nullOutputStream());
        SAMPLES.put(Consumer.class, (Consumer<Object>) value -> {});
        SAMPLES.put(Predicate.class, (Predicate<Object>) value -> true);
        SAMPLES.put(Model.Load.Progress.class, (Model.Load.Progress) (done, total) -> true);
        SAMPLES.put(RealizarRuntime.Log.class, (RealizarRuntime.Log) (level, text) -> {});
        Model model = Model.load(path, new Model.Load().threads(1));
        Session session = model.newSession(64);
        Conversation chat = new Conversation(model, "text");
        Reply reply = chat.reply();
        for (AutoCloseable handle : List.of(session.generate("a", new Options()), new Sampler(new Options()), model.textStream(), new Cancel(), new Store(model),
            model.grammar(Grammar.Kind.JSON, ""), new RealizarRuntime(1), Media.ofRows(model, Media.Kind.IMAGE, new float[192], 64, 0, 0),
            model.adapter(Path.of("tests/data/story-adapter.gguf")), model.chatParser("{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}]}"),
            Prompt.of(model, new Prompt.Parts().tokens(1)), reply, chat, session, model)) closed(handle);
    }

    /** A value that fits a type; null if there is none. */
    private static @Nullable Object sample(AnnotatedType type) {
        if (type instanceof AnnotatedParameterizedType list && list.getType().getTypeName().startsWith("java.util.List")) {
            return List.of(sample(list.getAnnotatedActualTypeArguments()[0]));
        }
        if (type instanceof AnnotatedParameterizedType map && map.getType().getTypeName().startsWith("java.util.Map")) {
            return Map.of(sample(map.getAnnotatedActualTypeArguments()[0]), sample(map.getAnnotatedActualTypeArguments()[1]));
        }
        if (type instanceof java.lang.reflect.AnnotatedWildcardType any) return sample(any.getAnnotatedUpperBounds()[0]);
        if (type instanceof AnnotatedParameterizedType raw) return SAMPLES.get(((java.lang.reflect.ParameterizedType) raw.getType()).getRawType());
        var plain = (Class<?>) type.getType();
        if (plain.isEnum()) return plain.getEnumConstants()[0];
        if (plain.isArray() && !SAMPLES.containsKey(plain)) {
            Object array = Array.newInstance(plain.getComponentType(), 1);
            Array.set(array, 0, sample(((AnnotatedArrayType) type).getAnnotatedGenericComponentType()));
            return array;
        }
        return SAMPLES.get(plain);
    }

    private static boolean isNullable(AnnotatedElement type) {
        return type.isAnnotationPresent(Nullable.class);
    }

    /** Wrong values for a parameter, and what the message has to say, after its name. */
    private static Map<Object, String> wrong(Parameter parameter, String method) {
        var all = new LinkedHashMap<Object, String>();
        AnnotatedType type = parameter.getAnnotatedType();
        Class<?> plain = parameter.getType();
        boolean isAny = ANY.contains(parameter.getName()) || ANY.contains(method), isFree = FREE.contains(parameter.getName()) || FREE.contains(method);
        if (!plain.isPrimitive() && !isNullable(type)) all.put(Wrong.NULL, "is null");
        if (plain == int.class && !isAny) all.put(-1, "is -1; it must be");
        if (plain == long.class && !isAny) all.put(-1L, "is -1; it must be");
        if (plain == double.class && !isFree) {
            for (double value : new double[] {Double.NaN, Double.NEGATIVE_INFINITY, 1e300}) all.put(value, "is " + (float) value + "; it must be");
        }
        if (plain == float.class && !isFree) all.put(Float.NaN, "is NaN; it must be");
        if (plain == int[].class) all.put(new int[] {-1}, "is -1; it must be");
        if (plain == int[][].class) all.putAll(Map.of(new int[][] {null}, "is null", new int[][] {{-1}}, "is -1; it must be"));
        if (plain.isArray() && type instanceof AnnotatedArrayType array && !plain.getComponentType().isPrimitive() && plain != int[][].class
            && !isNullable(array.getAnnotatedGenericComponentType())) all.put(Array.newInstance(plain.getComponentType(), 1), "is null");
        if (plain == List.class && !isNullable(((AnnotatedParameterizedType) type).getAnnotatedActualTypeArguments()[0])) {
            all.put(Collections.singletonList(null), "is null");
        }
        if (plain == Map.class && !parameter.getName().equals("message")) {
            AnnotatedType[] types = ((AnnotatedParameterizedType) type).getAnnotatedActualTypeArguments();
            all.put(Collections.singletonMap(null, sample(types[1])), "is null");
            all.put(Collections.singletonMap(sample(types[0]), null), "is null");
            if (types[0].getType() == Integer.class) all.put(Map.of(-1, 1f), "is -1; it must be");
            if (types[1].getType() == Float.class) all.put(Map.of(sample(types[0]), Float.NaN), "is NaN; it must be");
        }
        return all;
    }

    private enum Wrong { NULL }

    private static @Nullable Throwable thrown(Executable of, @Nullable Object receiver, @Nullable Object[] arguments) throws Exception {
        try {
            if (of instanceof Method method) method.invoke(receiver, arguments);
            else ((java.lang.reflect.Constructor<?>) of).newInstance(arguments);
            return null;
        } catch (InvocationTargetException e) {
            return e.getCause();
        }
    }

    /** Calls that were refused as they should be. */
    private static int refused;

    private static void test(Executable of, @Nullable Object receiver, List<String> faults) throws Exception {
        Parameter[] parameters = of.getParameters();
        for (int i = 0; i < parameters.length; i++) {
            for (var wrong : wrong(parameters[i], of instanceof Method ? of.getName() : of.getDeclaringClass().getSimpleName()).entrySet()) {
                Object[] arguments = new Object[parameters.length];
                for (int k = 0; k < arguments.length; k++) arguments[k] = sample(parameters[k].getAnnotatedType());
                arguments[i] = wrong.getKey() == Wrong.NULL ? null : wrong.getKey();
                Throwable met = thrown(of, receiver, arguments);
                boolean isRight = (met instanceof NullPointerException || met instanceof IllegalArgumentException) && met.getMessage() != null
                    && met.getMessage().contains(parameters[i].getName()) && met.getMessage().contains(wrong.getValue());
                if (isRight) refused++;
                else faults.add(of + ": " + parameters[i].getName() + " " + wrong.getValue() + ": " + met);
            }
        }
    }

    public static void main(String[] arguments) throws Exception {
        samples(Path.of(arguments[0]));
        if (arguments.length > 2) {
            Path folder = Path.of(arguments[2]);
            try (var model = Model.load(folder, new Model.Load().threads(1))) {
                closed(Encoder.load(model, folder));
            }
        }
        var faults = new ArrayList<String>();
        var untried = new TreeSet<String>();
        try (var files = Files.list(Path.of(arguments[1], "realizar"))) {
            for (Path file : files.sorted().toList()) {
                String name = file.getFileName().toString().replace(".class", "");
                if (name.endsWith("Tests") || name.contains("Tests$") || name.equals("package-info") || name.equals("Main")) continue;
                Class<?> type = Class.forName("realizar." + name);
                if (Modifier.isAbstract(type.getModifiers()) && !type.isEnum()) continue; // its methods are those of what extends it
                if (!Modifier.isPublic(type.getModifiers()) || type.isInterface() || type.isEnum() && type.getDeclaredMethods().length == 0) continue;
                boolean isRecord = type.isRecord() && type != Placement.class; // which the library fills
                if (!isRecord && type != Placement.class) for (var made : type.getConstructors()) test(made, null, faults);
                for (Method method : type.getMethods()) {
                    if (method.getDeclaringClass() == Object.class || method.isSynthetic() || type.isEnum() || isRecord) continue;
                    if (method.getParameterCount() == 0 || method.getDeclaringClass().getName().startsWith("java.")) continue;
                    if (method.getName().equals("equals")) continue;
                    Object receiver = Modifier.isStatic(method.getModifiers()) ? null : SAMPLES.get(type);
                    if (receiver == null && !Modifier.isStatic(method.getModifiers())) untried.add(type.getSimpleName());
                    else test(method, receiver, faults);
                }
            }
        }
        if (arguments.length < 3) untried.remove("Encoder");
        if (!untried.isEmpty()) faults.add("untried: " + untried);
        if (!faults.isEmpty()) throw new AssertionError(String.join("\n", faults));
        if (refused < 150) throw new AssertionError(refused + " calls");
        System.out.println("ok");
    }
}
