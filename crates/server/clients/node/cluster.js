// ioredis at work with a cluster of three: what it does is printed, and anything else than expected ends it.
const assert = require("node:assert");
const Redis = require("ioredis");

async function main() {
  const ports = process.argv.slice(2).map(Number);
  const client = new Redis.Cluster([{ host: "127.0.0.1", port: ports[0] }]);
  await new Promise((resolve) => client.once("ready", resolve));
  const nodes = client.nodes("master");
  assert.equal(nodes.length, 3);
  await Promise.all(nodes.map((node) => node.flushall()));
  for (let number = 0; number < 300; number++) assert.equal(await client.set(`js:${number}`, number), "OK");
  for (let number = 0; number < 300; number++) assert.equal(await client.get(`js:${number}`), String(number));
  const held = await Promise.all(nodes.map((node) => node.dbsize()));
  assert(held.every((count) => count > 60) && held.reduce((sum, count) => sum + count) === 300);
  assert.equal(await client.mset("{js}a", 1, "{js}b", 2), "OK");
  const replies = await client.multi().incr("{js}a").get("{js}b").exec();
  assert.deepEqual(replies, [[null, 2], [null, "2"]]);
  const pipe = await client.pipeline().set("{js}c", "x").get("{js}c").exec();
  assert.deepEqual(pipe, [[null, "OK"], [null, "x"]]);
  await assert.rejects(client.mget("js:1", "js:2"), /CROSSSLOT/);
  assert.equal(await client.eval("return redis.call('get', KEYS[1])", 1, "{js}b"), "2");
  client.disconnect();
  console.log("Cluster: redirection, pipelines, MULTI, scripts, an error for keys of two slots");
}

main().catch((error) => {
  console.error(String(error));
  process.exit(1);
});
