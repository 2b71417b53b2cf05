using System;
using System.Collections.Generic;
using System.Globalization;
using System.Linq;
using System.Text.RegularExpressions;

namespace Realizar
{
    /// <summary>The files of a model in a repository; the first is the one to load, or one of a folder, which has no
    /// base.</summary>
    internal sealed class HubChoice
    {
        private static readonly Regex Part = new Regex(@"-\d{5}-of-(\d{5})\.(?:gguf|safetensors)$", RegexOptions.ECMAScript);
        private static readonly Regex LabelForm = new Regex(
            "(?<=^|[-._/])(?:UD-)?(?:I?Q[1-8](?:_[A-Z0-9]+)*|TQ[12]_0|MXFP4(?:_MOE)?|NVFP4|BF16|FP?16|FP?32)(?=[-._/]|$)");
        /// <summary>Rows interleaved for one processor, which no program reads any more.</summary>
        private static readonly Regex Interleaved = new Regex("Q4_0_[48]_[48]");
        private static readonly string[] Floats = { "", "BF16", "F16", "FP16", "F32", "FP32" };
        /// <summary>Projectors as they are preferred; what is named otherwise comes after them.</summary>
        private static readonly string[] Projectors = { "F16", "FP16", "BF16", "Q8_0", "F32", "FP32" };
        private static readonly Regex Weights = new Regex(@"^[^/]+\.safetensors$"), Shards = new Regex(@"^model(-\d{5}-of-\d{5})?\.safetensors$", RegexOptions.ECMAScript);
        /// <summary>Files of a folder beside its weights, with those of sentence-transformers.</summary>
        private static readonly Regex Texts = new Regex(@"^([^/]+\.(json|txt|model|jinja)|\d_[A-Za-z]+/(config\.json|model\.safetensors))$", RegexOptions.ECMAScript);
        private static readonly string[] Tokenizers = { "tokenizer.json", "tokenizer.model", "tekken.json", "vocab.json", "vocab.txt" };

        internal readonly string Label, Base;
        internal readonly IReadOnlyList<string> Files;
        internal readonly ulong Size;

        private HubChoice(string label, string @base, IReadOnlyList<string> files, IReadOnlyDictionary<string, ulong> sizes)
        {
            Label = label;
            Base = @base;
            Files = files;
            Size = files.Aggregate(0ul, (sum, file) => sum + sizes[file]);
        }

        /// <summary>Bytes of memory: weights about as they are in the file, with a cache and scratch memory.</summary>
        private ulong Needs => Size + Size / 4 + (1 << 28);

        /// <summary>Tells whether the encoder of a model is named, not the model.</summary>
        private static bool IsProjector(string quantization) => quantization.ToLowerInvariant().Contains("mmproj");

        /// <summary>The name of the encoder in the repository of a model, unless it is one already.</summary>
        internal static string EncoderName(string model)
        {
            var parts = model.Substring(Hub.Prefix.Length).Split(new[] { ':' }, 2);
            return parts.Length > 1 && IsProjector(parts[1]) ? model : Hub.Prefix + parts[0] + ":mmproj";
        }

        /// <summary>Those among files with these sizes that a quantization names, or all where it names none: models or
        /// projectors in GGUF files with all their parts, or else the folder, which has both.</summary>
        internal static IReadOnlyList<HubChoice> Of(IReadOnlyDictionary<string, ulong> files, string quantization)
        {
            var found = All(files, IsProjector(quantization));
            return IsAny(quantization) ? found : Named(found, quantization);
        }

        private static bool IsAny(string quantization) => quantization == "" || quantization.ToLowerInvariant() == "mmproj";

        private static IReadOnlyList<HubChoice> All(IReadOnlyDictionary<string, ulong> files, bool projectors)
        {
            var found = new List<HubChoice>();
            foreach (var set in Sorted(files).Where(file => IsWanted(file, projectors)).GroupBy(SetOf))
            {
                var labels = LabelForm.Matches(set.Key.Item1.ToUpperInvariant());
                var label = labels.Count > 0 ? labels[labels.Count - 1].Value : "";
                if (set.Count() == set.Key.Item2 && !Interleaved.IsMatch(label)) found.Add(new HubChoice(label, set.Key.Item1, set.ToList(), files));
            }
            return found.Count > 0 ? found : Folder(files);
        }

        private static bool IsWanted(string file, bool projectors)
        {
            var name = file.Substring(file.LastIndexOf('/') + 1).ToLowerInvariant();
            return name.EndsWith(".gguf", StringComparison.Ordinal) && IsProjector(name) == projectors && !name.Contains("imatrix");
        }

        /// <summary>The set of a file: the beginning of its name, and the number of parts.</summary>
        private static Tuple<string, int> SetOf(string file)
        {
            var part = Part.Match(file);
            return part.Success ? Tuple.Create(file.Substring(0, part.Index), int.Parse(part.Groups[1].Value)) : Tuple.Create(file.Substring(0, file.Length - 5), 1);
        }

