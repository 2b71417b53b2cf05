// Holds a conversation:  Chat model.gguf.  Ctrl-C ends an answer, the end of the input the conversation.
using System;
using Realizar;

internal static class Chat
{
    private static int Main(string[] arguments)
    {
        if (arguments.Length != 1) { Console.Error.WriteLine("usage: Chat model.gguf"); return 2; }
        try
        {
            using (var model = Model.Load(arguments[0]))
            using (var conversation = new Conversation(model, new ConversationOptions { Overflow = Overflow.Forget }))
                Converse(conversation);
            return 0;
        }
        catch (RealizarException e) { Console.Error.WriteLine($"{e.Status}: {e.Message}"); return 1; }
    }

    private static void Converse(Conversation conversation)
    {
        var answering = false;
        Console.CancelKeyPress += (sender, e) => { e.Cancel = true; answering = false; };
        for (;;)
        {
            Console.Error.Write("> ");
            var question = Console.ReadLine();
            if (question == null) return;
            answering = true;
            foreach (var piece in conversation.Say(question))
            {
                Console.Write(piece);
                if (!answering) break;
            }
            Console.WriteLine();
        }
    }
}
