// Tests of models of the Hub: tests/data/hub.json (argument 1) on the server of tests/hub (argument 2), and a folder on
// a disk of 1.2 MB that may be filled (argument 3, optional). With "fetch" and a model as arguments the path of that.
// Prints "ok", or what failed.
using System;
using System.Collections.Generic;
using System.IO;
using System.Linq;
using System.Net.Http;
using System.Runtime.InteropServices;
using System.Text;
using System.Text.Json;
using System.Text.RegularExpressions;
using System.Threading;
using System.Threading.Tasks;
using Realizar;

internal static class HubTests
{
    private const string Many = "hf:tests/many:Q4_K_M";
    private static readonly string Temporary = Path.Combine(Path.GetTempPath(), Guid.NewGuid().ToString("N"));
    private static readonly HttpClient Client = new HttpClient();
    private static string address = "";
    private static int caches;

    private static void Same<T>(T found, T expected, object what)
    {
        if (!Equals(found, expected)) throw new Exception($"FAILED: {what}: {found}, not {expected}");
    }

    private static string Text(JsonElement of, string name)
    {
        JsonElement found;
        return of.TryGetProperty(name, out found) ? found.ToString() : "";
    }

    /// <summary>Texts of an array, a line each, or nothing.</summary>
    private static string Lines(JsonElement of, string name, string otherwise = "")
    {
        JsonElement found;
        return of.TryGetProperty(name, out found) ? string.Join("\n", found.EnumerateArray().Select(one => one.ToString())) : otherwise;
    }

    private static void Set(string name, string? value) { Environment.SetEnvironmentVariable(name, value); }

    private static string Use(string fault)
    {
        var endpoint = fault == "down" ? "http://127.0.0.1:1" : address + "/" + fault;
        Set("HF_ENDPOINT", endpoint);
        return endpoint;
    }

    /// <summary>Has an empty cache, and gives its folder.</summary>
    private static string Fresh(string fault)
    {
        foreach (var name in new[] { "HF_HUB_CACHE", "HF_TOKEN", "HF_HUB_OFFLINE" }) Set(name, null);
        Use(fault);
        var home = Path.Combine(Temporary, (caches++).ToString());
        Set("HF_HOME", home);
        return Path.Combine(home, "hub");
    }

    /// <summary>Requests since the last call, a line each: host, token, range.</summary>
    private static string Requests()
    {
        var log = JsonDocument.Parse(Client.GetStringAsync(address + "/log").Result).RootElement.EnumerateArray();
        return string.Join("\n", log.Select(one => $"[{Quoted(one[0])}, {Quoted(one[2])}, {Quoted(one[3])}]"));
    }

    private static string Quoted(JsonElement value) => value.ValueKind == JsonValueKind.Null ? "null" : $"\"{value}\"";

    [DllImport("libc")]
    private static extern IntPtr readlink(byte[] path, byte[] to, IntPtr size);

    /// <summary>Where a link points to, or null.</summary>
    private static string? Target(string path)
    {
        var to = new byte[4096];
        var n = (int)readlink(Encoding.UTF8.GetBytes(path + "\0"), to, (IntPtr)to.Length);
        return n < 0 ? null : Encoding.UTF8.GetString(to, 0, n);
    }

    /// <summary>Files and links below a folder, without locks, a line each, with sizes and targets.</summary>
    private static string Tree(string top) => !Directory.Exists(top) ? "" : string.Join("\n", Directory.EnumerateFiles(top, "*", SearchOption.AllDirectories)
        .Where(path => !path.Contains(".locks")).Select(path => path.Substring(top.Length + 1) + ": " + (Target(path) ?? new FileInfo(path).Length.ToString()))
        .OrderBy(line => line, StringComparer.Ordinal));

    private static RealizarException Fails(string model, string sentence, string endpoint, string cache)
    {
        try { Hub.Fetch(model, 1ul << 34, null, default(CancellationToken)); }
        catch (RealizarException e)
        {
            var form = Regex.Escape(sentence.Replace("{endpoint}", endpoint).Replace("{cache}", cache)).Replace(Regex.Escape("{*}"), ".+");
            if (!Regex.IsMatch(e.Message, "^" + form + "$")) throw new Exception($"FAILED: {e.Message}, not {sentence}", e);
            return e;
        }
        throw new Exception("FAILED: no error: " + sentence);
    }

