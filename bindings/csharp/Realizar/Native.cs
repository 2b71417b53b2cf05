// The C interface that Header.cs declares: a check that the library has its layouts, and helpers of calls. Nothing is
// marshalled but integers, pointers and SafeHandles, so that it works in IL2CPP and other ahead-of-time compilers.
using System;
using System.Collections.Generic;
using System.Reflection;
using System.Runtime.InteropServices;
using System.Text;
using System.Threading;

namespace Realizar
{
    /// <summary>A handle of the library, freed once, after the calls that use it.</summary>
    internal abstract class Handle : SafeHandle
    {
        protected Handle() : base(IntPtr.Zero, true) { }
        public override bool IsInvalid => handle == IntPtr.Zero;
        public void Take(IntPtr pointer) { SetHandle(pointer); }
    }

    /// <summary>Tells ahead-of-time compilers that native code calls a method. IL2CPP looks for the name
    /// alone.</summary>
    [AttributeUsage(AttributeTargets.Method)]
    internal sealed class MonoPInvokeCallbackAttribute : Attribute
    {
        public MonoPInvokeCallbackAttribute(Type type) { }
    }

    internal static unsafe partial class Native
    {
#if UNITY_IOS && !UNITY_EDITOR
        private const string Library = "__Internal";
#else
        private const string Library = "realizar";
#endif
        private const CallingConvention C = CallingConvention.Cdecl;

        private static readonly string Problem = Check();

        /// <summary>Refuses a library that is missing or another one, in front of the first handle.</summary>
        internal static void Initialize()
        {
            if (Problem != null) throw new NotSupportedException($"the library {Library} {Problem}");
        }

        private static string Check()
        {
            try
            {
                return rz_abi_version() == RZ_ABI_VERSION ? CheckLayouts() : $"has the interface {rz_abi_version()}, {RZ_ABI_VERSION} is needed";
            }
            catch (DllNotFoundException e) { return "cannot be loaded: " + e.Message; }
            catch (BadImageFormatException e) { return "cannot be loaded: " + e.Message; }
            catch (EntryPointNotFoundException e) { return "lacks a function: " + e.Message; }
        }

        private static string CheckLayouts()
        {
            var mine = new Dictionary<string, uint>();
            foreach (var type in Structs)
                foreach (var field in type.GetFields(BindingFlags.Instance | BindingFlags.Public))
                    mine[type.Name + "." + field.Name] = (uint)Marshal.OffsetOf(type, field.Name).ToInt32();
            rz_layout layout;
            layout.struct_size = (uint)sizeof(rz_layout);
            for (uint i = 0; rz_layout_get(i, &layout, null) == 0; i++)
            {
                var name = Text(layout.struct_name) + "." + Text(layout.field_name);
                uint offset;
                if (mine.TryGetValue(name, out offset) && offset != layout.offset)
                    return $"has {name} at {layout.offset}, {offset} is expected";
                mine.Remove(name);
            }
            foreach (var name in mine.Keys) return "lacks " + name;
            return null;
        }

        internal static string Text(byte* text)
        {
            var n = 0;
            while (text[n] != 0) n++;
            return Encoding.UTF8.GetString(text, n);
        }

        /// <summary>Refuses half of a surrogate pair, which has no UTF-8.</summary>
        internal static readonly Encoding Utf8 = new UTF8Encoding(false, true);

        /// <summary>A string as UTF-8 that ends with a NUL.</summary>
        internal static byte[] Terminated(string text, string name)
        {
            if (Given(text, name).IndexOf('\0') >= 0) throw new ArgumentException("contains a NUL", name);
            return Utf8.GetBytes(text + "\0");
        }

        /// <summary>An argument that must not be null.</summary>
        internal static T Given<T>(T value, string name) where T : class
        {
            if (value == null) throw new ArgumentNullException(name);
            return value;
        }

        /// <summary>A number that the library takes without a sign.</summary>
        internal static uint Whole(int value, string name)
        {
            if (value >= 0) return (uint)value;
            throw new ArgumentOutOfRangeException(name, $"{name} is {value}; it must be a whole number from 0 to {int.MaxValue}");
        }

        /// <summary>A number that may have a fraction.</summary>
        internal static float Real(float value, string name) =>
            float.IsNaN(value) ? throw new ArgumentOutOfRangeException(name, $"{name} is NaN; it must be a number") : value;

        /// <summary>A number, 0 said as RZ_NONE; null: the default.</summary>
        internal static uint OrNone(int? value, string name) => value == null ? 0 : value == 0 ? RZ_NONE : Whole(value.Value, name);

        internal delegate int Calling(rz_error* err);

        /// <summary>Makes a call that can fail.</summary>
        internal static int Call(Calling call, CancellationToken cancellation = default(CancellationToken))
        {
            rz_error err;
            var status = call(&err);
            RealizarException.Check(status, &err, cancellation);
            return status;
        }

        internal delegate int Making(IntPtr* pointer, rz_error* err);

        /// <summary>What a call makes.</summary>
        internal static IntPtr Made(Making call)
        {
            IntPtr pointer;
            var at = &pointer;
            Call(err => call(at, err));
            return pointer;
        }

        internal delegate T Reading<T>(byte* text, UIntPtr length);

        /// <summary>Holds bytes with a NUL behind them where they are, for the time of a call.</summary>
        internal static T Pinned<T>(byte[] terminated, Reading<T> call)
        {
            fixed (byte* at = terminated) return call(at, (UIntPtr)(terminated.Length - 1));
        }

        internal delegate int Into(void* buffer, UIntPtr capacity, UIntPtr* n, rz_error* err);

        /// <summary>What a function writes to a buffer, which is made again where it is too small.</summary>
        internal static T[] Sized<T>(int capacity, Into call) where T : struct
        {
            for (;;)
            {
                var buffer = new T[Math.Max(capacity, 1)];
                UIntPtr n;
                rz_error err;
                int status;
                var pinned = GCHandle.Alloc(buffer, GCHandleType.Pinned);
                try { status = call((void*)pinned.AddrOfPinnedObject(), (UIntPtr)buffer.Length, &n, &err); }
                finally { pinned.Free(); }
                if (status == RZ_ERR_BUFFER_TOO_SMALL) { capacity = checked((int)n); continue; }
                RealizarException.Check(status, &err);
                Array.Resize(ref buffer, checked((int)n));
                return buffer;
            }
        }

        internal static string SizedText(int capacity, Into call) => Encoding.UTF8.GetString(Sized<byte>(capacity, call));
    }
}
