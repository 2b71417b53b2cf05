package realizar;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.math.BigInteger;
import java.net.HttpURLConnection;
import java.net.InetSocketAddress;
import java.net.Proxy;
import java.net.URI;
import java.net.URISyntaxException;
import java.nio.channels.Channels;
import java.nio.channels.FileChannel;
import java.nio.channels.OverlappingFileLockException;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Timer;
import java.util.TimerTask;
import java.util.UUID;
import java.util.concurrent.Callable;
import java.util.concurrent.CancellationException;
import java.util.function.LongSupplier;
import java.util.regex.Matcher;

/**
 * Models of the Hugging Face Hub: "hf:owner/name" and "hf:owner/name:quantization" become a path in the cache that the
 * Hub's own client uses.
 *
 * <p>A model that is complete in the cache needs no connection. Otherwise files are downloaded next to the cache's
 * blobs, verified with the Hub's hashes, renamed, and linked into a snapshot once all are complete; refs/main is
 * updated last.
 */
final class Hub {
    static final String PREFIX = "hf:";
    private static final int ATTEMPTS = 5;
    /** Milliseconds before the second attempt; each later pause is twice as long. Tests shorten it. */
    static long pause = 1000;
    /** Time limit in milliseconds for the headers of a response, for a listing, and for a pause between bytes of a
     * file. Tests shorten it. */
    static int timeout = 30_000;
    private static final Timer TIMER = new Timer("realizar hub", true);
    /** True if links are created. */
    static boolean hasLinks = true;

    /** A file as the Hub lists it, with its SHA-256, or git's hash of it. */
    record Listed(String name, long size, String digest) {}

    /** A parsed model name and, given a listing, the model's files; {@code load} is the one to load; empty: the
     * folder. */
    record Choice(String repository, String encoder, String commit, String load, List<Listed> files) {}

    /** {@code listing} may be null; {@code flags}: Header.RZ_HUB_CACHED for files of the cache. */
    static Choice choose(String model, String listing, long free, int flags) {
        try (Arena arena = new Arena()) {
            Memory name = Native.bytes(arena, model, "name");
            // An empty listing would mean no listing.
            Memory json = listing == null ? Memory.NULL : Native.bytes(arena, listing + " ", "a listing");
            var chosen = (Map<?, ?>) Json.read(Native.filled(arena, 1, 4096, (out, capacity, written, e) ->
                Header.rz_hub_choose_into(name, name.size, json, json.size, free, flags, out, capacity, written, e)).text());
            var files = new ArrayList<Listed>();
            if (listing != null) {
                for (Object one : (List<?>) chosen.get("files")) {
                    var file = (Map<?, ?>) one;
                    files.add(new Listed((String) file.get("name"), (Long) file.get("size"), (String) file.get("digest")));
                }
            }
            return new Choice((String) chosen.get("repository"), (String) chosen.get("encoder"), (String) chosen.get("commit"),
                (String) chosen.get("load"), files);
        }
    }

    /** A failed connection, or a response status. */
    private static final class Cut extends Exception {
        final int status;

        Cut(IOException cause, int status) {
            super(cause);
            this.status = status;
        }
    }

    private static RealizarException failed(String sentence) {
        return new RealizarException(Header.RZ_ERR_IO, sentence, 0);
    }

    private static String sizeOf(long n) {
        return n >= 1e9 ? String.format(Locale.ROOT, "%.1f GB", n / 1e9) : String.format(Locale.ROOT, "%.1f MB", n / 1e6);
    }

    private final Map<String, String> environment;
    private final String repository, endpoint, token;
    private final Path root, folder;
    private final Model.Load.Progress progress;
    private long done, total;

    private Hub(String repository, Map<String, String> environment, Model.Load.Progress progress) {
        this.repository = repository;
        this.environment = environment;
        this.progress = progress;
        endpoint = variable("HF_ENDPOINT", "https://huggingface.co").replaceFirst("/+$", "");
        token = variable("HF_TOKEN", "").trim();
        String user = System.getProperty("user.home");
        String home = variable("HF_HOME", variable("XDG_CACHE_HOME", user + "/.cache") + "/huggingface");
        root = Paths.get(variable("HF_HUB_CACHE", home + "/hub").replaceFirst("^~(?=$|[/\\\\])", Matcher.quoteReplacement(user)));
        folder = root.resolve("models--" + repository.replace("/", "--"));
    }

