// The C interface that Header.cs declares: a check that the library has its layouts, and helpers of calls. Nothing is
// marshalled but integers, pointers and SafeHandles, so that it works in IL2CPP and other ahead-of-time compilers.
using System;
using System.Collections.Generic;
using System.Linq;
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

        private static readonly string? Problem = Check();

        /// <summary>Refuses a library that is missing or another one, in front of the first handle.</summary>
        internal static void Initialize()
        {
            if (Problem != null) throw new NotSupportedException($"the library {Library} {Problem}");
        }

        private static string? Check()
        {
            try
            {
                return rz_abi_version() == RZ_ABI_VERSION ? CheckLayouts() : $"has the interface {rz_abi_version()}, {RZ_ABI_VERSION} is needed";
            }
            catch (DllNotFoundException e) { return "cannot be loaded: " + e.Message; }
            catch (BadImageFormatException e) { return "cannot be loaded: " + e.Message; }
            catch (EntryPointNotFoundException e) { return "lacks a function: " + e.Message; }
        }

        private static string? CheckLayouts()
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

        private static readonly Encoding Utf8 = new UTF8Encoding(false, true);

        /// <summary>Returns a text, which may contain NULs, as UTF-8 with a NUL after it. Rejects half of a surrogate
        /// pair, which has no UTF-8.</summary>
        internal static byte[] Encoded(string text, string name)
        {
            try { return Utf8.GetBytes(Given(text, name) + "\0"); }
            catch (EncoderFallbackException e) { throw new ArgumentException($"{name} has half of a surrogate pair at index {e.Index}", name, e); }
        }

        /// <summary>The same for a text that the library takes without a length. Rejects NULs.</summary>
        internal static byte[] Terminated(string text, string name)
        {
            var at = Given(text, name).IndexOf('\0');
            if (at >= 0) throw new ArgumentException($"{name} has a NUL at index {at}", name);
            return Encoded(text, name);
        }

        /// <summary>Returns an argument that must not be null.</summary>
        internal static T Given<T>(T value, string name) where T : class
        {
            if (value == null) throw new ArgumentNullException(name);
            return value;
        }

        /// <summary>Returns an argument that must not be null, nor have an element that is null.</summary>
        internal static IReadOnlyList<T> GivenAll<T>(IReadOnlyList<T> values, string name) where T : class
        {
            for (var i = 0; i < Given(values, name).Count; i++)
                if (values[i] == null) throw new ArgumentNullException(name, $"{name}[{i}] is null");
            return values;
        }

        /// <summary>Converts the elements of a list. Errors name the element.</summary>
        internal static uint[] Wholes(IReadOnlyList<int>? values, string name)
        {
            var all = new uint[values?.Count ?? 0];
            for (var i = 0; i < all.Length; i++) all[i] = Whole(values![i], $"{name}[{i}]");
            return all;
        }

        /// <summary>A number that the library takes without a sign.</summary>
        internal static uint Whole(int value, string name)
        {
            if (value >= 0) return (uint)value;
            throw new ArgumentOutOfRangeException(name, $"{name} is {value}; it must be a whole number from 0 to {int.MaxValue}");
        }

        /// <summary>A side of a picture, in pixels.</summary>
        internal static long Side(int value, string name) => value > 0 && value <= ushort.MaxValue ? value
            : throw new ArgumentOutOfRangeException(name, $"{name} is {value}; it must be from 1 to {ushort.MaxValue}");

        /// <summary>A number that may have a fraction.</summary>
        internal static float Real(float value, string name) => !float.IsNaN(value) && !float.IsInfinity(value) ? value
            : throw new ArgumentOutOfRangeException(name, FormattableString.Invariant($"{name} is {value}; it must be a finite number"));

        /// <summary>The same for a number that must not be negative.</summary>
        internal static float NotNegative(float value, string name) => Real(value, name) >= 0 ? value
            : throw new ArgumentOutOfRangeException(name, FormattableString.Invariant($"{name} is {value}; it must be finite and not negative"));

        /// <summary>A number, 0 said as RZ_NONE; null: the default.</summary>
        internal static uint OrNone(int? value, string name) => value == null ? 0 : value == 0 ? RZ_NONE : Whole(value.Value, name);

        /// <summary>The kinds of media whose bits are set.</summary>
        internal static IReadOnlyList<MediaKind> Kinds(uint bits) =>
            ((MediaKind[])Enum.GetValues(typeof(MediaKind))).Where(kind => (bits & (uint)kind) != 0).ToArray();

        /// <summary>A value of an enum that callers choose. Any number can be cast to one.</summary>
        internal static uint Choice<T>(T value, string name) where T : struct, Enum => Enum.IsDefined(typeof(T), value) ? Convert.ToUInt32(value)
            : throw new ArgumentOutOfRangeException(name, $"{name} is {value}; it must be one of {typeof(T).Name}");

        /// <summary>The handle of an object of this class, which must not be disposed of.</summary>
        internal static T Open<T>(T handle, string name) where T : SafeHandle => !handle.IsClosed ? handle : throw new ObjectDisposedException(name);

        internal delegate int Calling(rz_error* err);

        /// <summary>Makes a call that can fail.</summary>
        /// <param name="owner">The handle whose Dispose cancels the call; null: none does.</param>
        internal static int Call(Calling call, CancellationToken cancellationToken = default, SafeHandle? owner = null)
        {
            rz_error err;
            var status = call(&err);
            if (status == RZ_ERR_CANCELLED && owner != null && owner.IsClosed)
                throw new ObjectDisposedException(owner is CacheHandle ? nameof(Session) : owner.GetType().Name.Replace("Handle", ""));
            RealizarException.Check(status, &err, cancellationToken);
            return status;
        }

        /// <summary>Makes a step of a batch. False if nothing is left to compute, also because the rest was cancelled
        /// or has reached its deadline.</summary>
        internal static bool StepAll<T>(IReadOnlyList<T> all, string name, Func<T, SafeHandle> handle, Func<IntPtr, UIntPtr, IntPtr, int> step) where T : class
        {
            rz_error err;
            using (var pins = new Pins())
            {
                var status = step(pins.Of(GivenAll(all, name).Select(handle)), (UIntPtr)all.Count, (IntPtr)(&err));
                if (status == RZ_ERR_CANCELLED || status == RZ_ERR_DEADLINE) return false;
                RealizarException.Check(status, &err);
                return status != RZ_DONE;
            }
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
        internal static T[] Sized<T>(int capacity, Into call, CancellationToken cancellationToken = default) where T : struct
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
                RealizarException.Check(status, &err, cancellationToken);
                Array.Resize(ref buffer, checked((int)n));
                return buffer;
            }
        }

        internal static string SizedText(int capacity, Into call) => Encoding.UTF8.GetString(Sized<byte>(capacity, call));
    }
}
