// Log probabilities of the tokens of a prompt, for text completions with "echo" and "logprobs".
package main

import (
	"context"
	"math"

	"realizar.dev/go"
)

const (
	maxScored  = 1 << 20 // log probabilities of all prompts of a request, because the whole answer is in memory
	scoreLanes = 16      // positions whose likeliest tokens are computed as a batch
)

// score appends tokens to an empty session and returns the log probability of each token, with the top most likely
// tokens at its place. The first token has no log probability.
func score(ctx context.Context, session *realizar.Session, tokens []uint32, top int) ([]realizar.TokenLogprobs, error) {
	if err := session.Truncate(0); err != nil {
		return nil, err
	}
	logprobs, err := session.Score(ctx, tokens)
	if err != nil {
		return nil, err
	}
	rows := make([]realizar.TokenLogprobs, len(tokens))
	var open []int // rows whose likeliest tokens are not known
	for i, token := range tokens {
		rows[i].Logprob = realizar.Logprob{Token: token, Logprob: logprobs[i]}
		switch {
		case i == 0 || top == 0:
		case top == 1 && logprobs[i] > -math.Ln2: // more probable than all others together
			rows[i].Likeliest = []realizar.Logprob{rows[i].Logprob}
		default:
			open = append(open, i)
		}
	}
	for len(open) > 0 {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		n := min(scoreLanes, len(open))
		if err := addLikeliest(session, rows, open[:n], top); err != nil {
			return nil, err
		}
		open = open[n:]
	}
	return rows, nil
}

// addLikeliest adds the most likely tokens to rows. It forks the session for each row, cuts the fork to the tokens
// before the row, and recomputes the last of these tokens in a batch.
func addLikeliest(session *realizar.Session, rows []realizar.TokenLogprobs, at []int, top int) error {
	forks, last := make([]*realizar.Session, 0, len(at)), make([]uint32, 0, len(at))
	defer func() {
		for _, fork := range forks {
			fork.Close()
		}
	}()
	for _, i := range at {
		fork, err := session.Fork()
		if err != nil {
			return err
		}
		forks, last = append(forks, fork), append(last, rows[i-1].Token)
		if err := fork.Truncate(i - 1); err != nil {
			return err
		}
	}
	if _, err := realizar.DecodeBatch(forks, last, nil); err != nil {
		return err
	}
	for lane, i := range at {
		likeliest, err := forks[lane].Logprobs(top)
		if err != nil {
			return err
		}
		rows[i].Likeliest = likeliest
		for _, one := range likeliest { // one value for both, also on a device whose batches round differently
			if one.Token == rows[i].Token {
				rows[i].Logprob = one
			}
		}
	}
	return nil
}
