// go-redis at work with a cluster of three: what it does is printed, and anything else than expected ends it.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync/atomic"

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
		client := redis.NewClusterClient(&redis.ClusterOptions{
			Addrs: []string{"127.0.0.1:" + os.Args[1]}, Protocol: protocol,
		})
		var nodes atomic.Int32
		err := client.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
			nodes.Add(1)
			return node.FlushAll(ctx).Err()
		})
		check(err == nil && int(nodes.Load()) == len(os.Args)-1, "FLUSHALL of three nodes")
		for number := 0; number < 300; number++ {
			check(client.Set(ctx, fmt.Sprintf("go:%d", number), number, 0).Err() == nil, "SET")
		}
		for number := 0; number < 300; number++ {
			check(client.Get(ctx, fmt.Sprintf("go:%d", number)).Val() == fmt.Sprint(number), "GET")
		}
		check(client.DBSize(ctx).Val() == 300, "DBSIZE of all nodes")
		replies, err := client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for number := 0; number < 300; number++ {
				pipe.Incr(ctx, fmt.Sprintf("go:%d", number))
			}
			return nil
		})
		check(err == nil && len(replies) == 300, "a pipeline over three nodes")
		_, err = client.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
			pipe.Set(ctx, "{go}a", 1, 0)
			pipe.Incr(ctx, "{go}a")
			return nil
		})
		check(err == nil && client.Get(ctx, "{go}a").Val() == "2", "MULTI")
		err = client.MGet(ctx, "go:1", "go:2").Err()
		check(err != nil && strings.Contains(err.Error(), "CROSSSLOT"), "MGET of two slots")
		messages := client.SSubscribe(ctx, "news")
		_, err = messages.Receive(ctx)
		check(err == nil, "SSUBSCRIBE")
		check(client.SPublish(ctx, "news", "hello").Val() == 1, "SPUBLISH")
		message, err := messages.ReceiveMessage(ctx)
		check(err == nil && message.Payload == "hello", "a message")
		messages.Close()
		client.Close()
	}
	fmt.Println("ClusterClient: RESP2 and RESP3, redirection, pipelines, MULTI, DBSIZE of all nodes, SSUBSCRIBE")
}
