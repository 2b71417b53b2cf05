// The supervisor of the service: state notifications to systemd, and probes of containers.
package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"
)

// notify reports a state such as "READY=1" to systemd, if systemd started the service as a unit of the type notify.
func notify(state string) {
	name := os.Getenv("NOTIFY_SOCKET")
	if name == "" {
		return
	}
	socket, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		warn("cannot notify systemd: %v", err)
		return
	}
	defer socket.Close()
	_ = socket.SetWriteDeadline(time.Now().Add(time.Second))
	if _, err := socket.Write([]byte(state)); err != nil {
		warn("cannot notify systemd: %v", err)
	}
}

// probe requests a URL of a running service, such as its /live. It sends nothing secret, so it accepts any certificate.
func probe(url string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fmt.Errorf("-probe is %.200q; it must be a URL", url)
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", url, response.Status)
	}
	return nil
}
