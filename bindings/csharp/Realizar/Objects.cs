// Objects hold a handle of the library, and free it. The build writes this file: make header.
using System;

namespace Realizar
{
    public sealed partial class Adapter : IDisposable
    {
        internal readonly AdapterHandle Handle = new AdapterHandle();

        internal Adapter(IntPtr pointer) { Handle.Take(pointer); }

        /// <summary>Frees the object.</summary>
        public void Dispose() { Handle.Dispose(); }
    }

    public sealed partial class Session : IDisposable
    {
        internal readonly CacheHandle Handle = new CacheHandle();

        /// <summary>Frees the session. A call of another thread ends within milliseconds.</summary>
        public void Dispose()
        {
            if (Handle.IsClosed) return;
            Handle.Dispose(); // freed after a call that uses it
            Closed();
        }

        /// <summary>Ends the calls that use the session.</summary>
        partial void Closed();
    }

    public sealed partial class ChatParser : IDisposable
    {
        internal readonly ChatParserHandle Handle = new ChatParserHandle();

        internal ChatParser(IntPtr pointer) { Handle.Take(pointer); }

        /// <summary>Frees the object.</summary>
        public void Dispose() { Handle.Dispose(); }
    }

    public sealed partial class Conversation : IDisposable
    {
        internal readonly ConversationHandle Handle = new ConversationHandle();

        /// <summary>Frees the conversation. A call of another thread ends within milliseconds.</summary>
        public void Dispose()
        {
            if (Handle.IsClosed) return;
            Handle.Dispose(); // freed after a call that uses it
            Closed();
        }

        /// <summary>Ends the calls that use the conversation.</summary>
        partial void Closed();
    }

    public sealed partial class Encoder : IDisposable
    {
        internal readonly EncoderHandle Handle = new EncoderHandle();

        /// <summary>Frees the object.</summary>
        public void Dispose() { Handle.Dispose(); }
    }

    public sealed partial class Grammar : IDisposable
    {
        internal readonly GrammarHandle Handle = new GrammarHandle();

        internal Grammar(IntPtr pointer) { Handle.Take(pointer); }

        /// <summary>Frees the object.</summary>
        public void Dispose() { Handle.Dispose(); }
    }

    public sealed partial class Job : IDisposable
    {
        internal readonly JobHandle Handle = new JobHandle();

        /// <summary>Frees the job. A call of another thread ends within milliseconds.</summary>
        public void Dispose()
        {
            if (Handle.IsClosed) return;
            Handle.Dispose(); // freed after a call that uses it
            Closed();
        }

        /// <summary>Ends the calls that use the job.</summary>
        partial void Closed();
    }

    public sealed partial class Media : IDisposable
    {
        internal readonly MediaHandle Handle = new MediaHandle();

        /// <summary>Frees the object.</summary>
        public void Dispose() { Handle.Dispose(); }
    }

    public sealed partial class Model : IDisposable
    {
        internal readonly ModelHandle Handle = new ModelHandle();

        /// <summary>Ends the use of the model; sessions remain usable, and the memory is freed with the last of them.</summary>
        public void Dispose() { Handle.Dispose(); }
    }

    public sealed partial class Prompt : IDisposable
    {
        internal readonly PromptHandle Handle = new PromptHandle();

        internal Prompt(IntPtr pointer) { Handle.Take(pointer); }

        /// <summary>Frees the object.</summary>
        public void Dispose() { Handle.Dispose(); }
    }

    public sealed partial class Runtime : IDisposable
    {
        internal readonly RuntimeHandle Handle = new RuntimeHandle();

        /// <summary>Frees the object. Models keep what they need of it.</summary>
        public void Dispose() { Handle.Dispose(); }
    }

    public sealed partial class Sampler : IDisposable
    {
        internal readonly SamplerHandle Handle = new SamplerHandle();

        /// <summary>Frees the object.</summary>
        public void Dispose() { Handle.Dispose(); }
    }

    public sealed partial class Store : IDisposable
    {
        internal readonly StoreHandle Handle = new StoreHandle();

        /// <summary>Frees the object, once all files are written.</summary>
        public void Dispose() { Handle.Dispose(); }
    }

    public sealed partial class TextStream : IDisposable
    {
        internal readonly TextstreamHandle Handle = new TextstreamHandle();

        internal TextStream(IntPtr pointer) { Handle.Take(pointer); }

        /// <summary>Frees the object.</summary>
        public void Dispose() { Handle.Dispose(); }
    }
}
