// Tests of the package on a tiny model (argument 1), on the same with a chat template (argument 2), and on a real one
// (argument 3, optional). Prints "ok", or what failed.
using System;
using System.Collections.Generic;
using System.IO;
using System.Linq;
using System.Threading;
using System.Threading.Tasks;
using Realizar;

internal static partial class Tests
{
    private const string Prompt = "Once upon a time";
    private const string Expected = ", there was a little girl named Lily. She loved to play";

    private static void Check(bool holds, string what)
    {
        if (!holds) throw new Exception("FAILED: " + what);
    }

    private static T Throws<T>(Action action, string what) where T : Exception
    {
        try { action(); }
        catch (T e) { return e; }
        throw new Exception("FAILED: no " + typeof(T).Name + ": " + what);
    }

    /// <summary>True if a call finds its object in use.</summary>
    private static bool Busy(Action call) =>
        (Throws<InvalidOperationException>(call, "busy").InnerException as RealizarException)?.Status == Status.Busy;

    private static void Main(string[] arguments)
    {
        if (arguments[0] == "exit") EndInUse(arguments[1]);
        if (arguments[0] == "load") // what is wrong with the library that lies here
        {
            Console.WriteLine(Throws<NotSupportedException>(() => new Sampler(new Sampling()), "a wrong library").Message);
            return;
        }
        var lines = new List<string>();
        using (var runtime = new Runtime(2, 0, (level, text) => { lock (lines) lines.Add(level + " " + text); throw new Exception("lost"); }))
        using (var model = Model.Load(arguments[0], new LoadOptions { Runtime = runtime }))
        {
            Check(lines.Count > 0 && lines[0].Length > 10, "the log is heard");
            Check(model.Info.Architecture == "llama" && model.Info.VocabSize == 512, "info");
            Check(model.Info.Capabilities == Capabilities.Generate && model.Info.EmbeddingDim == 64 && model.Info.Pooling == Pooling.Model && model.Info.Scores == 0, "what it can do");
            Check(model.Meta("general.architecture") == "llama", "metadata");
            Texts(model);
            Generating(model);
            Jobs(model);
            Drafts(model);
            Adapters(model, arguments[0].Replace("stories260K-f32", "story-adapter"));
            Cancelling(model, arguments[0]);
            Async(model).GetAwaiter().GetResult();
            Failures(model, arguments[0]);
            Embeddings(model);
            TokenByToken(model);
            Together(model);
            Pictures(model, arguments[0]);
            Check(model.GetMetrics().Prefill.Count > 0, "metrics");
            Check(Device.All()[0].IsAvailable && Device.All()[0].Unavailable == "", "the CPU is available");
        }
        Loading(arguments[0]);
        Replies(arguments[1]);
        using (var model = Model.Load(arguments[1]))
        {
            Check(model.Info.Capabilities.HasFlag(Capabilities.Generate | Capabilities.Tools) && !model.Info.Capabilities.HasFlag(Capabilities.Reason), "tools");
            Conversing(model);
            Seeing(model);
            Stopping(model);
            Calls(model);
            Changed(model);
            Kept(model);
            AtOnce(model);
            Misused(model);
            Shared(model, arguments[0]);
            Refusals(model);
            ConversingAsync(model).GetAwaiter().GetResult();
        }
        Check(Expected.StartsWith(Component(arguments[1], Prompt, 9)), "a component of Unity");
        if (arguments.Length > 2) Real(arguments[2]);
        Console.WriteLine("ok");
    }

    private static void Texts(Model model)
    {
        var tokens = model.Tokenize(Prompt);
        Check(tokens[0] == model.Info.BosToken && model.Detokenize(tokens) == Prompt, "tokens and text");
        var text = string.Concat(Enumerable.Repeat("größe €", 200));
        Check(model.Detokenize(model.Tokenize(text)) == text, "a long text");
        Check(model.TokenBytes(tokens[1]).Length > 0 && !model.IsEnd(tokens[1]), "a token");
        Throws<ArgumentException>(() => model.Tokenize("half \ud834"), "half a character");
        Check(model.Detokenize(model.Tokenize("a\0b")) == "a\0b", "a NUL in a text");
        Check(model.Tokenize("", false).Length == 0 && model.Detokenize(new uint[0]) == "", "no text");
    }

    private static void Generating(Model model)
    {
        using (var session = model.NewSession(200))
        {
            var pieces = session.Generate(Prompt, maxTokens: 25).ToList();
            Check(string.Concat(pieces).StartsWith(Expected), "a text to continue: " + string.Concat(pieces));
            Check(pieces.Count > 10 && session.Capacity == 200, "piece by piece");
            Check(string.Concat(session.Generate(Prompt, maxTokens: 25)) == string.Concat(pieces), "again");
            var sampling = new Sampling { Temperature = 1, TopP = 0.9f, Seed = 7 };
            Check(string.Concat(session.Generate(Prompt, sampling, 40)) == string.Concat(session.Generate(Prompt, sampling, 40)), "a seed");

            session.Truncate(0);
            var prompt = model.Tokenize(Prompt);
            session.Prefill(prompt);
            var logits = new float[512];
            session.Logits(logits);
            var token = session.Sample();
            Check(logits[token] == logits.Max(), "logits");
            using (var fork = session.Fork())
            using (var biased = new Sampler(new Sampling { LogitBias = new Dictionary<uint, float> { { token, float.NegativeInfinity } } }))
            {
                Check(fork.Sample(biased) != token, "a bias");
                foreach (var before in new[] { prompt[prompt.Length - 1], token })
                {
                    var sequences = new[] { new uint[] { 1, 2, 3 }, new[] { before, token } };
                    var order = new[] { Filter.Temperature, Filter.Xtc };
                    using (var banned = new Sampler(new Sampling { BannedSequences = sequences, DryBreakers = new[] { new uint[] { 13 } }, Order = order }))
                    {
                        Check((fork.Sample(banned) == token) == (before == token), "a banned sequence");
                    }
                }
                Check(fork.Decode(token) == session.Decode(token) && fork.Length == prompt.Length + 1, "a fork");
            }
        }
    }

    private static void Jobs(Model model)
    {
        using (var one = model.NewSession(200))
        using (var two = model.NewSession(200))
        {
            var expected = string.Concat(one.Generate(Prompt, maxTokens: 25));
            using (var job = one.NewJob(model.Tokenize(Prompt), new JobOptions { MaxTokens = 25 }))
            {
                Check(job.End == JobEnd.None, "a job that has not begun");
                Check(job.Step(-1) && job.Step(0) && job.Step(long.MinValue) && job.Count == 0, "no time is left");
                Check(!Job.StepAll(new Job[0]) && !Job.StepAll(new Job[0], 9), "no jobs");
                var text = "";
                while (job.Step(50)) text += job.Text();
                Check(text + job.Text() == expected && job.End == JobEnd.Length && job.Count == 25, "slices of time");
                Check(Busy(() => one.Truncate(0)), "busy");
            }
            using (var first = one.NewJob(model.Tokenize(Prompt), new JobOptions { Stops = new[] { "Lily", "never" } }))
            using (var second = two.NewJob(model.Tokenize("Lily"), new JobOptions { MaxTokens = 9 }))
            {
                while (Job.StepAll(new[] { first, second })) { }
                Check(first.Text() == ", there was a little girl named " && first.End == JobEnd.Stop, "a stop string");
                Check(second.Text() == string.Concat(model.NewSession(50).Generate("Lily", maxTokens: 9)), "jobs together");
            }
            using (var choices = model.NewGrammar(GrammarKind.Choices, "[\"yes\", \"no\"]"))
            using (var job = one.NewJob(model.Tokenize(Prompt), new JobOptions { Grammar = choices }))
            {
                while (job.Step()) { }
                Check(new[] { "yes", "no" }.Contains(job.Text()), "a choice");
            }
            Throws<RealizarException>(() => model.NewGrammar(GrammarKind.Regex, "("), "a grammar");
            Throws<RealizarException>(() => model.NewGrammar(GrammarKind.Regex, "a", true), "a grammar that is no JSON");
            model.NewGrammar(GrammarKind.Json, "", true).Dispose();
            Throws<RealizarException>(() => one.NewJob(new uint[0]), "no prompt");
        }
    }

    private static void Drafts(Model model)
    {
        using (var session = model.NewSession(300))
        {
            var expected = string.Concat(session.Generate(Prompt, maxTokens: 150));
            var accepted = 0;
            foreach (var options in new[] {
                new JobOptions { MaxTokens = 150, Draft = Draft.Lookup },
                new JobOptions { MaxTokens = 150, Draft = Draft.Model, DraftModel = model, DraftMax = 4 } })
            {
                session.Truncate(0);
                using (var job = session.NewJob(model.Tokenize(Prompt), options))
                {
                    while (job.Step()) { }
                    Check(job.Text() == expected && job.Accepted <= job.Drafted, "a text with drafts");
                    accepted = job.Accepted;
                }
            }
            Check(accepted > 0, "a model that drafts for itself");
            Throws<RealizarException>(() => session.NewJob(model.Tokenize(Prompt), new JobOptions { Draft = Draft.Model }), "no draft model");
        }
    }

