package fault

import (
	"encoding/json"
	"testing"
)

func TestJSONText(t *testing.T) {
	type inner struct{ Count uint8 }
	var v struct {
		Deep inner
		Name string
	}
	for text, want := range map[string]string{
		`[]`:                      "it is a JSON array, which it must not be",
		`{"Name":1}`:              "field Name is a JSON number, which it must not be",
		`{"Deep":{"Count":-400}}`: "field Deep.Count is a JSON number -400, which it must not be",
		`{"Deep":"x"}`:            "field Deep is a JSON string, which it must not be",
		`{`:                       "unexpected end of JSON input",
		`{x`:                      "invalid character 'x' looking for beginning of object key string",
	} {
		if got := JSONText(json.Unmarshal([]byte(text), &v)); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}
