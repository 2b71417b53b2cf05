using System;
using System.IO;
using System.Runtime.InteropServices;

namespace Realizar
{
    /// <summary>What a saved session is read from or written to, for the time of a call.</summary>
    internal sealed class Transfer : IDisposable
    {
        private const int InputOutputError = 5; // EIO
        // Never moved, so that the pointers stay what they are; static, as IL2CPP wants callbacks.
        private static readonly rz_write_callback Writes = Write;
        private static readonly rz_read_callback Reads = Read;
        internal static readonly IntPtr WriteCallback = Marshal.GetFunctionPointerForDelegate(Writes);
        internal static readonly IntPtr ReadCallback = Marshal.GetFunctionPointerForDelegate(Reads);

        private readonly Stream stream;
        private readonly GCHandle self;
        private Exception? raised;

        internal Transfer(Stream stream)
        {
            this.stream = Native.Given(stream, nameof(stream));
            self = GCHandle.Alloc(this);
        }

        internal IntPtr User => GCHandle.ToIntPtr(self);

        internal unsafe delegate int Saving(IntPtr write, IntPtr user, rz_error* err);
        internal unsafe delegate int Loading(IntPtr read, IntPtr user, IntPtr* pointer, rz_error* err);

        /// <summary>Writes to a stream what a call gives.</summary>
        internal static unsafe void Save(Stream stream, Saving call)
        {
            rz_error err;
            using (var transfer = new Transfer(stream)) transfer.Check(call(WriteCallback, transfer.User, &err), &err);
        }

        /// <summary>What a call makes of a stream.</summary>
        internal static unsafe IntPtr Load(Stream stream, Loading call)
        {
            rz_error err;
            IntPtr pointer;
            using (var transfer = new Transfer(stream)) transfer.Check(call(ReadCallback, transfer.User, &pointer, &err), &err);
            return pointer;
        }

        /// <summary>Throws what the stream has thrown, or what the call failed with.</summary>
        internal unsafe void Check(int status, rz_error* err)
        {
            if (raised != null) throw raised;
            RealizarException.Check(status, err);
        }

        [MonoPInvokeCallback(typeof(rz_write_callback))]
        private static int Write(IntPtr data, UIntPtr n, IntPtr user) => Move(user, (int)n, (stream, bytes) => {
            Marshal.Copy(data, bytes, 0, bytes.Length);
            stream.Write(bytes, 0, bytes.Length);
        });

        [MonoPInvokeCallback(typeof(rz_read_callback))]
        private static int Read(IntPtr to, UIntPtr n, IntPtr user) => Move(user, (int)n, (stream, bytes) => {
            for (int done = 0, more; done < bytes.Length; done += more)
            {
                more = stream.Read(bytes, done, bytes.Length - done);
                if (more == 0) throw new EndOfStreamException("what was saved has no more bytes");
                if (more < 0 || more > bytes.Length - done)
                    throw new IOException($"the stream read {more} bytes; Read must read from 0 to {bytes.Length - done}");
            }
            Marshal.Copy(bytes, 0, to, bytes.Length);
        });

        private static int Move(IntPtr user, int n, Action<Stream, byte[]> move)
        {
            var transfer = (Transfer)GCHandle.FromIntPtr(user).Target!;
            try { move(transfer.stream, new byte[n]); return 0; }
            catch (Exception e) { transfer.raised = e; return InputOutputError; } // an exception must not reach native code
        }

        public void Dispose() { self.Free(); }
    }
}
