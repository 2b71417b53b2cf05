using System;
using System.Collections.Generic;
using System.Runtime.InteropServices;
using System.Text;
using System.Threading;

namespace Realizar
{
    public sealed partial class Device
    {
        /// <summary>All devices; the first is the CPU.</summary>
        public static unsafe IReadOnlyList<Device> All()
        {
            Native.Initialize();
            var found = new List<Device>();
            for (uint i = 1; i <= Native.rz_device_count(); i++) found.Add(Get(i));
            return found;
        }
    }

    /// <summary>Threads, a log and a memory limit, which several models share.</summary>
    public sealed partial class Runtime
    {
        // Never moved, so that the pointer stays what it is; static, as IL2CPP wants callbacks.
        private static readonly rz_log_callback Forward = ForwardLog;

        /// <summary>Version of the library.</summary>
        public static unsafe string Version
        {
            get { Native.Initialize(); return Native.Text(Native.rz_version()); }
        }

        /// <param name="threads">Number of threads that compute, the calling one included; 0: one per
        /// processor, or one per fast core if cores differ.</param>
        /// <param name="memoryLimit">Maximum bytes of weights and KV caches; 0: no limit.</param>
        /// <param name="log">Receives the log, on any thread. Its exceptions are ignored.</param>
        /// <param name="processors">The processors that threads are bound to; null: threads are not bound.</param>
        public unsafe Runtime(int threads = 0, ulong memoryLimit = 0, Action<LogLevel, string>? log = null, int[]? processors = null)
        {
            Native.Initialize();
            var p = new rz_runtime_params { struct_size = (uint)sizeof(rz_runtime_params), threads = Native.Whole(threads, nameof(threads)), memory_limit = memoryLimit };
            if (log != null)
            {
                // Lives as long as the process: models may speak for as long.
                p.log_user = GCHandle.ToIntPtr(GCHandle.Alloc(log));
                p.log = Marshal.GetFunctionPointerForDelegate(Forward);
            }
            rz_error err;
            IntPtr pointer;
            fixed (uint* at = Native.Wholes(processors, nameof(processors)))
            {
                p.cpus = (IntPtr)at;
                p.n_cpus = (UIntPtr)(processors == null ? 0 : processors.Length);
                RealizarException.Check(Native.rz_runtime_new(&p, &pointer, &err), &err);
            }
            Handle.Take(pointer);
        }

        /// <summary>Changes the number of threads that compute, from the next step on; 0: as for a
        /// new runtime.</summary>
        public unsafe void SetThreads(int threads) => Native.Call(err => Native.rz_runtime_threads_set(Handle, Native.Whole(threads, nameof(threads)), err));

        [MonoPInvokeCallback(typeof(rz_log_callback))]
        private static unsafe void ForwardLog(int level, IntPtr message, UIntPtr length, IntPtr user)
        {
            try { ((Action<LogLevel, string>)GCHandle.FromIntPtr(user).Target!)((LogLevel)level, Encoding.UTF8.GetString((byte*)message, (int)length)); }
            catch (Exception) { } // an exception must not reach native code
        }
    }

    /// <summary>A cancellation token of .NET as a cancel of the library.</summary>
    internal sealed class Cancelling : IDisposable
    {
        internal readonly CancelHandle Handle = CancelHandle.None;
        internal readonly CancellationToken Token;
        private readonly CancellationTokenRegistration registration;

        /// <param name="isOwned">True if an object keeps it, which fires it or gives it deadlines, too; false: it lasts
        /// for a call, and throws if the token has been cancelled before.</param>
        internal unsafe Cancelling(CancellationToken cancellationToken, bool isOwned = false)
        {
            Native.Initialize();
            Token = cancellationToken;
            if (!isOwned) Token.ThrowIfCancellationRequested();
            if (!Token.CanBeCanceled && !isOwned) return;
            Handle = new CancelHandle();
            Handle.Take(Native.Made((cancel, err) => Native.rz_cancel_new(cancel, err)));
            registration = Token.Register(handle => Native.rz_cancel_fire((CancelHandle)handle!), Handle);
        }

        /// <summary>Cancels the calls that heed it, before their object is freed.</summary>
        internal void Fire()
        {
            if (!Handle.IsClosed) Native.rz_cancel_fire(Handle);
        }

        /// <summary>Fires after this time, at once if it is not positive; null removes the deadline.</summary>
        internal unsafe void SetDeadline(TimeSpan? time)
        {
            // A tick is 100 ns; a begun microsecond counts as a whole.
            var microseconds = time == null ? Native.RZ_NO_LIMIT : time.Value.Ticks <= 0 ? 0 : ((ulong)time.Value.Ticks + 9) / 10;
            Native.Call(err => Native.rz_cancel_deadline(Handle, microseconds, err));
        }

        /// <summary>Takes a deadline back, and a cancel.</summary>
        internal void Reset() { Native.rz_cancel_reset(Handle); }

        /// <summary>Frees the object. Models keep what they need of it.</summary>
        public void Dispose()
        {
            registration.Dispose(); // waits for a callback that runs
            if (Handle != CancelHandle.None) Handle.Dispose();
        }
    }
}