    private static string Fetched(string model, Action<ulong, ulong>? progress = null) => Hub.Fetch(model, 0, progress, default(CancellationToken));

    private static void Choices(JsonElement facts)
    {
        foreach (var one in facts.GetProperty("encoders").EnumerateArray())
            Same(Hub.Choose(Text(one, "model")).Encoder, Text(one, "encoder"), one);
        foreach (var one in facts.GetProperty("choices").EnumerateArray())
        {
            var files = one.GetProperty("files").EnumerateObject()
                .Select(file => $"{{\"rfilename\": {JsonSerializer.Serialize(file.Name)}, \"size\": {file.Value}, \"blobId\": \"{new string('a', 40)}\"}}");
            var listing = Encoding.UTF8.GetBytes($"{{\"sha\": \"{new string('5', 40)}\", \"siblings\": [{string.Join(", ", files)}]}}");
            var model = string.Join(":", new[] { "hf:o/n", Text(one, "quantization") }.Where(part => part != ""));
            string found;
            try { found = string.Join("\n", Hub.Choose(model, listing, one.GetProperty("free").GetUInt64()).Files.Select(file => file.Name)); }
            catch (RealizarException e) { found = e.Message; }
            Same(found, Lines(one, "chosen", Text(one, "error")), one);
        }
    }

    private static void Fault(JsonElement fault, string filled, string before)
    {
        string name = Text(fault, "fault"), model = Text(fault, "model"), error = Text(fault, "error");
        Requests();
        var cache = error == "" ? Fresh(name) : filled;
        var endpoint = Use(name);
        Set("HF_HOME", Path.GetDirectoryName(cache));
        Set("HF_TOKEN", Text(fault, "token"));
        Set("HF_HUB_OFFLINE", Text(fault, "offline") == "" ? null : "1");
        if (error == "") { Succeeds(fault, cache, model); return; }
        var usual = Hub.Timeout;
        JsonElement patience;
        if (fault.TryGetProperty("patience", out patience)) Hub.Timeout = TimeSpan.FromSeconds(patience.GetDouble());
        Fails(model, error, endpoint, cache);
        Hub.Timeout = usual;
        var parts = Directory.EnumerateFiles(cache, "*.part", SearchOption.AllDirectories).ToList();
        Same(string.Join("\n", parts.Select(part => new FileInfo(part).Length)), Text(fault, "kept"), fault);
        parts.ForEach(File.Delete);
        Same(Tree(cache), before, fault);
    }

    private static void Succeeds(JsonElement fault, string cache, string model)
    {
        ulong[]? last = null;
        var path = Fetched(model, (done, total) => last = new[] { done, total });
        var names = model.Split(':')[1].Split('/');
        var snapshot = Path.Combine(cache, $"models--{names[0]}--{names[1]}", "snapshots", new string('5', 40));
        Same(path, Path.Combine(snapshot, Text(fault, "path")).TrimEnd('/'), fault);
        var files = Lines(fault, "files", Text(fault, "path")).Split('\n');
        var size = files.Sum(file => File.ReadAllBytes(Path.Combine(snapshot, file)).LongLength);
        Same($"{last?[0]} {last?[1]} {Tree(snapshot).Split('\n').Length}", $"{size} {size} {files.Length}", fault);
        JsonElement tree;
        if (fault.TryGetProperty("tree", out tree))
            Same(Tree(cache), string.Join("\n", tree.EnumerateObject().Select(file => $"{file.Name}: {file.Value}")), fault);
        var told = Requests();
        JsonElement expected;
        if (fault.TryGetProperty("requests", out expected))
            Same(told, string.Join("\n", expected.EnumerateArray().Select(one => $"[{Quoted(one[0])}, {Quoted(one[1])}, {Quoted(one[2])}]")), fault);
        var token = Text(fault, "token") == "" ? "null" : "\"Bearer secret\"";
        foreach (var line in told.Split('\n'))
            Same(line.Split(new[] { ", " }, StringSplitOptions.None)[1], line.StartsWith("[\"hub\"") ? token : "null", line);
        Use("down");
        Same(Fetched(model), path, fault);
    }