    private String variable(String name, String otherwise) {
        String value = environment.get(name);
        return value == null || value.isEmpty() ? otherwise : value;
    }

    /** Returns the path of a model and downloads it if it is not in the cache. {@code free}: bytes of memory; 0:
     * unknown. */
    static Path fetch(String model, long free, Map<String, String> environment, Model.Load.Progress progress) {
        return new Hub(choose(model, null, 0, 0).repository, environment, progress).path(model, free);
    }

    private Path path(String model, long free) {
        Path found = find(model, free);
        if (found != null) return found;
        if (List.of("1", "ON", "YES", "TRUE").contains(variable("HF_HUB_OFFLINE", "").toUpperCase(Locale.ROOT))) {
            throw failed(model + " is not complete in " + root + ", and HF_HUB_OFFLINE is set: unset it to fetch the model");
        }
        String listing = listing();
        Choice chosen;
        try {
            chosen = choose(model, listing, free, 0);
        } catch (RealizarException e) {
            throw List.of(RealizarException.Status.FORMAT, RealizarException.Status.LIMIT).contains(e.status()) ? strange() : e;
        }
        for (var file : chosen.files) total += file.size;
        try {
            all(chosen.commit, chosen.files);
        } catch (IOException e) {
            // Only the text of an exception, which systems translate, names a full disk: check its free space.
            if (room() < 1 << 20) checkRoom(Long.MAX_VALUE);
            String why = e instanceof FileSystemException f && f.getReason() != null ? f.getReason() : e.getClass().getSimpleName();
            var failed = failed(root + " cannot be written (" + why + "): set HF_HOME to a folder that can");
            failed.initCause(e);
            throw failed;
        }
        return model(chosen.commit, chosen.load);
    }

    /** Returns the path of a complete model, or null. */
    private Path find(String model, long free) {
        var files = new ArrayList<Map<String, Object>>();
        String commit;
        try {
            commit = new String(Files.readAllBytes(folder.resolve("refs/main")), StandardCharsets.UTF_8).trim();
            Path top = folder.resolve("snapshots").resolve(commit);
            try (var all = Files.walk(top)) {
                for (Path path : (Iterable<Path>) all::iterator) {
                    // A link may point to nothing.
                    if (!Files.isRegularFile(path)) continue;
                    files.add(Map.of("rfilename", top.relativize(path).toString().replace('\\', '/'), "size", Files.size(path)));
                }
            }
        } catch (IOException e) {
            return null;
        }
        var chosen = choose(model, Json.write(Map.of("siblings", files)), free, Header.RZ_HUB_CACHED);
        return chosen.files.isEmpty() ? null : model(commit, chosen.load);
    }

    private Path model(String commit, String load) {
        return folder.resolve("snapshots").resolve(commit).resolve(load);
    }

    private void tell(long n) {
        done += n;
        if (Thread.interrupted()) {
            Thread.currentThread().interrupt();
            throw new CancellationException("the thread was interrupted");
        }
        if (progress != null && total > 0 && !progress.told(done, total)) throw new CancellationException("the fetch was cancelled");
    }

    private Proxy proxy(URI address) {
        String small = address.getScheme() + "_proxy", found = "";
        for (String name : List.of(small, small.toUpperCase(Locale.ROOT), "all_proxy", "ALL_PROXY")) {
            if (found.isEmpty()) found = variable(name, "");
        }
        String host = address.getHost();
        for (String entry : variable("no_proxy", variable("NO_PROXY", "")).split("[\\s,]+")) {
            String plain = entry.replaceFirst("^\\*?\\.", "");
            if (plain.equals("*") || !plain.isEmpty() && ("." + host).endsWith("." + plain)) return Proxy.NO_PROXY;
        }
        if (found.isEmpty()) return Proxy.NO_PROXY;
        URI at = URI.create(found.contains("://") ? found : "http://" + found);
        return new Proxy(Proxy.Type.HTTP, new InetSocketAddress(at.getHost(), at.getPort() < 0 ? 80 : at.getPort()));
    }

