// The C# code of docs/guides, a section per guide, as a program that tests/docs.sh runs:
// Guides MODEL ADAPTER FOLDER
using System;
using System.Collections.Generic;
using System.IO;
using System.Linq;
using Realizar;

static class Guides
{
    // --8<-- [start:chat]
    static void Chat(Model model)
    {
        using (var chat = new Conversation(model, "")) // a system message
            foreach (var piece in chat.Say("Once upon a time"))
                Console.Write(piece);
    }
    // --8<-- [end:chat]

    // --8<-- [start:options]
    static void Options(Model model)
    {
        var options = new ReplyOptions {
            Sampling = new Sampling { Temperature = 0.7f, TopP = 0.9f, Seed = 42 }, MaxTokens = 60, Stops = new[] { "\n\n" },
        };
        using (var chat = new Conversation(model, new ConversationOptions { Overflow = Overflow.Forget }))
            foreach (var piece in chat.Say("Once upon a time", options))
                Console.Write(piece);
    }
    // --8<-- [end:options]

    // --8<-- [start:streaming]
    static void Streaming(Model model)
    {
        using (var chat = new Conversation(model))
        {
            chat.Add("Once upon a time");
            foreach (var part in chat.Reply(new ReplyOptions { MaxTokens = 60 }))
                if (part.Kind == PartKind.Content) Console.Write(part.Text);
                else if (part.Kind == PartKind.Reasoning) Console.Error.Write(part.Text);
        }
        // Since C# 8: await foreach (var piece in chat.SayAsync(question, cancellationToken: token))
    }
    // --8<-- [end:streaming]

    // --8<-- [start:stopping]
    static void Stopping(Model model)
    {
        using (var chat = new Conversation(model))
        {
            chat.Add("Once upon a time");
            chat.Begin(new ReplyOptions { Keep = true }); // also takes a CancellationToken
            chat.SetDeadline(TimeSpan.FromMilliseconds(20));
            try
            {
                while (chat.Step()) { }
            }
            catch (RealizarException e) when (e.Status == Status.Deadline)
            {
                chat.Resume(); // the paused reply continues
                while (chat.Step()) { }
            }
        }
    }
    // --8<-- [end:stopping]

