using System;
using System.Collections.Generic;
using System.Globalization;
using System.IO;
using System.Linq;
using System.Net;
using System.Net.Http;
using System.Net.Http.Headers;
using System.Runtime.InteropServices;
using System.Runtime.Serialization.Json;
using System.Security.Cryptography;
using System.Text;
using System.Text.RegularExpressions;
using System.Threading;
using System.Threading.Tasks;
using System.Xml;
using System.Xml.Linq;

namespace Realizar
{
    /// <summary>
    /// Models of the Hugging Face Hub: "hf:owner/name" and "hf:owner/name:quantization" become a path in the cache that
    /// the Hub's own client uses.
    /// A model that is complete in the cache needs no connection. Otherwise files are downloaded next to the cache's
    /// blobs, verified with the Hub's hashes, renamed, and linked into a snapshot once all are complete; refs/main is
    /// updated last.
    /// </summary>
    internal sealed class Hub : IDisposable
    {
        internal const string Prefix = "hf:";
        private const int Attempts = 5;
        /// <summary>Time limit for the headers of a response, for a listing, and for a pause between bytes of a file.
        /// Tests shorten it.</summary>
        internal static TimeSpan Timeout = TimeSpan.FromSeconds(30);
        /// <summary>Milliseconds before the second attempt; each later pause is twice as long. Tests shorten
        /// it.</summary>
        internal static int Pause = 1000;
        /// <summary>Whether links are made.</summary>
        internal static bool HasLinks = true;
        private static readonly bool IsWindows = Path.DirectorySeparatorChar == '\\';

        /// <summary>A file as the Hub lists it, with its SHA-256, or git's hash of it.</summary>
        internal struct Listed
        {
            internal string Name, Digest;
            internal ulong Size;
        }

        /// <summary>What the library makes of a model's name and, by a listing, the files of the model, of which Load
        /// is the one to load; empty: the folder.</summary>
        internal struct Choice
        {
            internal string Repository, Encoder, Commit, Load;
            internal List<Listed> Files;
        }

        /// <param name="listing">JSON; null: none.</param>
        /// <param name="flags">RZ_HUB_CACHED for the files of the cache.</param>
        internal static unsafe Choice Choose(string model, byte[]? listing = null, ulong free = 0, uint flags = 0)
        {
            var terminated = new byte[(listing?.Length ?? 0) + 1];
            listing?.CopyTo(terminated, 0);
            var chosen = Native.Pinned(Native.Terminated(model, nameof(model)), (name, nameLen) => Native.Pinned(terminated, (json, jsonLen) =>
                Native.Sized<byte>(4096, (buffer, capacity, n, err) => Native.rz_hub_choose_into(
                    name, nameLen, listing == null ? null : json, jsonLen, free, flags, (byte*)buffer, capacity, n, err))));
            // JSON as the elements of XML needs no classes that an ahead-of-time compiler may leave out.
            var all = XElement.Load(JsonReaderWriterFactory.CreateJsonReader(chosen, XmlDictionaryReaderQuotas.Max));
            Func<XElement, string, string> text = (of, name) => (string)of.Element(name);
            return new Choice {
                Repository = text(all, "repository"), Encoder = text(all, "encoder"), Commit = text(all, "commit"), Load = text(all, "load"),
                Files = (all.Element("files")?.Elements() ?? Enumerable.Empty<XElement>()).Select(file =>
                    new Listed { Name = text(file, "name"), Size = (ulong)file.Element("size"), Digest = text(file, "digest") }).ToList(),
            };
        }

        /// <summary>A connection that has failed, or the status of an answer.</summary>
        private sealed class Cut : Exception
        {
            internal readonly int Answer;
            internal Cut(Exception? cause, int answer = 0) : base("", cause) { Answer = answer; }
        }

        private readonly string repository, endpoint, token, root, folder;
        private readonly Action<ulong, ulong>? progress;
        private readonly CancellationToken cancellationToken;
        private readonly HttpClient client = new HttpClient(new HttpClientHandler { AllowAutoRedirect = false, UseCookies = false }) { Timeout = Timeout };
        private ulong done, total;

