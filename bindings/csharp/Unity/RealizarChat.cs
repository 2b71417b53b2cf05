using System;
using System.Collections.Generic;
using Realizar;
using UnityEngine;

/// <summary>Answers a conversation within the time that a frame can spare: a job is stepped in Update, and its text is handed to
/// OnText as it comes. The model is loaded when the component wakes up, on its thread.</summary>
public sealed class RealizarChat : MonoBehaviour
{
    [Tooltip("Path of a .gguf file.")] public string ModelPath = "";
    [Tooltip("Workers beside the engine's own; 0: one a processor core.")] public int Threads = 1;
    [Tooltip("Microseconds of a frame.")] public int Budget = 2000;
    public int MaxTokens = 256;
    public float Temperature = 0.7f;

    /// <summary>Told each piece of an answer, and its end.</summary>
    public event Action<string> OnText;
    public event Action OnEnd;

    private readonly List<Message> messages = new List<Message>();
    private Runtime runtime;
    private Model model;
    private Session session;
    private Job job;
    private string answer;

    public bool IsAnswering => job != null;

    private void Awake()
    {
        runtime = new Runtime(Threads, 0, (level, text) => Debug.Log(text));
        model = Model.Load(ModelPath, new LoadOptions { Runtime = runtime });
        session = model.NewSession();
    }

    /// <summary>Asks a question; an answer that is still coming ends.</summary>
    public void Ask(string question)
    {
        Stop();
        messages.Add(new Message("user", question));
        answer = "";
        var options = new JobOptions { MaxTokens = MaxTokens, Sampling = new Sampling { Temperature = Temperature, TopP = 0.95f, Seed = (ulong)messages.Count } };
        job = session.NewReply(messages, options);
    }

    /// <summary>Ends the answer; what there is of it stays in the conversation.</summary>
    public void Stop()
    {
        if (job == null) return;
        job.Dispose();
        job = null;
        messages.Add(new Message("assistant", answer));
        OnEnd?.Invoke();
    }

    private void Update()
    {
        if (job == null) return;
        var going = job.Step(Budget);
        var piece = job.Text();
        answer += piece;
        if (piece.Length > 0) OnText?.Invoke(piece);
        if (!going) Stop();
    }

    private void OnDestroy()
    {
        job?.Dispose();
        session?.Dispose();
        model?.Dispose();
        runtime?.Dispose();
    }
}
