// Chat holds a conversation with a model on the terminal, or tells what this machine has for models:
//
//	chat MODEL
//	chat -doctor [MODEL]
//
// MODEL is a file, a folder, or hf:owner/name or hf:owner/name:quantization of the Hugging Face Hub. Ctrl-C ends an
// answer, Ctrl-D the conversation.
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"time"

	"realizar.dev/go"
	"realizar.dev/go/hub"
)

func main() {
	isDoctor := flag.Bool("doctor", false, "tell what this machine has for models, and what MODEL makes of it")
	flag.Usage = func() { fmt.Fprintln(os.Stderr, "usage: chat MODEL\n       chat -doctor [MODEL]") }
	flag.Parse()
	var err error
	switch {
	case *isDoctor && flag.NArg() <= 1:
		err = doctor(flag.Arg(0))
	case !*isDoctor && flag.NArg() == 1:
		err = converse(flag.Arg(0))
	default:
		flag.Usage()
		os.Exit(2)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// fetched is the path of a model, with a bar of what is fetched on a terminal.
func fetched(name string) (string, error) {
	if !strings.HasPrefix(name, hub.Prefix) {
		return name, nil
	}
	stat, err := os.Stderr.Stat()
	isTerminal := err == nil && stat.Mode()&os.ModeCharDevice != 0
	begin, shown, first, isFirst := time.Now(), time.Time{}, uint64(0), true
	path, err := realizar.Fetch(context.Background(), name, func(done, total uint64) error {
		if isFirst {
			first, isFirst = done, false
		}
		if first == total || !isTerminal || time.Since(shown) < 100*time.Millisecond && done < total {
			return nil
		}
		shown = time.Now()
		rate := float64(done-first) / 1e6 / max(time.Since(begin).Seconds(), 0.001)
		fmt.Fprintf(os.Stderr, "\r%s  [%-24s]  %.1f of %.1f MB, %.1f MB/s\x1b[K", name, strings.Repeat("=", int(24*done/total)),
			float64(done)/1e6, float64(total)/1e6, rate)
		return nil
	})
	if !shown.IsZero() {
		fmt.Fprintln(os.Stderr)
	}
	return path, err
}

func converse(name string) error {
	path, err := fetched(name)
	if err != nil {
		return err
	}
	model, err := realizar.Load(context.Background(), path, nil)
	if err != nil {
		return err
	}
	defer model.Close()
	conversation, err := model.NewConversation(&realizar.ConversationOptions{Overflow: realizar.OverflowForget})
	if err != nil {
		return err
	}
	defer conversation.Close()

	lines := bufio.NewScanner(os.Stdin)
	for fmt.Print("> "); lines.Scan(); fmt.Print("\n> ") {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
		for piece, err := range conversation.Say(ctx, lines.Text(), nil) {
			if err != nil && ctx.Err() == nil {
				return err
			}
			fmt.Print(piece)
			if ctx.Err() != nil {
				break // which keeps what was said
			}
		}
		stop()
		fmt.Println()
	}
	fmt.Println()
	return lines.Err()
}

func doctor(name string) error {
	threads, err := realizar.NewRuntime(nil) // which refuses a library of another interface
	if err != nil {
		return err
	}
	defer threads.Close()
	fmt.Printf("realizar %s, %s, %s %s\n", realizar.Version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	for _, device := range realizar.Devices() {
		about := []string{device.Name}
		if device.ISA != "" {
			about = append(about, device.ISA)
		}
		if device.MemoryTotal > 0 {
			about = append(about, fmt.Sprintf("%.1f of %.1f GB of memory free", float64(device.MemoryFree)/1e9, float64(device.MemoryTotal)/1e9))
		}
		if !device.Available {
			about = append(about, "unavailable: "+device.Unavailable)
		}
		fmt.Printf("device %d: %s\n", device.Index, strings.Join(about, ", "))
	}
	if name == "" {
		return nil
	}
	ctx := context.Background()
	path, err := fetched(name)
	if err != nil {
		return err
	}
	plan, err := realizar.PlanLoad(ctx, path, nil, nil, 1)
	if err != nil {
		return err
	}
	fmt.Printf("takes %.1f MB of memory, %.1f MB of GPUs, with one conversation\n", float64(plan.TotalHost)/1e6, float64(plan.TotalDevice)/1e6)
	begin := time.Now()
	model, err := realizar.Load(ctx, path, nil)
	if err != nil {
		return err
	}
	defer model.Close()
	info, err := model.Info()
	if err != nil {
		return err
	}
	template := "no chat template"
	if info.HasTemplate {
		template = "a chat template"
	}
	fmt.Printf("loaded in %d ms: %s on device %d, %s\n", time.Since(begin).Milliseconds(), info.Architecture, info.Device, template)
	return measure(ctx, model)
}

// measure generates some tokens, and tells how many come a second.
func measure(ctx context.Context, model *realizar.Model) error {
	session, err := model.NewSession(nil)
	if err != nil {
		return err
	}
	defer session.Close()
	tokens, err := model.Tokenize("Once upon a time", true, false)
	if err != nil {
		return err
	}
	job, err := session.NewJob(ctx, tokens, &realizar.JobOptions{MaxTokens: 32})
	if err != nil {
		return err
	}
	defer job.Close()
	for _, err := range job.Stream() {
		if err != nil {
			return err
		}
	}
	metrics, err := model.Metrics()
	if err == nil && metrics.Decode.Count > 0 {
		fmt.Printf("%.1f tokens per second\n", float64(metrics.Decode.Count)/metrics.Decode.Time.Seconds())
	}
	return err
}