        private Hub(string repository, Action<ulong, ulong>? progress, CancellationToken cancellationToken)
        {
            this.repository = repository;
            this.progress = progress;
            this.cancellationToken = cancellationToken;
            endpoint = Variable("HF_ENDPOINT", "https://huggingface.co").TrimEnd('/');
            token = Variable("HF_TOKEN", "").Trim();
            var user = Environment.GetFolderPath(Environment.SpecialFolder.UserProfile);
            var home = Variable("HF_HOME", Path.Combine(Variable("XDG_CACHE_HOME", Path.Combine(user, ".cache")), "huggingface"));
            root = Variable("HF_HUB_CACHE", Path.Combine(home, "hub"));
            if (root == "~" || root.StartsWith("~/", StringComparison.Ordinal)) root = user + root.Substring(1);
            folder = Path.Combine(root, "models--" + repository.Replace("/", "--"));
        }

        public void Dispose() { client.Dispose(); }

        internal static RealizarException Failed(string sentence, Exception? cause = null) => new RealizarException(Status.IO, sentence, 0, cause);

        private static string SizeOf(ulong n) =>
            n >= 1e9 ? (n / 1e9).ToString("F1", CultureInfo.InvariantCulture) + " GB" : (n / 1e6).ToString("F1", CultureInfo.InvariantCulture) + " MB";

        private static string Variable(string name, string otherwise)
        {
            var value = Environment.GetEnvironmentVariable(name);
            return string.IsNullOrEmpty(value) ? otherwise : value;
        }

        /// <summary>The path of a model, which is fetched where it is not in the cache.</summary>
        /// <param name="free">Bytes of memory; 0: unknown.</param>
        internal static string Fetch(string model, ulong free, Action<ulong, ulong>? progress, CancellationToken cancellationToken)
        {
            using (var hub = new Hub(Choose(model).Repository, progress, cancellationToken)) return hub.PathOf(model, free);
        }

        private string PathOf(string model, ulong free)
        {
            var found = Find(model, free);
            if (found != null) return found;
            if (new[] { "1", "ON", "YES", "TRUE" }.Contains(Variable("HF_HUB_OFFLINE", "").ToUpperInvariant()))
                throw Failed($"{model} is not complete in {root}, and HF_HUB_OFFLINE is set: unset it to fetch the model");
            var listing = Listing();
            Choice chosen;
            try { chosen = Choose(model, listing, free); }
            catch (RealizarException e) when (e.Status == Status.Format || e.Status == Status.Limit) { throw Strange(); }
            total = chosen.Files.Aggregate(0ul, (sum, file) => sum + file.Size);
            try { All(chosen.Commit, chosen.Files); }
            catch (Exception e) when (e is IOException || e is UnauthorizedAccessException)
            {
                // ENOSPC, and ERROR_DISK_FULL of Windows.
                if (e.HResult == 28 || e.HResult == unchecked((int)0x80070070)) CheckRoom(ulong.MaxValue);
                throw Failed($"{root} cannot be written ({e.Message}): set HF_HOME to a folder that can", e);
            }
            return ModelOf(chosen.Commit, chosen.Load);
        }

        /// <summary>The path of a model that is complete, or null.</summary>
        private string? Find(string model, ulong free)
        {
            var files = new List<string>();
            string commit;
            try
            {
                commit = File.ReadAllText(Path.Combine(folder, "refs", "main")).Trim();
                var top = Path.Combine(folder, "snapshots", commit);
                foreach (var path in Directory.EnumerateFiles(top, "*", SearchOption.AllDirectories))
                {
                    if (!File.Exists(path)) continue; // A link may point to nothing.
                    // The length of a FileInfo is that of a link.
                    using (var file = new FileStream(path, FileMode.Open, FileAccess.Read, FileShare.ReadWrite))
                        files.Add($"{{\"rfilename\": {Quoted(path.Substring(top.Length + 1).Replace('\\', '/'))}, \"size\": {file.Length}}}");
                }
            }
            catch (Exception e) when (e is IOException || e is UnauthorizedAccessException || e is ArgumentException) { return null; }
            var listing = Encoding.UTF8.GetBytes($"{{\"siblings\": [{string.Join(", ", files)}]}}");
            var chosen = Choose(model, listing, free, Native.RZ_HUB_CACHED);
            return chosen.Files.Count == 0 ? null : ModelOf(commit, chosen.Load);
        }

        /// <summary>A text in JSON.</summary>
        private static string Quoted(string text) => "\"" + Regex.Replace(text, "[^ !#-\\[\\]-~]", found => $"\\u{(int)found.Value[0]:x4}") + "\"";

        private string ModelOf(string commit, string load) => Path.Combine(folder, "snapshots", commit, load);

        private void Tell(ulong n)
        {
            done += n;
            cancellationToken.ThrowIfCancellationRequested();
            if (total > 0) progress?.Invoke(done, total);
        }