    private static void Adapters(Model model, string path)
    {
        const string adapted = ", there was a little girl named Lily. She loved to draw animals with her family.";
        using (var session = model.NewSession(200))
        using (var adapter = model.LoadAdapter(path))
        {
            session.SetAdapters(new Dictionary<Adapter, float> { { adapter, 1 } });
            Check(string.Concat(session.Generate(Prompt, maxTokens: 40)).StartsWith(adapted), "an adapter");
            session.SetAdapters(new Dictionary<Adapter, float>());
            Check(session.Length == 0 && string.Concat(session.Generate(Prompt, maxTokens: 25)).StartsWith(Expected), "no adapter");
            var e = Throws<RealizarException>(() => session.SetAdapters(new Dictionary<Adapter, float> { { adapter, float.NaN } }), "a scale");
            Check(e.Status == Status.InvalidArgument, "a scale");
            adapter.Dispose();
            Throws<ObjectDisposedException>(() => session.SetAdapters(new Dictionary<Adapter, float> { { adapter, 1 } }), "one that was disposed of");
        }
        Throws<FileNotFoundException>(() => model.LoadAdapter("/none.gguf"), "no adapter");
    }

    private static void Replies(string path)
    {
        const string json = "{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}], \"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"go\", " +
            "\"parameters\": {\"type\": \"object\", \"properties\": {\"by\": {\"enum\": [\"car\", \"bus\"]}}, \"required\": [\"by\"]}}}]}";
        using (var model = Model.Load(path))
        using (var parser = model.NewChatParser(json))
        {
            var parts = new List<Part>();
            foreach (var token in model.Tokenize("Well, <call>{\"name\": \"go\", \"arguments\": {\"by\": \"bus\"}}</call>", false)) parts.AddRange(parser.Push(token));
            parts.AddRange(parser.End());
            Func<PartKind, string> of = kind => string.Concat(parts.Where(part => part.Kind == kind).Select(part => part.Text));
            Check(of(PartKind.Content).Trim() == "Well," && of(PartKind.ToolName) == "go", "content and a name");
            Check(of(PartKind.ToolArguments).Replace(" ", "") == "{\"by\":\"bus\"}", "arguments");
            Check(parts.Last().Kind == PartKind.End && !parts.Last().Unparsed && parts.All(part => part.Call == 0), "the end");
            Throws<RealizarException>(() => model.NewChatParser("{"), "no conversation");
        }
    }

    private static void TokenByToken(Model model)
    {
        var prompt = model.Tokenize(Prompt);
        using (var one = model.NewSession(64))
        using (var two = model.NewSession(64, CacheType.F32, CacheType.F32))
        using (var half = model.NewSession(64, CacheType.Q8_0, CacheType.Q4_0))
        using (var sampler = new Sampler(new Sampling()))
        {
            foreach (var session in new[] { one, two, half }) session.Prefill(prompt);
            var token = one.Sample();
            var likeliest = one.Logprobs(3);
            Check(likeliest.Count == 3 && likeliest[0].Token == token && one.Logprobs(1000).Count == 512, "the likeliest tokens");
            var next = Session.DecodeAll(new[] { one, two }, new[] { token, token }, new Sampler?[] { null, sampler });
            Check(next[0] == next[1] && one.Length == prompt.Length + 1 && one.Tokens().SequenceEqual(two.Tokens()), "a batch");
            Throws<ArgumentException>(() => Session.DecodeAll(new[] { one }, new uint[2]), "a batch of two lengths");
            one.Truncate(prompt.Length);
            Check(one.Score(new[] { token })[0] == likeliest[0].Value, "a score");

            // A session that was saved goes on as the one it was.
            var file = new MemoryStream();
            one.Save(file);
            var bytes = file.ToArray();
            using (var loaded = model.Restore(new MemoryStream(bytes)))
            {
                float[] logits = new float[512], others = new float[512];
                loaded.Logits(logits);
                one.Logits(others);
                Check(logits.SequenceEqual(others), "a saved session");
                foreach (var session in new[] { one, loaded })
                {
                    session.Release();
                    session.Shift(1, 2);
                }
                Check(loaded.Length == prompt.Length - 1 && loaded.Decode(token) == one.Decode(token), "a shift");
            }
            foreach (var cut in new[] { 0, 300, bytes.Length - 1 })
                Throws<EndOfStreamException>(() => model.Restore(new MemoryStream(bytes, 0, cut)), "half a session");
            bytes[300]++;
            Check(Throws<RealizarException>(() => model.Restore(new MemoryStream(bytes)), "damage").Status == Status.Format, "damage");
            Throws<NotSupportedException>(() => one.Save(new MemoryStream(new byte[9], false)), "a stream that is not written to");

            using (var yes = model.NewGrammar(GrammarKind.Choices, "[\"yes\"]"))
            {
                var free = two.Sample(sampler);
                sampler.SetGrammar(yes);
                Check("yes".StartsWith(model.Detokenize(new[] { two.Sample(sampler) }).Trim()), "a sampler with a grammar");
                sampler.SetGrammar(null);
                Check(two.Sample(sampler) == free, "a sampler without one");
            }
        }
        using (var stream = model.NewTextStream())
        {
            var text = string.Concat(model.Tokenize("größe €").Select(stream.Push));
            Check(text + stream.Flush() == "größe €", "a stream");
            stream.Follow(model.Tokenize("Once upon a"));
            Check(stream.Push(prompt.Last()) + stream.Flush() == " time", "a stream behind a prompt");
        }
        Check(model.MetaKeys().Contains("general.architecture"), "keys");
        Throws<RealizarException>(() => model.MetaList("none"), "no list");
        Check(model.GetWork().Dispatches > 0 && model.GetWork().LatencyHistogram.Length == 32, "work");
        model.ResetMetrics();
        Check(model.GetWork().Dispatches == 0 && model.GetMetrics().Prefill.Count == 0, "no work");
    }

    private static void Pictures(Model model, string path)
    {
        // The embeddings of tokens, the first tensor of the tiny model.
        var table = new float[512 * 64];
        Buffer.BlockCopy(File.ReadAllBytes(path), 14176, table, 0, 4 * table.Length);
        var tokens = model.Tokenize(Prompt);
        var rows = tokens.Skip(1).Take(3).SelectMany(token => table.Skip((int)token * 64).Take(64)).ToArray();
        using (var media = Media.FromRows(model, rows, 64))
        using (var session = model.NewSession())
        using (var seeing = model.NewSession())
        {
            Check(media.Info.Kind == MediaKind.Image && media.Info.Rows == 3 && media.Info.RowDim == 64 && media.Info.Columns == 3, "a media item");
            Check(media.Rows().SequenceEqual(rows), "its rows");
            var ids = tokens.Select((token, i) => i >= 1 && i <= 3 ? Realizar.Prompt.MediaToken : token).ToArray();
            using (var prompt = new Prompt(model, new PromptPart[] { tokens.Take(1).ToArray(), media, tokens.Skip(4).ToArray() }, true))
            {
                Check(prompt.Length == tokens.Length && prompt.Tokens().SequenceEqual(ids), "tokens of a prompt");
                var expected = string.Concat(session.Generate(Prompt, maxTokens: 25));
                for (var i = 0; i < 2; i++)
                    using (var job = seeing.NewJob(prompt, new JobOptions { MaxTokens = 25 }))
                    {
                        while (job.Step()) { }
                        Check(job.Text() == expected, "rows that stand for tokens");
                    }
                Check(seeing.Match(prompt) == ids.Length && seeing.Tokens().Take(ids.Length).SequenceEqual(ids), "a session with rows");
                seeing.Truncate(2);
                seeing.Prefill(prompt, 2);
                Check(seeing.Length == ids.Length, "the rest of a prompt");
                foreach (var pooling in new[] { Pooling.Mean, Pooling.None })
                {
                    var (plain, seen) = (model.Embed(new[] { tokens }, pooling), Realizar.Prompt.Embed(model, new[] { prompt }, pooling));
                    Check(plain.Length > 0 && plain.SelectMany(row => row).SequenceEqual(seen.SelectMany(row => row)), "embeddings of prompts");
                }
                using (var store = new Store(model, new StoreOptions { MinTokens = 2 }))
                    foreach (var held in new[] { 0, tokens.Length - 1 })
                        using (var taken = store.Take(prompt))
                        {
                            Check(taken.Length == held, "a prefix with rows");
                            taken.Prefill(prompt, taken.Length);
                            store.Put(taken);
                        }
                Check(!media.Step(), "a media item that is done");
                Check(Throws<RealizarException>(() => seeing.Prefill(prompt, ids.Length), "no tokens").Status == Status.InvalidArgument, "no tokens");
            }
            var stream = new MemoryStream();
            media.Save(stream);
            stream.Position = 0;
            using (var again = Media.Load(model, stream)) Check(again.Hash.SequenceEqual(media.Hash) && media.Hash.Length == 32, "a saved media item");
            using (var other = Media.FromRows(model, new float[192], 64)) Check(!other.Hash.SequenceEqual(media.Hash), "another media item");
            var e = Throws<RealizarException>(() => new Prompt(model, new uint[] { 512 }), "a token that there is not");
            Check(e.Status == Status.InvalidArgument, "a token that there is not");
        }
        Check(Throws<RealizarException>(() => Media.FromRows(model, new float[63], 63), "a wrong width").Status == Status.InvalidArgument, "a wrong width");
        Throws<ArgumentException>(() => Media.FromRows(model, new float[63], 64), "no whole rows");
        Check(Throws<RealizarException>(() => new Encoder(model, path), "no encoder").Status == Status.Unsupported, "no encoder");
        Throws<FileNotFoundException>(() => Encoder.Plan(model, "/none.gguf"), "no file");
    }

