// --8<-- [start:start]
// dotnet run model.gguf
using System;
using Realizar;

static class Chat
{
    static void Main(string[] arguments)
    {
        using (var model = Model.Load(arguments[0]))
        using (var chat = new Conversation(model, "Be brief."))
            for (string line; (line = Console.ReadLine()) != null; Console.WriteLine())
                foreach (var piece in chat.Say(line))
                    Console.Write(piece);
    }
}
// --8<-- [end:start]
