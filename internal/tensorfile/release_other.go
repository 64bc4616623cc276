//go:build !unix

package tensorfile

// Release says that the pages of a view of the file are not needed for now. Here it does nothing.
func (f *File) Release(view []byte) {}