        private void Sleep(int milliseconds)
        {
            cancellationToken.WaitHandle.WaitOne(milliseconds);
            cancellationToken.ThrowIfCancellationRequested();
        }

        /// <summary>Waits for work of a connection, and makes its failures those of this class.</summary>
        private T Connected<T>(Func<CancellationToken, Task<T>> work)
        {
            using (var limit = CancellationTokenSource.CreateLinkedTokenSource(cancellationToken))
            {
                limit.CancelAfter(Timeout);
                try { return work(limit.Token).GetAwaiter().GetResult(); }
                catch (OperationCanceledException e)
                {
                    cancellationToken.ThrowIfCancellationRequested();
                    throw new Cut(new TimeoutException("no answer came in time", e));
                }
                catch (Exception e) when (e is HttpRequestException || e is IOException) { throw new Cut(e.GetBaseException()); }
            }
        }

        /// <summary>The response to a GET from this byte on, after redirects. The token is sent to the Hub's own host
        /// only.</summary>
        private HttpResponseMessage Get(string address, ulong start)
        {
            Uri? at, hub;
            if (!Uri.TryCreate(address, UriKind.Absolute, out at) || !Uri.TryCreate(endpoint, UriKind.Absolute, out hub)) throw Strange();
            for (var n = 0; n < 10 && (at.Scheme == "http" || at.Scheme == "https"); n++)
            {
                var request = new HttpRequestMessage(HttpMethod.Get, at);
                request.Headers.UserAgent.ParseAdd("realizar");
                if (start > 0) request.Headers.Range = new RangeHeaderValue((long)start, null);
                if (token != "" && at.GetLeftPart(UriPartial.Authority) == hub.GetLeftPart(UriPartial.Authority))
                    request.Headers.TryAddWithoutValidation("Authorization", "Bearer " + token);
                var response = Connected(limit => client.SendAsync(request, HttpCompletionOption.ResponseHeadersRead, limit));
                var status = (int)response.StatusCode;
                if (status == 200 || status == 206) return response;
                var next = response.Headers.Location;
                response.Dispose();
                if (status / 100 != 3 || next == null) throw new Cut(null, status);
                at = new Uri(at, next);
            }
            throw Strange();
        }

        /// <summary>Gives what a response holds to a function, until that returns false.</summary>
        private void Read(HttpResponseMessage response, Func<byte[], int, bool> take)
        {
            var buffer = new byte[1 << 18];
            using (var stream = Connected(limit => response.Content.ReadAsStreamAsync()))
                for (int n; (n = Connected(limit => stream.ReadAsync(buffer, 0, buffer.Length, limit))) > 0;)
                    if (!take(buffer, n)) return;
        }

        /// <summary>The files of the main branch with their sizes and hashes, in JSON.</summary>
        private byte[] Listing()
        {
            var body = new MemoryStream();
            Attempt(() => 0, () => {
                body.SetLength(0);
                var begun = System.Diagnostics.Stopwatch.StartNew();
                using (var response = Get($"{endpoint}/api/models/{repository}/revision/main?blobs=true", 0))
                    Read(response, (bytes, n) => {
                        body.Write(bytes, 0, n);
                        Tell(0); // which heeds a cancellation
                        if (begun.Elapsed > Timeout) throw new Cut(new TimeoutException("no answer came in time"));
                        return body.Length < 1 << 26;
                    });
            });
            return body.ToArray();
        }

        /// <summary>Repeats something after a failed connection, as long as <c>progressed</c> reaches a new maximum
        /// between attempts.</summary>
        private void Attempt(Func<ulong> progressed, Action work)
        {
            var furthest = progressed();
            for (var n = 0; ;)
            {
                try { work(); return; }
                catch (Cut e)
                {
                    n = progressed() <= furthest ? n + 1 : 1;
                    furthest = Math.Max(furthest, progressed());
                    if (n >= Attempts || e.Answer / 100 == 4 && e.Answer != 429) throw Refused(e);
                }
                Sleep(Pause << (n - 1));
            }
        }

