// As much of Unity as its component needs, so that it compiles and runs in the tests.
using System;
using System.Reflection;

namespace UnityEngine
{
    public class MonoBehaviour
    {
        /// <summary>Calls what the engine calls.</summary>
        public void Send(string message) =>
            GetType().GetMethod(message, BindingFlags.Instance | BindingFlags.NonPublic).Invoke(this, null);
    }

    [AttributeUsage(AttributeTargets.Field)]
    public sealed class TooltipAttribute : Attribute
    {
        public TooltipAttribute(string text) { }
    }

    public static class Debug
    {
        public static void Log(object message) { }
    }
}
