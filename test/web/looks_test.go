package web

import (
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
			s.Model.SetDelay(3 * time.Millisecond)
			p := open(t, s.URL, l.look)
			p.shot(l.name + "-1-empty")
			p.say("Qui est Passepartout ?")
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