    private static void Seeing(Model model)
    {
        var json = "{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"image\", \"media\": 0}, {\"type\": \"text\", \"text\": \"Once\"}]}]}";
        using (var media = Media.FromRows(model, new float[192], 64))
        using (var prompt = Realizar.Prompt.OfChat(model, json, media))
        {
            var tokens = prompt.Tokens();
            Check(tokens.Count(token => token == Realizar.Prompt.MediaToken) == 3 && tokens[1] == Realizar.Prompt.MediaToken, "a media item in a message");
            var e = Throws<RealizarException>(() => Realizar.Prompt.OfChat(model, json, media, media), "a media item without a part");
            Check(e.Status == Status.InvalidArgument, "a media item without a part");
            var messages = "[{\"role\": \"user\", \"content\": [{\"type\": \"image\", \"media\": 0}, {\"type\": \"text\", \"text\": \"Once\"}]}]";
            using (var talk = new Conversation(model))
            {
                talk.AddJson(messages, media);
                talk.Begin(new ReplyOptions { MaxTokens = 5 });
                while (talk.Step()) { }
                Check(talk.Info.PromptTokens == prompt.Length && talk.Info.Media == 1, "a conversation with a media item");
                using (var again = talk.Media(0)) Check(again.Hash.SequenceEqual(media.Hash), "its media item");
                Check(Throws<RealizarException>(() => talk.Media(1), "no media item").Status == Status.NotFound, "no media item");
            }
        }
    }

    private static void Together(Model model)
    {
        var nothing = Enumerable.Range(0, 512).ToDictionary(token => (uint)token, token => float.NegativeInfinity);
        using (var one = model.NewSession(64))
        using (var two = model.NewSession(64))
        using (var other = model.NewSession(64))
        using (var failing = one.NewJob(model.Tokenize(Prompt), new JobOptions { Sampling = new Sampling { LogitBias = nothing } }))
        using (var going = two.NewJob(model.Tokenize(Prompt), new JobOptions { MaxTokens = 6, Logprobs = 2 }))
        {
            Check(failing.Error == null, "a job that has not begun");
            while (Job.StepAll(new[] { failing, going })) { }
            Check(failing.End == JobEnd.Failed && going.End == JobEnd.Length && going.Error == null, "a job that fails alone");
            Check(failing.Error?.Message == Throws<RealizarException>(() => failing.Step(), "a failed job").Message, "why it failed");
            var made = going.Tokens();
            var rows = going.Logprobs();
            Check(made.Length == 6 && rows.Select(row => row.Made.Token).SequenceEqual(made) && going.Logprobs().Count == 0, "probabilities");
            other.Prefill(model.Tokenize(Prompt));
            foreach (var row in rows)
            {
                Check(row.Likeliest.SequenceEqual(other.Logprobs(2)) && row.Likeliest[0].Equals(row.Made), "the likeliest of a job");
                other.Prefill(new[] { row.Made.Token });
            }
            Check(Throws<RealizarException>(() => failing.Logprobs(), "none").Status == Status.InvalidArgument, "no probabilities");
        }
        using (var session = model.NewSession(400))
        using (var job = session.NewJob(model.Tokenize(Prompt)))
        {
            Check(job.Step(), "a first token");
            foreach (var passed in new[] { TimeSpan.Zero, TimeSpan.FromTicks(-1), TimeSpan.MinValue })
            {
                job.SetDeadline(passed);
                Check(Throws<RealizarException>(() => job.Step(), "a deadline").Status == Status.Deadline, "a deadline that has passed");
            }
            foreach (var later in new TimeSpan?[] { TimeSpan.MaxValue, TimeSpan.FromMinutes(1), null })
            {
                job.SetDeadline(later);
                Check(job.Step(), "a deadline to come");
            }
            job.SetDeadline(TimeSpan.Zero);
            job.Resume();
            Check(job.Step() && job.Count == 5, "it goes on");
        }
    }

    private static void Loading(string path)
    {
        var folder = Path.Combine(Path.GetTempPath(), Path.GetRandomFileName());
        Directory.CreateDirectory(folder);
        File.WriteAllText(Path.Combine(folder, "config.json"), "{\"model_type\": \"llama\", \"magic_norm\": true}");
        File.WriteAllText(Path.Combine(folder, "generation_config.json"), "{\"temperature\": 0.5, \"top_k\": 20}");
        var e = Throws<RealizarException>(() => Model.Load(folder, new LoadOptions { TextOnly = true }), "a key that nothing knows");
        Check(e.Status == Status.Unsupported && e.Message.Contains("magic_norm"), e.Message);
        using (var model = Model.Load(folder, new LoadOptions { TextOnly = true, AllowUnknown = true }))
        {
            var advice = model.AdvisedSampling();
            Check(model.Info.Unknown == 1 && advice?.Temperature == 0.5f && advice.TopK == 20 && advice.TopP == 0 && advice.TemperatureFirst, "advice");
        }
        Directory.Delete(folder, true);

        var one = Model.Plan(path, null, 1, 256);
        var three = Model.Plan(path, null, 3, 256);
        Check(three.TotalHost - one.TotalHost == 2 * one.CacheHost && one.CacheHost > 0 && one.Devices.Count == 0, "a plan");
        var files = new Dictionary<string, byte[]> { { "model.gguf", File.ReadAllBytes(path) } };
        Check(Model.Plan(files, null, 1, 256, CacheType.Q8_0, CacheType.Q8_0).CacheToken < one.CacheToken, "a plan of bytes");
        using (var model = Model.Load(files))
        using (var session = model.NewSession(64))
            Check(Expected.StartsWith(string.Concat(session.Generate(Prompt, maxTokens: 9))) && model.Info.WeightBytes == one.WeightsHost, "a model of bytes");
        using (var runtime = new Runtime(1))
        {
            runtime.SetThreads(2);
            Throws<RealizarException>(() => runtime.SetThreads(1 << 20), "threads");
        }
        Throws<RealizarException>(() => new Runtime(1, 0, null, new[] { 1 << 20 }), "a processor that does not exist");
        using (var model = Model.Load(path)) Check(model.AdvisedSampling() == null, "no advice");
    }

    private static void Cancelling(Model model, string path)
    {
        using (var session = model.NewSession())
        using (var source = new CancellationTokenSource())
        {
            var made = 0;
            var e = Throws<OperationCanceledException>(() => {
                foreach (var piece in session.Generate(Prompt, cancellationToken: source.Token))
                    if (++made == 3) Task.Run(() => source.Cancel());
            }, "a cancelled answer");
            Check(e.CancellationToken == source.Token && made >= 3, "the token that cancelled");
            Check(string.Concat(session.Generate(Prompt, maxTokens: 25)).StartsWith(Expected), "after a cancelled one");
            Throws<OperationCanceledException>(() => Model.Load(path, null, source.Token), "a cancelled load");
        }
        ulong done = 0, total = 1;
        Model.Load(path, new LoadOptions { Progress = (d, t) => { done = d; total = t; } }).Dispose();
        Check(done == total && total > 1, "progress");
        Throws<DivideByZeroException>(() => Model.Load(path, new LoadOptions { Progress = (d, t) => { done /= (t - t); } }), "progress that throws");
    }

