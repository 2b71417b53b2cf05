// Models by name: loaded at start or on demand, within the memory limit, and unloaded when unused.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"realizar.dev/go"
	"realizar.dev/go/hub"
)

// storeMemory is the maximum bytes of prefixes that a store holds in memory.
const storeMemory = 256 << 20

// minEntries is the minimum number of prefixes that a store in memory can hold. With more prefixes than slots,
// searching them takes longer than the service has for a reply of a small model.
const minEntries = 16

// models are the models that requests may name. A name stands for a file, or for another model with a LoRA adapter.
type models struct {
	options *options
	metrics *metrics
	runtime *realizar.Runtime

	ctx    context.Context // context of the drains
	end    context.CancelFunc
	drains sync.WaitGroup // retired models that are still in use

	mu      sync.Mutex
	names   []string // names in the order of the command line
	byName  map[string]*model
	aliases map[string]string // names of models by their other names
	retired []*model          // models whose file is gone or has changed, and which are still loaded
	memory  uint64            // maximum bytes of loaded models; 0: no limit
	taken   uint64            // expected bytes of loaded models
}

// model is a named model. The fields below base belong to models that are not adapters; models.mu guards them.
type model struct {
	name, path string
	encoder    string  // file of the vision and audio encoders; "": none
	scale      float32 // scale of an adapter
	base       *model  // base model of an adapter; nil: not an adapter
	stamp      string  // version of the file in the folder of models; "": the model is not from the folder
	models     *models

	loaded   *loaded
	loading  chan struct{} // closed when loading has ended; nil: it is not being loaded
	failure  error         // error of the last loading
	users    int           // number of leases
	lastUsed time.Time
	draining chan struct{} // closed when the model is unloaded, after its users have left; nil: it is not being unloaded
	unused   chan struct{} // closed when the last user leaves; nil: nobody waits
	gone     bool          // its file is gone or has changed, so the model is not loaded again
}

// loaded is a model in memory.
type loaded struct {
	model    *realizar.Model
	encoders map[string]*encoder // by the type of parts, "image" and "audio"
	info     realizar.Info
	template template
	engine   *engine
	size     uint64

	mu       sync.Mutex
	adapters map[string]*realizar.Adapter // adapters by name, from their first use on
}

// lease is a loaded model, which stays loaded until release.
type lease struct {
	*realizar.Model
	name     string // requested name
	info     realizar.Info
	template template
	adapters []realizar.ScaledAdapter // adapters of the name
	encoders map[string]*encoder      // by the type of parts, "image" and "audio"
	engine   *engine
	file     *model // leased model; for an adapter, its base
	release  func()
}

func newModels(o *options, metrics *metrics) (*models, error) {
	m := &models{options: o, metrics: metrics, byName: map[string]*model{}, aliases: map[string]string{}, memory: o.memory}
	m.ctx, m.end = context.WithCancel(context.Background())
	for _, text := range o.models {
		name, path, ok := strings.Cut(text, "=")
		if err := m.add(&model{name: name, path: path}); err != nil || !ok || path == "" {
			return nil, cmp.Or(err, fmt.Errorf("-m is %s; it must be NAME=FILE", text))
		}
	}
	for _, text := range o.encoders {
		name, path, ok := strings.Cut(text, "=")
		if m.byName[name] == nil || ok && path == "" {
			return nil, fmt.Errorf("-mmproj is %s; it must be NAME or NAME=FILE, with the name of a model", text)
		}
		m.byName[name].encoder = cmp.Or(path, m.byName[name].path)
	}
	for _, text := range o.adapters {
		name, rest, _ := strings.Cut(text, "=")
		base, file, _ := strings.Cut(rest, ",")
		adapter := &model{name: name, base: m.byName[base], scale: 1}
		if i := strings.LastIndexByte(file, ','); i >= 0 {
			scale, err := strconv.ParseFloat(file[i+1:], 32)
			if err != nil {
				return nil, fmt.Errorf("-lora is %s; the scale %q must be a number", text, file[i+1:])
			}
			file, adapter.scale = file[:i], float32(scale)
		}
		adapter.path = file
		if err := m.add(adapter); err != nil || adapter.base == nil || adapter.base.base != nil || file == "" {
			return nil, cmp.Or(err, fmt.Errorf("-lora is %s; it must be NAME=MODEL,FILE or NAME=MODEL,FILE,SCALE, with the name of a model given by -m", text))
		}
	}
	if len(m.names) == 0 && o.folder == "" {
		return nil, fmt.Errorf("there is no model; give one with -m NAME=FILE, or a folder of models with -models")
	}
	if err := m.rescan(); err != nil {
		return nil, err
	}
	for _, name := range o.preloads {
		if m.byName[name] == nil {
			return nil, fmt.Errorf("-preload is %s; it must be the name of a model", name)
		}
	}
	for _, text := range o.aliases {
		name, target, _ := strings.Cut(text, "=")
		if m.byName[target] == nil || name == "" || m.byName[name] != nil || m.aliases[name] != "" {
			return nil, fmt.Errorf("-alias is %s; it must be NAME=MODEL, with a new name and the name of a model", text)
		}
		m.aliases[name] = target
	}
	if m.memory == 0 {
		m.memory = freeMemory("/sys/fs/cgroup")
	}
	var err error
	metrics.limit.Set(float64(m.memory))
	m.runtime, err = realizar.NewRuntime(&realizar.RuntimeOptions{Threads: o.threads, MemoryLimit: m.memory, Log: libraryLog})
	return m, err
}

