// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bootstorm

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
)

const (
	// tries and firstWait are those of firmware: it asks again after 1, 2, 4 …
	// seconds.
	tries     = 6
	firstWait = time.Second
	blockSize = 1468
	// httpPatience is how long an answer may take to come to its end.
	httpPatience = time.Minute
)

// client is one server that boots.
type client struct {
	n  int
	at endpoints
	// script is how long the script took, from the request to its end.
	script time.Duration
	// repeats counts packets that were sent again.
	repeats int
}

var links = regexp.MustCompile(`http://\S+/files/\S+`)

// boot goes the whole way: the ROM's DHCP, its loader by TFTP, iPXE's DHCP, the
// script, and what it names.
func (c *client) boot() error {
	file, err := c.lease()
	if err != nil {
		return fmt.Errorf("ROM: %w", err)
	}
	if file != loader {
		return fmt.Errorf("the ROM is sent to %q", file)
	}
	got, err := c.tftp(file)
	if err != nil {
		return fmt.Errorf("loader: %w", err)
	}
	if !bytes.Equal(got, pattern(loader, len(got))) || len(got) == 0 {
		return fmt.Errorf("the loader arrived wrong, %d bytes", len(got))
	}
	if file, err = c.lease(dhcpv4.WithOption(dhcpv4.OptUserClass("iPXE"))); err != nil {
		return fmt.Errorf("iPXE: %w", err)
	}
	begun := time.Now()
	script, err := c.get(file)
	if err != nil {
		return fmt.Errorf("script: %w", err)
	}
	c.script = time.Since(begun)
	want := [][]byte{pattern(kernel, 400_000), pattern(initramfs, 200_000)}
	files := links.FindAllString(string(script), -1)
	if len(files) != len(want) {
		return fmt.Errorf("the script names %q", files)
	}
	for i, file := range files {
		if got, err := c.get(file); err != nil || !bytes.Equal(got, want[i]) {
			return fmt.Errorf("%s arrived as %d bytes, %w", file, len(got), err)
		}
	}
	return nil
}

// lease gets the recorded address, and returns the boot file.
func (c *client) lease(modifiers ...dhcpv4.Modifier) (string, error) {
	conn, err := c.listen()
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	modifiers = append(modifiers,
		dhcpv4.WithOption(dhcpv4.OptClassIdentifier("PXEClient:Arch:00000:UNDI:002001")),
		dhcpv4.WithGeneric(dhcpv4.OptionClientSystemArchitectureType, []byte{0, 0}))
	discover, err := dhcpv4.NewDiscovery(hostMAC(c.n), modifiers...)
	if err != nil {
		return "", err
	}
	offer, err := c.exchange(conn, discover, dhcpv4.MessageTypeOffer)
	if err != nil {
		return "", err
	}
	request, err := dhcpv4.NewRequestFromOffer(offer, modifiers...)
	if err != nil {
		return "", err
	}
	ack, err := c.exchange(conn, request, dhcpv4.MessageTypeAck)
	if err != nil {
		return "", err
	}
	if ack.YourIPAddr.String() != hostAddress(c.n).String() {
		return "", fmt.Errorf("got address %s", ack.YourIPAddr)
	}
	return ack.BootFileNameOption(), nil
}

func (c *client) listen() (*net.UDPConn, error) {
	return net.ListenUDP("udp4", &net.UDPAddr{IP: hostAddress(c.n).AsSlice()})
}

func (c *client) exchange(conn *net.UDPConn, packet *dhcpv4.DHCPv4, want dhcpv4.MessageType) (*dhcpv4.DHCPv4, error) {
	to, err := net.ResolveUDPAddr("udp4", c.at.DHCP)
	if err != nil {
		return nil, err
	}
	buf := make([]byte, 1500)
	n, err := c.ask(conn, to, packet.ToBytes(), buf, func(n int, _ *net.UDPAddr) bool {
		reply, err := dhcpv4.FromBytes(buf[:n])
		return err == nil && reply.TransactionID == packet.TransactionID && reply.MessageType() == want
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", want, err)
	}
	return dhcpv4.FromBytes(buf[:n])
}

// ask sends a packet until an answer comes that is good.
func (c *client) ask(conn *net.UDPConn, to *net.UDPAddr, packet, buf []byte, good func(int, *net.UDPAddr) bool) (int, error) {
	wait := firstWait
	for range tries {
		if _, err := conn.WriteToUDP(packet, to); err != nil {
			return 0, err
		}
		_ = conn.SetReadDeadline(time.Now().Add(wait))
		for {
			n, from, err := conn.ReadFromUDP(buf)
			if errors.Is(err, os.ErrDeadlineExceeded) {
				break
			}
			if err != nil {
				return 0, err
			}
			if good(n, from) {
				return n, nil
			}
		}
		c.repeats++
		wait *= 2
	}
	return 0, errors.New("no answer")
}

// tftp reads a file in blocks of 1468.
func (c *client) tftp(name string) ([]byte, error) {
	conn, err := c.listen()
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	peer, err := net.ResolveUDPAddr("udp4", c.at.TFTP)
	if err != nil {
		return nil, err
	}
	var (
		content []byte
		buf     = make([]byte, 4+blockSize)
		packet  = fmt.Appendf(nil, "\x00\x01%s\x00octet\x00blksize\x00%d\x00", name, blockSize)
	)
	for block := uint16(0); ; block++ {
		n, err := c.ask(conn, peer, packet, buf, func(n int, from *net.UDPAddr) bool {
			op, number := binary.BigEndian.Uint16(buf), binary.BigEndian.Uint16(buf[2:])
			if op == 5 || op == 6 && block == 0 || op == 3 && number == block && block > 0 {
				peer = from
				return true
			}
			return false
		})
		if err != nil {
			return nil, fmt.Errorf("block %d: %w", block, err)
		}
		if buf[1] == 5 {
			return nil, fmt.Errorf("refused: %q", buf[4:n])
		}
		packet = []byte{0, 4, byte(block >> 8), byte(block)}
		if block == 0 {
			continue
		}
		content = append(content, buf[4:n]...)
		if n < 4+blockSize {
			_, err := conn.WriteToUDP(packet, peer)
			return content, err
		}
	}
}

// get reads a URL, on a connection from the client's own address.
func (c *client) get(link string) ([]byte, error) {
	u, err := url.Parse(link)
	if err != nil {
		return nil, err
	}
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: hostAddress(c.n).AsSlice()}, Timeout: httpPatience}
	conn, err := dialer.Dial("tcp4", u.Host)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(httpPatience))
	if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", u.Path, u.Host); err != nil {
		return nil, err
	}
	r, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return nil, err
	}
	if r.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", link, r.Status)
	}
	return io.ReadAll(r.Body)
}
