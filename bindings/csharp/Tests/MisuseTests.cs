// What programs do wrong: replies within replies, objects that are disposed of while a call uses them, cancels before
// and between calls, empty lists. Each is an exception of .NET or a named state, and changes nothing.
using System;
using System.Collections.Generic;
using System.IO;
using System.Linq;
using System.Threading;
using System.Threading.Tasks;
using Realizar;

internal static partial class Tests
{
    private static void Misused(Model model)
    {
        Nested(model);
        Disposed(model);
        DisposedInUse(model).GetAwaiter().GetResult();
        CancelledBefore(model).GetAwaiter().GetResult();
        LeftEarly(model).GetAwaiter().GetResult();
        PausedBatches(model);
        Empty(model);
        Constrained(model);
        ManyChats(model);
    }

    private static void Each(IEnumerable<Action> calls, Action<Action, string> check)
    {
        var i = 0;
        foreach (var call in calls) check(call, "call " + i++);
    }

    /// <summary>A second reply in the loop of one.</summary>
    private static void Nested(Model model)
    {
        var options = new ReplyOptions { MaxTokens = 12 };
        using (var plain = Talk(model))
        using (var talk = Talk(model))
        {
            var expected = string.Concat(plain.Say(Prompt, options));
            var calls = new Action[] {
                () => talk.Say("x"), () => talk.Reply(), () => talk.Begin(), () => talk.BeginRead(), () => talk.Read(), () => talk.Parts(),
                () => talk.SayAsync("x").GetAsyncEnumerator().MoveNextAsync().AsTask().GetAwaiter().GetResult(),
            };
            var said = "";
            foreach (var piece in talk.Say(Prompt, options))
            {
                said += piece;
                if (talk.Info.State == ReplyState.Ended) continue; // nothing is left to take from it
                Each(calls, (call, name) => Check(Throws<InvalidOperationException>(call, name).Message.Contains("enumerated"), name));
            }
            Check(said == expected && talk.Messages() == plain.Messages(), "a reply within a reply: " + talk.Messages());
            // Once it has been stopped, or has ended, another one may follow within the loop.
            var pieces = 0;
            foreach (var piece in talk.Say("More"))
            {
                talk.Stop();
                Check(Said(talk, "Go on", 5) != "" && pieces++ == 0, "a reply after a stop");
                break;
            }
            foreach (var part in talk.Reply(options))
                if (part.Kind == PartKind.End) Check(Said(talk, "Go on", 5) != "", "a reply at the end of another");
            Check(talk.Info.Messages == 9, talk.Messages());
            // A loop that was left in the middle is over.
            foreach (var piece in talk.Say(Prompt)) break;
            Check(Said(talk, "Go on", 5) != "", "a reply after a loop that was left");
        }
        using (var talk = Talk(model))
            Each(new Action[] { () => talk.SetDeadline(TimeSpan.Zero), talk.Resume }, (call, name) =>
                Check(Throws<InvalidOperationException>(call, name).Message.Contains("no reply"), "no reply that a deadline would be of"));
    }