// freeMemory returns the free host memory in bytes; in a container, the free memory within its cgroup limit. 0:
// unknown.
func freeMemory(group string) uint64 {
	free := uint64(0)
	if devices := realizar.Devices(); len(devices) > 0 {
		free = devices[0].MemoryFree
	}
	number := func(name string) (uint64, error) {
		text, err := os.ReadFile(filepath.Join(group, name))
		if err != nil {
			return 0, err
		}
		return strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	}
	bound, err := number("memory.max")
	if err != nil { // for example "max"
		return free
	}
	used, _ := number("memory.current")
	return max(1, min(free, bound-min(used, bound)))
}

func (m *models) add(model *model) error {
	if model.name == "" || m.byName[model.name] != nil {
		return fmt.Errorf("the model name %q is empty or not unique; every model and adapter needs its own name", model.name)
	}
	m.names, m.byName[model.name] = append(m.names, model.name), model
	model.models = m
	return nil
}

// again returns a second lease of the same model, for work that outlives the first.
func (l *lease) again() *lease {
	l.file.models.mu.Lock()
	defer l.file.models.mu.Unlock()
	l.file.users++
	second := *l
	second.release = l.file.leave()
	return &second
}

// leave returns a function whose first call ends the use of a model.
func (f *model) leave() func() {
	return sync.OnceFunc(func() {
		f.models.mu.Lock()
		defer f.models.mu.Unlock()
		f.users--
		f.lastUsed = time.Now()
		if f.users == 0 && f.unused != nil {
			close(f.unused)
			f.unused = nil
		}
	})
}

// find returns the model or adapter of a name or an alias; nil: there is none.
func (m *models) find(name string) *model {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.byName[cmp.Or(m.aliases[name], name)]
}

// sole returns the name of the only model; "" if there are several.
func (m *models) sole() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.names) != 1 {
		return ""
	}
	return m.names[0]
}

// count returns the number of models without adapters.
func (m *models) count() (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, file := range m.byName {
		if file.base == nil {
			n++
		}
	}
	return n
}

// noModel is the error of a request for a model that does not exist.
func noModel(name string) *apiError {
	return &apiError{
		status: http.StatusNotFound, param: "model", code: "model_not_found", message: fmt.Sprintf("the model %.100q does not exist", name),
	}
}

// errGone reports a model that was found but is not loaded any more, because its file is gone or has changed.
var errGone = errors.New("the model is gone")

// lease finds a model by name and loads it if necessary. An unknown name is an apiError with the status 404.
func (m *models) lease(ctx context.Context, name string) (*lease, error) {
	if name == "" {
		return nil, refuse("model", "model is missing; it must be the name of a model")
	}
	recordOf(ctx).names(name)
	var named, file *model
	var in *loaded
	for err := errGone; err == errGone; {
		if named = m.find(name); named == nil {
			return nil, noModel(name)
		}
		file = named
		if named.base != nil {
			file = named.base
		}
		if in, err = m.use(ctx, file); err != nil && err != errGone {
			return nil, err
		}
	}
	l := &lease{Model: in.model, name: name, info: in.info, template: in.template, encoders: in.encoders, engine: in.engine, file: file, release: file.leave()}
	if named != file {
		adapter, err := in.adapter(named)
		if err != nil {
			l.release()
			return nil, &apiError{status: http.StatusInternalServerError, message: fmt.Sprintf("the adapter %q cannot be loaded", name), logged: err}
		}
		l.adapters = []realizar.ScaledAdapter{{Adapter: adapter, Scale: named.scale}}
	}
	return l, nil
}

