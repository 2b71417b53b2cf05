// Cross-origin resource sharing (CORS): pages of other sites that may use the service (-cors).
package main

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// checkOrigin checks an origin of -cors, and returns it as browsers write it: "*", or SCHEME://HOST[:PORT]. The port
// "*" stands for all ports.
func checkOrigin(text string) (string, error) {
	if text == "*" {
		return text, nil
	}
	origin := strings.ToLower(strings.TrimSuffix(text, "/"))
	u, err := url.Parse(strings.TrimSuffix(origin, ":*"))
	if err != nil || u.Scheme == "" || u.Host == "" || origin != u.Scheme+"://"+u.Host && origin != u.Scheme+"://"+u.Host+":*" {
		return "", fmt.Errorf("-cors is %.100q; it must be * or an origin such as https://app.example or http://localhost:*", text)
	}
	return origin, nil
}

// isAllowed reports whether -cors allows pages of an origin.
func (s *server) isAllowed(origin string) bool {
	if origin == "" {
		return false
	}
	origin = strings.ToLower(origin)
	return slices.ContainsFunc(s.options.origins, func(allowed string) bool {
		start, anyPort := strings.CutSuffix(allowed, ":*")
		if rest, ok := strings.CutPrefix(origin, start); ok && anyPort {
			return anyPortOf.MatchString(rest)
		}
		return allowed == "*" || allowed == origin
	})
}

var (
	anyPortOf   = regexp.MustCompile(`^(:[0-9]{1,5})?$`)
	headerNames = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~, -]{1,1000}$")
)

// exposed are the headers of answers that pages of other origins may read.
const exposed = "X-Request-Id, Request-Id, Retry-After, X-Ratelimit-Limit-Requests, X-Ratelimit-Remaining-Requests"

// cross adds the headers that let a page of an allowed origin read the answer. It answers a browser's preflight request
// for such a page with the methods of the path.
func (s *server) cross(w http.ResponseWriter, r *http.Request, methods func() []string) (answered bool) {
	if len(s.options.origins) == 0 {
		return false
	}
	header, origin := w.Header(), r.Header.Get("Origin")
	header.Add("Vary", "Origin")
	if !s.isAllowed(origin) {
		return false
	}
	if slices.Contains(s.options.origins, "*") {
		origin = "*"
	}
	header.Set("Access-Control-Allow-Origin", origin)
	header.Set("Access-Control-Expose-Headers", exposed)
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		return false
	}
	header.Add("Vary", "Access-Control-Request-Headers")
	header.Set("Access-Control-Allow-Methods", strings.Join(methods(), ", "))
	if wanted := r.Header.Get("Access-Control-Request-Headers"); headerNames.MatchString(wanted) {
		header.Set("Access-Control-Allow-Headers", wanted) // Authorization, and what the clients of the APIs add
	}
	if r.Header.Get("Access-Control-Request-Private-Network") == "true" {
		header.Set("Access-Control-Allow-Private-Network", "true")
	}
	header.Set("Access-Control-Max-Age", "600")
	w.WriteHeader(http.StatusNoContent)
	return true
}