    /// <summary>Every class, after it was disposed of.</summary>
    private static void Disposed(Model model)
    {
        var own = Model.Load("tests/data/stories260K-f32.gguf");
        var session = own.NewSession(64);
        var job = own.NewSession(64).NewJob(new uint[] { 1 });
        var talk = Talk(model);
        var (grammar, sampler, store) = (model.NewGrammar(GrammarKind.Json, ""), new Sampler(new Sampling()), new Store(model));
        var (media, stream, parser) = (Media.FromRows(model, new float[64], 64), model.NewTextStream(), model.NewChatParser(Asking("x")));
        var (prompt, runtime, adapter) = (new Prompt(model, new uint[] { 1 }), new Runtime(1), model.LoadAdapter("tests/data/story-adapter.gguf"));
        using (var open = model.NewSession(64))
        using (var other = Talk(model))
        {
            other.Add(Prompt);
            for (var i = 0; i < 2; i++) // a second time does nothing
                foreach (var one in new IDisposable[] { session, job, own, talk, grammar, sampler, store, media, stream, parser, prompt, runtime, adapter }) one.Dispose();
            Each(new Action[] {
                () => own.Tokenize("x"), () => own.NewSession(), () => own.Embed(new[] { "x" }, Pooling.Mean), () => own.Meta("x"), () => own.NewTextStream(), () => own.GetMetrics(),
                () => new Conversation(own), () => new Store(own), () => new Prompt(own, new uint[] { 1 }), () => new Encoder(own, "x"), () => own.IsEnd(1), own.ResetMetrics,
                () => session.Prefill(new uint[] { 1 }), () => session.Sample(), () => session.Fork(), () => session.Save(new MemoryStream()), () => session.NewJob(new uint[] { 1 }),
                () => Check(session.Length == 0, "length"), () => session.Tokens(), () => Session.DecodeAll(new[] { session }, new uint[1]), () => session.Release(),
                () => job.Step(), () => job.Text(), () => job.Tokens(), () => job.Logprobs(), () => Job.StepAll(new[] { job }), () => Check(job.End == JobEnd.None, "end"),
                () => job.SetDeadline(null), job.Resume,
                () => talk.Add("x"), () => talk.Say("x"), () => talk.Begin(), () => talk.Step(), () => talk.Parts(), () => talk.Fork(), () => talk.Messages(), talk.Stop, talk.Release,
                () => talk.Save(new MemoryStream()), () => talk.Rewind(0), () => Conversation.StepAll(new[] { talk }), () => Check(talk.Info.Messages == 0, "info"),
                () => other.Begin(new ReplyOptions { Compiled = grammar }), () => sampler.SetGrammar(null), () => open.Sample(sampler), () => open.NewJob(new uint[] { 1 }, new JobOptions { Grammar = grammar }),
                () => other.Begin(new ReplyOptions { Draft = Draft.Model, DraftModel = own }), () => other.SetStore(store), () => store.Take(new uint[] { 1 }), () => store.Put(open), store.Clear,
                () => media.Rows(), () => media.Save(new MemoryStream()), () => other.AddJson("[]", media), () => new Prompt(model, media), () => stream.Push(1), () => stream.Flush(),
                () => parser.Push(1), () => parser.End(), () => open.Prefill(prompt), () => open.NewJob(prompt), () => prompt.Tokens(), () => runtime.SetThreads(1),
                () => Model.Load("tests/data/stories260K-f32.gguf", new LoadOptions { Runtime = runtime }), () => other.SetAdapters(new Dictionary<Adapter, float> { { adapter, 1 } }),
            }, (call, name) => Check(typeof(Model).Assembly.GetType("Realizar." + Throws<ObjectDisposedException>(call, name).ObjectName) != null, name + ": no class"));
            Check(other.Info.Messages == 1 && open.Length == 0, "nothing has changed");
        }
    }

    /// <summary>Calls of another thread, which end when their object is disposed of.</summary>
    private static async Task DisposedInUse(Model model)
    {
        var many = Enumerable.Repeat(7u, 8000).ToArray();
        var large = new ConversationOptions { Capacity = 8192 };
        Func<Action, Action, IDisposable, Task> ends = async (call, isFree, used) => {
            var task = Task.Run(() => {
                for (;;)
                    try { call(); return; }
                    catch (InvalidOperationException e) when (!(e is ObjectDisposedException)) { } // the question of the other thread
            });
            for (var busy = false; !busy && !task.IsCompleted;)
                try { isFree(); }
                catch (InvalidOperationException) { busy = true; }
            used.Dispose();
            try { await task; }
            catch (ObjectDisposedException) { return; }
            throw new Exception("FAILED: a call goes on without its object");
        };
        for (var i = 0; i < 3; i++)
        {
            var session = model.NewSession(8192);
            await ends(() => session.Prefill(many), () => session.Truncate(0), session);
            var scored = model.NewSession(8192);
            await ends(() => scored.Score(many), () => scored.Truncate(0), scored);
            var talk = new Conversation(model, large);
            talk.Add(string.Concat(Enumerable.Repeat(Prompt + " ", 900)));
            await ends(() => talk.Read(), talk.Release, talk);
            var said = new Conversation(model, large);
            await ends(() => said.Say(string.Concat(Enumerable.Repeat(Prompt + " ", 900))).Count(), said.Release, said);
            var host = model.NewSession(8192);
            var job = host.NewJob(many);
            await ends(() => { while (job.Step()) { } }, () => job.Step(0), job);
            host.Truncate(0); // which is free again
            // A fork of one that was disposed of goes on.
            using (var first = Talk(model))
            {
                first.Add(Prompt);
                using (var fork = first.Fork())
                {
                    first.Dispose();
                    Check(Said(fork, "x", 3) != "", "a fork");
                }
            }
        }
        // An enumeration that is disposed of while it computes.
        using (var talk = new Conversation(model, large))
        {
            var pieces = talk.SayAsync(string.Concat(Enumerable.Repeat(Prompt + " ", 900))).GetAsyncEnumerator();
            var next = pieces.MoveNextAsync().AsTask();
            Throws<InvalidOperationException>(() => pieces.MoveNextAsync(), "two at once");
            await pieces.DisposeAsync();
            Exception? raised = null;
            try { await next; }
            catch (OperationCanceledException e) { raised = e; }
            Check(raised != null && !await pieces.MoveNextAsync(), "an enumeration that was disposed of");
            await pieces.DisposeAsync();
            talk.Rewind(0);
            Check(Said(talk, Prompt, 5) != "", "a conversation after it");
        }
    }

