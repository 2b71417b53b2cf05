using System;
using System.Collections.Generic;
using Realizar;
using UnityEngine;

/// <summary>Runs an LLM conversation within a frame budget: Update steps the reply and passes its content to OnText.
/// If there is a path, the model is loaded when the component wakes up, on its thread.</summary>
public sealed class RealizarChat : MonoBehaviour
{
    [Tooltip("Path of a .gguf file.")] public string ModelPath = "";
    [Tooltip("What the model is told ahead of the conversation.")] public string SystemMessage = "";
    [Tooltip("Threads that compute, the game's own included; 0: one per processor, or one per fast core if cores differ.")] public int Threads = 1;
    [Tooltip("Index of the device that Load uses; 0: chosen by the library, 1: the CPU, GPUs follow. Realizar.Device.All() lists them.")]
    public int Device = 0;
    [Tooltip("Microseconds of a frame.")] public int Budget = 2000;
    public int MaxTokens = 256;
    public float Temperature = 0.7f;

    /// <summary>Receive each piece of an answer, and its end.</summary>
    public event Action<string>? OnText;
    public event Action? OnEnd;

    private Runtime? runtime;
    private Model? model;
    private Conversation? conversation;
    private Grammar? schema;
    private int turn, before; // Number of the answer; messages before its question.
    private readonly Queue<string> pieces = new Queue<string>(); // not yet passed to OnText

    /// <summary>True while an answer is computed.</summary>
    public bool IsAnswering { get; private set; }

    private void Awake()
    {
        if (ModelPath != "") Load();
    }

    /// <summary>Loads the model and begins a conversation; blocks until the file is read. A game with a loading screen
    /// leaves the path empty at first, and calls this and SetSchema on a Task.</summary>
    public void Load()
    {
        Stop();
        OnDestroy();
        runtime = new Runtime(Threads, 0, (level, text) => Debug.Log(text));
        model = Model.Load(ModelPath, new LoadOptions { Runtime = runtime, Device = Device });
        conversation = new Conversation(model, new ConversationOptions { Overflow = Overflow.Forget });
        Begin();
    }

    /// <summary>Begins a new conversation with the loaded model. The KV cache of the same beginning is
    /// reused.</summary>
    public void Begin()
    {
        var begun = Loaded(conversation);
        Stop();
        begun.Rewind(0);
        if (!string.IsNullOrEmpty(SystemMessage)) begun.Add(SystemMessage, "system");
    }

    private static T Loaded<T>(T? loaded) where T : class => loaded ?? throw new InvalidOperationException("no model is loaded; call Load first");

    /// <summary>Sets the JSON schema of answers (structured output), from the next question until another model is
    /// loaded; null: none. The first schema of a model takes some tenths of a second.</summary>
    public void SetSchema(string? json)
    {
        var compiled = json == null ? null : Loaded(model).NewGrammar(GrammarKind.JsonSchema, json);
        schema?.Dispose();
        schema = compiled;
    }

    /// <summary>Asks a question; ends an unfinished answer.</summary>
    public void Ask(string question)
    {
        var asked = Loaded(conversation);
        if (question == null) throw new ArgumentNullException(nameof(question));
        if (Budget < 1) throw new ArgumentOutOfRangeException(nameof(Budget), $"Budget is {Budget}; it must be positive");
        Stop();
        before = asked.Info.Messages;
        var sampling = new Sampling { Temperature = Temperature, TopP = 0.95f, Seed = (ulong)before + 1 };
        var options = new ReplyOptions { MaxTokens = MaxTokens, Sampling = sampling, Compiled = schema, Keep = true };
        asked.Add(question);
        try { asked.Begin(options); }
        catch
        {
            asked.Rewind(before);
            throw;
        }
        IsAnswering = true;
    }

    /// <summary>Ends the answer and keeps its text in the conversation; without text, removes the question too, because
    /// chat templates need alternating questions and answers.</summary>
    public void Stop()
    {
        if (!IsAnswering || conversation == null) return;
        IsAnswering = false;
        turn++;
        pieces.Clear();
        var info = conversation.Info;
        conversation.Stop();
        if (info.Tokens == 0 || info.End == JobEnd.Failed) conversation.Rewind(before);
        OnEnd?.Invoke();
    }

    private void Update()
    {
        if (!IsAnswering || conversation == null) return;
        var (now, going) = (turn, false);
        try { going = conversation.Step(Budget); }
        catch (Exception e) { Debug.LogError(e.Message); }
        foreach (var part in conversation.Parts())
            if (part.Kind == PartKind.Content) pieces.Enqueue(part.Text);
        while (turn == now && pieces.Count > 0) OnText?.Invoke(pieces.Dequeue()); // the rest comes later if this throws
        if (!going && turn == now) Stop(); // unless a receiver has stopped it or asked again
    }

    private void OnDestroy()
    {
        IsAnswering = false;
        foreach (var each in new IDisposable?[] { schema, conversation, model, runtime }) each?.Dispose();
        (schema, conversation, model, runtime) = (null, null, null, null);
    }
}
