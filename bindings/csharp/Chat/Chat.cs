// Holds a conversation, or tells what this machine has for models:  Chat MODEL | Chat doctor [MODEL]
// MODEL is a file, a folder, or hf:owner/name or hf:owner/name:quantization of the Hugging Face Hub. Ctrl-C ends an
// answer, the end of the input the conversation.
using System;
using System.Diagnostics;
using System.Globalization;
using System.Linq;
using Realizar;

internal static class Chat
{
    private static int Main(string[] arguments)
    {
        var isDoctor = arguments.Length > 0 && arguments[0] == "doctor";
        if (arguments.Length < 1 || arguments.Length > (isDoctor ? 2 : 1))
        {
            Console.Error.WriteLine("usage: Chat MODEL\n       Chat doctor [MODEL]");
            return 2;
        }
        CultureInfo.CurrentCulture = CultureInfo.InvariantCulture;
        try
        {
            if (isDoctor) { Doctor(arguments.Length > 1 ? arguments[1] : null); return 0; }
            using (var model = Model.Load(Fetched(arguments[0])))
            using (var conversation = new Conversation(model, new ConversationOptions { Overflow = Overflow.Forget }))
                Converse(conversation);
            return 0;
        }
        catch (RealizarException e) { Console.Error.WriteLine($"{e.Name}: {e.Message}"); return 1; }
    }

    /// <summary>The path of a model, with a bar of what is fetched on a terminal.</summary>
    private static string Fetched(string name)
    {
        if (!name.StartsWith("hf:", StringComparison.Ordinal)) return name;
        var time = Stopwatch.StartNew();
        ulong? first = null;
        double shown = 0;
        var path = Model.Fetch(name, (done, total) => {
            var now = time.Elapsed.TotalSeconds;
            first = first ?? done;
            if (first == total || Console.IsErrorRedirected || now - shown < 0.1 && done < total) return;
            shown = now;
            var rate = (done - first.Value) / 1e6 / Math.Max(now, 0.001);
            Console.Error.Write($"\r{name}  [{new string('=', (int)(24 * done / total)),-24}]  {done / 1e6:F1} of {total / 1e6:F1} MB, {rate:F1} MB/s\x1b[K");
        });
        if (shown > 0) Console.Error.WriteLine();
        return path;
    }

    private static void Doctor(string? name)
    {
        Console.WriteLine($"realizar {Runtime.Version}, .NET {Environment.Version}, {Environment.OSVersion}");
        foreach (var device in Device.All())
        {
            var memory = device.MemoryTotal == 0 ? "" : $"{device.MemoryFree / 1e9:F1} of {device.MemoryTotal / 1e9:F1} GB of memory free";
            var about = new[] { device.Name, device.InstructionSet, memory, device.IsAvailable ? "" : "unavailable: " + device.Unavailable };
            Console.WriteLine($"device {device.Index}: " + string.Join(", ", about.Where(each => each != "")));
        }
        if (name == null) return;
        var path = Fetched(name);
        var plan = Model.Plan(path);
        Console.WriteLine($"takes {plan.TotalHost / 1e6:F1} MB of memory, {plan.TotalDevice / 1e6:F1} MB of GPUs, with one conversation");
        var time = Stopwatch.StartNew();
        using (var model = Model.Load(path))
        using (var session = model.NewSession())
        {
            var template = model.Info.HasChatTemplate ? "a chat template" : "no chat template";
            Console.WriteLine($"loaded in {time.ElapsedMilliseconds} ms: {model.Info.Architecture} on device {model.Info.Device}, {template}");
            foreach (var _ in session.Generate("Once upon a time", maxTokens: 32)) { }
            var decode = model.GetMetrics().Decode;
            if (decode.Count > 0) Console.WriteLine($"{decode.Count * 1e9 / decode.Nanoseconds:F1} tokens per second");
        }
    }

    private static void Converse(Conversation conversation)
    {
        var answering = false;
        Console.CancelKeyPress += (sender, e) => { e.Cancel = true; answering = false; };
        for (;;)
        {
            Console.Error.Write("> ");
            var question = Console.ReadLine();
            if (question == null) return;
            answering = true;
            foreach (var piece in conversation.Say(question))
            {
                Console.Write(piece);
                if (!answering) break;
            }
            Console.WriteLine();
        }
    }
}