    private static boolean isOf(URI one, URI other) {
        return one.getScheme().equals(other.getScheme()) && String.valueOf(one.getAuthority()).equals(other.getAuthority());
    }

    /** The response to a GET from this byte on, after redirects. The token is sent to the Hub's own host only. */
    private HttpURLConnection get(String address, long start) throws Cut {
        try {
            var at = URI.create(address);
            for (int n = 0; n < 10 && List.of("http", "https").contains(String.valueOf(at.getScheme())); n++) {
                var connection = (HttpURLConnection) at.toURL().openConnection(proxy(at));
                connection.setInstanceFollowRedirects(false);
                connection.setConnectTimeout(timeout);
                connection.setReadTimeout(timeout);
                connection.setRequestProperty("User-Agent", "realizar");
                if (start > 0) connection.setRequestProperty("Range", "bytes=" + start + "-");
                if (!token.isEmpty() && isOf(at, URI.create(endpoint))) connection.setRequestProperty("Authorization", "Bearer " + token);
                int status = answer(connection);
                if (status == 200 || status == 206) return connection;
                String next = connection.getHeaderField("Location");
                connection.disconnect();
                if (status / 100 != 3 || next == null) throw new Cut(null, status);
                at = at.resolve(next);
            }
        } catch (IOException e) {
            throw new Cut(e, 0);
        } catch (IllegalArgumentException e) {
            // no address
        }
        throw strange();
    }

    /** Returns the status of a response, whose headers may come byte by byte, or never after an interrupt. */
    private static int answer(HttpURLConnection connection) throws IOException {
        long end = System.nanoTime() + timeout * 1_000_000L;
        var waiting = Thread.currentThread();
        var watch = new TimerTask() {
            @Override
            public void run() {
                if (System.nanoTime() >= end || waiting.isInterrupted()) connection.disconnect();
            }
        };
        TIMER.schedule(watch, 50, 50);
        try {
            return connection.getResponseCode();
        } finally {
            watch.cancel();
        }
    }

    private static int read(InputStream in, byte[] to) throws Cut {
        try {
            return in.read(to);
        } catch (IOException e) {
            throw new Cut(e, 0);
        }
    }

    private static InputStream body(HttpURLConnection connection) throws Cut {
        try {
            return connection.getInputStream();
        } catch (IOException e) {
            throw new Cut(e, 0);
        }
    }

    /** The files of the main branch with their sizes and hashes, in JSON. */
    private String listing() {
        try {
            return attempts(() -> 0, () -> {
                var connection = get(endpoint + "/api/models/" + repository + "/revision/main?blobs=true", 0);
                var body = new ByteArrayOutputStream();
                var buffer = new byte[1 << 16];
                long end = System.nanoTime() + timeout * 1_000_000L;
                try (var in = body(connection)) {
                    for (int n = read(in, buffer); n >= 0 && body.size() < 1 << 26; n = read(in, buffer)) {
                        body.write(buffer, 0, n);
                        tell(0); // which heeds interrupts
                        if (System.nanoTime() >= end) throw new Cut(new IOException("no answer came in time"), 0);
                    }
                } finally {
                    connection.disconnect();
                }
                return body.toString(StandardCharsets.UTF_8.name());
            });
        } catch (IOException e) {
            throw strange();
        }
    }

    /** Repeats {@code work} after a failed connection, as long as {@code progressed} reaches a new maximum between
     * attempts. */
    private <T> T attempts(LongSupplier progressed, Callable<T> work) throws IOException {
        long furthest = progressed.getAsLong();
        for (int n = 0;;) {
            try {
                return work.call();
            } catch (Cut e) {
                tell(0); // which heeds interrupts
                n = progressed.getAsLong() <= furthest ? n + 1 : 1;
                furthest = Math.max(furthest, progressed.getAsLong());
                if (n >= ATTEMPTS || e.status / 100 == 4 && e.status != 429) throw refused(e);
            } catch (IOException | RuntimeException e) {
                throw e;
            } catch (Exception e) {
                throw new IllegalStateException(e);
            }
            sleep(pause << (n - 1));
        }
    }

