// Package cli holds the subcommands.
package cli
