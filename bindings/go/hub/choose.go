package hub

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

var (
	namePattern = regexp.MustCompile(`^hf:([A-Za-z0-9_][A-Za-z0-9._-]*/[A-Za-z0-9_][A-Za-z0-9._-]*)(?::(.+))?$`)
	partPattern = regexp.MustCompile(`-\d{5}-of-(\d{5})\.(?:gguf|safetensors)$`)
	// A label ends where a word does, which is looked at where it is found.
	labelPattern = regexp.MustCompile(`[-._/](?:UD-)?(?:I?Q[1-8](?:_[A-Z0-9]+)*|TQ[12]_0|MXFP4(?:_MOE)?|NVFP4|BF16|FP?16|FP?32)[-._/]`)
	// Rows interleaved for one processor, which no program reads any more.
	interleaved = regexp.MustCompile(`Q4_0_[48]_[48]`)
	floats      = []string{"", "BF16", "F16", "FP16", "F32", "FP32"}
	// Projectors as they are preferred; what is named otherwise comes after them.
	preferred     = []string{"F16", "FP16", "BF16", "Q8_0", "F32", "FP32"}
	weightPattern = regexp.MustCompile(`^[^/]+\.safetensors$`)
	shardPattern  = regexp.MustCompile(`^model(-\d{5}-of-\d{5})?\.safetensors$`)
	// Files of a folder beside its weights, with those of sentence-transformers.
	textPattern = regexp.MustCompile(`^([^/]+\.(json|txt|model|jinja)|\d_[A-Za-z]+/(config\.json|model\.safetensors))$`)
	tokenizers  = []string{"tokenizer.json", "tokenizer.model", "tekken.json", "vocab.json", "vocab.txt"}
)

// Causes of an [Error] where no model fits, and where a name is none.
var (
	ErrMemory = errors.New("no model fits into the memory that is free")
	ErrName   = errors.New("no name of a model")
)

// candidate is the files of a model; the first is the one to load, or one of a folder, which has no base.
type candidate struct {
	label, base string
	files       []string
	size        uint64
}

// needs is bytes of memory: weights about as they are in the file, with a cache and scratch memory.
func (c candidate) needs() uint64 { return c.size + c.size/4 + 1<<28 }

// projector begins the names of files with encoders, and stands for the preferred one.
const projector = "mmproj"

// isProjector tells whether the encoder of a model is named, not the model.
func isProjector(quantization string) bool {
	return strings.Contains(strings.ToLower(quantization), projector)
}

// EncoderName is the name of the encoder in the repository of a model, unless it is one already.
func EncoderName(model string) string {
	repository, quantization, _ := strings.Cut(strings.TrimPrefix(model, Prefix), ":")
	if isProjector(quantization) {
		return model
	}
	return Prefix + repository + ":" + projector
}

// isAny tells whether no quantization is named.
func isAny(quantization string) bool {
	return quantization == "" || strings.EqualFold(quantization, projector)
}

// candidates are the models, or projectors, among files with these sizes: those in GGUF files with all their parts, or
// else the folder, which has both.
func candidates(files map[string]uint64, projectors bool) (found []candidate) {
	type key struct {
		base  string
		parts int
	}
	var keys []key
	sets := map[key][]string{}
	for _, file := range sorted(files) {
		name := strings.ToLower(path.Base(file))
		if !strings.HasSuffix(name, ".gguf") || isProjector(name) != projectors || strings.Contains(name, "imatrix") {
			continue
		}
		k := key{file[:len(file)-len(".gguf")], 1}
		if part := partPattern.FindStringSubmatchIndex(file); part != nil {
			k.parts, _ = strconv.Atoi(file[part[2]:part[3]])
			k.base = file[:part[0]]
		}
		if sets[k] == nil {
			keys = append(keys, k)
		}
		sets[k] = append(sets[k], file)
	}
	for _, k := range keys {
		if label := labelOf(k.base); len(sets[k]) == k.parts && !interleaved.MatchString(label) {
			found = append(found, candidate{label, k.base, sets[k], sum(files, sets[k])})
		}
	}
	if found == nil {
		return folder(files)
	}
	return found
}

// labelOf is the last quantization in a name.
func labelOf(base string) (label string) {
	rest := "-" + strings.ToUpper(base) + "-"
	for at := labelPattern.FindStringIndex(rest); at != nil; at = labelPattern.FindStringIndex(rest) {
		label, rest = rest[at[0]+1:at[1]-1], rest[at[1]-1:] // its end may be the beginning of the next one
	}
	return label
}

