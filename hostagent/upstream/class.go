package upstream

import (
	"errors"
	"time"
)

// Class says how a failure heals.
type Class int

// The classes.
const (
	// Transient: the same again can succeed.
	Transient Class = iota
	// Waiting: the same again, but not before RetryAfter.
	Waiting
	// Permanent: waiting alone heals nothing; the request, a configuration, a
	// credential file or what the server has must change. A loop that can not
	// see such a change goes on asking at the pace of Backoff.
	Permanent
)

// String gives the class as a word.
func (c Class) String() string {
	return [...]string{"transient", "waiting", "permanent"}[c]
}

// ClassOf gives the class of an error of this package, by its type and code.
// What it does not know is Transient.
func ClassOf(err error) Class {
	var credential *CredentialError
	switch {
	case errors.As(err, &credential):
		return credential.Class
	case RetryAfter(err) > 0:
		return Waiting
	case transient(err):
		return Transient
	}
	return Permanent
}

// RetryAfter gives how long the server asked to be left alone, at most
// MaxRetryAfter; zero if err holds no such wish.
func RetryAfter(err error) time.Duration {
	var status *StatusError
	if errors.As(err, &status) {
		return status.RetryAfter
	}
	return 0
}
