using System;

namespace Realizar
{
    /// <summary>Outcomes of calls that failed.</summary>
    public enum Status
    {
        InvalidArgument = -1, Busy = -2, OutOfMemory = -3, DeviceOutOfMemory = -4, Limit = -5, IO = -6, Format = -7, Unsupported = -8,
        Version = -9, Cancelled = -10, Deadline = -11, ContextFull = -12, BufferTooSmall = -13, DeviceUnavailable = -14,
        DeviceLost = -15, Mismatch = -16, Panic = -17, Poisoned = -18,
    }

    /// <summary>A call of the library failed. One that was cancelled is an OperationCanceledException instead.</summary>
    public sealed class RealizarException : Exception
    {
        public Status Status { get; }
        /// <summary>Number of the system's error, else 0.</summary>
        public int SystemCode { get; }
        /// <summary>Name of the status in the library, such as "RZ_ERR_FORMAT".</summary>
        public unsafe string Name => Native.Text(Native.rz_status_name((int)Status));

        internal RealizarException(Status status, string message, int systemCode = 0) : base(message)
        {
            Status = status;
            SystemCode = systemCode;
        }

        internal static unsafe void Check(int status, rz_error* err, System.Threading.CancellationToken cancellation = default(System.Threading.CancellationToken))
        {
            if (status >= 0) return;
            var message = Native.Text(err->message);
            if (status == (int)Status.Cancelled) throw new OperationCanceledException(message, cancellation);
            throw new RealizarException((Status)status, message, err->system_code);
        }
    }
}
