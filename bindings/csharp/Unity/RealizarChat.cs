using System;
using Realizar;
using UnityEngine;

/// <summary>Answers a conversation within the time that a frame can spare: a reply is stepped in Update, and its content is handed to
/// OnText as it comes. The model is loaded when the component wakes up, on its thread.</summary>
public sealed class RealizarChat : MonoBehaviour
{
    [Tooltip("Path of a .gguf file.")] public string ModelPath = "";
    [Tooltip("What the model is told ahead of the conversation.")] public string SystemMessage = "";
    [Tooltip("Workers beside the engine's own; 0: one a processor core.")] public int Threads = 1;
    [Tooltip("Microseconds of a frame.")] public int Budget = 2000;
    public int MaxTokens = 256;
    public float Temperature = 0.7f;

    /// <summary>Told each piece of an answer, and its end.</summary>
    public event Action<string> OnText;
    public event Action OnEnd;

    private Runtime runtime;
    private Model model;
    private Conversation conversation;

    public bool IsAnswering { get; private set; }

    private void Awake()
    {
        runtime = new Runtime(Threads, 0, (level, text) => Debug.Log(text));
        model = Model.Load(ModelPath, new LoadOptions { Runtime = runtime });
        conversation = new Conversation(model, new ConversationOptions { SystemMessage = SystemMessage == "" ? null : SystemMessage, Overflow = Overflow.Forget });
    }

    /// <summary>Asks a question; an answer that is still coming ends.</summary>
    public void Ask(string question)
    {
        Stop();
        conversation.Add(question);
        var sampling = new Sampling { Temperature = Temperature, TopP = 0.95f, Seed = (ulong)conversation.Info.Messages };
        conversation.Begin(new ReplyOptions { MaxTokens = MaxTokens, Sampling = sampling, Keep = true });
        IsAnswering = true;
    }

    /// <summary>Ends the answer; what there is of it stays in the conversation.</summary>
    public void Stop()
    {
        if (!IsAnswering) return;
        conversation.Stop();
        IsAnswering = false;
        OnEnd?.Invoke();
    }

    private void Update()
    {
        if (!IsAnswering) return;
        var going = conversation.Step(Budget);
        foreach (var part in conversation.Parts())
            if (part.Kind == PartKind.Content) OnText?.Invoke(part.Text);
        if (!going) Stop();
    }

    private void OnDestroy()
    {
        conversation?.Dispose();
        model?.Dispose();
        runtime?.Dispose();
    }
}