    // --8<-- [start:structured]
    static string Structured(Model model)
    {
        const string schema = @"{""type"": ""object"", ""properties"": {""name"": {""type"": ""string"", ""maxLength"": 20},
            ""age"": {""type"": ""integer"", ""minimum"": 0, ""maximum"": 150}},
            ""required"": [""name"", ""age""], ""additionalProperties"": false}";
        using (var chat = new Conversation(model))
            return string.Concat(chat.Say("Lily is five.", new ReplyOptions { Grammar = schema }));
    }
    // --8<-- [end:structured]

    // --8<-- [start:tools]
    static string Tools(Model model)
    {
        const string weather = @"{""tools"": [{""type"": ""function"", ""function"": {""name"": ""weather"",
            ""description"": ""The weather of a city"", ""parameters"": {""type"": ""object"",
            ""properties"": {""city"": {""enum"": [""Paris"", ""Tokyo""]}}, ""required"": [""city""],
            ""additionalProperties"": false}}}], ""parallel_tool_calls"": false,
            ""tool_choice"": ""required""}"; // "auto": the model decides
        using (var chat = new Conversation(model, new ConversationOptions { Json = weather }))
        {
            chat.Add("Is it warm in Paris?");
            var parts = chat.Reply(new ReplyOptions { MaxTokens = 100 }).ToList();
            Func<PartKind, string> of = kind => string.Concat(parts.Where(part => part.Kind == kind).Select(part => part.Text));
            var call = of(PartKind.ToolName) + of(PartKind.ToolArguments); // part.Call is the index of the call
            chat.AddJson("{\"role\": \"tool\", \"tool_call_id\": \"" + of(PartKind.ToolId) + "\", \"content\": \"21 C\"}");
            return call; // the next chat.Reply() answers with the result
        }
    }
    // --8<-- [end:tools]

    // --8<-- [start:embeddings]
    static double Embeddings(Model model)
    {
        var vectors = model.Embed(new[] { "a small girl", "a little girl" }, Pooling.Mean); // Pooling.Model: the model's own
        return vectors[0].Zip(vectors[1], (a, b) => a * b).Sum(); // normalized, so this is the cosine
    }
    // --8<-- [end:embeddings]

    // --8<-- [start:pictures]
    static void Pictures(Model model, string projector, string picture)
    {
        var json = "{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"image\", \"media\": 0}, "
            + "{\"type\": \"text\", \"text\": \"What is this?\"}]}]}";
        using (var encoder = new Encoder(model, projector)) // "mmproj-....gguf", or the folder of the model
        using (var media = encoder.Encode(File.ReadAllBytes(picture)))
        using (var prompt = Prompt.OfChat(model, json, media))
        using (var session = model.NewSession())
        using (var job = session.NewJob(prompt, new JobOptions { MaxTokens = 200 }))
            for (var going = true; going; Console.Write(job.Text()))
                going = job.Step();
    }
    // --8<-- [end:pictures]

    // --8<-- [start:adapters]
    static void Adapters(Model model, string path)
    {
        var options = new ConversationOptions { Adapters = new Dictionary<Adapter, float> { { model.LoadAdapter(path), 1 } } };
        using (var chat = new Conversation(model, options))
            foreach (var piece in chat.Say("Once upon a time"))
                Console.Write(piece);
    }
    // --8<-- [end:adapters]

    // --8<-- [start:saving]
    static string Saving(Model model)
    {
        var file = new MemoryStream(); // or a FileStream
        using (var chat = new Conversation(model))
        {
            foreach (var piece in chat.Say("Once upon a time")) { }
            chat.Save(file);
        }
        file.Position = 0;
        using (var later = Conversation.Load(model, file))
            return later.Messages(); // continues bit-identically
    }
    // --8<-- [end:saving]

    // --8<-- [start:store]
    static StoreInfo Prefixes(Model model, string folder)
    {
        // Without a folder the prefixes are freed with the store.
        using (var store = new Store(model, new StoreOptions { MinTokens = 4, Path = folder }))
        {
            for (var i = 0; i < 2; i++) // the second conversation reuses the prompt
                using (var chat = new Conversation(model, new ConversationOptions { Store = store }))
                    foreach (var piece in chat.Say("Once upon a time there was a long instruction")) { }
            return store.Info;
        }
    }
    // --8<-- [end:store]

    // --8<-- [start:batches]
    static void Batches(Model model)
    {
        var chats = new List<Conversation>();
        foreach (var question in new[] { "Once upon a time", "The little dog", "One day" })
        {
            var chat = new Conversation(model);
            chat.Add(question);
            chat.Begin(new ReplyOptions { MaxTokens = 40 });
            chats.Add(chat);
        }
        // Each step decodes a token of every conversation.
        while (Conversation.StepAll(chats)) { } // take parts here: chat.Parts()
        foreach (var chat in chats) chat.Dispose();
    }
    // --8<-- [end:batches]

    // --8<-- [start:frames]
    /// <summary>Runs once per frame: steps the reply for 2 ms, then prints new text. Returns false at the
    /// end of the reply.</summary>
    static bool Frame(Conversation chat)
    {
        var more = chat.Step(2000);
        foreach (var part in chat.Parts()) Console.Write(part.Text);
        return more;
    }
    // --8<-- [end:frames]

    // --8<-- [start:hub]
    static Model Fetched(string name)
    {
        // "hf:Qwen/Qwen3-0.6B-GGUF", or with a quantization: "hf:Qwen/Qwen3-0.6B-GGUF:Q8_0".
        // Model.Load(name) does it all.
        var path = Model.Fetch(name, (done, total) => Console.Error.Write($"\r{done >> 20} of {total >> 20} MB"));
        return Model.Load(path);
    }
    // --8<-- [end:hub]

    // --8<-- [start:plan]
    static void ShowPlan(string path)
    {
        // The memory of one model and four conversations of 4,096 tokens each; no weight is read.
        var plan = Model.Plan(path, sessions: 4, capacity: 4096);
        Console.WriteLine($"weights {plan.WeightsHost >> 20} MB, each conversation {plan.CacheHost >> 20} MB, all {plan.TotalHost >> 20} MB");
    }
    // --8<-- [end:plan]

    // --8<-- [start:memory]
    static void Memory(string path)
    {
        var small = new ConversationOptions { Capacity = 2048, Keys = CacheType.Q8_0, Values = CacheType.Q8_0 };
        using (var runtime = new Runtime(threads: 2, memoryLimit: 512ul << 20)) // beyond the limit: Status.Limit
        using (var model = Model.Load(path, new LoadOptions { Runtime = runtime }))
        using (var chat = new Conversation(model, small))
            Console.WriteLine(chat.Info.CacheCapacity);
    }
    // --8<-- [end:memory]

    // --8<-- [start:gpus]
    static void Gpus(string path)
    {
        foreach (var device in Device.All())
            Console.WriteLine($"{device.Index}: {device.Name} {device.InstructionSet} {device.Unavailable}");
        // 0: the library chooses. Or set the index of a device, or Devices for several.
        using (var model = Model.Load(path, new LoadOptions { Device = 0 }))
            Console.WriteLine($"on device {model.Info.Device}, GPUs {string.Join(", ", model.Info.Devices)}");
    }
    // --8<-- [end:gpus]

    // --8<-- [start:determinism]
    /// <summary>For tests: returns a reply, which is the same for every number of threads.</summary>
    static string Said(string path, int threads)
    {
        using (var runtime = new Runtime(threads))
        using (var model = Model.Load(path, new LoadOptions { Runtime = runtime }))
        using (var chat = new Conversation(model))
            return string.Concat(chat.Say("Once upon a time"));
    }
    // --8<-- [end:determinism]

    // --8<-- [start:errors]
    static void LoadOrExplain(string path)
    {
        try
        {
            Model.Load(path).Dispose();
        }
        catch (FileNotFoundException e)
        {
            Console.Error.WriteLine("fetch the model first: " + e.Message);
        }
        catch (RealizarException e) when (e.Status == Status.Unsupported || e.Status == Status.Format)
        {
            Console.Error.WriteLine("another file is needed: " + e.Message);
        }
    }
    // --8<-- [end:errors]

    static void Check(bool holds, string what)
    {
        if (!holds) throw new Exception("FAILED: " + what);
    }

    static void Main(string[] arguments)
    {
        var path = arguments[0];
        using (var model = Model.Load(path))
        {
            Chat(model);
            Console.WriteLine();
            Options(model);
            Streaming(model);
            Stopping(model);
            Check(Structured(model).StartsWith("{\"name\":", StringComparison.Ordinal), "structured");
            Check(Tools(model).StartsWith("weather{\"city\":", StringComparison.Ordinal), "tools");
            Check(Embeddings(model) > 0.5, "embeddings");
            try { Pictures(model, arguments[0], arguments[0]); Check(false, "an encoder"); }
            catch (RealizarException e) { Check(e.Status == Status.Unsupported, "no encoder"); }
            Adapters(model, arguments[1]);
            Check(Saving(model).Length > 10, "saving");
            Check(Prefixes(model, arguments[2]).Hits > 0, "store");
            Batches(model);
            using (var chat = new Conversation(model))
            {
                chat.Add("Once upon a time");
                chat.Begin(new ReplyOptions { MaxTokens = 40 });
                while (Frame(chat)) { }
            }
            using (var story = Fetched("hf:tests/story")) Check(story.Info.Architecture == "llama", "a model of the Hub");
            ShowPlan(path);
            Memory(path);
            Gpus(path);
            Check(Said(path, 1) == Said(path, 3), "determinism");
            LoadOrExplain("none.gguf");
        }
        Console.WriteLine("\nall ran");
    }
}
