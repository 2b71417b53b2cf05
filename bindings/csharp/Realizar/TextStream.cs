using System;

namespace Realizar
{
    /// <summary>Turns tokens into text as they come, holding back the bytes of an unfinished character. One call at a
    /// time.</summary>
    public sealed partial class TextStream
    {
        /// <summary>Adds tokens whose text is not returned, such as a prompt, before the tokens to come.</summary>
        public unsafe void Follow(uint[] tokens)
        {
            rz_error err;
            fixed (uint* at = Native.Given(tokens, nameof(tokens)))
                RealizarException.Check(Native.rz_textstream_follow(Handle, at, (UIntPtr)tokens.Length, &err), &err);
        }

        /// <summary>Adds a token and returns the text that it completes, often none.</summary>
        public unsafe string Push(uint token) =>
            Native.SizedText(64, (text, capacity, n, err) => Native.rz_textstream_push_into(Handle, token, (byte*)text, capacity, n, err));

        /// <summary>Ends the text and returns the rest of it.</summary>
        public unsafe string Flush() =>
            Native.SizedText(64, (text, capacity, n, err) => Native.rz_textstream_flush_into(Handle, (byte*)text, capacity, n, err));
    }
}
