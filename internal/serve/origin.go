package serve

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// origins decides which web pages may call. One decision serves the preflight, the headers of answers and the refusal of calls that change
// something; that is why it is ours and not a general CORS handler, which lets refused calls through and leaves them to the browser.
type origins struct {
	all   bool
	exact map[string]bool
	match []*regexp.Regexp
}

func newOrigins(extra []string) *origins {
	list := slices.Concat(DefaultOrigins(), extra)
	if len(extra) > 0 && extra[0] == "none" {
		list = extra[1:]
	}
	o := &origins{exact: map[string]bool{}}
	for _, p := range list {
		p = strings.ToLower(strings.TrimRight(strings.TrimSpace(p), "/"))
		switch {
		case p == "*":
			o.all = true
		case strings.Contains(p, "*"):
			o.match = append(o.match, pattern(p))
		default:
			o.exact[p] = true
		}
	}
	return o
}

// pattern turns a star into one label of a host name, or at the end, after a colon, into any port or none.
func pattern(p string) *regexp.Regexp {
	p, port := strings.CutSuffix(p, ":*")
	re := strings.ReplaceAll(regexp.QuoteMeta(p), `\*`, `[a-z0-9-]+`)
	if port {
		re += `(:[0-9]{1,5})?`
	}
	return regexp.MustCompile("^" + re + "$")
}

// allowed says whether a page of this origin may call. host is the request's Host header: the server's own pages always may.
func (o *origins) allowed(origin, host string) bool {
	if o.all || o.exact[origin] {
		return true
	}
	origin = strings.ToLower(origin)
	if o.exact[origin] {
		return true
	}
	for _, m := range o.match {
		if m.MatchString(origin) {
			return true
		}
	}
	u, err := url.Parse(origin)
	return err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https") && strings.EqualFold(u.Host, host)
}

// cors sets the headers for a page's call. It gives false when it has answered itself: a preflight, or a refusal.
func (s *Server) cors(w http.ResponseWriter, r *http.Request) bool {
	h := w.Header()
	h.Add("Vary", "Origin")
	preflight := r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != ""
	if preflight {
		h.Add("Vary", "Access-Control-Request-Method")
		h.Add("Vary", "Access-Control-Request-Headers")
	}
	origin := r.Header.Get("Origin")
	if origin == "" {
		return true
	}
	if !s.origins.allowed(origin, r.Host) {
		if preflight || changes(r.Method) {
			plain(w, http.StatusForbidden, "origin "+clean(origin, 200)+" is not allowed to call this server; add it to the setting \"origins\" (flag --origins, TINYLOOP_ORIGINS)\n")
			return false
		}
		return true
	}
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Expose-Headers", "X-Request-Id, X-Tinyloop-Ignored, Retry-After, Openai-Processing-Ms, Openai-Version")
	if !preflight {
		return true
	}
	h.Set("Access-Control-Allow-Methods", "GET, POST, HEAD, OPTIONS")
	if ask := r.Header.Get("Access-Control-Request-Headers"); ask != "" && len(ask) < 1024 {
		h.Set("Access-Control-Allow-Headers", ask)
	} else {
		h.Set("Access-Control-Allow-Headers", "Content-Type, Authorization")
	}
	h.Set("Access-Control-Max-Age", "600")
	if r.Header.Get("Access-Control-Request-Private-Network") == "true" {
		h.Set("Access-Control-Allow-Private-Network", "true")
	}
	w.WriteHeader(http.StatusNoContent)
	return false
}

func changes(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return false
	}
	return true
}

// hostAllowed guards against DNS rebinding: a page whose own name has been pointed at this machine sends that name in Host.
func (s *Server) hostAllowed(r *http.Request) bool {
	name := hostname(r.Host)
	if name == "" || name == "localhost" || slices.Contains(s.cfg.Hosts, "*") {
		return true
	}
	for _, h := range s.cfg.Hosts {
		if strings.EqualFold(hostname(h), name) {
			return true
		}
	}
	bound := hostname(s.cfg.Addr)
	ip, err := netip.ParseAddr(name)
	if err != nil {
		return bound != "" && strings.EqualFold(bound, name)
	}
	if ip.IsLoopback() {
		return true
	}
	// A rebound page has a name, never an address, so addresses are safe where the server listens on all of them or on this one.
	b, err := netip.ParseAddr(bound)
	return bound == "" && s.cfg.Addr != "" || err == nil && (b.IsUnspecified() || b == ip) || ownAddress(r, ip)
}

func ownAddress(r *http.Request, ip netip.Addr) bool {
	a, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	return ok && a.AddrPort().Addr().Unmap() == ip
}

// hostname cuts the port and the brackets off, in lower case, without a final dot.
func hostname(hostport string) string {
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		hostport = h
	}
	hostport = strings.TrimSuffix(strings.TrimPrefix(hostport, "["), "]")
	return strings.ToLower(strings.TrimSuffix(hostport, "."))
}
