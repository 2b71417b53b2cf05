// Objects hold a handle of the library, and free it. The build writes this file: make header.
using System;

namespace Realizar
{
    public sealed partial class Adapter : IDisposable
    {
        private readonly AdapterHandle handle = new AdapterHandle();
        internal AdapterHandle Handle => Native.Open(handle, nameof(Adapter));

        internal Adapter(IntPtr pointer) { handle.Take(pointer); }

        /// <summary>Frees the object.</summary>
        public void Dispose() { handle.Dispose(); }
    }

    public sealed partial class Session : IDisposable
    {
        private readonly CacheHandle handle = new CacheHandle();
        internal CacheHandle Handle => Native.Open(handle, nameof(Session));

        /// <summary>Frees the session. A call of another thread ends within milliseconds.</summary>
        public void Dispose()
        {
            if (handle.IsClosed) return;
            handle.Dispose(); // freed after a call that uses it
            Closed();
        }

        /// <summary>Ends the calls that use the session.</summary>
        partial void Closed();
    }

    public sealed partial class ChatParser : IDisposable
    {
        private readonly ChatParserHandle handle = new ChatParserHandle();
        internal ChatParserHandle Handle => Native.Open(handle, nameof(ChatParser));

        internal ChatParser(IntPtr pointer) { handle.Take(pointer); }

        /// <summary>Frees the object.</summary>
        public void Dispose() { handle.Dispose(); }
    }

    public sealed partial class Conversation : IDisposable
    {
        private readonly ConversationHandle handle = new ConversationHandle();
        internal ConversationHandle Handle => Native.Open(handle, nameof(Conversation));

        /// <summary>Frees the conversation. A call of another thread ends within milliseconds.</summary>
        public void Dispose()
        {
            if (handle.IsClosed) return;
            handle.Dispose(); // freed after a call that uses it
            Closed();
        }

        /// <summary>Ends the calls that use the conversation.</summary>
        partial void Closed();
    }

    public sealed partial class Encoder : IDisposable
    {
        private readonly EncoderHandle handle = new EncoderHandle();
        internal EncoderHandle Handle => Native.Open(handle, nameof(Encoder));

        /// <summary>Frees the object.</summary>
        public void Dispose() { handle.Dispose(); }
    }

    public sealed partial class Grammar : IDisposable
    {
        private readonly GrammarHandle handle = new GrammarHandle();
        internal GrammarHandle Handle => Native.Open(handle, nameof(Grammar));

        internal Grammar(IntPtr pointer) { handle.Take(pointer); }

        /// <summary>Frees the object.</summary>
        public void Dispose() { handle.Dispose(); }
    }

    public sealed partial class Job : IDisposable
    {
        private readonly JobHandle handle = new JobHandle();
        internal JobHandle Handle => Native.Open(handle, nameof(Job));

        /// <summary>Frees the job. A call of another thread ends within milliseconds.</summary>
        public void Dispose()
        {
            if (handle.IsClosed) return;
            handle.Dispose(); // freed after a call that uses it
            Closed();
        }

        /// <summary>Ends the calls that use the job.</summary>
        partial void Closed();
    }

    public sealed partial class Media : IDisposable
    {
        private readonly MediaHandle handle = new MediaHandle();
        internal MediaHandle Handle => Native.Open(handle, nameof(Media));

        /// <summary>Frees the object.</summary>
        public void Dispose() { handle.Dispose(); }
    }

    public sealed partial class Model : IDisposable
    {
        private readonly ModelHandle handle = new ModelHandle();
        internal ModelHandle Handle => Native.Open(handle, nameof(Model));

        /// <summary>Ends the use of the model. Sessions remain usable; the last one frees the memory.</summary>
        public void Dispose() { handle.Dispose(); }
    }

    public sealed partial class Prompt : IDisposable
    {
        private readonly PromptHandle handle = new PromptHandle();
        internal PromptHandle Handle => Native.Open(handle, nameof(Prompt));

        internal Prompt(IntPtr pointer) { handle.Take(pointer); }

        /// <summary>Frees the object.</summary>
        public void Dispose() { handle.Dispose(); }
    }

    public sealed partial class Runtime : IDisposable
    {
        private readonly RuntimeHandle handle = new RuntimeHandle();
        internal RuntimeHandle Handle => Native.Open(handle, nameof(Runtime));

        /// <summary>Frees the object. Models keep what they need of it.</summary>
        public void Dispose() { handle.Dispose(); }
    }

    public sealed partial class Sampler : IDisposable
    {
        private readonly SamplerHandle handle = new SamplerHandle();
        internal SamplerHandle Handle => Native.Open(handle, nameof(Sampler));

        /// <summary>Frees the object.</summary>
        public void Dispose() { handle.Dispose(); }
    }

    public sealed partial class Store : IDisposable
    {
        private readonly StoreHandle handle = new StoreHandle();
        internal StoreHandle Handle => Native.Open(handle, nameof(Store));

        /// <summary>Frees the object, once all files are written.</summary>
        public void Dispose() { handle.Dispose(); }
    }

    public sealed partial class TextStream : IDisposable
    {
        private readonly TextstreamHandle handle = new TextstreamHandle();
        internal TextstreamHandle Handle => Native.Open(handle, nameof(TextStream));

        internal TextStream(IntPtr pointer) { handle.Take(pointer); }

        /// <summary>Frees the object.</summary>
        public void Dispose() { handle.Dispose(); }
    }
}