func folder(files map[string]uint64) []candidate {
	var texts, weights, shards []string
	hasTokenizer := false
	for _, file := range sorted(files) {
		if weightPattern.MatchString(file) {
			weights = append(weights, file)
		}
		if shardPattern.MatchString(file) {
			shards = append(shards, file)
		}
		if textPattern.MatchString(file) {
			texts = append(texts, file)
		}
		hasTokenizer = hasTokenizer || slices.Contains(tokenizers, file)
	}
	if shards != nil {
		weights = shards
	}
	parts := 1
	if weights != nil {
		if part := partPattern.FindStringSubmatch(weights[0]); part != nil {
			parts, _ = strconv.Atoi(part[1])
		}
	}
	if !slices.Contains(texts, "config.json") || !hasTokenizer || len(weights) < parts {
		return nil
	}
	// Weights come last: where they are complete, all else is.
	names := append(texts, weights...)
	return []candidate{{files: names, size: sum(files, names)}}
}

// named gives the candidates of a quantization, or of the name of a file.
func named(found []candidate, quantization string) []candidate {
	wanted := strings.ToUpper(quantization)
	label := strings.TrimPrefix(wanted, "MMPROJ-")
	for _, is := range []func(c candidate) bool{
		func(c candidate) bool { return c.label == label },
		func(c candidate) bool { return c.label == "UD-"+label },
		func(c candidate) bool { return strings.ToUpper(c.base) == strings.TrimSuffix(wanted, ".GGUF") },
	} {
		var matching []candidate
		for _, c := range found {
			if c.base != "" && is(c) {
				matching = append(matching, c)
			}
		}
		if matching != nil {
			return matching
		}
	}
	return nil
}

// best is the largest quantised one that fits into so much memory (0: unknown), else the smallest of floats that does,
// else the smallest. Of projectors the preferred one, of several the first.
func best(found []candidate, projectors bool, free uint64) candidate {
	return slices.MinFunc(found, func(a, b candidate) int {
		rank := func(c candidate) (int, int64) {
			switch at := slices.Index(preferred, c.label); {
			case projectors && at >= 0:
				return at, 0
			case projectors:
				return len(preferred), 0
			case free != 0 && c.needs() > free:
				return 2, int64(c.size)
			case slices.Contains(floats, c.label):
				return 1, int64(c.size)
			}
			return 0, -int64(c.size)
		}
		kindA, sizeA := rank(a)
		kindB, sizeB := rank(b)
		return cmp.Or(cmp.Compare(kindA, kindB), cmp.Compare(sizeA, sizeB))
	})
}

// choose gives the candidate to fetch, of the files that a repository has.
func choose(files map[string]uint64, repository, quantization string, free uint64) (candidate, error) {
	projectors := isProjector(quantization)
	found := candidates(files, projectors)
	if found == nil && projectors {
		return candidate{}, failed(nil, "%s has neither mmproj files nor config.json, tokenizer and safetensors files: it has no encoder", repository)
	}
	if found == nil {
		return candidate{}, failed(nil, "%s has neither GGUF files nor config.json, tokenizer and safetensors files: take another repository, "+
			"such as one whose name ends in GGUF", repository)
	}
	if isAny(quantization) {
		one := best(found, projectors, free)
		if free != 0 && one.needs() > free && !projectors {
			or := "or one in GGUF files"
			if one.label != "" {
				or = "or name its quantization to fetch it all the same, " + one.label
			}
			return one, failed(ErrMemory, "%s of memory are free, and the smallest of %s takes %s: take a smaller model, %s",
				sizeOf(free), repository, sizeOf(one.needs()), or)
		}
		return one, nil
	}
	var names, labels []string
	matching := named(found, quantization)
	for _, c := range matching {
		names = append(names, c.base+".gguf")
	}
	for _, c := range found {
		if c.base != "" && c.label != "" && projectors {
			labels = append(labels, projector+"-"+c.label)
		} else if c.base != "" {
			labels = append(labels, cmp.Or(c.label, c.base))
		}
	}
	slices.Sort(labels)
	switch {
	case len(matching) > 1:
		return candidate{}, failed(nil, "%s has several files of %s: name one of them in its place, %s", repository, quantization, strings.Join(names, ", "))
	case len(matching) == 1:
		return matching[0], nil
	case labels == nil:
		return candidate{}, failed(nil, "%s has no %s: it has no GGUF files, so name none", repository, quantization)
	}
	return candidate{}, failed(nil, "%s has no %s: take one of %s", repository, quantization, strings.Join(slices.Compact(labels), ", "))
}

func sorted(files map[string]uint64) (names []string) {
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func sum(files map[string]uint64, names []string) (size uint64) {
	for _, name := range names {
		size += files[name]
	}
	return size
}

func sizeOf(n uint64) string {
	if n >= 1e9 {
		return fmt.Sprintf("%.1f GB", float64(n)/1e9)
	}
	return fmt.Sprintf("%.1f MB", float64(n)/1e6)
}