    private static async Task Async(Model model)
    {
        using (var session = model.NewSession())
        {
            var text = "";
            var pieces = session.GenerateAsync(Prompt, maxTokens: 25).GetAsyncEnumerator();
            while (await pieces.MoveNextAsync()) text += pieces.Current;
            await pieces.DisposeAsync();
            Check(text.StartsWith(Expected), "an asynchronous text: " + text);
        }
    }

    private static void Failures(Model model, string path)
    {
        var missing = Throws<FileNotFoundException>(() => Model.Load("/none.gguf"), "a missing file");
        var e = (RealizarException)missing.InnerException!;
        Check(e.Status == Status.IO && e.SystemCode != 0 && e.Message.Contains("none") && missing.Message == e.Message, e.Message);
        using (var small = new Runtime(1, 1000))
            Check(Throws<RealizarException>(() => Model.Load(path, new LoadOptions { Runtime = small }), "a limit").Status == Status.Limit, "limit");
        Check(Throws<RealizarException>(() => model.Render(Asking("x")), "no template").Status == Status.Unsupported, "template");
        Throws<ArgumentException>(() => model.Meta("a\0b"), "a NUL");
        using (var there = Model.Load(path, new LoadOptions { Devices = new[] { 1 }, Shares = new[] { 2f } }))
            Check(there.Info.Device == 1 && there.Info.Devices.Count == 0 && there.Info.DeviceLayers.Count == 0, "a list of devices");
        foreach (var wrong in new[] {
            new LoadOptions { Devices = new[] { 1, 1 } }, new LoadOptions { Devices = new[] { 1 }, Device = 1 },
            new LoadOptions { Devices = new[] { 1 }, Shares = new[] { 0f } } })
            Check(Throws<RealizarException>(() => Model.Load(path, wrong), "wrong devices").Status == Status.InvalidArgument, "wrong devices");
        Throws<ArgumentException>(() => Model.Load(path, new LoadOptions { Shares = new[] { 1f } }), "shares without devices");
        var session = model.NewSession(8);
        Check(Throws<RealizarException>(() => session.Prefill(new uint[9]), "a full session").Status == Status.ContextFull, "full");
        session.Dispose();
        session.Dispose();
        Throws<ObjectDisposedException>(() => session.Prefill(new uint[1]), "a session that was disposed of");
    }

    private static void Embeddings(Model model)
    {
        var vectors = model.Embed(new[] { Prompt, "The end." }, Pooling.Mean);
        Check(vectors.Length == 2 && vectors[1].Length == model.Info.HiddenDim, "embeddings");
        Check(Math.Abs(vectors[0].Sum(x => x * x) - 1) < 1e-5, "a length of 1");
        Check(model.Embed(new[] { "The end." }, Pooling.Mean)[0].SequenceEqual(vectors[1]), "the same bits");
    }

    private static string Asking(string text) => "{\"messages\": [{\"role\": \"user\", \"content\": \"" + text + "\"}]}";

    private static Conversation Talk(Model model, ConversationOptions? options = null)
    {
        options = options ?? new ConversationOptions();
        options.Capacity = 256;
        return new Conversation(model, options);
    }

    private static string Said(Conversation talk, string text, int maxTokens, ReplyOptions? options = null)
    {
        options = options ?? new ReplyOptions();
        options.MaxTokens = maxTokens;
        return string.Concat(talk.Say(text, options));
    }

    private static string Of(IEnumerable<Part> parts, PartKind kind) => string.Concat(parts.Where(part => part.Kind == kind).Select(part => part.Text));

    private static void Conversing(Model model)
    {
        using (var talk = Talk(model))
        {
            var pieces = talk.Say(Prompt, new ReplyOptions { MaxTokens = 25 }).ToList();
            Check(string.Concat(pieces).StartsWith(Expected) && pieces.Count > 10, "a reply, piece by piece: " + string.Concat(pieces));
            var first = talk.Info;
            Check(first.State == ReplyState.Ended && first.End == JobEnd.Length && first.Tokens == 25 && first.Messages == 2, "the end of a reply");
            Check(first.PromptTokens == model.TokenizeChat(Asking(Prompt)).Length && first.ReusedTokens == 0 && first.FirstTokenTime > 0, "its prompt");
            var again = Said(talk, "And then?", 5);
            var info = talk.Info;
            Check(info.ReusedTokens >= first.PromptTokens && info.ReusedTokens < info.PromptTokens, "a second turn costs its new end");
            Check(talk.Messages(3).Contains("\"finish_reason\":\"length\"") && talk.Messages(4) == "[]" && again.Length > 0, talk.Messages());
            talk.Rewind(1);
            Check(Of(talk.Reply(new ReplyOptions { MaxTokens = 25 }), PartKind.Content) == string.Concat(pieces), "a reply made anew");
        }
        using (var talk = Talk(model, new ConversationOptions { Json = "{\"messages\": [{\"role\": \"user\", \"content\": \"größe\"}], \"variables\": {\"a\": 1}}", SystemMessage = "S" }))
        {
            talk.Add("a \"b\"\0\n");
            talk.AddJson("[{\"role\": \"assistant\", \"content\": \"1\"}, {\"role\": \"user\", \"content\": \"2\"}]");
            Check(talk.Info.Messages == 5 && talk.Messages().Contains("größe") && talk.Messages(2).Contains("a \\\"b\\\"\\u0000\\n"), talk.Messages());
            Check(talk.Messages(1).StartsWith("[{\"role\":\"system\",\"content\":\"S\"}"), "the message of the system");
        }
        using (var talk = Talk(model))
        {
            Check(Said(talk, Prompt, 0, new ReplyOptions { Stops = new[] { " She", "never" } }) == ", there was a little girl named Lily.", "a stop string");
            Check(talk.Info.End == JobEnd.Stop, "its end");
            var one = new ReplyOptions { Sampling = new Sampling { Temperature = 1.5f, Seed = 7 } };
            talk.Rewind(0);
            var warm = Said(talk, Prompt, 20, one);
            talk.Rewind(0);
            Check(Said(talk, Prompt, 20, one) == warm && !Expected.StartsWith(warm), "a seed");
            foreach (var draft in new[] { new ReplyOptions { Draft = Draft.Lookup }, new ReplyOptions { Draft = Draft.Model, DraftModel = model, DraftMax = 4 } })
            {
                talk.Rewind(0);
                Check(Said(talk, Prompt, 80, draft).StartsWith(Expected) && talk.Info.Accepted <= talk.Info.Drafted, "drafts");
            }
            Check(talk.Info.Accepted > 0, "drafts that are right");
        }
    }

    private static void Stopping(Model model)
    {
        using (var source = new CancellationTokenSource())
        using (var talk = Talk(model, new ConversationOptions { Cancellation = source.Token }))
        {
            var said = "";
            foreach (var piece in talk.Say(Prompt)) { said = piece; break; }
            Check(talk.Messages(1) == "[{\"role\":\"assistant\",\"content\":\"" + said + "\",\"finish_reason\":\"cancelled\"}]", "what was said stays: " + talk.Messages(1));
            talk.Rewind(1);
            foreach (var part in talk.Reply()) break;
            Check(talk.Info.Messages == 1 && talk.Info.State == ReplyState.None, "a reply that leaves no trace");
            talk.Begin(new ReplyOptions { MaxTokens = 24 });
            Check(talk.Step() && Throws<RealizarException>(() => { talk.SetDeadline(TimeSpan.Zero); talk.Step(); }, "a deadline").Status == Status.Deadline, "a deadline");
            Check(talk.Info.Stopped == Status.Deadline, "stopped");
            talk.Resume();
            while (talk.Step(50)) { }
            Check(Of(talk.Parts(), PartKind.Content).StartsWith(Expected), "it goes on");
            talk.Rewind(1);
            talk.Begin(new ReplyOptions { MaxTokens = 24 });
            Check(talk.Step(), "a reply that is stopped");
            talk.Stop();
            said = Of(talk.Parts(), PartKind.Content);
            Check(talk.Info.End == JobEnd.Cancelled && talk.Error == null && talk.Messages(1).Contains("\"" + said + "\",\"finish_reason\":\"cancelled\""), "a stop keeps what was said: " + talk.Messages(1));
            talk.Rewind(0);
            using (var own = new CancellationTokenSource())
            {
                said = "";
                var e = Throws<OperationCanceledException>(() => {
                    foreach (var piece in talk.Say(Prompt, null, own.Token)) { said += piece; own.Cancel(); }
                }, "a cancelled reply");
                Check(e.CancellationToken == own.Token && talk.Messages(1).Contains("\"" + said + "\"") && Expected.StartsWith(said), "the token that cancelled");
                Throws<OperationCanceledException>(() => talk.Say("x", null, own.Token), "a token that was cancelled before");
                Check(talk.Info.Messages == 2, "no trace of it");
            }
            using (var fork = talk.Fork())
            {
                talk.Dispose();
                source.Cancel();
                Check(Throws<OperationCanceledException>(() => string.Concat(fork.Say("More")), "every reply").CancellationToken == source.Token, "a fork");
            }
        }
        // A reply that was cut goes on, by the most tokens or by its end.
        using (var whole = Talk(model))
        using (var cut = Talk(model))
        {
            var text = Said(whole, Prompt, 24);
            var begun = Said(cut, Prompt, 9);
            Check(begun + Of(cut.Reply(new ReplyOptions { MaxTokens = 15, Continue = true }), PartKind.Content) == text && cut.Messages() == whole.Messages(), "a reply goes on");
            cut.Rewind(1);
            cut.Begin(new ReplyOptions { Keep = true });
            cut.Step();
            cut.Reply(new ReplyOptions { MaxTokens = 23, Continue = true }).Count();
            Check(cut.Messages() == whole.Messages(), "one that was given up goes on");
            whole.Add("More");
            Check(Throws<RealizarException>(() => whole.Begin(new ReplyOptions { Continue = true }), "none").Status == Status.InvalidArgument, "none to go on with");
        }
    }

