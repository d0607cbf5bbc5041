package virttest

import "testing"

func TestFakeConforms(t *testing.T) {
	t.Parallel()
	Conform(t, func(*testing.T) Handle {
		f := New(Namespace)
		f.Preload(ForeignDomains()...)
		return f
	})
}