    private static async Task CancelledBefore(Model model)
    {
        var source = new CancellationTokenSource();
        source.Cancel();
        var token = source.Token;
        using (var talk = Talk(model))
        using (var session = model.NewSession(64))
        {
            talk.Add(Prompt);
            var before = talk.Messages();
            Each(new Action[] {
                () => Model.Load("tests/data/stories260K-f32.gguf", null, token), () => model.Embed(new[] { "x" }, Pooling.Mean, true, token), () => talk.Say("x", null, token), () => talk.Begin(null, token),
                () => talk.Read(null, token), () => talk.Reply(null, token), () => session.Prefill(new uint[] { 1 }, token), () => session.Score(new uint[] { 1 }, token),
                () => session.NewJob(new uint[] { 1 }, null, token), () => session.Generate("x", null, token).Any(), () => Talk(model, new ConversationOptions { Cancellation = token }),
            }, (call, name) => Check(Throws<OperationCanceledException>(call, name).CancellationToken == token, name));
            foreach (var begin in new Func<Task>[] {
                () => Model.LoadAsync("tests/data/stories260K-f32.gguf", null, token), () => talk.SayAsync("x", null, token).GetAsyncEnumerator().MoveNextAsync().AsTask(),
                () => talk.SayAsync("x").GetAsyncEnumerator(token).MoveNextAsync().AsTask(), () => talk.ReplyAsync(null, token).GetAsyncEnumerator().MoveNextAsync().AsTask(),
                () => session.GenerateAsync("x", cancellationToken: token).GetAsyncEnumerator().MoveNextAsync().AsTask() })
            {
                OperationCanceledException? raised = null;
                try { await begin(); }
                catch (OperationCanceledException e) { raised = e; }
                Check(raised?.CancellationToken == token, "a token that was cancelled before");
            }
            Check(talk.Messages() == before && session.Length == 0 && talk.Info.State == ReplyState.None, "no trace");
        }
        using (var loaded = await Model.LoadAsync("tests/data/stories260K-f32.gguf")) Check(loaded.Info.VocabSize == 512, "a load");
    }

    /// <summary>An asynchronous loop that is left, and one that is disposed of before it has begun.</summary>
    private static async Task LeftEarly(Model model)
    {
        using (var talk = Talk(model))
        using (var session = model.NewSession(64))
        {
            var unused = talk.SayAsync(Prompt).GetAsyncEnumerator();
            await unused.DisposeAsync();
            Check(unused.Current == null && talk.Info.Messages == 0, "one that was never asked");
            var pieces = talk.SayAsync(Prompt).GetAsyncEnumerator();
            var said = "";
            while (said.Length < 10 && await pieces.MoveNextAsync()) said += pieces.Current;
            await pieces.DisposeAsync();
            Check(talk.Messages(1) == "[{\"role\":\"assistant\",\"content\":\"" + said + "\",\"finish_reason\":\"cancelled\"}]", "what was said stays: " + talk.Messages());
            Check(Said(talk, "More", 3) != "", "it goes on");
            var generated = session.GenerateAsync(Prompt, new JobOptions { Stops = new[] { "Lily" } }).GetAsyncEnumerator();
            Check(await generated.MoveNextAsync(), "a piece");
            await generated.DisposeAsync();
            session.Truncate(0);
        }
    }