        private RealizarException Refused(Cut e)
        {
            switch (e.Answer)
            {
                case 0:
                    return Failed($"{endpoint} cannot be reached ({e.InnerException?.Message}): check the network and HTTPS_PROXY; the next try resumes the download",
                        e.InnerException);
                case 401:
                    return Failed(token == ""
                        ? $"{repository} does not exist, or needs a token: check the name, or set HF_TOKEN to one of {endpoint}/settings/tokens"
                        : $"{endpoint} rejects the token in HF_TOKEN for {repository}: create a new one at {endpoint}/settings/tokens");
                case 403: return Failed($"{repository} is gated: accept its terms at {endpoint}/{repository}, and set HF_TOKEN");
                case 404: return Failed($"there is no {repository} at {endpoint}: check the name");
                case 429: return Failed($"{endpoint} receives too many requests from this address: wait some minutes, or set HF_TOKEN");
                default: return Failed($"{endpoint} answers with status {e.Answer}: try again later");
            }
        }

        private RealizarException Strange() =>
            Failed($"{endpoint} does not answer like the Hugging Face Hub: log in to the network if it requires that, or check HTTPS_PROXY and HF_ENDPOINT");

        private string Blob(Listed listed) => Path.Combine(folder, "blobs", listed.Digest);

        /// <summary>Another name than other programs take, because not every runtime has their locks.</summary>
        private static string PartOf(string blob) => blob + ".net.part";

        private void All(string commit, IReadOnlyList<Listed> files)
        {
            Directory.CreateDirectory(Path.Combine(folder, "blobs"));
            var there = files.SelectMany(file => new[] { Blob(file), PartOf(Blob(file)) }).Distinct()
                .Where(File.Exists).Aggregate(0ul, (sum, path) => sum + (ulong)new FileInfo(path).Length);
            CheckRoom(total - Math.Min(total, there));
            foreach (var file in files) One(commit, file);
            foreach (var file in files) Link(ModelOf(commit, file.Name), Path.Combine("blobs", file.Digest), 2 + file.Name.Count(c => c == '/'));
            Directory.CreateDirectory(Path.Combine(folder, "refs"));
            Beside(Path.Combine(folder, "refs", "main"), path => File.WriteAllText(path, commit));
        }

        private void CheckRoom(ulong needed)
        {
            var free = (ulong)new DriveInfo(Path.GetFullPath(root)).AvailableFreeSpace;
            if (needed > free)
                throw Failed($"{repository} takes {SizeOf(total)}, and the disk of {root} has {SizeOf(free)} left: free space, or set HF_HOME to a folder on another disk");
        }

        /// <summary>Makes a file under another name, and renames it.</summary>
        private static void Beside(string file, Action<string> make)
        {
            var other = file + "." + Guid.NewGuid().ToString("N");
            try
            {
                make(other);
                Rename(other, file);
            }
            finally { File.Delete(other); }
        }

        private static void Rename(string from, string to)
        {
            if (!File.Exists(to))
            {
                try { File.Move(from, to); return; }
                catch (IOException) when (File.Exists(to)) { } // by another process
            }
            File.Replace(from, to, null);
        }

        /// <summary>Puts a blob, by its path in the repository's folder, into a snapshot that lies so many folders
        /// below that: a relative link, or the file itself where links cannot be made.</summary>
        private void Link(string path, string blob, int depth)
        {
            Directory.CreateDirectory(Path.GetDirectoryName(path));
            if (File.Exists(path)) return;
            File.Delete(path); // a link to nothing
            var target = string.Concat(Enumerable.Repeat(".." + Path.DirectorySeparatorChar, depth)) + blob;
            if (!HasLinks || !IsLinked(target, path)) Beside(path, other => File.Copy(Path.Combine(folder, blob), other));
        }

        private static bool IsLinked(string target, string path)
        {
            try
            {
                // 2 is SYMBOLIC_LINK_FLAG_ALLOW_UNPRIVILEGED_CREATE.
                if (IsWindows) return CreateSymbolicLinkW(path.Replace('/', '\\'), target, 2) != 0;
                return symlink(Native.Terminated(target, nameof(target)), Native.Terminated(path, nameof(path))) == 0 || File.Exists(path);
            }
            catch (Exception e) when (e is DllNotFoundException || e is EntryPointNotFoundException || e is NotSupportedException) { return false; }
        }

        [DllImport("libc")]
        private static extern int symlink(byte[] target, byte[] path);

        [DllImport("kernel32", CharSet = CharSet.Unicode)]
        private static extern byte CreateSymbolicLinkW(string path, string target, uint flags);