// leaseFor leases the model of a request, and sets the sampling parameters of its reply.
func (s *server) leaseFor(r *http.Request, name string, wished wish, asked *generation) (*lease, error) {
	l, err := s.models.lease(r.Context(), name)
	if err != nil {
		return nil, err
	}
	if asked.Reply.Sampling, err = l.sampling(wished, 0); err != nil {
		l.release()
		return nil, err
	}
	return l, nil
}

// adapter loads an adapter once.
func (in *loaded) adapter(named *model) (*realizar.Adapter, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if adapter := in.adapters[named.name]; adapter != nil {
		return adapter, nil
	}
	adapter, err := in.model.LoadAdapter(named.path)
	if err == nil {
		in.adapters[named.name] = adapter
	}
	return adapter, err
}

// use counts a user of a model and loads the model if necessary. Loading continues if the caller's context ends.
func (m *models) use(ctx context.Context, file *model) (*loaded, error) {
	for waited := false; ; {
		m.mu.Lock()
		wait := file.draining
		if wait == nil {
			switch {
			case file.loaded != nil:
				defer m.mu.Unlock()
				file.users++
				return file.loaded, nil
			case file.gone:
				defer m.mu.Unlock()
				return nil, errGone
			case waited && file.failure != nil:
				defer m.mu.Unlock()
				return nil, file.failure
			case file.loading == nil:
				file.loading, file.failure = make(chan struct{}), nil
				go m.load(file)
			}
			wait, waited = file.loading, true
		}
		m.mu.Unlock()
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// fetch downloads a model of the Hub, logs progress every ten seconds, and returns the model's path.
func fetch(ctx context.Context, model string) (string, error) {
	told := time.Now()
	return realizar.Fetch(ctx, model, func(done, total uint64) error {
		if time.Since(told) > 10*time.Second {
			told = time.Now()
			inform("%s: %.0f of %.0f MB", model, float64(done)/1e6, float64(total)/1e6)
		}
		return nil
	})
}

// load loads a model if there is enough memory, or if unloading unused models frees enough.
func (m *models) load(file *model) {
	ctx, options := context.Background(), &realizar.LoadOptions{Runtime: m.runtime, PackedPath: m.options.packed(file.name)}
	session := realizar.SessionOptions{Capacity: m.options.context}
	start := time.Now()
	in, err := func() (*loaded, error) {
		path := file.path
		if strings.HasPrefix(path, hub.Prefix) {
			var err error
			if path, err = fetch(ctx, path); err != nil {
				return nil, err
			}
		}
		plan, err := realizar.PlanLoad(ctx, path, options, &session, m.options.slots)
		if errors.Is(err, realizar.ErrUnsupported) || errors.Is(err, realizar.ErrInvalidArgument) { // a model without a KV cache
			plan, err = realizar.PlanLoad(ctx, path, options, nil, 0)
		}
		if errors.Is(err, realizar.ErrLimit) || errors.Is(err, realizar.ErrOutOfMemory) { // unloading models would not help
			return nil, &apiError{
				status: http.StatusInternalServerError, code: "out_of_memory",
				message: fmt.Sprintf("the model %q with %d slots of %d tokens (-slots, -context) needs more memory than is available", file.name, m.options.slots, session.Capacity), logged: err,
			}
		} else if err != nil {
			return nil, err
		}
		in := &loaded{size: max(plan.TotalHost, plan.LoadPeakHost), encoders: map[string]*encoder{}, adapters: map[string]*realizar.Adapter{}}
		in.size += storeMemory
		if err := m.reserve(file, in.size); err != nil {
			return nil, err
		}
		if in.model, err = realizar.Load(ctx, path, options); err == nil {
			if in.info, err = in.model.Info(); err == nil {
				err = m.loadEncoders(ctx, file, in)
			}
			if err != nil {
				in.closeModel()
			}
		}
		if err != nil {
			m.mu.Lock()
			m.taken -= in.size
			m.mu.Unlock()
			return nil, err
		}
		in.template = templateOf(in.model)
		kept := realizar.StoreOptions{MinTokens: minCommon, MemoryLimit: storeMemory, MaxEntries: max(minEntries, m.options.slots)}
		if m.options.store != "" {
			kept.Path, kept.MaxEntries = filepath.Join(m.options.store, "prefixes"), 0
		}
		store, err := in.model.NewStore(&kept)
		if err != nil {
			warn("the prefix cache is disabled: %v", err) // such as for a model without a KV cache
		}
		metrics := m.metrics.of(file.name)
		metrics.memory.Add(float64(in.size))
		in.engine = newEngine(in.model, store, session, capacityOf(in.model, session), m.options.slots, m.options.queue, metrics)
		in.engine.outlasts = m.options.store != ""
		return in, nil
	}()
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil {
		alarm("the model %s cannot be loaded: %v", file.name, err)
		err = asLoadError(file.name, err)
	} else {
		inform("the model %s was loaded in %.1f s; it takes %.1f GB in total", file.name, time.Since(start).Seconds(), float64(in.size)/1e9)
	}
	file.loaded, file.failure, file.lastUsed = in, err, time.Now()
	close(file.loading)
	file.loading = nil
}

// capacityOf returns the context length of a model's sessions in tokens; 0 for a model without one.
func capacityOf(model *realizar.Model, options realizar.SessionOptions) int {
	session, err := model.NewSession(&options)
	if err != nil {
		return 0
	}
	defer session.Close()
	return session.Capacity()
}

// loadEncoders loads the encoders of a model, if it has any; their memory is additional.
func (m *models) loadEncoders(ctx context.Context, file *model, in *loaded) error {
	path, err := file.encoder, error(nil)
	if path == "" {
		return nil
	}
	if strings.HasPrefix(path, hub.Prefix) {
		if path, err = fetch(ctx, hub.EncoderName(path)); err != nil {
			return err
		}
	}
	var refused error
	for part, kind := range map[string]realizar.MediaKind{"image": realizar.Image, "audio": realizar.Audio} {
		options := &realizar.EncoderOptions{Kind: kind}
		plan, err := in.model.PlanEncoder(ctx, path, options)
		if errors.Is(err, realizar.ErrUnsupported) { // a file may have only one kind
			warn("the model %s takes no %s: %v", file.name, nouns[part], err)
			refused = errors.Join(refused, err)
			continue
		} else if err != nil {
			return err
		}
		size := plan.WeightsHost + plan.ScratchHost + maxHeldBytes
		if err := m.reserve(file, size); err != nil {
			return err
		}
		in.size += size
		one, err := in.model.LoadEncoder(ctx, path, options)
		if err != nil {
			return err
		}
		in.encoders[part] = &encoder{Encoder: one, turn: make(chan struct{}, 1)}
	}
	if len(in.encoders) == 0 {
		return refused
	}
	return nil
}

// closeModel closes a loaded model.
func (in *loaded) closeModel() {
	for _, encoder := range in.encoders {
		encoder.close()
	}
	in.model.Close()
}

// asLoadError converts a load error for clients, without paths.
func asLoadError(name string, err error) error {
	e := asAPIError(err)
	if e.status != http.StatusServiceUnavailable && e.code != "out_of_memory" {
		e = &apiError{status: http.StatusInternalServerError, message: fmt.Sprintf("the model %q cannot be loaded", name)}
	}
	return e
}

// reserve takes memory for a model and unloads the least recently used models if necessary.
func (m *models) reserve(file *model, size uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.memory != 0 && size > m.memory {
		return &apiError{
			status: http.StatusInternalServerError, code: "out_of_memory",
			message: fmt.Sprintf("the model %q needs %.2f GB of memory with %d slots; the limit (-memory) is %.2f GB", file.name, float64(size)/1e9, m.options.slots, float64(m.memory)/1e9),
		}
	}
	for m.memory != 0 && m.taken+size > m.memory {
		var oldest *model
		for _, other := range m.byName {
			if other.loaded != nil && other.users == 0 && (oldest == nil || other.lastUsed.Before(oldest.lastUsed)) {
				oldest = other
			}
		}
		if oldest == nil {
			return &apiError{
				status: http.StatusServiceUnavailable, code: "out_of_memory", retryAfter: 5 * time.Second,
				message: fmt.Sprintf("the model %q needs %.2f GB with %d slots; of the limit (-memory) of %.2f GB, %.2f GB are free now",
					file.name, float64(size)/1e9, m.options.slots, float64(m.memory)/1e9, float64(m.memory-min(m.taken, m.memory))/1e9),
			}
		}
		m.unload(oldest)
	}
	m.taken += size
	return nil
}

// unload frees an unused model; mu must be held.
func (m *models) unload(file *model) {
	in := file.loaded
	file.loaded = nil
	m.taken -= in.size
	in.engine.metrics.memory.Sub(float64(in.size))
	in.engine.close()
	for _, adapter := range in.adapters {
		adapter.Close()
	}
	in.closeModel()
	inform("the model %s is unloaded", file.name)
}

// unloadIdle unloads the models that have been unused for this time; 0: all unused models.
func (m *models) unloadIdle(unused time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, file := range m.all() {
		if file.loaded != nil && file.users == 0 && time.Since(file.lastUsed) >= unused {
			m.unload(file)
		}
	}
}

// all returns the models by name and the retired models; mu must be held.
func (m *models) all() []*model {
	return append(slices.Collect(maps.Values(m.byName)), m.retired...)
}

// loadFirst loads the models that are loaded at the start, one after another.
func (m *models) loadFirst(ctx context.Context) error {
	names := slices.Clone([]string(m.options.preloads))
	if !m.options.demand {
		names = append(names, m.given()...)
	}
	for _, name := range names {
		l, err := m.lease(ctx, name)
		if err != nil {
			return fmt.Errorf("the model %s: %w", name, err)
		}
		l.release()
	}
	return nil
}

// given returns the names of the models and adapters of the command line.
func (m *models) given() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(m.names), func(name string) bool { return m.byName[name].stamp != "" })
}

