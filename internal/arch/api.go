// Package arch maps the model files of the world to Spec and Weights: one short file per family, a plain table, no registration by import.
package arch

// Contract:
//
//	// Load reads Spec and weights of any supported file. Unknown or unsupported configuration values are refused by name.
//	func Load(f *tensorfile.File) (*model.Model, error)
//	func SpecOf(f *tensorfile.File) (*model.Spec, error)       // without touching tensor data: inspect, estimates
//	func Save(path string, m *model.Model, …) error            // .tinyloop (see docs/format/tinyloop.md)