    private const string Tools = "{\"tool_choice\": \"required\", \"parallel_tool_calls\": false, \"variables\": {\"a\": 1}, \"tools\": [{\"type\": \"function\", " +
        "\"function\": {\"name\": \"go\", \"parameters\": {\"type\": \"object\", \"properties\": {\"by\": {\"enum\": [\"car\", \"bus\"]}}, " +
        "\"required\": [\"by\"], \"additionalProperties\": false}}}]}";

    /// <summary>Tools of one reply, reading ahead, and what is set between replies.</summary>
    private static void Changed(Model model)
    {
        using (var ofLife = Talk(model, new ConversationOptions { Json = Tools }))
        using (var talk = Talk(model))
        {
            ofLife.Add(Prompt);
            talk.Add(Prompt);
            ofLife.Reply().ToList();
            var with = new ReplyOptions { Json = Tools };
            talk.Read(with);
            Check(talk.Info.End == JobEnd.Length && talk.Info.Tokens == 0 && talk.Info.Messages == 1, "messages are read ahead");
            Check(Of(talk.Reply(with), PartKind.ToolName) == "go" && talk.Messages() == ofLife.Messages(), "tools of one reply: " + talk.Messages());
            Check(talk.Info.ReusedTokens + 1 == talk.Info.PromptTokens, "what was read is not computed again");
            talk.Add("And now?");
            Check(Of(talk.Reply(new ReplyOptions { MaxTokens = 3 }), PartKind.ToolName) == "", "the next reply has no tools");
            var wrong = new ReplyOptions { Json = "{\"messages\": []}" };
            Check(Throws<RealizarException>(() => talk.Begin(wrong), "messages of a reply").Status == Status.InvalidArgument, "messages of a reply");
        }
        using (var adapter = model.LoadAdapter("tests/data/story-adapter.gguf"))
        using (var store = new Store(model, new StoreOptions { MinTokens = 3 }))
        using (var plain = Talk(model))
        using (var talk = Talk(model))
        {
            var changes = new Action[] {
                talk.Release, () => talk.SetCapacity(300), () => talk.SetOverflow(Overflow.Forget),
                () => talk.SetAdapters(new Dictionary<Adapter, float>()), () => talk.SetStore(store), () => talk.SetStore(null),
            };
            foreach (var change in changes)
            {
                Said(plain, "Go on", 5);
                Said(talk, "Go on", 5);
                Check(talk.Messages() == plain.Messages(), "a change between replies: " + talk.Messages());
                change();
            }
            Check(talk.Info.CacheCapacity == 300 && store.Info.Entries > 0, "a capacity and a store");
            talk.BeginRead();
            Check(Busy(talk.Release), "an unfinished reply");
            talk.Stop();
            talk.Release();
            Check(talk.Info.CacheLength == 0, "memory is given back");
            talk.Rewind(0);
            talk.SetAdapters(new Dictionary<Adapter, float> { { adapter, 1 } });
            Check(Said(talk, Prompt, 40).Contains("She loved to draw animals"), "an adapter");
        }
    }

    private static void Calls(Model model)
    {
        const string digit = "{\"type\": \"object\", \"properties\": {\"n\": {\"const\": 1}}, \"required\": [\"n\"], \"additionalProperties\": false}";
        const string json = "{\"tool_choice\": \"required\", \"parallel_tool_calls\": false, \"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"go\", " +
            "\"parameters\": {\"type\": \"object\", \"properties\": {\"by\": {\"enum\": [\"car\", \"bus\"]}}, \"required\": [\"by\"], \"additionalProperties\": false}}}]}";
        using (var talk = Talk(model, new ConversationOptions { Json = json }))
        {
            talk.Add(Prompt);
            for (var turn = 0; turn < 2; turn++)
            {
                var parts = talk.Reply(new ReplyOptions { MaxTokens = 200 }).ToList();
                var by = string.Concat(Of(parts, PartKind.ToolArguments).Where(c => !char.IsWhiteSpace(c)));
                Check(Of(parts, PartKind.ToolName) == "go" && (by == "{\"by\":\"car\"}" || by == "{\"by\":\"bus\"}"), "a call: " + by);
                Check(parts.Last().Kind == PartKind.End && !parts.Last().Unparsed && parts.Last().Text == "", "the end of a reply");
                Check(Of(parts, PartKind.ToolId) == "call0000" + turn, "an id: " + Of(parts, PartKind.ToolId));
                Check(talk.Messages(1 + 2 * turn).Contains("\"id\":\"call0000" + turn + "\""), talk.Messages());
                talk.AddJson("{\"role\": \"tool\", \"tool_call_id\": \"call0000" + turn + "\", \"content\": \"done\"}");
            }
        }
        using (var talk = Talk(model))
        {
            var blanks = Enumerable.Range(0, 512).Where(token => model.TokenBytes((uint)token).SequenceEqual(new[] { (byte)' ' }));
            var sampling = new Sampling { LogitBias = blanks.ToDictionary(token => (uint)token, token => 100f) };
            Func<bool, string> form = spaced => Said(talk, Prompt, 0, new ReplyOptions { Grammar = digit, Whitespace = spaced, Sampling = sampling, Logprobs = 2 });
            Check(form(false) == "{\"n\":1}", "a form");
            var rows = talk.Logprobs();
            Check(model.Detokenize(rows.Select(row => row.Made.Token).ToArray()).Trim() == "{\"n\":1}" && rows.All(row => row.Likeliest.Count == 2), "probabilities");
            Check(talk.Logprobs().Count == 0 && form(true).Contains(" "), "a form with spaces");
            Check(new[] { "yes", "no" }.Contains(Said(talk, "So?", 0, new ReplyOptions { Grammar = "[\"yes\", \"no\"]", GrammarKind = GrammarKind.Choices })), "a choice");
            Check(talk.Info.End == JobEnd.Grammar, "the end of a choice");
        }
    }

    private static void Kept(Model model)
    {
        var file = new MemoryStream();
        using (var talk = Talk(model, new ConversationOptions { SystemMessage = "S" }))
        {
            Said(talk, Prompt, 9);
            talk.Save(file);
            file.Position = 0;
            using (var fork = talk.Fork())
            using (var loaded = Conversation.Load(model, file))
                foreach (var each in new[] { talk, fork, loaded })
                {
                    Said(each, "Go on", 9);
                    Check(each.Info.ReusedTokens > 9 && each.Messages() == talk.Messages(), "forks and what was saved go on alike");
                }
            talk.Begin();
            using (var fork = talk.Fork())
                Check(fork.Messages() == talk.Messages(), "a fork is without the unfinished reply");
            Check(Busy(() => talk.Save(file)), "an unfinished reply");
            talk.Stop();
            Throws<NotSupportedException>(() => talk.Save(new MemoryStream(new byte[9], false)), "a stream that is not written to");
        }
        var bytes = file.ToArray();
        Throws<EndOfStreamException>(() => Conversation.Load(model, new MemoryStream(bytes, 0, bytes.Length - 1)), "half a conversation");
        bytes[0]++;
        Check(Throws<RealizarException>(() => Conversation.Load(model, new MemoryStream(bytes)), "damage").Status == Status.Format, "damage");
        // Adapters and old turns.
        using (var adapter = model.LoadAdapter("tests/data/story-adapter.gguf"))
        using (var talk = Talk(model, new ConversationOptions { Adapters = new Dictionary<Adapter, float> { { adapter, 1 } } }))
            Check(Said(talk, Prompt, 40).Contains("She loved to draw animals"), "an adapter");
        using (var talk = new Conversation(model, new ConversationOptions { Capacity = 64, Overflow = Overflow.Forget, SystemMessage = "S" }))
        {
            for (var i = 0; i < 8; i++) Said(talk, "Question " + i + " of some length", 5);
            Check(talk.Info.FirstInPrompt > 0 && talk.Info.Messages == 17 && talk.Info.CacheCapacity == 64, "old turns are left out");
        }
    }

