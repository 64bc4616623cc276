// Package grammar says which tokens an answer may go on with so that it becomes the JSON that was asked for, or a call of a function.
//
// A Grammar is a pushdown automaton over bytes: nodes for the values of JSON, compiled from a JSON Schema (draft 2020-12, the part listed below), and for
// the marks around calls. A state is a set of stacks, one for each way in which the bytes so far can be read; it branches where a schema leaves
// alternatives open. A Vocabulary lays a model's tokens out as a trie, and a Matcher walks it from a state: the tokens all of whose bytes are
// accepted are the mask. Masks are cached by state.
//
// Two things hold in every state. It can be completed: schemas that describe no finite value are refused, and nothing is begun that would need
// more room in depth than there is. And it leaves a token: every byte that may be needed is a token of its own, or the Vocabulary is refused.
//
// # What is written
//
// Objects have the properties of the schema in the order of the schema, optional ones or not, and no others, unless the schema lists none: then
// additionalProperties describes the values. White space is at most one blank after a bracket, comma or colon and before a closing bracket, or a line
// feed with up to 16 blanks; none stands around the whole. Numbers have up to 15 digits before and after the point and two in the exponent. Strings hold
// every character but surrogates written as \u. Values nest up to 64 deep.
//
// # What is understood of JSON Schema
//
// type (also a list), properties, required, additionalProperties, items, minItems, maxItems, enum, const, minLength, maxLength, anyOf, $ref to a place in the
// same schema, $defs, definitions, and the annotations title, description, default, examples, deprecated, readOnly, writeOnly, $schema, $id and $comment,
// which constrain nothing. Every other keyword is refused by name: an answer that fails a schema silently would be worse.
package grammar

import "tinyloop/internal/fault"

// Bounds of one grammar. Each is checked before memory is taken for what it bounds.
const (
	MaxSchema  = 256 << 10 // bytes of all schemas of a grammar
	maxNesting = 64        // of the JSON that a schema is written in
	maxNodes   = 20_000
	maxLinks   = 100_000 // alternatives of all nodes together
	maxFrames  = 64      // values around one another in an answer, and what is around those
	maxThreads = 128     // ways in which the bytes of an answer may be read at the same time
	maxCount   = 1 << 30 // of minLength and the like
)

// Rule says what an answer may be: at least one of its fields is set. With both, it is one or the other.
type Rule struct {
	Format *Format
	Calls  *Calls
}

// Format is an answer in JSON.
type Format struct {
	Schema []byte // nil = any object
	Field  string // name of the schema in errors
}

// Calls is calls of functions, each between its marks:
//
//	Open {"name": NAME, "arguments": ARGUMENTS} Close
type Calls struct {
	Functions   []Function
	Open, Close string
	Free        bool // text may stand before, between and instead of calls: what comes after Open is a call. Not with a Format
	Most        int  // calls of an answer, at least 1
}

// Function is one that may be called.
type Function struct {
	Name   string
	Schema []byte // of its arguments; nil = any object
	Field  string // name of the schema in errors
}

// Grammar is a compiled Rule. It is immutable and safe for concurrent use.
type Grammar struct {
	nodes []node
	root  int32
}

// Compile prepares a rule. Errors are *fault.Error of kind Invalid or Unsupported whose field is the path of the keyword at fault.
func Compile(r Rule) (*Grammar, error) {
	c := newCompiler()
	root, err := c.rule(r)
	if err != nil {
		return nil, err
	}
	c.g.root = root
	if err := c.finish(); err != nil {
		return nil, err
	}
	for _, s := range c.schemas {
		if c.g.nodes[s.root].height > maxFrames-reserved {
			return nil, fault.New(fault.Invalid, s.field, "%s describes no value that is nested at most %d deep", s.field, maxFrames-reserved)
		}
	}
	for _, a := range c.arguments {
		for _, n := range c.g.leaves(a.root) {
			if k := c.g.nodes[n].kind; k != object && k != mapping {
				return nil, fault.New(fault.Invalid, a.field, "%s must describe an object: arguments have names", a.field)
			}
		}
	}
	return c.g, nil
}

// reserved is the frames of an answer around the value of a schema.
const reserved = 4