        /// <summary>Brings a file into the cache, unless it is there.</summary>
        private void One(string commit, Listed listed)
        {
            string blob = Blob(listed), part = PartOf(blob), locks = Path.Combine(root, ".locks", Path.GetFileName(folder));
            Directory.CreateDirectory(locks);
            using (Locked(Path.Combine(locks, listed.Digest + ".lock")))
            {
                if (File.Exists(blob) && (ulong)new FileInfo(blob).Length == listed.Size)
                {
                    Tell(listed.Size);
                    return;
                }
                bool isWhole = false, isKept = true;
                try { isKept = isWhole = Receive(commit, part, listed); }
                catch (IOException) { isKept = false; throw; }
                finally
                {
                    if (File.Exists(part) && (!isKept || new FileInfo(part).Length == 0 && listed.Size != 0)) File.Delete(part);
                }
                if (!isWhole)
                    throw Failed($"{listed.Name} has another hash than {endpoint} lists, and was deleted: try again, without a proxy or mirror if that does not help");
                Rename(part, blob);
            }
        }

        /// <summary>Waits for the lock that other programs take too, which ends when the file is closed.</summary>
        private FileStream Locked(string path)
        {
            // A file that is not shared is locked on Unix as by flock; on Windows others could not even open it.
            for (; ; Sleep(100))
            {
                FileStream? file = null;
                try
                {
                    file = new FileStream(path, FileMode.OpenOrCreate, FileAccess.ReadWrite, IsWindows ? FileShare.ReadWrite : FileShare.None);
                    if (IsWindows) file.Lock(0, 1);
                    return file;
                }
                catch (IOException e) when (File.Exists(path) && !(e is PathTooLongException)) { file?.Dispose(); }
                Tell(0);
            }
        }

        private static IncrementalHash Begun(Listed listed)
        {
            if (listed.Digest.Length == 64) return IncrementalHash.CreateHash(HashAlgorithmName.SHA256);
            var hash = IncrementalHash.CreateHash(HashAlgorithmName.SHA1);
            hash.AppendData(Encoding.ASCII.GetBytes($"blob {listed.Size}\0"));
            return hash;
        }

        /// <summary>Continues a file up to its size. True if the file has the right hash.</summary>
        private bool Receive(string commit, string part, Listed listed)
        {
            var address = $"{endpoint}/{repository}/resolve/{commit}/{string.Join("/", listed.Name.Split('/').Select(Uri.EscapeDataString))}";
            if (File.Exists(part) && (ulong)new FileInfo(part).Length > listed.Size) File.Delete(part);
            using (var arriving = new Arriving(this, part, listed))
            {
                Attempt(() => arriving.At, () => {
                    if (arriving.At >= listed.Size) return;
                    using (var response = Get(address, arriving.At))
                    {
                        if (response.Content.Headers.ContentType?.MediaType == "text/html") throw Strange();
                        if (response.StatusCode != HttpStatusCode.PartialContent) arriving.Restart();
                        Read(response, arriving.Take);
                    }
                    if (arriving.At < listed.Size) throw new Cut(new EndOfStreamException("the connection was cut"));
                });
                return arriving.IsWhole();
            }
        }

        /// <summary>A file that is written and hashed as it comes, behind what was kept of it.</summary>
        private sealed class Arriving : IDisposable
        {
            private readonly Hub hub;
            private readonly Listed listed;
            private readonly FileStream file;
            private IncrementalHash hash;
            internal ulong At { get; private set; }

            internal Arriving(Hub hub, string part, Listed listed)
            {
                this.hub = hub;
                this.listed = listed;
                hash = Begun(listed);
                file = new FileStream(part, FileMode.OpenOrCreate, FileAccess.ReadWrite, FileShare.Read);
                var buffer = new byte[1 << 18];
                for (int n; (n = file.Read(buffer, 0, buffer.Length)) > 0;) Count(buffer, n);
            }

            private void Count(byte[] bytes, int n)
            {
                hash.AppendData(bytes, 0, n);
                At += (ulong)n;
                hub.Tell((ulong)n);
            }

            internal void Restart()
            {
                file.SetLength(0);
                hub.done -= At;
                At = 0;
                hash.Dispose();
                hash = Begun(listed);
            }

            /// <summary>Takes bytes, up to some more than the file has.</summary>
            internal bool Take(byte[] bytes, int n)
            {
                file.Write(bytes, 0, n);
                Count(bytes, n);
                return At <= listed.Size;
            }

            internal bool IsWhole()
            {
                file.Flush(true);
                return At == listed.Size && string.Concat(hash.GetHashAndReset().Select(b => b.ToString("x2"))) == listed.Digest;
            }

            public void Dispose()
            {
                file.Dispose();
                hash.Dispose();
            }
        }
    }
}
