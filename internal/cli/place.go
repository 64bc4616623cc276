package cli

import (
	"errors"
	"reflect"

	"github.com/alecthomas/kong"
)

// place reads one path. Unlike kong's own type "path" it refuses an empty one, which there is the current folder: a script whose variable is not set
// would have a model written wherever it stands.
type place struct{}

// Decode is part of kong.Mapper.
func (place) Decode(ctx *kong.DecodeContext, target reflect.Value) error {
	var path string
	if err := ctx.Scan.PopValueInto("file", &path); err != nil {
		return err
	}
	switch path {
	case "":
		return errors.New("the name is empty; . is the current folder")
	case "-":
	default:
		path = kong.ExpandPath(path)
	}
	target.SetString(path)
	return nil
}