    private static void Others(JsonElement facts)
    {
        var cache = Fresh("gone");
        Fails(Many, "{*}the next try resumes the download", "", "");
        Use("ok");
        Requests();
        // Two at a time fetch once, and go on with what was kept.
        var both = Enumerable.Range(0, 2).Select(_ => Task.Run(() => Fetched(Many))).ToArray();
        Same(both[0].Result, both[1].Result, Many);
        Same(string.Join("\n", Requests().Split('\n').Where(line => line.Contains("files"))), "[\"files\", null, \"bytes=1500-\"]", Many);

        // A lock of another program is waited for.
        cache = Fresh("ok");
        Fetched(Many);
        var locked = Directory.EnumerateFiles(cache, "*.lock", SearchOption.AllDirectories).Single();
        Directory.Delete(Path.Combine(cache, "models--tests--many"), true);
        using (var file = new FileStream(locked, FileMode.Open, FileAccess.ReadWrite, FileShare.None))
        using (var cancel = new CancellationTokenSource())
        {
            var waiting = Task.Run(() => Hub.Fetch(Many, 0, (done, total) => { Same(done, 0ul, locked); cancel.Cancel(); }, cancel.Token));
            Same(waiting.ContinueWith(task => task.IsCanceled || task.Exception?.GetBaseException() is OperationCanceledException).Result, true, locked);
        }

        Hub.HasLinks = false;
        Fresh("ok");
        var path = Fetched(Many);
        Hub.HasLinks = true;
        Same(Target(path), (string?)null, path);
        Use("down");
        Same(Fetched("hf:tests/many"), path, path);

        cache = Fresh("ok");
        File.WriteAllText(Path.GetDirectoryName(cache), "a file");
        Fails(Many, Text(facts, "unwritable"), "", cache);

        Fresh("ok");
        try { Fetched(Many, (done, total) => { throw new InvalidOperationException("enough"); }); }
        catch (InvalidOperationException e) { path = e.Message; }
        Same(path, "enough", "an exception of the progress");
        using (var story = Model.Load("hf:tests/story")) Same(story.Info.Architecture, "llama", "story");
    }

    /// <summary>A disk that another program fills in the midst of a fetch.</summary>
    private static void Full(string disk)
    {
        Fresh("ok");
        Set("HF_HOME", disk);
        var filler = Path.Combine(disk, "filler");
        var message = "";
        try
        {
            Fetched("hf:tests/story", (done, total) => {
                if (File.Exists(filler)) return;
                try { File.WriteAllBytes(filler, new byte[2000000]); }
                catch (IOException) { }
            });
        }
        catch (RealizarException e) { message = e.Message; }
        var form = $"^tests/story takes 1.1 MB, and the disk of {disk}/hub has 0.[0-9] MB left: free space, or set HF_HOME to a folder on another disk$";
        Same(Regex.IsMatch(message, form), true, message);
        Same(Tree(Path.Combine(disk, "hub")), "", disk);
    }

    private static void Main(string[] arguments)
    {
        if (arguments[0] == "fetch")
        {
            Console.WriteLine(Fetched(arguments[1]));
            return;
        }
        var facts = JsonDocument.Parse(File.ReadAllText(arguments[0])).RootElement;
        address = arguments[1];
        Directory.CreateDirectory(Temporary);
        Hub.Pause = 0;
        foreach (var one in facts.GetProperty("names").EnumerateArray())
            Same(Fails(Text(one, "model"), Text(one, "error"), "", "").Status, Status.InvalidArgument, one);
        Choices(facts);
        var filled = Fresh("ok");
        Fetched("hf:tests/many:Q8_0");
        var before = Tree(filled);
        foreach (var fault in facts.GetProperty("faults").EnumerateArray()) Fault(fault, filled, before);
        Set("HF_HOME", Path.GetDirectoryName(filled));
        Set("HF_HUB_OFFLINE", null);
        Use("down");
        Same(Path.GetFileName(Fetched("hf:tests/many")), "many-Q8_0.gguf", "kept");
        Others(facts);
        if (arguments.Length > 2) Full(arguments[2]);
        Directory.Delete(Temporary, true);
        Console.WriteLine("ok");
    }
}
