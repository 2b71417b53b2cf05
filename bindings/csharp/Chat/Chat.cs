// Holds a conversation:  Chat model.gguf.  Ctrl-C ends an answer, the end of the input the conversation.
using System;
using System.Collections.Generic;
using System.Threading;
using Realizar;

internal static class Chat
{
    private static int Main(string[] arguments)
    {
        if (arguments.Length != 1) { Console.Error.WriteLine("usage: Chat model.gguf"); return 2; }
        try
        {
            using (var model = Model.Load(arguments[0]))
            using (var session = model.NewSession())
                Converse(session);
            return 0;
        }
        catch (RealizarException e) { Console.Error.WriteLine($"{e.Status}: {e.Message}"); return 1; }
    }

    private static void Converse(Session session)
    {
        var messages = new List<Message>();
        CancellationTokenSource source = null;
        Console.CancelKeyPress += (sender, e) => { e.Cancel = true; source?.Cancel(); };
        for (;;)
        {
            Console.Error.Write("> ");
            var question = Console.ReadLine();
            if (question == null) return;
            messages.Add(new Message("user", question));
            var answer = "";
            using (source = new CancellationTokenSource())
                try
                {
                    foreach (var piece in session.Chat(messages, new Sampling { Temperature = 0.7f, TopP = 0.95f }, cancellation: source.Token))
                    {
                        answer += piece;
                        Console.Write(piece);
                    }
                }
                catch (OperationCanceledException) { }
            source = null;
            Console.WriteLine();
            messages.Add(new Message("assistant", answer));
        }
    }
}
