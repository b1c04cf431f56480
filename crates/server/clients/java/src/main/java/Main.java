import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.JedisPool;
import redis.clients.jedis.JedisPubSub;
import redis.clients.jedis.Pipeline;
import redis.clients.jedis.Response;
import redis.clients.jedis.Transaction;
import redis.clients.jedis.params.ScanParams;
import redis.clients.jedis.params.SetParams;

/** Jedis at work with a server: what it does is printed, and anything else than expected ends it. */
public class Main {
    static void check(boolean right, String what) {
        if (!right) {
            throw new IllegalStateException("wrong: " + what);
        }
    }

    public static void main(String[] arguments) throws Exception {
        int port = Integer.parseInt(arguments[0]);
        try (JedisPool pool = new JedisPool("127.0.0.1", port); Jedis client = pool.getResource()) {
            client.flushDB();
            check(client.set("java:a", "1", SetParams.setParams().ex(100)).equals("OK"), "SET");
            check(client.incr("java:a") == 2 && client.get("java:none") == null, "INCR, GET");
            byte[] large = new byte[2_000_000];
            Arrays.fill(large, (byte) 7);
            client.set("java:large".getBytes(), large);
            check(Arrays.equals(client.get("java:large".getBytes()), large), "2 MB");
            client.watch("java:a");
            Transaction transaction = client.multi();
            Response<Long> sum = transaction.incrBy("java:a", 5);
            check(transaction.exec().size() == 1 && sum.get() == 7, "MULTI");
            Pipeline pipe = client.pipelined();
            Response<String> set = pipe.set("java:b", "x");
            Response<String> got = pipe.get("java:b");
            pipe.sync();
            check(set.get().equals("OK") && got.get().equals("x"), "a pipeline");
            HashSet<String> keys = new HashSet<>();
            String cursor = "0";
            do {
                var page = client.scan(cursor, new ScanParams().match("java:*").count(1));
                keys.addAll(page.getResult());
                cursor = page.getCursor();
            } while (!cursor.equals("0"));
            check(keys.equals(new HashSet<>(List.of("java:a", "java:b", "java:large"))), "SCAN");
            CountDownLatch joined = new CountDownLatch(1);
            CountDownLatch heard = new CountDownLatch(1);
            JedisPubSub listener = new JedisPubSub() {
                @Override
                public void onSubscribe(String channel, int count) {
                    joined.countDown();
                }

                @Override
                public void onMessage(String channel, String text) {
                    if (text.equals("hello")) {
                        heard.countDown();
                        unsubscribe();
                    }
                }
            };
            Thread thread = new Thread(() -> {
                try (Jedis other = pool.getResource()) {
                    other.subscribe(listener, "news");
                }
            });
            thread.start();
            check(joined.await(10, TimeUnit.SECONDS), "SUBSCRIBE");
            check(client.publish("news", "hello") == 1, "PUBLISH");
            check(heard.await(10, TimeUnit.SECONDS), "a message");
            thread.join();
        }
        System.out.println("Jedis 5.2.0: a pool, pipelines, MULTI, WATCH, pub/sub, SCAN, 2 MB values");
    }
}
