using System;
using System.Collections.Generic;
using System.Linq;
using UnityEngine;

/// <summary>The rules of the adventure: which room, what is held, and so what a person can do. adventure.json has all
/// texts.</summary>
public sealed class World
{
    [Serializable] public sealed class Action { public string name, needs, gives, to; }
    [Serializable] public sealed class Room { public string name, text, person; public Action[] actions; }
    [Serializable] public sealed class Line { public string say; public bool interrupts; }
    [Serializable]
    public sealed class Story
    {
        public string world, question, schema, start;
        public Room[] rooms;
        public Line[] script;
    }

    public readonly Story Texts;
    public readonly List<string> Items = new List<string>();
    public Room Place { get; private set; }

    public World(string json)
    {
        Texts = JsonUtility.FromJson<Story>(json);
        Enter(Texts.start);
    }

    private void Enter(string name) { Place = Texts.rooms.First(room => room.name == name); }

    /// <summary>What the model is told ahead of the talk with the person here. The texts of all persons begin with the
    /// same words, and what was computed of these is kept.</summary>
    public string SystemMessage => Texts.world + " " + Place.person;

    /// <summary>What the person may do now. The schema of the reply offers nothing else.</summary>
    public string[] Actions() => Place.actions
        .Where(each => string.IsNullOrEmpty(each.needs) || Items.Contains(each.needs))
        .Where(each => string.IsNullOrEmpty(each.gives) || !Items.Contains(each.gives))
        .Select(each => each.name).ToArray();

    public string Schema() => Texts.schema.Replace("{actions}", "\"" + string.Join("\", \"", Actions()) + "\"");

    public string Question(string line) =>
        Texts.question.Replace("{said}", line)
            .Replace("{items}", Items.Count == 0 ? "nothing" : string.Join(" and ", Items));

    /// <summary>Returns the words that are said in a reply, as far as they have come. The schema allows no quotes in
    /// them, so that these are those of {"say":"...","action":"..."}.</summary>
    public static string Said(string reply)
    {
        var parts = reply.Split('"');
        return parts.Length > 3 ? parts[3] : "";
    }

    /// <summary>The action of a reply, or null where the reply is not whole.</summary>
    public static string Done(string reply)
    {
        var parts = reply.Split('"');
        return parts.Length == 9 ? parts[7] : null;
    }

    /// <summary>Does an action; true: it led to another room.</summary>
    public bool Act(string name)
    {
        var action = Place.actions.First(each => each.name == name);
        if (!string.IsNullOrEmpty(action.gives)) Items.Add(action.gives);
        if (!string.IsNullOrEmpty(action.to)) Enter(action.to);
        return !string.IsNullOrEmpty(action.to);
    }

    public override string ToString() => Place.name + ": " + string.Join(", ", Items);
}