    private static void AtOnce(Model model)
    {
        var nothing = Enumerable.Range(0, 512).ToDictionary(token => (uint)token, token => float.NegativeInfinity);
        var failing = new ReplyOptions { Sampling = new Sampling { LogitBias = nothing } };
        var talks = Enumerable.Range(0, 4).Select(i => Talk(model)).ToList();
        for (var i = 0; i < 4; i++)
        {
            talks[i].Add(Prompt.Substring(i));
            talks[i].Begin(i == 0 ? failing : new ReplyOptions { MaxTokens = 5 + i });
        }
        while (Conversation.StepAll(talks, 1000)) { }
        Check(!Conversation.StepAll(new Conversation[0]) && talks[0].Info.End == JobEnd.Failed && talks[1].Error == null, "one fails alone");
        Check(talks[0].Error?.Message == Throws<RealizarException>(() => talks[0].Step(), "a failed reply").Message, "why it failed");
        using (var alone = Talk(model))
            for (var i = 1; i < 4; i++)
            {
                alone.Rewind(0);
                Said(alone, Prompt.Substring(i), 5 + i);
                Check(alone.Messages() == talks[i].Messages(), "replies at once are those of each alone");
            }
        Throws<RealizarException>(() => Conversation.StepAll(new[] { talks[1], talks[1] }), "one twice");
        talks[0].Rewind(0);
        Throws<RealizarException>(() => talks[0].Say(Prompt, failing).Count(), "nothing can be said");
        Check(talks[0].Messages() == "[]", "what failed leaves no trace");
        foreach (var talk in talks) talk.Dispose();
    }

    private static void Shared(Model model, string other)
    {
        var folder = Path.Combine(Path.GetTempPath(), Path.GetRandomFileName());
        var options = new ConversationOptions { SystemMessage = string.Concat(Enumerable.Repeat("Be brief. ", 9)) };
        string said;
        using (var talk = Talk(model, options)) said = Said(talk, Prompt, 9);
        var store = options.Store = new Store(model, new StoreOptions { MinTokens = 30, Path = folder });
        foreach (var known in new[] { false, true })
            using (var talk = Talk(model, options))
                Check(Said(talk, Prompt, 9) == said && talk.Info.ReusedTokens > 30 == known, "tokens of another conversation");
        var tokens = model.Tokenize(string.Concat(Enumerable.Repeat(Prompt, 20)));
        foreach (var known in new[] { 0, tokens.Length - 1 })
            using (var session = store.Take(tokens, 256))
            {
                Check(session.Length == known && session.Capacity == 256, "tokens of another session");
                session.Prefill(tokens.Skip(known).ToArray());
                store.Put(session);
            }
        Check(store.Info.Entries == 2 && store.Info.Hits == 2 && store.Info.Misses == 2 && store.Info.ReusedTokens > 60, "hits");
        using (var one = Model.Load(other))
        using (var session = one.NewSession(64))
            Check(Throws<RealizarException>(() => store.Put(session), "another model").Status == Status.Mismatch, "another model");
        store.Dispose();
        Throws<ObjectDisposedException>(() => Talk(model, options), "one that was disposed of");
        // What a closed store knew is in the folder.
        using (var again = new Store(model, new StoreOptions { MinTokens = 30, Path = folder }))
        {
            Check(again.Info.Files == 2 && again.Info.DiskBytes > 0, "files");
            again.Clear();
            using (var session = again.Take(tokens)) Check(again.Info.Files == 0 && session.Length == 0, "nothing is known");
        }
        Directory.Delete(folder);
        Check(Throws<RealizarException>(() => new Store(model, new StoreOptions { Path = other }), "no folder").Status == Status.IO, "no folder");
    }

    /// <summary>A stream that does not keep to what Read is to return.</summary>
    private sealed class Overlong : MemoryStream
    {
        internal int Count;
        public override int Read(byte[] buffer, int offset, int count) => Count;
    }

