package realizar;

import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.regex.Pattern;
import java.util.stream.Collectors;

/** Tests of models of the Hub: tests/data/hub.json (argument 1) on the server of tests/hub (argument 2). */
class HubTests {
    private static String address;
    private static Path temporary;
    private static int n;

    private static void same(Object found, Object expected, Object what) {
        if (!Objects.equals(found, expected)) throw new AssertionError(what + ": " + found + ", not " + expected);
    }

    @SuppressWarnings("unchecked")
    private static Map<String, Object> map(Object value) {
        return (Map<String, Object>) value;
    }

    @SuppressWarnings("unchecked")
    private static List<Map<String, Object>> maps(Object value) {
        return (List<Map<String, Object>>) value;
    }

    private static String endpoint(String fault) {
        return fault.equals("down") ? "http://127.0.0.1:1" : address + "/" + fault;
    }

    private static Map<String, String> environment(String fault) {
        return new HashMap<>(Map.of("HF_ENDPOINT", endpoint(fault), "HF_HOME", temporary.resolve(String.valueOf(n++)).toString()));
    }

    private static Path cache(Map<String, String> environment) {
        return Path.of(environment.get("HF_HOME"), "hub");
    }

    /** Requests since the last call: host, token, range. */
    private static List<List<Object>> requests() throws IOException, InterruptedException {
        var answer = HttpClient.newHttpClient().send(HttpRequest.newBuilder(URI.create(address + "/log")).build(), HttpResponse.BodyHandlers.ofString());
        return ((List<?>) Json.read(answer.body())).stream().map(one -> (List<?>) one)
            .map(one -> Arrays.<Object>asList(one.get(0), one.get(2), one.get(3))).toList();
    }

    /** Files and links below a folder, without locks, with targets and sizes. */
    private static Map<String, Object> tree(Path top) throws IOException {
        var found = new TreeMap<String, Object>();
        if (!Files.exists(top)) return found;
        try (var all = Files.walk(top)) {
            for (Path path : (Iterable<Path>) all::iterator) {
                if (Files.isDirectory(path) || path.toString().contains(".locks")) continue;
                found.put(top.relativize(path).toString(), Files.isSymbolicLink(path) ? Files.readSymbolicLink(path).toString() : Files.size(path));
            }
        }
        return found;
    }

    private static RealizarException fails(String model, String sentence, Map<String, String> environment) {
        String wanted = sentence.replace("{endpoint}", environment.getOrDefault("HF_ENDPOINT", "")).replace("{cache}", cache(environment).toString());
        var form = Pattern.compile(Arrays.stream(wanted.split(Pattern.quote("{*}"), -1)).map(Pattern::quote).collect(Collectors.joining(".+")));
        try {
            Hub.fetch(model, 1L << 34, environment, null);
        } catch (RealizarException e) {
            if (!form.matcher(e.getMessage()).matches()) throw new AssertionError(e.getMessage() + ", not " + wanted, e);
            return e;
        }
        throw new AssertionError("no error: " + sentence);
    }

    private static void fault(Map<String, Object> fault, Map<String, String> filled, Map<String, Object> before) throws Exception {
        String name = (String) fault.get("fault"), model = (String) fault.get("model"), token = (String) fault.get("token");
        requests();
        var environment = fault.containsKey("error") ? new HashMap<>(filled) : environment(name);
        environment.put("HF_ENDPOINT", endpoint(name));
        if (token != null) environment.put("HF_TOKEN", token);
        if (fault.containsKey("offline")) environment.put("HF_HUB_OFFLINE", "1");
        if (!fault.containsKey("error")) {
            succeeds(fault, environment);
            return;
        }
        int usual = Hub.timeout;
        if (fault.get("patience") instanceof Number seconds) Hub.timeout = (int) (1000 * seconds.doubleValue());
        fails(model, (String) fault.get("error"), environment);
        Hub.timeout = usual;
        var after = tree(cache(filled));
        for (String file : List.copyOf(after.keySet())) {
            if (!file.endsWith(".part")) continue;
            same(after.remove(file), fault.get("kept"), fault);
            Files.delete(cache(filled).resolve(file));
        }
        same(after, before, fault);
    }

    /** An interrupt ends a fetch whose answer comes a byte at a time. */
    private static void interrupted(String name) throws Exception {
        var environment = environment(name);
        var met = new CompletableFuture<Throwable>();
        var thread = new Thread(() -> {
            try {
                Hub.fetch("hf:tests/many:Q4_K_M", 0, environment, null);
                met.complete(null);
            } catch (Throwable e) {
                met.complete(e);
            }
        });
        requests();
        thread.start();
        while (requests().isEmpty()) Thread.sleep(10);
        thread.interrupt();
        thread.join();
        if (!(met.get() instanceof CancellationException)) throw new AssertionError(name, met.get());
    }

