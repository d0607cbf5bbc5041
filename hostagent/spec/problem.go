package spec

import "github.com/egress-proxies/egress-hostagent/hostagent/internal/doc"

// Problem is one thing wrong with a document: file, line, column, key and what
// is wrong and allowed. It never holds content that may be secret.
type Problem = doc.Problem

// Problems is everything wrong with a document, in document order. It is the
// error that decoders return; its text has one problem a line, bounded.
type Problems = doc.Problems