    private static void Refusals(Model model)
    {
        foreach (var wrong in new[] { "{\"unknown\": 1}", "{", "{\"messages\": [1]}" })
            Check(Throws<RealizarException>(() => Talk(model, new ConversationOptions { Json = wrong }), wrong).Status == Status.InvalidArgument, wrong);
        using (var talk = Talk(model))
        {
            talk.Add(Prompt);
            foreach (var wrong in new[] { new ReplyOptions { Grammar = "(", GrammarKind = GrammarKind.Regex }, new ReplyOptions { Logprobs = 33 },
                new ReplyOptions { Sampling = new Sampling { TopP = 2 } }, new ReplyOptions { Draft = Draft.Model } })
                Check(Throws<RealizarException>(() => talk.Begin(wrong), "wrong options").Status == Status.InvalidArgument, "wrong options");
            Check(Throws<RealizarException>(() => talk.Begin(new ReplyOptions { Reasoning = Reasoning.On }), "reasoning").Status == Status.Unsupported, "no reasoning");
            var full = Throws<RealizarException>(() => talk.Say(string.Concat(Enumerable.Repeat("long ", 99))), "no room");
            Check(full.Status == Status.ContextFull && full.Needed > 99, "no room");
            Check(Throws<RealizarException>(() => talk.AddJson("{\"content\": \"x\"}"), "no role").Status == Status.InvalidArgument, "no role");
            Check(Throws<RealizarException>(() => talk.Rewind(2), "too many").Status == Status.InvalidArgument, "too many");
            Check(talk.Info.Messages == 1 && talk.Info.State == ReplyState.None && !talk.Step() && talk.Parts().Count == 0, "nothing has changed");
            // An older iteration, whose loop has gone on to another message, neither takes part in a newer reply nor
            // ends it.
            var older = talk.Reply().GetEnumerator();
            Check(older.MoveNext(), "a part");
            talk.Rewind(1);
            using (var newer = talk.Reply(new ReplyOptions { MaxTokens = 5 }).GetEnumerator())
            {
                Check(newer.MoveNext(), "a newer reply");
                Throws<InvalidOperationException>(() => older.MoveNext(), "an older reply");
                older.Dispose();
                Check(newer.MoveNext(), "a newer reply");
                talk.Dispose();
                Throws<ObjectDisposedException>(() => newer.MoveNext(), "one that was disposed of");
            }
            Throws<ObjectDisposedException>(() => talk.Add("x"), "one that was disposed of");
        }
        using (var talk = Talk(model))
        using (var session = model.NewSession(16))
        using (var store = new Store(model))
        {
#nullable disable warnings // nulls are what is tested
            var absent = new Dictionary<string, Action[]> {
                { "text", new Action[] { () => talk.Say(null), () => talk.SayAsync(null), () => talk.Add(null), () => model.Tokenize(null), () => model.NewGrammar(GrammarKind.Json, null) } },
                { "path", new Action[] { () => Model.Load((string)null), () => Model.LoadAsync(null), () => model.LoadAdapter(null), () => Model.Plan((string)null) } },
                { "key", new Action[] { () => model.Meta(null), () => model.MetaList(null) } }, { "role", new Action[] { () => talk.Add("x", null) } },
                { "tokens", new Action[] { () => model.Detokenize(null), () => model.Embed(new uint[][] { null }), () => model.NewTextStream().Follow(null),
                    () => session.Prefill((uint[])null), () => session.Score(null), () => store.Take((uint[])null), () => Session.DecodeAll(new[] { session }, null),
                    () => new PromptPart((uint[])null) } },
                { "prompt", new Action[] { () => session.NewJob((uint[])null), () => session.NewJob((Prompt)null), () => session.Match(null), () => session.Prefill((Prompt)null),
                    () => store.Take((Prompt)null), () => session.Generate(null), () => session.GenerateAsync(null), () => session.Generate(null, new JobOptions()) } },
                { "texts", new Action[] { () => model.Embed((string[])null), () => model.Embed(new string[] { "x", null }) } },
                { "prompts", new Action[] { () => Realizar.Prompt.Embed(model, null), () => Realizar.Prompt.Embed(model, new Prompt[] { null }) } },
                { "parts", new Action[] { () => new Prompt(model, null), () => new Prompt(model, default(PromptPart)) } },
                { "session", new Action[] { () => store.Put(null) } }, { "sessions", new Action[] { () => Session.DecodeAll(null, null), () => Session.DecodeAll(new Session[1], new uint[1]) } },
                { "jobs", new Action[] { () => Job.StepAll(null), () => Job.StepAll(new Job[1], 5) } },
                { "conversations", new Action[] { () => Conversation.StepAll(null), () => Conversation.StepAll(new[] { talk, null }, 5) } },
                { "Placements", new Action[] { () => Model.Load("x", new LoadOptions { Placements = new Placement[1] }) } },
                { "DryBreakers", new Action[] { () => new Sampler(new Sampling { DryBreakers = new uint[1][] }) } },
                { "Grammar", new Action[] { () => talk.Begin(new ReplyOptions { GrammarKind = GrammarKind.Regex }), () => talk.Begin(new ReplyOptions { Whitespace = true }) } },
                { "logits", new Action[] { () => session.Logits(null) } }, { "rows", new Action[] { () => Media.FromRows(model, null, 64) } },
                { "Stops", new Action[] { () => talk.Begin(new ReplyOptions { Stops = null }), () => talk.Begin(new ReplyOptions { Stops = new string[] { "x", null } }), () => session.NewJob(new uint[] { 1 }, new JobOptions { Stops = null }) } },
                { "files", new Action[] { () => Model.Load(new Dictionary<string, byte[]> { { "model.gguf", null } }), () => Model.Load((Dictionary<string, byte[]>)null) } },
                { "model", new Action[] { () => new Conversation(null), () => new Store(null), () => Conversation.Load(null, new MemoryStream()), () => new Prompt(null),
                    () => Realizar.Prompt.OfChat(null, "{}"), () => Realizar.Prompt.Embed(null, new Prompt[0]), () => new Encoder(null, "x"), () => Encoder.Plan(null, "x"),
                    () => Media.FromRows(null, new float[1], 1), () => Media.Load(null, new MemoryStream()) } },
                { "stream", new Action[] { () => session.Save(null), () => model.Restore(null), () => Conversation.Load(model, null) } },
                { "Adapters", new Action[] { () => new Conversation(model, new ConversationOptions { Adapters = null }) } },
                { "LogitBias", new Action[] { () => new Sampler(new Sampling { LogitBias = null }) } },
                { "BannedSequences", new Action[] { () => new Sampler(new Sampling { BannedSequences = null }), () => new Sampler(new Sampling { BannedSequences = new uint[1][] }) } },
                { "Order", new Action[] { () => new Sampler(new Sampling { Order = null }) } },
                { "adapters", new Action[] { () => talk.SetAdapters(null), () => session.SetAdapters(null) } },
                { "media", new Action[] { () => talk.AddJson("{}", null), () => talk.AddJson("{}", new Media[1]), () => Realizar.Prompt.OfChat(model, "{}", new Media[1]), () => new PromptPart((Media)null) } },
                { "sampling", new Action[] { () => new Sampler(null) } }, { "json", new Action[] { () => talk.AddJson((string)null), () => model.Render(null) } },
            };
#nullable restore warnings
            foreach (var argument in absent)
                foreach (var call in argument.Value)
                    Check(Throws<ArgumentNullException>(call, argument.Key).ParamName == argument.Key, argument.Key);
            Check(Throws<RealizarException>(() => new Sampler(new Sampling { TopP = 2 }), "a probability").Status == Status.InvalidArgument, "a probability");
            new Sampler(new Sampling { PresencePenalty = -1, FrequencyPenalty = -1 }).Dispose();
            // Half of a surrogate pair has no UTF-8, and a NUL would cut what has no length.
            foreach (var name in new Dictionary<string, Action> { { "text", () => talk.Say("a\ud834") }, { "json", () => talk.AddJson("\udd1e") }, { "role", () => talk.Add("x", "\ud834") },
                { "Stops", () => talk.Begin(new ReplyOptions { Stops = new[] { "a\0" } }) }, { "path", () => Model.Load("a\0b") }, { "Json", () => Talk(model, new ConversationOptions { Json = "\ud834" }) } })
                Check(Throws<ArgumentException>(name.Value, name.Key).ParamName == name.Key, name.Key);
            Check(talk.Info.Messages == 0, "nothing has changed");
            // A change in the middle of a reply stays, and ends the reply.
            talk.Rewind(0);
            Throws<InvalidOperationException>(() => { foreach (var piece in talk.Say(Prompt)) talk.Add("x"); }, "a change in the middle");
            Check(talk.Info.Messages == 3 && talk.Messages(2) == "[{\"role\":\"user\",\"content\":\"x\"}]", talk.Messages());
            Throws<InvalidOperationException>(() => { foreach (var piece in talk.Say(Prompt)) talk.Rewind(1); }, "a change in the middle");
            Check(talk.Info.Messages == 1, talk.Messages());
            talk.Rewind(0);
            // The parts of a reply come once.
            var said = talk.Say(Prompt, new ReplyOptions { MaxTokens = 3 });
            Check(said.Any(), "a reply");
            Throws<InvalidOperationException>(() => said.Any(), "a reply that is read twice");
            foreach (var count in new[] { -1, 1 << 20 })
                Throws<IOException>(() => model.Restore(new Overlong { Count = count }), "a stream that reads too much");
            Check(Throws<ArgumentOutOfRangeException>(() => session.Logprobs(-7), "k").Message.StartsWith("k is -7; it must be"), "a negative k");
            var numbers = new Dictionary<string, Action> {
                { "MaxTokens", () => talk.Begin(new ReplyOptions { MaxTokens = -1 }) }, { "Logprobs", () => talk.Begin(new ReplyOptions { Logprobs = -1 }) },
                { "TopK", () => new Sampler(new Sampling { TopK = -1 }) }, { "DryWindow", () => new Sampler(new Sampling { DryWindow = -1 }) },
                { "capacity", () => model.NewSession(-1) }, { "threads", () => new Runtime(-1) }, { "length", () => session.Truncate(-1) },
                { "drop", () => session.Shift(0, -1) }, { "k", () => session.Logprobs(-1) }, { "messages", () => talk.Rewind(-1) },
                { "GpuLayers", () => Model.Load("tests/data/stories260K-f32.gguf", new LoadOptions { GpuLayers = -1 }) },
                { "MinTokens", () => new Store(model, new StoreOptions { MinTokens = -1 }) },
            };
            foreach (var number in numbers)
            {
                var message = Throws<ArgumentOutOfRangeException>(number.Value, number.Key).Message;
                Check(message.StartsWith(number.Key + " is -1; it must be a whole number from 0 to 2147483647"), message);
            }
            // Each number of the options, by its own name.
            Action<object, Action> refused = (options, call) => {
                foreach (var field in options.GetType().GetFields())
                {
                    if (field.Name == "Priority") continue; // any number
                    var usual = field.GetValue(options);
                    var wrong = field.FieldType == typeof(float) ? new object[] { float.NaN, float.PositiveInfinity, float.NegativeInfinity }.Concat(
                        field.Name == "PresencePenalty" || field.Name == "FrequencyPenalty" ? new object[0] : new object[] { -1f, float.MinValue }).ToArray()
                        : field.FieldType == typeof(int) || field.FieldType == typeof(int?) ? new object[] { -1, int.MinValue }
                        : field.FieldType.IsEnum ? new[] { Enum.ToObject(field.FieldType, 99) } : new object[0];
                    foreach (var value in wrong)
                    {
                        field.SetValue(options, value);
                        var e = Throws<ArgumentOutOfRangeException>(call, field.Name);
                        Check(e.ParamName == field.Name && e.Message.StartsWith(FormattableString.Invariant($"{field.Name} is {value}; it must be")), e.Message);
                    }
                    field.SetValue(options, usual);
                }
            };
            var sampling = new Sampling();
            refused(sampling, () => new Sampler(sampling));
            var load = new LoadOptions();
            refused(load, () => Model.Load("tests/data/stories260K-f32.gguf", load));
            var reply = new ReplyOptions();
            refused(reply, () => talk.Begin(reply));
            var jobs = new JobOptions();
            refused(jobs, () => session.NewJob(new uint[] { 1 }, jobs));
            var places = new ConversationOptions();
            refused(places, () => new Conversation(model, places));
            var stored = new StoreOptions();
            refused(stored, () => new Store(model, stored));
            var place = new Placement();
            refused(place, () => Model.Load("x", new LoadOptions { Placements = new[] { place } }));
            var encoder = new EncoderOptions();
            refused(encoder, () => new Encoder(model, "x", encoder));
            foreach (var list in new Dictionary<string, Action> {
                { "Devices[1]", () => Model.Load("x", new LoadOptions { Devices = new[] { 1, -2 } }) }, { "processors[0]", () => new Runtime(1, 0, null, new[] { -1 }) },
                { "Shares[0]", () => Model.Load("x", new LoadOptions { Devices = new[] { 1 }, Shares = new[] { float.NaN } }) }, { "rowDim", () => Media.FromRows(model, new float[1], -1) },
                { "sessions", () => Model.Plan("x", sessions: -1) }, { "first", () => talk.Messages(-1) }, { "number", () => talk.Media(-1) },
                { "keep", () => session.Shift(-1, 0) }, { "tokens", () => talk.SetCapacity(-1) }, { "keys", () => model.NewSession(8, (CacheType)99) },
                { "values", () => model.NewSession(8, values: (CacheType)99) }, { "overflow", () => talk.SetOverflow((Overflow)99) },
                { "pooling", () => model.Embed(new[] { "x" }, (Pooling)99) }, { "kind", () => model.NewGrammar((GrammarKind)99, "x") } })
                Check(Throws<ArgumentOutOfRangeException>(list.Value, list.Key).ParamName == list.Key, list.Key);
            Check(Throws<ArgumentException>(() => Model.Load("x", new LoadOptions { Runtime = new Runtime(1), Threads = 2 }), "threads twice").ParamName == "Threads", "threads twice");
            using (var two = Model.Load("tests/data/stories260K-f32.gguf", new LoadOptions { Threads = 2 }))
                Check(two.Info.VocabSize == 512, "threads of a model");
        }
        using (var talk = new Conversation(model, new ConversationOptions { Capacity = 8192 }))
        {
            var busy = 0;
            // Again where a busy machine let the task compute everything before this thread ran.
            for (var tries = 0; busy == 0 && tries < 50; tries++)
            {
                talk.Rewind(0);
                talk.Add(string.Concat(Enumerable.Repeat(Prompt + " ", 400)));
                talk.Begin(new ReplyOptions { MaxTokens = 1 });
                var task = Task.Run(() => {
                    for (;;)
                        try { return talk.Step(60000000); }
                        catch (InvalidOperationException) { } // the question of the other thread
                });
                while (!task.IsCompleted)
                {
                    Check(talk.Messages().Contains(Prompt), "messages are read at any moment");
                    try { talk.Step(0); }
                    catch (InvalidOperationException) { busy++; }
                }
                Check(!task.Result && talk.Info.End == JobEnd.Length, "the reply ends");
            }
            Check(busy > 0, "a second call");
        }
        using (var reasons = Reasons())
        using (var talk = Talk(reasons))
        {
            talk.Add(Prompt);
            var parts = talk.Reply(new ReplyOptions { Reasoning = Reasoning.On, ReasoningTokens = 5, MaxTokens = 30 }).ToList();
            Check(talk.Info.ReasoningTokens == 5 && talk.Info.Tokens == 30 && Of(parts, PartKind.Reasoning) != "" && Of(parts, PartKind.Content) != "", "bounded reasoning");
            talk.Rewind(1);
            Check(Of(talk.Reply(new ReplyOptions { Reasoning = Reasoning.Off, MaxTokens = 9 }), PartKind.Reasoning) == "", "no reasoning");
        }
    }

