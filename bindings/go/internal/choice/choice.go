// Package choice is the way of package hub to the library, which package realizar opens.
package choice

// Failure is a call of the library that failed: its status, its message, and the error that package realizar makes of
// both.
type Failure struct {
	Status  int32
	Message string
	Err     error
}

// Choose is rz_hub_choose_into. Package realizar sets it.
var Choose func(model string, listing []byte, free uint64, isCached bool) (json []byte, failure *Failure)
