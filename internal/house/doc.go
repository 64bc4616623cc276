// Package house holds the laws of the code as data: the import ladder and the privileges of single packages. Its tests are the
// law; changing the tables is a decision, not a fix.
package house
