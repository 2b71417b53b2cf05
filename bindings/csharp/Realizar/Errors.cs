using System;
using System.IO;
using System.Text.RegularExpressions;
using System.Threading;

namespace Realizar
{
    /// <summary>A call of the library failed. Some failures are exceptions of .NET, whose InnerException is this one:
    /// an OperationCanceledException if the call was cancelled, an InvalidOperationException if another call uses the
    /// object or a reply is unfinished (Status.Busy), a FileNotFoundException if a file is missing.</summary>
    public sealed class RealizarException : Exception
    {
        /// <summary>What went wrong.</summary>
        public Status Status { get; }
        /// <summary>Number of the system's error, else 0.</summary>
        public int SystemCode { get; }
        /// <summary>For Status.ContextFull the capacity in tokens that would have been enough, else 0.</summary>
        public long Needed { get; private set; }
        /// <summary>Name of the status in the library, such as "RZ_ERR_FORMAT".</summary>
        public unsafe string Name => Native.Text(Native.rz_status_name((int)Status));

        internal RealizarException(Status status, string message, int systemCode = 0, Exception? cause = null) : base(message, cause)
        {
            Status = status;
            SystemCode = systemCode;
        }

        /// <summary>A message of the library, in which fields of its structs have the names of options.</summary>
        private static string Named(string message) => Regex.Replace(message, @"\brz_[a-z]+_params\.([a-z_]+)", field =>
            Regex.Replace(field.Groups[1].Value.Replace("biases", "logit_bias"), "(?:^|_)([a-z])", begin => begin.Groups[1].Value.ToUpperInvariant()));

        internal static unsafe void Check(int status, rz_error* err, CancellationToken cancellationToken = default)
        {
            const int notFound = 2; // ENOENT, and ERROR_FILE_NOT_FOUND of Windows
            if (status >= 0) return;
            var message = Named(Native.Text(err->message));
            var failure = new RealizarException((Status)status, message, err->system_code) { Needed = (long)err->needed };
            if (status == Native.RZ_ERR_CANCELLED) throw new OperationCanceledException(message, failure, cancellationToken);
            if (status == Native.RZ_ERR_BUSY) throw new InvalidOperationException(message, failure);
            if (status == Native.RZ_ERR_IO && err->system_code == notFound) throw new FileNotFoundException(message, failure);
            throw failure;
        }
    }
}
