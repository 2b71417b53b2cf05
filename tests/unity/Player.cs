// The frames of Unity for the adventure, without Unity: Update of its components, a step of its coroutine, and the wait
// for the next frame. Prints the transcript and the times of frames:
//   Player model.gguf resources microseconds frames-a-second
using System;
using System.Collections;
using System.Collections.Generic;
using System.Diagnostics;
using System.Threading;
using UnityEngine;

internal static class Player
{
    private static int Main(string[] arguments)
    {
        UnityEngine.Resources.Folder = arguments[1];
        var chat = new RealizarChat { Budget = int.Parse(arguments[2]) };
        var adventure = new Adventure { Chat = chat, ModelPath = arguments[0], Plays = true };
        var shown = "";
        adventure.OnShown += text => shown += text.Replace('\n', ' ');
        adventure.OnNoted += Console.WriteLine;
        chat.Send("Awake");
        var coroutines = new Stack<IEnumerator>();
        coroutines.Push((IEnumerator)adventure.Send("Start"));
        var frame = TimeSpan.FromSeconds(1.0 / int.Parse(arguments[3]));
        var clock = Stopwatch.StartNew();
        for (TimeSpan before = clock.Elapsed, next = before + frame; !adventure.IsOver; next += frame)
        {
            var now = clock.Elapsed;
            Time.unscaledDeltaTime = (float)(now - before).TotalSeconds;
            before = now;
            adventure.Send("Update");
            chat.Send("Update");
            if (!coroutines.Peek().MoveNext()) coroutines.Pop();
            else if (coroutines.Peek().Current is IEnumerator inner) coroutines.Push(inner);
            if (next < clock.Elapsed) next = clock.Elapsed; // A frame that was late does not hurry the next one.
            else while (clock.Elapsed < next) Thread.Sleep((next - clock.Elapsed).Milliseconds > 1 ? 1 : 0);
        }
        Console.WriteLine("shown " + shown);
        Console.WriteLine(adventure.FrameTimes());
        chat.Send("OnDestroy");
        return 0;
    }
}
