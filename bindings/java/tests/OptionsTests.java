package realizar;

import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;

/** Tests that every option counts that changes how tokens are chosen. Prints "ok", or throws. */
class OptionsTests {
    private static final Map<Class<?>, Object> VALUES = Map.of(double.class, 0.5, int.class, 3, long.class, 3L, boolean.class, true,
        Map.class, Map.of(3, 1f), Filter[].class, new Filter[] {Filter.TOP_P, Filter.TEMPERATURE}, int[][].class, new int[][] {{3}});

    /** The numbers of a sampler with these options, without the addresses of lists. */
    private static List<Object> numbers(Options options) {
        try (Arena arena = new Arena()) {
            var params = Sampler.params(arena, options);
            var all = new ArrayList<Object>();
            for (var field : Header.rz_sampler_params.fields) {
                if (!List.of("biases", "dry_breakers", "banned_sequences", "order").contains(field.name())) {
                    all.add(field.name() + java.util.Arrays.toString(params.part(field.offset(), field.size()).bytes()));
                }
            }
            return all;
        }
    }

    public static void main(String[] arguments) throws Exception {
        var usual = numbers(new Options());
        var sampling = new TreeSet<String>();
        for (Method method : Options.class.getMethods()) {
            if (!SamplingOptions.class.isAssignableFrom(method.getReturnType()) || method.isBridge()) continue;
            Object[] values = new Object[method.getParameterCount()];
            boolean isKnown = true;
            for (int i = 0; i < values.length; i++) isKnown &= (values[i] = VALUES.get(method.getParameterTypes()[i])) != null;
            if (!isKnown) continue; // grammars, stop strings, models, reasoning: of no sampler
            var options = (Options) method.invoke(new Options(), values);
            boolean samples = !numbers(options).equals(usual);
            if (samples != options.isSampled) throw new AssertionError(method.getName() + " counts: " + options.isSampled);
            if (samples) sampling.add(method.getName());
        }
        if (sampling.size() != 27) throw new AssertionError(sampling);
        System.out.println("ok");
    }
}
