package main

import (
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v2"
)

const examples = "../../../../examples/"

// flagsOf checks the arguments of an example, and returns its options.
func flagsOf(t *testing.T, arguments []string) *options {
	t.Helper()
	o, err := parse(arguments)
	if err != nil {
		t.Fatal(arguments, err)
	}
	if err := setLog(o.logForm, o.logLevel); err != nil {
		t.Error(err)
	}
	return o
}

func TestManifestsOfKubernetes(t *testing.T) {
	collectLog(t, 0) // which is restored
	text, err := os.ReadFile(examples + "kubernetes/serve.yaml")
	must(t, err)
	kinds := map[string]bool{}
	for _, document := range strings.Split(string(text), "\n---\n") {
		var object struct {
			APIVersion string `yaml:"apiVersion"`
			Kind       string
			StringData map[string]string `yaml:"stringData"`
			Spec       struct {
				Template struct {
					Spec struct {
						GracePeriod int `yaml:"terminationGracePeriodSeconds"`
						Containers  []struct {
							Args []string
						}
					}
				}
			}
		}
		must(t, yaml.Unmarshal([]byte(document), &object))
		kinds[object.Kind] = true
		if keys, found := object.StringData["keys"]; found {
			all, err := readKeys(written(t, "keys", keys), nil)
			if err != nil || !all[len(all)-1].admin {
				t.Error(err)
			}
		}
		for _, container := range object.Spec.Template.Spec.Containers {
			o := flagsOf(t, container.Args)
			if time.Duration(object.Spec.Template.Spec.GracePeriod)*time.Second <= o.drain || o.address != ":8080" || o.keys == "" {
				t.Errorf("%+v", o)
			}
		}
	}
	for _, kind := range []string{"Secret", "Deployment", "Service", "PodDisruptionBudget"} {
		if !kinds[kind] {
			t.Error(kind)
		}
	}
	probes := regexp.MustCompile(`httpGet: \{path: (/\w+), port: http\}`).FindAllStringSubmatch(string(text), -1)
	for _, probe := range probes {
		if !operations["GET "+probe[1]].isOpen {
			t.Error(probe[1])
		}
	}
	if len(probes) != 3 {
		t.Error(probes)
	}
	if _, err := exec.LookPath("kubectl"); err != nil {
		return
	}
	folder := t.TempDir() // kubectl reads the manifests without a cluster
	copied(t, examples+"kubernetes/serve.yaml", filepath.Join(folder, "serve.yaml"))
	must(t, os.WriteFile(filepath.Join(folder, "kustomization.yaml"), []byte("resources: [serve.yaml]\n"), 0o600))
	if output, err := exec.Command("kubectl", "kustomize", folder).CombinedOutput(); err != nil || !strings.Contains(string(output), "realizar-keys") {
		t.Errorf("%v %s", err, output)
	}
}

func TestTheUnitOfSystemd(t *testing.T) {
	collectLog(t, 0)
	text, err := os.ReadFile(examples + "systemd/realizar-serve.service")
	must(t, err)
	command := regexp.MustCompile(`(?m)^ExecStart=(\S+) (.*)$`).FindStringSubmatch(string(text))
	o := flagsOf(t, strings.Fields(command[2]))
	if o.folder == "" || o.keys == "" || o.drain >= 45*time.Second || !strings.Contains(string(text), "TimeoutStopSec=45\n") {
		t.Errorf("%+v", o)
	}
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Log("SKIPPED: systemd-analyze verify, which is not here")
		return
	}
	unit := filepath.Join(t.TempDir(), "realizar-serve.service") // with a program and a user that exist
	changed := strings.NewReplacer(command[1], "/bin/true", "User=realizar", "User=root", "Group=realizar", "Group=root").Replace(string(text))
	must(t, os.WriteFile(unit, []byte(changed), 0o600))
	output, err := exec.Command("systemd-analyze", "verify", "--man=no", unit).CombinedOutput()
	if err != nil || strings.Contains(string(output), "realizar-serve.service:") {
		t.Errorf("%v %s", err, output)
	}
}

func TestTheContainer(t *testing.T) {
	collectLog(t, 0)
	text, err := os.ReadFile("Containerfile")
	must(t, err)
	list := func(start string) (all []string) {
		found := regexp.MustCompile(`(?m)^` + start + `\[(.*)\]$`).FindStringSubmatch(string(text))
		for _, word := range strings.Split(found[1], ", ") {
			all = append(all, strings.Trim(word, `"`))
		}
		return all
	}
	if o := flagsOf(t, list("CMD ")); o.address != ":8080" || o.folder != "/models" || o.store != "/store" {
		t.Errorf("%+v", o)
	}
	check := list("HEALTHCHECK .* CMD ")
	if o := flagsOf(t, check[1:]); check[0] != list("ENTRYPOINT ")[0] || o.probe != "http://127.0.0.1:8080/live" {
		t.Errorf("%+v", o)
	}
}

func TestAProbe(t *testing.T) {
	s := serve(t)
	must(t, probe(s.url+"/live"))
	s.state.Store(loadingModels)
	for _, url := range []string{s.url + "/ready", "http://127.0.0.1:1/live", ":", "ftp://x"} {
		if probe(url) == nil {
			t.Error(url)
		}
	}
}

func TestSystemdIsNotified(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	must(t, err)
	defer socket.Close()
	t.Setenv("NOTIFY_SOCKET", path)
	t.Run("service", func(t *testing.T) {
		address := running(t, "-a", "127.0.0.1:0")[0].String()
		until(t, "not ready", func() bool {
			status, _, _ := send(t, http.DefaultClient, http.MethodGet, "http://"+address+"/ready", "")
			return status == http.StatusOK
		})
	})
	must(t, socket.SetReadDeadline(time.Now().Add(10*time.Second)))
	for _, want := range []string{"READY=1", "STOPPING=1"} {
		data := make([]byte, 100)
		n, err := socket.Read(data)
		if err != nil || string(data[:n]) != want {
			t.Errorf("%q %v", data[:n], err)
		}
	}
}