    private static void sleep(long milliseconds) {
        try {
            Thread.sleep(milliseconds);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new CancellationException("the thread was interrupted");
        }
    }

    private RealizarException refused(Cut e) {
        if (e.status != 0) {
            return failed(switch (e.status) {
                case 401 -> token.isEmpty()
                    ? repository + " does not exist, or needs a token: check the name, or set HF_TOKEN to one of " + endpoint + "/settings/tokens"
                    : endpoint + " rejects the token in HF_TOKEN for " + repository + ": create a new one at " + endpoint + "/settings/tokens";
                case 403 -> repository + " is gated: accept its terms at " + endpoint + "/" + repository
                    + ", and set HF_TOKEN";
                case 404 -> "there is no " + repository + " at " + endpoint + ": check the name";
                case 429 -> endpoint + " receives too many requests from this address: wait some minutes, or set HF_TOKEN";
                default -> endpoint + " answers with status " + e.status + ": try again later";
            });
        }
        Throwable cause = e.getCause();
        String why = cause.getMessage() == null ? cause.getClass().getSimpleName() : cause.getMessage();
        var failed = failed(endpoint + " cannot be reached (" + why + "): check the network and HTTPS_PROXY; the next try resumes the download");
        failed.initCause(cause);
        return failed;
    }

    private RealizarException strange() {
        return failed(endpoint + " does not answer like the Hugging Face Hub: log in to the network if it requires that, or check HTTPS_PROXY and HF_ENDPOINT");
    }

    private Path blob(Listed listed) {
        return folder.resolve("blobs").resolve(listed.digest);
    }

    /** A lock file of its own, because Java's file locks differ from other programs' on Unix. */
    private static Path partOf(Path blob) {
        return blob.resolveSibling(blob.getFileName() + ".java.part");
    }

    private void all(String commit, List<Listed> files) throws IOException {
        Files.createDirectories(folder.resolve("blobs"));
        long needed = total;
        for (var file : files) {
            Path blob = blob(file);
            for (Path path : List.of(blob, partOf(blob))) if (Files.exists(path)) needed -= Files.size(path);
        }
        checkRoom(needed);
        for (var file : files) one(commit, file);
        for (var file : files) link(model(commit, file.name), blob(file));
        Files.createDirectories(folder.resolve("refs"));
        beside(folder.resolve("refs/main"), path -> Files.write(path, commit.getBytes(StandardCharsets.UTF_8)));
    }

    private long room() {
        try {
            return Files.getFileStore(root).getUsableSpace();
        } catch (IOException e) {
            return Long.MAX_VALUE;
        }
    }

    private void checkRoom(long needed) {
        long free = room();
        if (needed <= free) return;
        throw failed(repository + " takes " + sizeOf(total) + ", and the disk of " + root + " has " + sizeOf(free)
            + " left: free space, or set HF_HOME to a folder on another disk");
    }

    private interface Making {
        void make(Path path) throws IOException;
    }

