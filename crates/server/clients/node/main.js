// ioredis at work with a server: what it does is printed, and anything else than expected ends it.
const assert = require("node:assert");
const Redis = require("ioredis");

async function main() {
  const port = Number(process.argv[2]);
  const client = new Redis(port);
  const other = new Redis(port);
  await client.flushdb();
  assert.equal(await client.set("js:a", 1, "EX", 100), "OK");
  assert.equal(await client.incr("js:a"), 2);
  assert.equal(await client.get("js:none"), null);
  const large = Buffer.alloc(2_000_000, "ebbtide");
  await client.set("js:large", large);
  assert(large.equals(await client.getBuffer("js:large")));
  const replies = await client.multi().incr("js:a").strlen("js:large").exec();
  assert.deepEqual(replies, [[null, 3], [null, 2_000_000]]);
  const pipe = await client.pipeline().set("js:b", "x").get("js:b").exec();
  assert.deepEqual(pipe, [[null, "OK"], [null, "x"]]);
  const keys = [];
  for await (const some of client.scanStream({ match: "js:*", count: 1 })) keys.push(...some);
  assert.deepEqual(keys.sort(), ["js:a", "js:b", "js:large"]);
  const heard = new Promise((resolve) => other.on("message", (channel, text) => resolve([channel, text])));
  await other.subscribe("news");
  assert.equal(await client.publish("news", "hello"), 1);
  assert.deepEqual(await heard, ["news", "hello"]);
  assert((await client.info()).includes("redis_version"));
  client.disconnect();
  other.disconnect();
  const version = require("ioredis/package.json").version;
  console.log(`ioredis ${version}: pipelines, MULTI, pub/sub, scanStream, ready check by INFO, 2 MB values`);
}

main().catch((error) => {
  console.error(String(error));
  process.exit(1);
});
