package hub

import (
	"os"
	"syscall"
	"unsafe"
)

var (
	kernel32  = syscall.NewLazyDLL("kernel32.dll")
	lockFile  = kernel32.NewProc("LockFile")
	freeSpace = kernel32.NewProc("GetDiskFreeSpaceExW")
)

// lock tries to lock the first byte of an open file until it is closed.
func lock(file *os.File) bool {
	locked, _, _ := lockFile.Call(file.Fd(), 0, 0, 1, 0)
	return locked != 0
}

// room returns the free bytes for users on the disk of a folder.
func room(folder string) (free uint64, err error) {
	name, err := syscall.UTF16PtrFromString(folder)
	if err != nil {
		return 0, err
	}
	if found, _, err := freeSpace.Call(uintptr(unsafe.Pointer(name)), uintptr(unsafe.Pointer(&free)), 0, 0); found == 0 {
		return 0, err
	}
	return free, nil
}

const errFull = syscall.Errno(112) // ERROR_DISK_FULL
