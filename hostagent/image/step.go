package image

// WithStep has f called after each step of a call that changes the tree:
// a directory or file made, written, given its mode, synced, renamed or
// removed. f may end the process there: that is what tests of crashes need, and
// nothing else uses it. Its error ends the call as a failure of that step.
func WithStep(f func(step string) error) Option {
	return func(t *Tree) { t.step = f }
}