    /// <summary>Batches in which all that is left has been cancelled or has reached its deadline.</summary>
    private static void PausedBatches(Model model)
    {
        using (var source = new CancellationTokenSource())
        using (var one = Talk(model))
        using (var two = Talk(model))
        {
            foreach (var talk in new[] { one, two }) talk.Add(Prompt);
            one.Begin(new ReplyOptions { MaxTokens = 3 });
            two.Begin(new ReplyOptions { MaxTokens = 30 }, source.Token);
            while (one.Info.State != ReplyState.Ended) Check(Conversation.StepAll(new[] { one, two }), "both go on");
            source.Cancel();
            Check(!Conversation.StepAll(new[] { one, two }) && !Conversation.StepAll(new[] { two }, 500), "nothing goes on");
            Check(two.Info.Stopped == Status.Cancelled && two.Info.State == ReplyState.Tokens && one.Info.Stopped == null && one.Info.End == JobEnd.Length, "the state of each");
            Check(Throws<OperationCanceledException>(() => two.Step(), "alone").CancellationToken == source.Token, "alone");
            two.Resume();
            two.SetDeadline(TimeSpan.Zero);
            Check(!Conversation.StepAll(new[] { one, two }) && two.Info.Stopped == Status.Deadline, "a deadline");
            two.Resume();
            while (Conversation.StepAll(new[] { one, two })) { }
            Check(two.Info.End == JobEnd.Length && two.Info.Tokens == 30 && two.Info.Stopped == null, "it goes on");
        }
        using (var source = new CancellationTokenSource())
        using (var session = model.NewSession(64))
        using (var job = session.NewJob(model.Tokenize(Prompt), new JobOptions { MaxTokens = 9 }, source.Token))
        {
            Check(Job.StepAll(new[] { job }) && job.Stopped == null, "a job");
            source.Cancel();
            Check(!Job.StepAll(new[] { job }) && job.Stopped == Status.Cancelled && job.End == JobEnd.None, "a cancelled job");
            job.Resume();
            job.SetDeadline(TimeSpan.Zero);
            Check(!Job.StepAll(new[] { job }) && job.Stopped == Status.Deadline, "a deadline of a job");
            job.Resume();
            while (Job.StepAll(new[] { job })) { }
            Check(job.End == JobEnd.Length && job.Count == 9, "it goes on");
        }
    }

    private static void Empty(Model model)
    {
        using (var session = model.NewSession(64))
        using (var talk = Talk(model))
        {
            Check(model.Embed(new string[0], Pooling.Mean).Length == 0 && Realizar.Prompt.Embed(model, new Prompt[0], Pooling.None).Length == 0, "no embeddings");
            Check(Session.DecodeAll(new Session[0], new uint[0]).Length == 0 && model.Detokenize(new uint[0]) == "", "no sessions");
            Each(new Action[] { () => session.Prefill(new uint[0]), () => session.NewJob(new uint[0]), () => new Sampler(new Sampling { BannedSequences = new[] { new uint[0] } }),
                () => talk.Begin(new ReplyOptions { Stops = new[] { "" } }), () => talk.Begin(new ReplyOptions { Grammar = "" }) },
                (call, name) => Check(Throws<RealizarException>(call, name).Status == Status.InvalidArgument, name));
            Throws<RealizarException>(() => Model.Load(new Dictionary<string, byte[]>()), "no files");
            talk.AddJson("[]");
            Check(talk.Messages() == "[]" && string.Concat(model.Detokenize(model.Tokenize(""))) == "", "nothing");
        }
    }

    /// <summary>Options that constrain by themselves.</summary>
    private static void Constrained(Model model)
    {
        using (var talk = Talk(model))
        {
            var text = Said(talk, Prompt, 40, new ReplyOptions { GrammarKind = GrammarKind.Json });
            Check("{[\"-0123456789tfn".Contains(text[0]), "JSON without a text of a grammar: " + text);
            talk.Rewind(0);
            var banned = new[] { model.Tokenize("Lily", false) };
            Check(!Said(talk, Prompt, 20, new ReplyOptions { Sampling = new Sampling { BannedSequences = banned } }).Contains("Lily"), "a banned sequence alone");
        }
    }

    /// <summary>Chats leave no memory behind; the KV cache of each takes half a megabyte.</summary>
    private static void ManyChats(Model model)
    {
        if (!File.Exists("/proc/self/status")) return;
        Func<int, int> after = n => {
            for (var i = 0; i < n; i++)
                using (var talk = new Conversation(model, "Be brief.")) Said(talk, Prompt, 3);
            GC.Collect();
            var resident = File.ReadLines("/proc/self/status").First(line => line.StartsWith("VmRSS"));
            return int.Parse(string.Concat(resident.Where(char.IsDigit)));
        };
        var before = after(100);
        var grown = after(200) - before;
        Check(grown < 16000, $"{grown} KB of memory after 200 chats");
    }

    /// <summary>Ends the process with the code 7 while threads load, save and compute.</summary>
    private static void EndInUse(string path)
    {
        var started = 0;
        using (var bytes = new MemoryStream(File.ReadAllBytes(path)))
            for (var i = 0; i < 4; i++)
            {
                var kind = i;
                new Thread(() => {
                    using (var model = Model.Load(path))
                    using (var session = model.NewSession(512))
                        for (Interlocked.Increment(ref started);;)
                            if (kind == 0) Model.Load(path).Dispose();
                            else if (kind == 1) session.Save(new MemoryStream());
                            else if (kind == 2) session.Truncate(0);
                            else string.Concat(session.Generate("Once", maxTokens: 50));
                }) { IsBackground = true }.Start();
            }
        while (started < 4) Thread.Sleep(1);
        Thread.Sleep(20);
        Environment.Exit(7);
    }
}
