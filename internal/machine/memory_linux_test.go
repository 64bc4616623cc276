package machine

import "testing"

func TestNumber(t *testing.T) {
	const meminfo = "MemTotal:       24631344 kB\nMemFree:         7340032 kB\nMemAvailable:   21000000 kB\n"
	for _, c := range []struct {
		text, key string
		want      int64
		ok        bool
	}{
		{meminfo, "MemAvailable:", 21000000, true},
		{meminfo, "SwapFree:", 0, false},
		{"1073741824\n", "", 1 << 30, true},
		{"max\n", "", 0, false},
		{"", "", 0, false},
		{"anon 5\ninactive_file 77\n", "inactive_file", 77, true},
		{"inactive_file", "inactive_file", 0, false},
	} {
		if n, ok := number(c.text, c.key); ok != c.ok || ok && n != c.want {
			t.Errorf("number(%q, %q) = %d, %v", c.text, c.key, n, ok)
		}
	}
}
