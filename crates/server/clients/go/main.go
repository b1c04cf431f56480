// go-redis at work with a server: what it does is printed, and anything else than expected ends it.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

func check(right bool, what string) {
	if !right {
		fmt.Fprintln(os.Stderr, "wrong:", what)
		os.Exit(1)
	}
}

func main() {
	ctx := context.Background()
	for _, protocol := range []int{2, 3} {
		client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + os.Args[1], Protocol: protocol})
		check(client.FlushDB(ctx).Err() == nil, "FLUSHDB")
		check(client.Set(ctx, "go:a", 1, time.Minute).Err() == nil, "SET")
		check(client.Incr(ctx, "go:a").Val() == 2, "INCR")
		check(client.Get(ctx, "go:none").Err() == redis.Nil, "GET of nothing")
		large := strings.Repeat("0123456789", 200_000)
		check(client.Set(ctx, "go:large", large, 0).Err() == nil, "SET of 2 MB")
		check(client.Get(ctx, "go:large").Val() == large, "GET of 2 MB")
		replies, err := client.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
			pipe.IncrBy(ctx, "go:a", 5)
			pipe.StrLen(ctx, "go:large")
			return nil
		})
		check(err == nil && len(replies) == 2, "MULTI")
		err = client.Watch(ctx, func(tx *redis.Tx) error {
			_, err := tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
				pipe.Set(ctx, "go:b", "x", 0)
				return nil
			})
			return err
		}, "go:b")
		check(err == nil, "WATCH")
		keys := 0
		for scan := client.Scan(ctx, 0, "go:*", 1).Iterator(); scan.Next(ctx); {
			keys++
		}
		check(keys == 3, "SCAN")
		messages := client.Subscribe(ctx, "news")
		_, err = messages.Receive(ctx)
		check(err == nil, "SUBSCRIBE")
		check(client.Publish(ctx, "news", "hello").Val() == 1, "PUBLISH")
		message, err := messages.ReceiveMessage(ctx)
		check(err == nil && message.Payload == "hello", "a message")
		check(len(client.Command(ctx).Val()) > 50, "COMMAND")
		messages.Close()
		client.Close()
	}
	fmt.Printf("go-redis %s: RESP2 and RESP3, pipelines, MULTI, WATCH, pub/sub, SCAN, COMMAND, 2 MB values\n", redis.Version())
}
