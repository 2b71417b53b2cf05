//go:build unix

package hub

import (
	"errors"
	"os"
	"syscall"
)

// lock tries to lock an open file until it is closed; also true if the file system has no locks.
func lock(file *os.File) bool {
	err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	return !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR)
}

// room returns the free bytes for users on the disk of a folder.
func room(folder string) (uint64, error) {
	var found syscall.Statfs_t
	err := syscall.Statfs(folder, &found)
	return uint64(found.Bavail) * uint64(found.Bsize), err
}

const errFull = syscall.ENOSPC
