using System.Collections.Generic;

namespace Realizar
{
    public sealed partial class Plan
    {
        /// <summary>Memory on each GPU that has layers.</summary>
        public IReadOnlyList<OnDevice> Devices { get; internal set; } = new OnDevice[0];
    }
}
