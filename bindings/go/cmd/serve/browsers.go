// Requests of browsers: without keys, only pages of this service are answered.
package main

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// fromElsewhere rejects a browser's request from a page of another site, or to a host name that is not the service's
// (DNS rebinding). Programs send neither of the two headers. With keys, and for origins of -cors, it rejects nothing.
func (s *server) fromElsewhere(r *http.Request) *apiError {
	origin, site := r.Header.Get("Origin"), r.Header.Get("Sec-Fetch-Site")
	if s.requiresKeys() || s.isAllowed(origin) || origin == "" && site == "" {
		return nil
	}
	refusal := func(format string, arguments ...any) *apiError {
		return &apiError{status: http.StatusForbidden, message: fmt.Sprintf(format, arguments...)}
	}
	if site == "cross-site" || site == "same-site" {
		return refusal("pages of other sites are not answered without -keys, unless -cors allows them")
	}
	if origin != "" {
		u, err := url.Parse(origin)
		if err == nil && u.Host != "" && s.isGivenName(hostOf(u.Host)) {
			return nil // whatever name a proxy has for the service
		}
		if err != nil || u.Host == "" || withoutPort(u.Host) != withoutPort(r.Host) {
			return refusal("pages of %.100q are not answered without -keys, unless -cors allows them or -host names their host", origin)
		}
	}
	if host := hostOf(r.Host); !s.isOwnName(host) {
		return refusal("%.100q is no name of this service; -host gives it one", host)
	}
	return nil
}

// withoutPort returns a host with its port, unless the port is a default port, which URLs omit.
func withoutPort(host string) string {
	host = strings.ToLower(host)
	return strings.TrimSuffix(strings.TrimSuffix(host, ":80"), ":443")
}

// hostOf returns a host without its port; of an IPv6 address also without the brackets.
func hostOf(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
}

// isOwnName reports whether a host is an address, a name of this machine, or a name given by -host.
func (s *server) isOwnName(host string) bool {
	address, _, _ := strings.Cut(host, "%")
	return net.ParseIP(address) != nil || host == "localhost" || strings.HasSuffix(host, ".localhost") || s.isGivenName(host)
}

// isGivenName reports whether a host is a name given by -host.
func (s *server) isGivenName(host string) bool {
	return slices.ContainsFunc(s.options.hosts, func(name string) bool { return hostOf(name) == host })
}

// warnIfOpen warns if other machines can reach a service that requires no key or has no TLS, and if pages of any site
// may use it.
func (s *server) warnIfOpen(address net.Addr) {
	if slices.Contains(s.options.origins, "*") && !s.requiresKeys() {
		warn("every web page may use the service (-cors *), which requires no API key (-keys)")
	}
	if tcp, ok := address.(*net.TCPAddr); !ok || tcp.IP.IsLoopback() {
		return
	}
	if !s.requiresKeys() {
		warn("other machines can reach %s, and the service requires no API key (-keys)", address)
	}
	if s.tls == nil {
		warn("other machines can reach %s without TLS (-tls-cert, -tls-key): networks between can read keys and texts", address)
	}
}
