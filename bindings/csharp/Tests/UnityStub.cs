#nullable disable
// As much of Unity as its component and the adventure need, so that they compile and run in the tests.
using System;
using System.IO;
using System.Linq;
using System.Reflection;
using System.Text.Json;

namespace UnityEngine
{
    public class MonoBehaviour
    {
        /// <summary>Calls what the engine calls.</summary>
        public object Send(string message) =>
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
        public static void LogError(object message) => Console.WriteLine(message);
    }

    public static class Time
    {
        public static float unscaledDeltaTime { get; set; }
    }

    public sealed class TextAsset
    {
        public string text;
    }

    public static class Resources
    {
        public static string Folder = "";
        public static T Load<T>(string path) where T : class =>
            new TextAsset { text = File.ReadAllText(Path.Combine(Folder, path + ".json")) } as T;
    }

    public static class JsonUtility
    {
        public static T FromJson<T>(string json) => (T)Made(typeof(T), JsonDocument.Parse(json).RootElement);

        private static object Made(Type type, JsonElement json)
        {
            if (type == typeof(string)) return json.GetString();
            if (type == typeof(bool)) return json.GetBoolean();
            if (type.IsArray)
            {
                var all = json.EnumerateArray().Select(each => Made(type.GetElementType(), each)).ToArray();
                var array = Array.CreateInstance(type.GetElementType(), all.Length);
                all.CopyTo(array, 0);
                return array;
            }
            var made = Activator.CreateInstance(type);
            foreach (var field in type.GetFields())
                if (json.TryGetProperty(field.Name, out var value)) field.SetValue(made, Made(field.FieldType, value));
            return made;
        }
    }
}
