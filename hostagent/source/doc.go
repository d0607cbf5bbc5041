// Package source owns where desired state comes from: it reads a directory of
// spec files and hands on whole snapshots of it, with the last good spec of
// every file and an honest word on whether the directory could be read.
//
// Files are opened beneath the directory only. A file that is being written
// does not count until it is quiet; a directory that took another's place does
// not count until it has settled, and one that is empty then not before
// somebody fills it or says that it is meant.
//
// What a file means is the decoder's business. Whether a name that is gone
// leads to a deletion is the plan package's; here absence only ever means
// that a complete and undoubted read did not find the name.
package source
