package clients

import (
	"os"
	"os/exec"
	"testing"
)

// TestNPMOpenAI runs npm/openai.mjs: the JavaScript client, whole, streamed, with its stream helper, and stopped half-way.
func TestNPMOpenAI(t *testing.T) {
	ctx := needServer(t)
	if _, err := os.Stat("npm/node_modules/openai"); err != nil {
		t.Skip("needs the npm client: run test/clients/run")
	}
	cmd := exec.CommandContext(ctx, "node", "openai.mjs", base, prompt, expected(t, prompt, 24))
	cmd.Dir = "npm"
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}
