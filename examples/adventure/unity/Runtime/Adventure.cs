using System;
using System.Collections;
using System.Collections.Generic;
using System.Threading.Tasks;
using UnityEngine;

/// <summary>The adventure: a coroutine that waits frame by frame for the model to load and for each reply, while
/// RealizarChat works on these in its Update.</summary>
public sealed class Adventure : MonoBehaviour
{
    [Tooltip("Its ModelPath stays empty: the adventure loads the model beside the game.")]
    public RealizarChat Chat;
    [Tooltip("Path of a .gguf file.")] public string ModelPath = "";
    [Tooltip("Says the lines of the script in the player's place.")] public bool Plays;

    /// <summary>Has the text that the player is to be shown, piece by piece.</summary>
    public event Action<string> OnShown;
    /// <summary>Has the lines of a transcript: "> " what was said, "? " what the person can do, "&lt; " the whole
    /// reply, "! " why there is none, "= " the state.</summary>
    public event Action<string> OnNoted;

    private readonly List<float> frames = new List<float>();
    private World world;
    private string reply = "";
    private bool spoke; // in the last frame

    public bool IsOver { get; private set; }

    // --8<-- [start:engine-load]
    private IEnumerator Start()
    {
        world = new World(Resources.Load<TextAsset>("adventure").text);
        Chat.ModelPath = ModelPath;
        Chat.SystemMessage = world.SystemMessage;
        Chat.Temperature = 0;
        Chat.MaxTokens = 0;
        Chat.OnText += Hear;
        Chat.OnEnd += End;
        // Reading the file, and preparing the model's vocabulary for schemas, take longer than a frame.
        var loading = Task.Run(() => { Chat.Load(); Chat.SetSchema("{\"type\": \"boolean\"}"); });
        while (!loading.IsCompleted) yield return null;
        loading.GetAwaiter().GetResult();
        OnShown?.Invoke(world.Place.text + "\n");
        if (Plays) yield return Play();
    }
    // --8<-- [end:engine-load]

    private IEnumerator Play()
    {
        foreach (var line in world.Texts.script)
        {
            while (Chat.IsAnswering && !(line.interrupts && World.Said(reply) != "")) yield return null;
            Say(line.say);
        }
        while (Chat.IsAnswering) yield return null;
        IsOver = true;
    }

    // --8<-- [start:engine-ask]
    /// <summary>Says something. A person who is still speaking is interrupted.</summary>
    public void Say(string line)
    {
        Chat.Stop();
        OnShown?.Invoke("\n> " + line + "\n");
        OnNoted?.Invoke("> " + line);
        reply = "";
        OnNoted?.Invoke("? " + string.Join(", ", world.Actions()));
        if (world.Actions().Length == 0) return;
        Chat.SetSchema(world.Schema());
        Chat.Ask(world.Question(line));
    }
    // --8<-- [end:engine-ask]

    // --8<-- [start:engine-hear]
    private void Hear(string piece)
    {
        var before = World.Said(reply).Length;
        reply += piece;
        OnShown?.Invoke(World.Said(reply).Substring(before));
    }

    private void End()
    {
        var action = World.Done(reply);
        OnNoted?.Invoke(action == null ? "! stopped" : "< " + reply);
        if (action != null) Act(action);
        OnNoted?.Invoke("= " + world);
    }

    private void Act(string action)
    {
        OnShown?.Invoke(" (" + action + ")\n");
        if (!world.Act(action)) return;
        OnShown?.Invoke("\n" + world.Place.text + "\n");
        Chat.SystemMessage = world.SystemMessage;
        Chat.Begin();
    }
    // --8<-- [end:engine-hear]

    private void Update()
    {
        if (spoke || Chat.IsAnswering) frames.Add(Time.unscaledDeltaTime * 1000);
        spoke = Chat.IsAnswering;
    }

    /// <summary>The 50th and 99th percentile of the frames in which a person spoke, and the longest.</summary>
    public string FrameTimes()
    {
        frames.Sort();
        var n = frames.Count;
        return FormattableString.Invariant(
            $"{n} frames: {frames[n / 2]:F1}, {frames[n * 99 / 100]:F1}, {frames[n - 1]:F1} ms");
    }
}