    private static void succeeds(Map<String, Object> fault, Map<String, String> environment) throws Exception {
        String model = (String) fault.get("model"), end = (String) fault.get("path"), token = (String) fault.get("token");
        var last = new long[2];
        Path path = Hub.fetch(model, 0, environment, (done, total) -> {
            last[0] = done;
            last[1] = total;
            return true;
        });
        Path snapshot = cache(environment).resolve("models--" + model.replaceFirst("hf:(\\w+)/(\\w+).*", "$1--$2")).resolve("snapshots").resolve("5".repeat(40));
        same(path, end.isEmpty() ? snapshot : snapshot.resolve(end), fault);
        var files = (List<?>) fault.getOrDefault("files", List.of(end));
        long size = 0;
        for (Object file : files) size += Files.size(snapshot.resolve((String) file));
        same(List.of(last[0], last[1], tree(snapshot).size()), List.of(size, size, files.size()), fault);
        if (fault.containsKey("tree")) same(tree(cache(environment)), new TreeMap<>(map(fault.get("tree"))), fault);
        var told = requests();
        same(told, fault.getOrDefault("requests", told), fault);
        for (var one : told) same(one.get(1), one.get(0).equals("hub") && token != null ? "Bearer " + token : null, fault);
        environment.put("HF_ENDPOINT", endpoint("down"));
        same(Hub.fetch(model, 0, environment, null), path, fault);
    }

    private static void others(Map<String, Object> facts) throws Exception {
        String model = "hf:tests/many:Q4_K_M";
        var environment = environment("gone");
        fails(model, "{*}the next try resumes the download", environment);
        environment.put("HF_ENDPOINT", endpoint("ok"));
        requests();
        // Two at a time fetch once, and go on with what was kept.
        var both = List.of(CompletableFuture.supplyAsync(() -> Hub.fetch(model, 0, environment, null)),
            CompletableFuture.supplyAsync(() -> Hub.fetch(model, 0, environment, null)));
        same(both.get(0).get(), both.get(1).get(), model);
        same(requests().stream().filter(one -> one.get(0).equals("files")).toList(), List.of(Arrays.asList("files", null, "bytes=1500-")), model);

        Hub.hasLinks = false;
        var copies = environment("ok");
        Path path = Hub.fetch(model, 0, copies, null);
        Hub.hasLinks = true;
        same(Files.isSymbolicLink(path), false, path);
        copies.put("HF_ENDPOINT", endpoint("down"));
        same(Hub.fetch("hf:tests/many", 0, copies, null), path, path);

        var file = environment("ok");
        Files.writeString(Path.of(file.get("HF_HOME")), "a file");
        fails(model, (String) facts.get("unwritable"), file);

        var proxied = environment("ok");
        proxied.putAll(Map.of("HF_ENDPOINT", "http://hub.invalid/ok", "http_proxy", address));
        same(Files.size(Hub.fetch(model, 0, proxied, null)), 3000L, "by a proxy");
        try {
            Hub.fetch(model, 0, environment("ok"), (done, total) -> false);
            throw new AssertionError("not cancelled");
        } catch (CancellationException e) {
            same(e.getMessage(), "the fetch was cancelled", e);
        }
        try (var story = Model.load(Hub.fetch("hf:tests/story", 0, environment("ok"), null))) {
            same(story.info().architecture(), "llama", "story");
        }
    }

    public static void main(String[] arguments) throws Exception {
        var facts = map(Json.read(Files.readString(Path.of(arguments[0]))));
        address = arguments[1];
        temporary = Files.createTempDirectory("hub");
        Hub.pause = 0;
        for (var one : maps(facts.get("names"))) {
            var e = fails((String) one.get("model"), (String) one.get("error"), Map.of("HF_HOME", temporary.toString()));
            same(e.status(), RealizarException.Status.INVALID_ARGUMENT, one);
        }
        for (var one : maps(facts.get("choices"))) {
            var files = map(one.get("files")).entrySet().stream()
                .map(file -> Map.of("rfilename", file.getKey(), "size", file.getValue(), "blobId", "a".repeat(40))).toList();
            String model = one.containsKey("quantization") ? "hf:o/n:" + one.get("quantization") : "hf:o/n";
            Object found;
            try {
                found = Hub.choose(model, Json.write(Map.of("sha", "5".repeat(40), "siblings", files)), (Long) one.get("free"), 0)
                    .files().stream().map(Hub.Listed::name).toList();
            } catch (RealizarException e) {
                found = e.getMessage();
            }
            same(found, one.getOrDefault("chosen", one.get("error")), one);
        }
        for (var one : maps(facts.get("encoders"))) same(Hub.choose((String) one.get("model"), null, 0, 0).encoder(), one.get("encoder"), one);
        var filled = environment("ok");
        Hub.fetch("hf:tests/many:Q8_0", 0, filled, null);
        var before = tree(cache(filled));
        for (var fault : maps(facts.get("faults"))) fault(fault, filled, before);
        filled.put("HF_ENDPOINT", endpoint("down"));
        same(Hub.fetch("hf:tests/many", 0, filled, null).getFileName().toString(), "many-Q8_0.gguf", "kept");
        for (String name : List.of("drip", "dripping-head")) interrupted(name);
        others(facts);
        System.out.println("ok");
    }
}
