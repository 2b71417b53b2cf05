package hub

// What the tests change.
var (
	Pause    = &pause
	Timeout  = &timeout
	MakeLink = &makeLink
)

// Choose gives the names of the files that are chosen of a listing.
func Choose(model string, listing []byte, free uint64) (names []string, err error) {
	chosen, err := choose(model, listing, free, false)
	for _, one := range chosen.Files {
		names = append(names, one.Name)
	}
	return names, err
}