// listed returns all names: first those of the command line, then the folder's and the aliases.
func (m *models) listed() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append(slices.Clone(m.names), slices.Sorted(maps.Keys(m.aliases))...)
}

// describe returns a model as OpenAI and Anthropic list it; nil if there is no such name.
func (m *models) describe(name string) map[string]any {
	named := m.find(name)
	if named == nil {
		return nil
	}
	description := map[string]any{
		"id": name, "object": "model", "created": m.options.started.Unix(), "owned_by": "realizar",
		"type": "model", "display_name": name, "created_at": m.options.started.UTC().Format(time.RFC3339), "lifecycle": "active",
	}
	if named.base != nil {
		description["parent"] = named.base.name
	}
	details := m.details(named)
	if named.name != name {
		details["alias_of"] = named.name
	}
	description["realizar"] = details
	return description
}

// details returns what clients of this server may know of a model. If the model is not loaded, that is only "loaded".
func (m *models) details(file *model) map[string]any {
	if file.base != nil {
		file = file.base
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	in := file.loaded
	if in == nil {
		return map[string]any{"loaded": false}
	}
	details := map[string]any{
		"loaded": true, "architecture": in.info.Architecture, "parameters": in.info.NParams, "memory": in.size,
		"context": in.engine.capacity, "slots": in.engine.slots, "chat": in.info.HasTemplate && in.engine.capacity > 0,
		"tools": in.template.tools, "reasoning_switch": in.template.switches,
		"image": in.encoders["image"] != nil, "audio": in.encoders["audio"] != nil,
	}
	if s, err := in.model.AdvisedSampling(); err == nil && s != nil {
		details["sampling"] = map[string]any{
			"temperature": s.Temperature, "top_k": s.TopK, "top_p": s.TopP, "min_p": s.MinP, "repetition_penalty": s.RepeatPenalty,
		}
	}
	return details
}

// list serves /v1/models.
func (s *server) list(w http.ResponseWriter, r *http.Request) error {
	data, first, last := []any{}, any(nil), any(nil)
	for _, name := range s.models.listed() {
		if description := s.models.describe(name); description != nil {
			data, last = append(data, description), name
			first = cmp.Or(first, last)
		}
	}
	return writeJSON(w, map[string]any{"object": "list", "data": data, "has_more": false, "first_id": first, "last_id": last})
}

// retrieve serves /v1/models/NAME.
func (s *server) retrieve(w http.ResponseWriter, r *http.Request) error {
	description := s.models.describe(r.PathValue("name"))
	if description == nil {
		return &apiError{status: http.StatusNotFound, param: "model", code: "model_not_found", message: "the model does not exist"}
	}
	return writeJSON(w, description)
}

// close unloads all models; all must be unused.
func (m *models) close() {
	m.end()
	m.drains.Wait()
	m.unloadIdle(0)
	m.runtime.Close()
}
