// Package source owns where desired state comes from: it reads a directory of
// spec files and hands on whole snapshots of it, with the last good spec of
// every file and an honest word on whether the directory could be read.
//
// What a file means is the decoder's business. Whether a name that is gone
// leads to a deletion is the plan package's; here absence only ever means
// that a complete and undoubted read did not find the name.
package source