    /// <summary>The tiny model with a template that knows reasoning.</summary>
    private static Model Reasons()
    {
        var bytes = File.ReadAllBytes("tests/data/stories260K-f32.gguf");
        const string key = "tokenizer.chat_template";
        var template = "{{ bos_token }}{% for m in messages %}<{{ m.role }}>{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}" +
            "{{ m.content or '' }}{% endfor %}{% if add_generation_prompt %}<assistant>{% if enable_thinking %}<think>{% endif %}{% endif %}{#";
        // A multiple of 32 bytes, so that what is behind keeps its alignment.
        while ((8 + key.Length + 4 + 8 + template.Length + 2) % 32 != 0) template += " ";
        var file = new MemoryStream();
        Action<byte[]> write = data => file.Write(data, 0, data.Length);
        Action<string> text = t => { write(BitConverter.GetBytes((ulong)t.Length)); write(t.Select(c => (byte)c).ToArray()); };
        write(bytes.Take(16).ToArray());
        write(BitConverter.GetBytes(BitConverter.ToUInt64(bytes, 16) + 1));
        text(key);
        write(BitConverter.GetBytes(8));
        text(template + "#}");
        write(bytes.Skip(24).ToArray());
        return Model.Load(new Dictionary<string, byte[]> { { "model.gguf", file.ToArray() } });
    }

    private static async Task ConversingAsync(Model model)
    {
        using (var talk = Talk(model))
        using (var source = new CancellationTokenSource())
        {
            var text = "";
            var pieces = talk.SayAsync(Prompt, new ReplyOptions { MaxTokens = 25 }).GetAsyncEnumerator();
            while (await pieces.MoveNextAsync()) text += pieces.Current;
            await pieces.DisposeAsync();
            Check(text.StartsWith(Expected), "an asynchronous reply: " + text);
            talk.Rewind(1);
            var parts = talk.ReplyAsync(new ReplyOptions { Keep = true }).GetAsyncEnumerator(source.Token);
            await parts.MoveNextAsync();
            source.Cancel();
            Exception? raised = null;
            try { while (await parts.MoveNextAsync()) { } }
            catch (OperationCanceledException e) { raised = e; }
            await parts.DisposeAsync();
            Check(raised != null && talk.Messages(1).Contains("cancelled"), "a reply that was cancelled");
        }
    }

    private static string Component(string path, string question, int maxTokens)
    {
        var component = new RealizarChat { ModelPath = path, MaxTokens = maxTokens == 0 ? 20 : maxTokens, Budget = 500, Temperature = 0 };
        string text = "";
        int frames = 0, ends = 0;
        component.OnText += piece => text += piece;
        component.OnEnd += () => ends++;
        component.ModelPath = "";
        component.Send("Awake");
        foreach (var call in new Action[] { component.Begin, () => component.Ask("x"), () => component.SetSchema("{}") })
            Check(Throws<InvalidOperationException>(call, "no model").Message.Contains("no model is loaded"), "no model");
        component.Stop();
        component.Send("Update");
        component.ModelPath = path;
        component.Device = -1;
        Check(Throws<ArgumentException>(component.Load, "a negative device").Message.Contains("Device is -1"), "a negative device");
        component.Device = 99; // The component stays without a model, and its frames go on.
        Check(Throws<RealizarException>(component.Load, "no such device").Message.Contains("device 99"), "no such device");
        component.Send("Update");
        Throws<InvalidOperationException>(() => component.Ask("x"), "no model");
        component.Device = 1;
        component.Load();
        foreach (var call in new Action[] { () => component.Ask(null!), () => { component.MaxTokens = -1; component.Ask("x"); }, () => { component.Temperature = float.NaN; component.Ask("x"); },
            () => { component.Budget = 0; component.Ask("x"); } })
        {
            Throws<ArgumentException>(call, "a wrong value");
            (component.MaxTokens, component.Budget, component.Temperature) = (maxTokens == 0 ? 20 : maxTokens, 500, 0);
        }
        component.Ask(question);
        for (; component.IsAnswering; frames++) component.Send("Update");
        Check(frames > 0 && ends == 1, "a component of Unity: " + text);
        component.Ask(question);
        component.Stop();
        Check(ends == 2 && !component.IsAnswering, "a component that is stopped");
        Throws<RealizarException>(() => component.SetSchema("{\"type\": \"none\"}"), "a schema that is none");
        component.SetSchema("{\"enum\": [\"yes\", \"no\"]}");
        component.Begin();
        component.Ask(question);
        var story = text;
        for (text = ""; component.IsAnswering;) component.Send("Update");
        Check(text == "\"yes\"" || text == "\"no\"", "an answer by a schema: " + text);
        text = story;
        // A receiver that throws loses no piece but its own.
        var (heard, thrown) = ("", 0);
        component.SetSchema(null);
        component.Begin();
        component.Budget = 60000000;
        Action<string> angry = piece => { heard += piece; throw new TimeoutException(); };
        component.OnText += angry;
        component.Ask(question);
        for (text = ""; component.IsAnswering;)
            try { component.Send("Update"); }
            catch (Exception) { thrown++; }
        Check(thrown > 0 && heard == text && heard.Length > 0, "a receiver that throws: " + heard);
        component.OnText -= angry;
        text = story;
        component.Ask(question);
        component.Send("OnDestroy");
        Check(!component.IsAnswering, "a component that is destroyed");
        Throws<InvalidOperationException>(() => component.Ask(question), "a component that is destroyed");
        return text;
    }

    private static void Real(string path)
    {
        using (var model = Model.Load(path))
        using (var session = model.NewSession())
        using (var talk = new Conversation(model, "Be brief."))
        {
            Check(string.Concat(session.Generate("The capital of France is", maxTokens: 8)).Contains("Paris"), "a real model");
            Check(string.Concat(talk.Say("Hello!", new ReplyOptions { MaxTokens = 10 })).Length > 0, "a chat");
        }
        Check(Component(path, "What is the capital of France, and what is it famous for?", 0).Contains("Paris"), "an answer to a component");
    }
}
