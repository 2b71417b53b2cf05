package realizar;

import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Scanner;

/** The command-line program of the jar: a chat, or a report of this machine's devices, memory and speed. */
final class Main {
    private static final String USAGE = String.join(System.lineSeparator(),
        "usage: java -jar realizar.jar chat MODEL [SYSTEM]    one line a turn",
        "       java -jar realizar.jar doctor [MODEL]         what this machine has for models, and what MODEL makes of it",
        "MODEL is a file, a folder, or hf:owner/name or hf:owner/name:quantization of the Hugging Face Hub.");

    private static final String BAR = "========================";

    private Main() {}

    public static void main(String[] arguments) {
        String command = arguments.length == 0 ? "" : arguments[0], operand = arguments.length < 2 ? null : arguments[1];
        try {
            if (command.equals("chat") && operand != null && arguments.length <= 3) {
                chat(operand, arguments.length == 3 ? arguments[2] : null);
            } else if (command.equals("doctor") && arguments.length <= 2) {
                doctor(operand);
            } else {
                System.err.println(USAGE);
                System.exit(2);
            }
        } catch (RealizarException e) {
            System.err.println("RZ_ERR_" + e.status() + ": " + e.getMessage());
            System.exit(1);
        }
    }

    private static void chat(String name, String system) {
        var transcript = system == null ? new Transcript() : new Transcript().system(system);
        var setup = new Conversation.Setup().overflow(Conversation.Overflow.FORGET);
        try (var model = Model.load(fetched(name)); var chat = new Conversation(model, transcript, setup)) {
            var lines = new Scanner(System.in);
            for (System.out.print("> "); lines.hasNextLine(); System.out.print("\n> ")) {
                chat.say(lines.nextLine(), piece -> {
                    System.out.print(piece);
                    System.out.flush();
                });
            }
        }
    }

    private static void print(String form, Object... values) {
        System.out.println(String.format(Locale.ROOT, form, values));
    }

    private static void doctor(String name) {
        print("realizar %s, Java %s, %s %s", RealizarRuntime.version(), System.getProperty("java.version"), System.getProperty("os.name"),
            System.getProperty("os.arch"));
        for (var device : Device.all()) {
            var about = new ArrayList<>(List.of(device.name()));
            if (!device.isa().isEmpty()) about.add(device.isa());
            if (device.memoryTotal() > 0) {
                about.add(String.format(Locale.ROOT, "%.1f of %.1f GB of memory free", device.memoryFree() / 1e9, device.memoryTotal() / 1e9));
            }
            if (!device.available()) about.add("unavailable: " + device.unavailable());
            print("device %d: %s", device.index(), String.join(", ", about));
        }
        if (name == null) return;
        Path path = fetched(name);
        var plan = Model.plan(path, new Model.Load(), 1, 0, CacheType.F16, CacheType.F16);
        print("takes %.1f MB of memory, %.1f MB of GPUs, with one conversation", plan.totalHost() / 1e6, plan.totalDevice() / 1e6);
        long begin = System.nanoTime();
        try (var model = Model.load(path); var session = model.newSession()) {
            var info = model.info();
            print("loaded in %d ms: %s on device %d, %s chat template", (System.nanoTime() - begin) / 1_000_000, info.architecture(), info.device(),
                info.hasChatTemplate() ? "a" : "no");
            try (var text = session.generate("Once upon a time", new Options().maxTokens(32))) {
                while (text.hasNext()) text.next();
            }
            var decode = model.metrics().get("decode");
            if (decode.count() > 0) print("%.1f tokens per second", decode.count() * 1e9 / decode.nanoseconds());
        }
    }

    /** The path of a model, with a bar of what is fetched on a terminal. */
    private static Path fetched(String name) {
        if (!name.startsWith(Hub.PREFIX)) return Paths.get(name);
        long[] first = {-1}, shown = {0};
        long begin = System.nanoTime();
        Path path = Model.fetch(name, (done, total) -> {
            long now = System.nanoTime();
            if (first[0] < 0) first[0] = done;
            if (first[0] == total || System.console() == null || now - shown[0] < 100_000_000 && done < total) return true;
            shown[0] = now;
            System.err.print(String.format(Locale.ROOT, "\r%s  [%-24s]  %.1f of %.1f MB, %.1f MB/s\u001b[K", name, BAR.substring(0, (int) (24 * done / total)),
                done / 1e6, total / 1e6, (done - first[0]) * 1e3 / Math.max(now - begin, 1)));
            return true;
        });
        if (shown[0] != 0) System.err.println();
        return path;
    }
}