    /** Writes a file under another name, and renames it. */
    private static void beside(Path file, Making making) throws IOException {
        Path other = file.resolveSibling(file.getFileName() + "." + UUID.randomUUID());
        try {
            making.make(other);
            Files.move(other, file, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
        } finally {
            Files.deleteIfExists(other);
        }
    }

    /** Adds a blob to a snapshot: a relative link, or the file itself if links are not supported. */
    private static void link(Path path, Path blob) throws IOException {
        Files.createDirectories(path.getParent());
        if (Files.exists(path)) return;
        if (Files.exists(path, LinkOption.NOFOLLOW_LINKS)) Files.delete(path);
        try {
            if (!hasLinks) throw new UnsupportedOperationException();
            Files.createSymbolicLink(path, path.getParent().relativize(blob));
        } catch (FileAlreadyExistsException e) {
            // by another process
        } catch (IOException | UnsupportedOperationException e) {
            beside(path, other -> Files.copy(blob, other, StandardCopyOption.REPLACE_EXISTING));
        }
    }

    /** Downloads a file to the cache, unless it is there. */
    private void one(String commit, Listed listed) throws IOException {
        Path blob = blob(listed), part = partOf(blob), locks = root.resolve(".locks").resolve(folder.getFileName());
        Files.createDirectories(locks);
        try (var lock = FileChannel.open(locks.resolve(listed.digest + ".lock"), StandardOpenOption.CREATE, StandardOpenOption.WRITE)) {
            while (!isLocked(lock)) {
                tell(0);
                sleep(100);
            }
            if (Files.exists(blob) && Files.size(blob) == listed.size) {
                tell(listed.size);
                return;
            }
            boolean isWhole = false, isKept = true;
            try {
                isWhole = receive(commit, part, listed);
                isKept = isWhole;
            } catch (IOException e) {
                isKept = false;
                throw e;
            } finally {
                if (Files.exists(part) && (!isKept || Files.size(part) == 0 && listed.size != 0)) Files.delete(part);
            }
            if (!isWhole) {
                throw failed(listed.name + " has another hash than " + endpoint
                    + " lists, and was deleted: try again, without a proxy or mirror if that does not help");
            }
            Files.move(part, blob, StandardCopyOption.ATOMIC_MOVE);
        }
    }

    /** Tries to lock a file, until it is closed. */
    private static boolean isLocked(FileChannel file) throws IOException {
        try {
            return file.tryLock(0, 1, false) != null;
        } catch (OverlappingFileLockException e) {
            return false; // by another thread
        }
    }

    private static MessageDigest begin(Listed listed) {
        try {
            if (listed.digest.length() == 64) return MessageDigest.getInstance("SHA-256");
            var hash = MessageDigest.getInstance("SHA-1");
            hash.update(("blob " + listed.size + "\0").getBytes(StandardCharsets.US_ASCII));
            return hash;
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException(e); // every Java has both
        }
    }

    /** Resumes a file until it is complete. True if its hash is right. */
    private boolean receive(String commit, Path part, Listed listed) throws IOException {
        String escaped;
        try {
            escaped = new URI(null, null, "/" + listed.name, null).toASCIIString();
        } catch (URISyntaxException e) {
            throw strange();
        }
        String address = endpoint + "/" + repository + "/resolve/" + commit + escaped;
        if (Files.exists(part) && Files.size(part) > listed.size) Files.delete(part);
        var hash = new MessageDigest[] {begin(listed)};
        var at = new long[1];
        try (var out = FileChannel.open(part, StandardOpenOption.CREATE, StandardOpenOption.WRITE, StandardOpenOption.APPEND);
            var kept = Files.newInputStream(part)) {
            take(kept, null, hash, at, listed.size);
            attempts(() -> at[0], () -> {
                if (at[0] >= listed.size) return null;
                var connection = get(address, at[0]);
                try (var in = body(connection)) {
                    if (String.valueOf(connection.getContentType()).contains("text/html")) throw strange();
                    if (connection.getResponseCode() != 206) {
                        out.truncate(0);
                        tell(-at[0]);
                        at[0] = 0;
                        hash[0] = begin(listed);
                    }
                    take(in, Channels.newOutputStream(out), hash, at, listed.size);
                } finally {
                    connection.disconnect();
                }
                if (at[0] < listed.size) throw new Cut(new IOException("the connection was cut"), 0);
                return null;
            });
            out.force(true);
        } catch (Cut e) {
            throw refused(e);
        }
        return at[0] == listed.size && String.format("%0" + listed.digest.length() + "x", new BigInteger(1, hash[0].digest())).equals(listed.digest);
    }

    /** Counts and hashes the data, up to some bytes more than the file has, and writes it if {@code out} is not
     * null. */
    private void take(InputStream in, OutputStream out, MessageDigest[] hash, long[] at, long size) throws IOException, Cut {
        var buffer = new byte[1 << 18];
        for (int n = read(in, buffer); n >= 0; n = at[0] > size ? -1 : read(in, buffer)) {
            if (out != null) out.write(buffer, 0, n);
            hash[0].update(buffer, 0, n);
            at[0] += n;
            tell(n);
        }
    }
}
