// A server of net/http for HTTP/2 without TLS. It prints its port. GET /restart ends the server gracefully (GOAWAY, after
// the requests in progress), and another one takes its place on the same port, which stays open.
package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
)

func main() {
	restart := make(chan struct{}, 1)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	connections := make(chan net.Conn)
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				panic(err)
			}
			connections <- connection
		}
	}()
	for generation := 1; ; generation++ {
		server := &http.Server{Handler: handler(generation, restart), Protocols: new(http.Protocols)}
		server.Protocols.SetUnencryptedHTTP2(true)
		go server.Serve(&share{Listener: listener, connections: connections, closed: make(chan struct{})})
		<-restart
		go server.Shutdown(context.Background())
	}
}

// share gives the connections of a listener to one server until that is shut down.
type share struct {
	net.Listener
	connections chan net.Conn
	closed      chan struct{}
	once        sync.Once
}

func (s *share) Accept() (net.Conn, error) {
	select {
	case connection := <-s.connections:
		return connection, nil
	case <-s.closed:
		return nil, net.ErrClosed
	}
}

func (s *share) Close() error {
	s.once.Do(func() { close(s.closed) })
	return nil
}

func handler(generation int, restart chan struct{}) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/restart", func(w http.ResponseWriter, r *http.Request) {
		restart <- struct{}{}
		fmt.Fprint(w, generation)
	})
	mux.HandleFunc("/generation", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, generation)
	})
	mux.HandleFunc("/digest", func(w http.ResponseWriter, r *http.Request) {
		digest := sha256.New()
		size, err := io.Copy(digest, r.Body)
		w.Header().Set("x-received-trailer", r.Trailer.Get("x-sum"))
		w.Header().Set("trailer", "x-size")
		fmt.Fprintf(w, "%x %v", digest.Sum(nil), err)
		w.Header().Set("x-size", strconv.FormatInt(size, 10))
	})
	mux.HandleFunc("/large", func(w http.ResponseWriter, r *http.Request) {
		part := make([]byte, 1000000)
		for n := 0; n < 20; n++ {
			w.Write(part)
		}
	})
	mux.HandleFunc("/hints", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("link", "</a.css>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		fmt.Fprint(w, "hinted")
	})
	return mux
}
