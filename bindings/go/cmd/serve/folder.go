// A folder of models (-models): its GGUF files and folders by their names, read again on request.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// part matches the name, without its extension, of one file of a split GGUF model: NAME-00001-of-00003.
var part = regexp.MustCompile(`^(.+)-(\d{5})-of-\d{5}$`)

// stem returns the name of the model in a GGUF file; ok is false for other files, encoders and later parts.
func stem(file string) (name string, ok bool) {
	if !strings.EqualFold(filepath.Ext(file), ".gguf") || isEncoder(file) || strings.HasPrefix(file, ".") {
		return "", false
	}
	name = file[:len(file)-len(".gguf")]
	if found := part.FindStringSubmatch(name); found != nil {
		return found[1], found[2] == "00001"
	}
	return name, name != ""
}

// isEncoder reports whether a GGUF file has the encoders of a model, by its name.
func isEncoder(file string) bool { return strings.HasPrefix(strings.ToLower(file), "mmproj") }

// scan finds the models of a folder: GGUF files (only the first file of a split model) and folders. A folder is a model
// of Hugging Face, or contains GGUF files. Their encoder is the file mmproj*.gguf in the same folder. If a folder
// contains only one model, the model has the name of the folder.
func scan(folder string) (all []*model, err error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, fmt.Errorf("cannot read the folder of models (-models): %w", err)
	}
	add := func(name, path, encoder string) {
		if file, err := os.Stat(path); err == nil { // otherwise it has been removed meanwhile
			stamp := fmt.Sprint(path, encoder, file.Size(), file.ModTime().UnixNano())
			all = append(all, &model{name: name, path: path, encoder: encoder, stamp: stamp})
		}
	}
	for _, entry := range entries {
		path := filepath.Join(folder, entry.Name())
		file, err := os.Stat(path) // follows links
		switch {
		case err != nil || strings.HasPrefix(entry.Name(), "."):
		case !file.IsDir():
			if name, ok := stem(entry.Name()); ok {
				add(name, path, "")
			}
		default:
			inner, err := os.ReadDir(path)
			if err != nil {
				warn("cannot read a folder of models (-models): %v", err)
				continue
			}
			var models []string
			encoder := ""
			for _, file := range inner {
				if _, ok := stem(file.Name()); ok {
					models = append(models, file.Name())
				} else if encoder == "" && isEncoder(file.Name()) && strings.EqualFold(filepath.Ext(file.Name()), ".gguf") {
					encoder = filepath.Join(path, file.Name())
				} else if file.Name() == "config.json" {
					add(entry.Name(), path, "")
				}
			}
			for _, file := range models {
				name := entry.Name()
				if len(models) > 1 {
					inner, _ := stem(file)
					name += "/" + inner
				}
				add(name, filepath.Join(path, file), encoder)
			}
		}
	}
	return all, nil
}

// rescan reads the folder of models again, if there is one. Names of the command line take precedence. If the file of a
// model has changed or disappeared, running requests keep the loaded model, which is unloaded when the last of them
// ends.
func (m *models) rescan() error {
	if m.options.folder == "" {
		return nil
	}
	all, err := scan(m.options.folder)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	old := map[string]*model{}
	for name, file := range m.byName {
		if file.stamp != "" {
			old[name] = file
		}
	}
	for _, file := range all {
		known := m.byName[file.name]
		switch {
		case known != nil && known.stamp == "":
			warn("%s is ignored (-models), because another model has the name %s", file.path, file.name)
			continue
		case known != nil && old[file.name] == nil:
			warn("%s is ignored (-models), because another file of the folder has the name %s", file.path, file.name)
			continue
		case known != nil && known.stamp == file.stamp:
		case known != nil:
			m.retire(known)
			file.models, m.byName[file.name] = m, file
			inform("the model %s has changed (-models)", file.name)
		default:
			if err := m.add(file); err != nil {
				return err
			}
		}
		delete(old, file.name)
	}
	for name, file := range old {
		delete(m.byName, name)
		m.names = slices.DeleteFunc(m.names, func(other string) bool { return other == name })
		m.retire(file)
		inform("the model %s is gone (-models)", name)
	}
	return nil
}

// retire unloads a model after its last request; no new request finds the model. mu must be held.
func (m *models) retire(file *model) {
	file.gone = true
	m.retired = append(m.retired, file)
	m.drains.Add(1)
	go func() {
		defer m.drains.Done()
		if m.drain(m.ctx, file) == nil {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.retired = slices.DeleteFunc(m.retired, func(other *model) bool { return other == file })
		}
	}()
}

// drain unloads a model after the requests that use it have ended. Later requests wait, and load the model again. If
// the context ends first, the model stays loaded.
func (m *models) drain(ctx context.Context, file *model) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	wait := func(until <-chan struct{}) error {
		m.mu.Unlock()
		defer m.mu.Lock()
		select {
		case <-until:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	for file.draining != nil || file.loading != nil {
		until := file.draining
		if until == nil {
			until = file.loading
		}
		if err := wait(until); err != nil {
			return err
		}
	}
	if file.loaded == nil {
		return nil
	}
	drained := make(chan struct{})
	file.draining = drained
	defer func() {
		file.draining, file.unused = nil, nil
		close(drained)
	}()
	for file.users > 0 {
		file.unused = make(chan struct{})
		if err := wait(file.unused); err != nil {
			return err
		}
	}
	if file.loaded != nil {
		m.unload(file)
	}
	return nil
}
