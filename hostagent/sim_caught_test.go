package hostagent

// caughtBy are seeds that noticed once that a guard was off: they are tried
// first. A change of storm or agent can make them blind; then others are.
var caughtBy = map[string]uint64{
	"1 what can not be seen is left":                    1,
	"1 only no such domain means absent":                4,
	"1 who is on no list is looked at":                  2,
	"2 absence is made certain":                         5,
	"2 a second read misses it too":                     6,
	"2 the two are a while apart":                       4,
	"2 the file's source counts before it was heard of": 6,
	"3 the last good spec is on disk":                   3,
	"4 another host's is left":                          121,
	"4 a clone is not ours":                             1,
	"5 the tombstone is on disk first":                  1,
	"5 a VM is disowned once":                           1,
	"5 who is buried is not ours":                       16,
	"5 skip_cleanup leaves the VM":                      40,
}
