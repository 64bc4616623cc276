// Package dialect is the contract of a wire format: Route, Call, Encoder. The dialects themselves are sub-packages.
package dialect
