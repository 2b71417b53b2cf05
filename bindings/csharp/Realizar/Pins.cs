using System;
using System.Collections.Generic;
using System.Linq;
using System.Runtime.InteropServices;

namespace Realizar
{
    /// <summary>Holds what parameters point to where it is, until it is disposed of.</summary>
    internal sealed class Pins : IDisposable
    {
        private readonly List<GCHandle> pinned = new List<GCHandle>();
        private readonly List<SafeHandle> held = new List<SafeHandle>();

        /// <summary>Where an array or a boxed struct lies; null: NULL.</summary>
        internal IntPtr Of(object? value)
        {
            if (value == null) return IntPtr.Zero;
            pinned.Add(GCHandle.Alloc(value, GCHandleType.Pinned));
            return pinned[pinned.Count - 1].AddrOfPinnedObject();
        }

        /// <summary>A text that ends with a NUL; null: NULL.</summary>
        internal IntPtr Of(string? text, string name) => text == null ? IntPtr.Zero : Of(Native.Terminated(text, name));

        /// <summary>Such texts.</summary>
        internal IntPtr Of(IReadOnlyList<string> texts, string name) => Of(Native.GivenAll(texts, name).Select(text => Of(text, name)).ToArray());

        /// <summary>A text, which may be null, and its length.</summary>
        internal (IntPtr, UIntPtr) Sized(string? text, string name)
        {
            var bytes = text == null ? null : Native.Encoded(text, name);
            return (Of(bytes), (UIntPtr)(bytes == null ? 0 : bytes.Length - 1));
        }

        /// <summary>The pointer of a handle, which is not freed meanwhile; null: NULL.</summary>
        internal IntPtr Of(SafeHandle? handle)
        {
            if (handle == null) return IntPtr.Zero;
            var added = false;
            handle.DangerousAddRef(ref added);
            held.Add(handle);
            return handle.DangerousGetHandle();
        }

        /// <summary>Such pointers.</summary>
        internal IntPtr Of(IEnumerable<SafeHandle?> handles) => Of(handles.Select(handle => Of(handle)).ToArray());

        public void Dispose()
        {
            foreach (var handle in pinned) handle.Free();
            foreach (var handle in held) handle.DangerousRelease();
        }
    }
}
