package network

import (
	"net"
	"syscall"
)

// tcpUserTimeout is TCP_USER_TIMEOUT: the time in milliseconds for which sent bytes may stay unacknowledged.
const tcpUserTimeout = 18

// giveUpSilent closes a connection whose client acknowledges nothing for WriteTimeout, such as a container that has
// been removed.
func giveUpSilent(c net.Conn) {
	if secure, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = secure.NetConn()
	}
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return
	}
	if raw, err := tcp.SyscallConn(); err == nil {
		_ = raw.Control(func(descriptor uintptr) {
			_ = syscall.SetsockoptInt(int(descriptor), syscall.IPPROTO_TCP, tcpUserTimeout, int(WriteTimeout.Milliseconds()))
		})
	}
}
