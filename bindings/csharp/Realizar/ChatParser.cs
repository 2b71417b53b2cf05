using System;
using System.Collections.Generic;
using System.Text;

namespace Realizar
{
    /// <summary>A part of a reply.</summary>
    public sealed class Part
    {
        /// <summary>The kind of the part.</summary>
        public PartKind Kind { get; internal set; }
        /// <summary>Number of the tool call that an id, a name or arguments belong to.</summary>
        public int Call { get; internal set; }
        /// <summary>The text of the part.</summary>
        public string Text { get; internal set; } = "";
        /// <summary>True for content that begins like a tool call but is none, and for the End of a reply that had such
        /// content or broke off in a tool call.</summary>
        public bool Unparsed { get; internal set; }

        internal unsafe delegate int Next(uint* kind, uint* flags, uint* index, byte* text, UIntPtr capacity, UIntPtr* len, rz_error* err);

        /// <summary>All parts that a function has.</summary>
        internal static unsafe IReadOnlyList<Part> All(Next next)
        {
            var parts = new List<Part>();
            for (;;)
            {
                var kind = new uint[1];
                var flags = new uint[1];
                var index = new uint[1];
                var text = Native.SizedText(64, (bytes, capacity, n, err) => {
                    fixed (uint* k = kind, f = flags, i = index) return next(k, f, i, (byte*)bytes, capacity, n, err);
                });
                if (kind[0] == 0) return parts;
                parts.Add(new Part { Kind = (PartKind)kind[0], Call = (int)index[0], Text = text, Unparsed = (flags[0] & Native.RZ_CHAT_EVENT_FLAG_UNPARSED) != 0 });
            }
        }
    }

    /// <summary>Parses the tokens of a reply into reasoning, content and tool calls. One call at a time.</summary>
    public sealed partial class ChatParser
    {
        /// <summary>Adds a token and returns the parts that it completes, often none.</summary>
        public unsafe IReadOnlyList<Part> Push(uint token)
        {
            Native.Call(err => Native.rz_chat_parser_push(Handle, token, err));
            return Parts();
        }

        /// <summary>Ends the reply and returns its remaining parts.</summary>
        public unsafe IReadOnlyList<Part> End()
        {
            Native.Call(err => Native.rz_chat_parser_end(Handle, err));
            return Parts();
        }

        private unsafe IReadOnlyList<Part> Parts() => Part.All((kind, flags, index, text, capacity, len, err) =>
            Native.rz_chat_parser_next_into(Handle, kind, flags, index, text, capacity, len, err));
    }
}
