package web

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"tinyloop/internal/servetest"
)

var passepartout = servetest.Options{Say: []string{"Passepartout", " est", " le", " domestique", " français", " de", " **Phileas", " Fogg**", ",", " un", " garçon", " honnête", " et", " débrouillard", "."}}

// Pictures of the page in its usual states, for people to look at: go test -run Looks -shots FOLDER.
func TestLooks(t *testing.T) {
	if *shots == "" {
		t.Skip("makes pictures: give -shots FOLDER")
	}
	for _, l := range []struct {
		name string
		look look
	}{
		{"light", look{french: true}},
		{"dark", look{dark: true}},
		{"phone-light", look{width: 390, height: 800}},
		{"phone-dark", look{dark: true, french: true, width: 390, height: 800}},
	} {
		t.Run(l.name, func(t *testing.T) {
			s := serve(t, passepartout)
			s.Model.SetDelay(15 * time.Millisecond)
			p := open(t, s.URL, l.look)
			p.shot(l.name + "-1-empty")
			if l.look.width > 0 {
				p.press("Menu")
				p.shot(l.name + "-5-drawer")
				p.MustEval(`() => document.querySelector('.veil').click()`)
			}
			p.say("Qui est Passepartout ?")
			p.wait(`() => (document.querySelector('.live')?.innerText ?? '').length > 30`)
			p.shot(l.name + "-6-streaming")
			p.answered()
			p.say("Et quelle est sa qualité la plus étonnante, d’après toi ?")
			p.answered()
			p.shot(l.name + "-2-answered")
			p.MustEval(`() => document.querySelector("summary").click()`)
			p.shot(l.name + "-3-settings")
			p.MustEval(`() => document.querySelector("summary").click()`)
			s.Server.CloseClientConnections()
			s.Server.Close()
			p.say("Encore là ?")
			p.answered()
			p.shot(l.name + "-4-offline")
		})
	}
}

// The drawing of the loops over the ranges that models have.
func TestLoopLooks(t *testing.T) {
	if *shots == "" {
		t.Skip("makes pictures: give -shots FOLDER")
	}
	for _, most := range []string{"4", "16", "32", "64"} {
		s := serve(t, passepartout)
		inner := s.Config.Handler
		s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/v1/models" {
				inner.ServeHTTP(w, r)
				return
			}
			rec := httptest.NewRecorder()
			inner.ServeHTTP(rec, r)
			w.Write([]byte(strings.Replace(rec.Body.String(), `"max_loops":8`, `"max_loops":`+most, 1)))
		})
		open(t, s.URL, look{width: 640, height: 300}).shot("loops-" + most)
	}
}
