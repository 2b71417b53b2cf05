// Package network listens for the clients of the service, at an address, a unix socket or both, encrypts their
// connections, and notices which of them have disconnected.
package network

import (
	"fmt"
	"io/fs"
	"net"
	"os"
	"time"
)

// Listen listens at a unix socket with a mode and at a TCP address; "": not there.
func Listen(socket string, mode fs.FileMode, address string) (all []net.Listener, err error) {
	defer func() {
		if err != nil {
			for _, one := range all {
				one.Close()
			}
		}
	}()
	if socket != "" {
		one, err := listenAtSocket(socket, mode)
		if err != nil {
			return all, err
		}
		all = append(all, one)
	}
	if address != "" {
		one, err := net.Listen("tcp", address)
		if err != nil {
			return all, fmt.Errorf("cannot listen at the address (-a): %w", err)
		}
		all = append(all, one)
	}
	return all, nil
}

// socketListener is a unix socket, whose file Close removes unless another service has replaced it.
type socketListener struct {
	*net.UnixListener
	path string
	file fs.FileInfo
}

// listenAtSocket makes a unix socket with a mode. It replaces a socket at which nothing listens, and no other file. The
// socket gets its name last, so that nobody can open it before it has its mode.
func listenAtSocket(path string, mode fs.FileMode) (net.Listener, error) {
	switch file, err := os.Lstat(path); {
	case os.IsNotExist(err):
	case err != nil:
		return nil, fmt.Errorf("cannot make the socket (-socket): %w", err)
	case file.Mode().Type() != fs.ModeSocket:
		return nil, fmt.Errorf("-socket is %s, which is a file of another kind; it must be free or a socket", path)
	default:
		other, err := net.DialTimeout("unix", path, time.Second)
		if err == nil {
			other.Close()
			return nil, fmt.Errorf("-socket is %s, at which another program listens", path)
		}
	}
	made := fmt.Sprintf("%s.%d", path, os.Getpid())
	_ = os.Remove(made)
	accepts, err := net.ListenUnix("unix", &net.UnixAddr{Name: made, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("cannot make the socket (-socket): %w", err)
	}
	accepts.SetUnlinkOnClose(false)
	var file fs.FileInfo
	err = os.Chmod(made, mode)
	if err == nil {
		err = os.Rename(made, path)
	}
	if err == nil {
		file, err = os.Lstat(path)
	}
	if err != nil {
		accepts.Close()
		_ = os.Remove(made)
		return nil, fmt.Errorf("cannot make the socket (-socket): %w", err)
	}
	return &socketListener{accepts, path, file}, nil
}

func (l *socketListener) Close() error {
	if file, err := os.Lstat(l.path); err == nil && os.SameFile(file, l.file) {
		_ = os.Remove(l.path)
	}
	return l.UnixListener.Close()
}

// Addr returns the path of the socket, which was created under another name.
func (l *socketListener) Addr() net.Addr { return &net.UnixAddr{Name: l.path, Net: "unix"} }