        private static IReadOnlyList<HubChoice> Folder(IReadOnlyDictionary<string, ulong> files)
        {
            var names = Sorted(files);
            var weights = names.Where(name => Shards.IsMatch(name)).ToList();
            if (weights.Count == 0) weights = names.Where(name => Weights.IsMatch(name)).ToList();
            var part = Part.Match(weights.FirstOrDefault() ?? "");
            var parts = part.Success ? int.Parse(part.Groups[1].Value) : 1;
            if (!files.ContainsKey("config.json") || !Tokenizers.Any(files.ContainsKey) || weights.Count < parts) return new HubChoice[0];
            // Weights come last: where they are complete, all else is.
            return new[] { new HubChoice("", "", names.Where(name => Texts.IsMatch(name)).Concat(weights).ToList(), files) };
        }

        private static List<string> Sorted(IReadOnlyDictionary<string, ulong> files) => files.Keys.OrderBy(name => name, StringComparer.Ordinal).ToList();

        /// <summary>Those of a quantization, or of the name of a file.</summary>
        private static IReadOnlyList<HubChoice> Named(IReadOnlyList<HubChoice> found, string quantization)
        {
            var wanted = quantization.ToUpperInvariant();
            var file = wanted.EndsWith(".GGUF", StringComparison.Ordinal) ? wanted.Substring(0, wanted.Length - 5) : wanted;
            var label = wanted.StartsWith("MMPROJ-", StringComparison.Ordinal) ? wanted.Substring(7) : wanted;
            var ways = new Func<HubChoice, bool>[] {
                one => one.Label == label, one => one.Label == "UD-" + label, one => one.Base.ToUpperInvariant() == file,
            };
            return ways.Select(way => found.Where(one => one.Base != "" && way(one)).ToList()).FirstOrDefault(matching => matching.Count > 0) ?? new List<HubChoice>();
        }

        /// <summary>The largest quantised one that fits into so much memory (0: unknown), else the smallest of floats
        /// that does, else the smallest. Of projectors the preferred one, of several the first.</summary>
        internal static HubChoice Best(IReadOnlyList<HubChoice> found, string quantization, ulong free)
        {
            if (IsProjector(quantization))
                return Projectors.Select(label => found.FirstOrDefault(one => one.Label == label)).FirstOrDefault(one => one != null) ?? found[0];
            Func<HubChoice, int> rank = one => free != 0 && one.Needs > free ? 2 : Floats.Contains(one.Label) ? 1 : 0;
            var least = found.Min(rank);
            var equal = found.Where(one => rank(one) == least).OrderBy(one => one.Size);
            return least == 0 ? equal.Last() : equal.First();
        }

        /// <summary>The one to fetch, of the files that a repository has.</summary>
        internal static HubChoice Choose(IReadOnlyDictionary<string, ulong> files, string repository, string quantization, ulong free)
        {
            var projectors = IsProjector(quantization);
            var found = All(files, projectors);
            if (found.Count == 0 && projectors)
                throw Hub.Failed($"{repository} has neither mmproj files nor config.json, tokenizer and safetensors files: it has no encoder");
            if (found.Count == 0)
                throw Hub.Failed($"{repository} has neither GGUF files nor config.json, tokenizer and safetensors files: take another repository, such as one whose name ends in GGUF");
            if (IsAny(quantization))
            {
                var one = Best(found, quantization, free);
                if (free == 0 || one.Needs <= free || projectors) return one;
                var or = one.Label == "" ? "or one in GGUF files" : "or name its quantization to fetch it all the same, " + one.Label;
                throw new RealizarException(Status.OutOfMemory,
                    $"{SizeOf(free)} of memory are free, and the smallest of {repository} takes {SizeOf(one.Needs)}: take a smaller model, {or}");
            }
            var matching = Named(found, quantization);
            if (matching.Count == 1) return matching[0];
            if (matching.Count > 1)
                throw Hub.Failed($"{repository} has several files of {quantization}: name one of them in its place, {string.Join(", ", matching.Select(one => one.Base + ".gguf"))}");
            var kind = projectors ? "mmproj-" : "";
            var labels = found.Where(one => one.Base != "").Select(one => one.Label == "" ? one.Base : kind + one.Label).Distinct().OrderBy(label => label, StringComparer.Ordinal).ToList();
            throw Hub.Failed($"{repository} has no {quantization}: "
                + (labels.Count == 0 ? "it has no GGUF files, so name none" : "take one of " + string.Join(", ", labels)));
        }

        internal static string SizeOf(ulong n) =>
            n >= 1e9 ? (n / 1e9).ToString("F1", CultureInfo.InvariantCulture) + " GB" : (n / 1e6).ToString("F1", CultureInfo.InvariantCulture) + " MB";
    }
}
