// The windows of the afternoon's service (afternoon.py) in Go: afternoon PORT. The list is the one that afternoon.py wrote,
// because Go's own packages have no tokeniser to count an append with.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
)

const priming = 3

type stored struct {
	Tokens  int             `json:"tokens"`
	Message json.RawMessage `json:"message"`
}

type window struct {
	Messages []json.RawMessage `json:"messages"`
	Tokens   int               `json:"tokens"`
}

type link struct {
	socket net.Conn
	reader *bufio.Reader
}

// Connections to the store that are free.
var links = make(chan *link, 256)

func connect() (*link, error) {
	select {
	case free := <-links:
		return free, nil
	default:
	}
	place, err := url.Parse(os.Getenv("SASH_REDIS_URL"))
	if err != nil {
		return nil, err
	}
	network, address := "tcp", place.Host
	if place.Scheme == "unix" {
		network, address = "unix", place.Path
	}
	socket, err := net.Dial(network, address)
	if err != nil {
		return nil, err
	}
	return &link{socket, bufio.NewReaderSize(socket, 1<<16)}, nil
}

// number reads a line of the store's protocol: a kind and a number.
func (l *link) number(kind byte) (int, error) {
	line, err := l.reader.ReadString('\n')
	if err != nil {
		return 0, err
	}
	if line[0] != kind {
		return 0, errors.New(line)
	}
	return strconv.Atoi(strings.TrimSpace(line[1:]))
}

func (l *link) list(key string) ([][]byte, error) {
	fmt.Fprintf(l.socket, "*4\r\n$6\r\nLRANGE\r\n$%d\r\n%s\r\n$1\r\n0\r\n$2\r\n-1\r\n", len(key), key)
	count, err := l.number('*')
	var lines [][]byte
	for ; err == nil && count > 0; count-- {
		var size int
		if size, err = l.number('$'); err != nil {
			break
		}
		line := make([]byte, size+2)
		_, err = io.ReadFull(l.reader, line)
		lines = append(lines, line[:size])
	}
	return lines, err
}

func filled(lines [][]byte, maxTokens int) (window, error) {
	found, first := window{Tokens: priming}, len(lines)
	kept := make([]json.RawMessage, len(lines))
	for first > 0 {
		var one stored
		if err := json.Unmarshal(lines[first-1], &one); err != nil {
			return found, err
		}
		if found.Tokens+one.Tokens > maxTokens {
			break
		}
		first--
		found.Tokens += one.Tokens
		kept[first] = one.Message
	}
	found.Messages = kept[first:]
	return found, nil
}

func answer(writer http.ResponseWriter, request *http.Request) {
	conversation := strings.Split(request.URL.Path, "/")[2]
	maxTokens, _ := strconv.Atoi(request.URL.Query().Get("max_tokens"))
	store, err := connect()
	if err != nil {
		http.Error(writer, err.Error(), http.StatusInternalServerError)
		return
	}
	lines, err := store.list("afternoon:" + conversation)
	if err != nil {
		store.socket.Close()
		http.Error(writer, err.Error(), http.StatusInternalServerError)
		return
	}
	links <- store
	found, err := filled(lines, maxTokens)
	if err != nil {
		http.Error(writer, err.Error(), http.StatusInternalServerError)
		return
	}
	writer.Header().Set("Content-Type", "application/json")
	var body bytes.Buffer
	encoder := json.NewEncoder(&body)
	encoder.SetEscapeHTML(false)
	encoder.Encode(found)
	writer.Header().Set("Content-Length", strconv.Itoa(body.Len()))
	writer.Write(body.Bytes())
}

func main() {
	http.HandleFunc("/conversations/", answer)
	http.HandleFunc("/readyz", func(writer http.ResponseWriter, _ *http.Request) { io.WriteString(writer, "true") })
	log.Fatal(http.ListenAndServe("127.0.0.1:"+os.Args[1], nil))
}
