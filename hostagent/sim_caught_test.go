package hostagent

// caughtBy are seeds that noticed once that a guard was off: they are tried
// first. A change of storm or agent can make them blind; then others are.
var caughtBy = map[string]uint64{}
