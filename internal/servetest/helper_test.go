package servetest

import (
	"net/http"
	"net/http/httptest"
	"strings"
)

func post(path, body string) *http.Request {
	return httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
}
