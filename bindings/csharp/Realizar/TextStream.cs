using System;

namespace Realizar
{
    /// <summary>Turns tokens into text as they come, holding back the bytes of an unfinished character. One call at a
    /// time.</summary>
    public sealed class TextStream : IDisposable
    {
        private readonly TextstreamHandle handle = new TextstreamHandle();

        internal TextStream(IntPtr pointer) { handle.Take(pointer); }

        /// <summary>Adds tokens whose text is not returned, such as a prompt, before the tokens to come.</summary>
        public unsafe void Follow(uint[] tokens)
        {
            rz_error err;
            fixed (uint* at = Native.Given(tokens, nameof(tokens)))
                RealizarException.Check(Native.rz_textstream_follow(handle, at, (UIntPtr)tokens.Length, &err), &err);
        }

        /// <summary>Adds a token and returns the text that it completes, often none.</summary>
        public unsafe string Push(uint token) =>
            Native.SizedText(64, (text, capacity, n, err) => Native.rz_textstream_push_into(handle, token, (byte*)text, capacity, n, err));

        /// <summary>Ends the text and returns the rest of it.</summary>
        public unsafe string Flush() =>
            Native.SizedText(64, (text, capacity, n, err) => Native.rz_textstream_flush_into(handle, (byte*)text, capacity, n, err));

        /// <summary>Frees the object.</summary>
        public void Dispose() { handle.Dispose(); }
    }
}
