package servetest

import "testing"

func TestConformance(t *testing.T) {
	for _, d := range Wires() {
		t.Run(d.Name, func(t *testing.T) { Run(t, d) })
	}
}
