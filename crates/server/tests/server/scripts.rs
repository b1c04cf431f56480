//! Scripts give the replies of a stock `redis-server`, in RESP2 and RESP3.

use ebbtide_core::Span;
use ebbtide_core::durability::Policy;

use super::client::{Client, Reply, Server, bulk, ok};
use super::redis::Redis;

/// Scripts without arguments whose replies are compared.
const BODIES: &[&str] = &[
    // Results.
    "return 1",
    "return 3.99",
    "return -3.99",
    "return 'text'",
    "return true",
    "return false",
    "return nil",
    "return",
    "return {1, 2, {3, 'four', {5}}, nil, 6}",
    "return {}",
    "return {ok='fine'}",
    "return {err='MY error'}",
    "return {err='plain'}",
    "return {ok='two\\r\\nlines'}",
    "return {double=3.5}",
    "return {double=1/0}",
    "return {map={a=1}}",
    "return {set={a=true}}",
    "return {big_number='123456789012345678901234567890'}",
    "return {verbatim_string={format='txt', string='hello'}}",
    "return {1, true, false, 'x', {ok='y'}, {err='ERR z'}}",
    "return function() end",
    "return 1e300",
    "return 2^53",
    // Errors.
    "error('text')",
    "error({err='MY own'})",
    "error({err='MY own', extra=1})",
    "error()",
    "error(nil)",
    "error(12)",
    "local x = nil; return x.y",
    "return 1 + {}",
    "return #5",
    "return unknown",
    "unknown()",
    "x = 1",
    "function f() end",
    "redis.call = nil",
    "redis = nil",
    "string.find = nil",
    "KEYS = {}",
    "_G.x = 1",
    "rawset(_G, 'x', 1)",
    "setmetatable(_G, {})",
    "getmetatable(_G).__index = nil",
    "cjson.encode = nil",
    "return type(getfenv)",
    "return type(rawget(_G, 'os'))",
    "return if",
    "for",
    "return 'unfinished",
    "return redis.nothing",
    "return redis.nothing()",
    "\n\nerror('on the third line')",
    "local function f() error('deep') end\nf()",
    // Commands.
    "return redis.call('set', 'a', 'b')",
    "return redis.call('get', 'a')",
    "return redis.call('get', 'missing')",
    "return redis.call('mget', 'a', 'missing')",
    "return redis.call('SET', 'n', 41)",
    "return redis.call('incr', 'n')",
    "return redis.call('incr', 'a')",
    "return redis.pcall('incr', 'a')",
    "return redis.pcall('incr', 'a').err",
    "return {pcall(redis.call, 'incr', 'a')}",
    "return pcall(redis.call, 'incr', 'a')",
    "return redis.call()",
    "return redis.pcall()",
    "return redis.call({})",
    "return redis.call('get', {})",
    "return redis.call('get', true)",
    "return redis.call('nothing')",
    "return redis.pcall('nothing')",
    "return redis.call('get')",
    "return redis.call('get', 'a', 'b')",
    "return redis.call('multi')",
    "return redis.call('subscribe', 'a')",
    "return redis.call('eval', 'return 1', 0)",
    "return redis.call('config', 'get', 'port')",
    "return redis.call('client', 'id')",
    "return redis.call('echo', 1e17, 1)",
    "return redis.call('echo', 1e17)",
    "return redis.call('echo', 0.1)",
    "return redis.call('echo', -0.0)",
    "return redis.call('echo', 3)",
    "return redis.call('ping')",
    "return redis.call('ping', 'x').ok or 'none'",
    "return redis.call('exists', 'a')",
    "return redis.call('type', 'a')",
    "return redis.call('type', 'a').ok",
    "redis.call('select', 3); redis.call('set', 'in3', 1); return redis.call('get', 'in3')",
    "return redis.call('get', 'in3')",
    "redis.call('set', 'kept', 1); error('later')",
    "return redis.call('get', 'kept')",
    "return redis.call('publish', 'channel', 'text')",
    "return redis.call('object', 'nothing', 'a')",
    "redis.setresp(3); return redis.call('get', 'missing')",
    "redis.setresp(3); return {true, false}",
    "redis.setresp(3); return true",
    "redis.setresp(4)",
    "redis.setresp()",
    // Functions of the table `redis`.
    "return redis.sha1hex('')",
    "return redis.sha1hex('abc')",
    "return redis.sha1hex(12)",
    "return redis.sha1hex()",
    "return redis.error_reply('MY error')",
    "return redis.error_reply('plain')",
    "return redis.error_reply('-MINUS error')",
    "return redis.error_reply()",
    "return redis.status_reply('fine')",
    "return redis.status_reply(1)",
    "return redis.replicate_commands()",
    "redis.set_repl(redis.REPL_ALL); return 1",
    "redis.set_repl(99)",
    "redis.log(redis.LOG_DEBUG, 'text')",
    "redis.log(redis.LOG_WARNING)",
    "redis.log('x', 'y')",
    "redis.log(10, 'y')",
    "return redis.acl_check_cmd('get', 'a')",
    "return redis.acl_check_cmd('nothing')",
    "return redis.REDIS_VERSION",
    "return redis.REDIS_VERSION_NUM",
    // The language.
    "return {pcall(error, 'x')}",
    "return {pcall(error, {err='table'})}",
    "return {xpcall(function() error('x') end, function(e) return 'handled ' .. e end)}",
    "return select('#', pcall(function() return 1, 2, 3 end))",
    "return tostring(nil) .. tostring(1.5) .. tostring(true)",
    "return {('hello'):find('l')}",
    "return {('hello'):find('(l)(l)')}",
    "return {('hello'):gsub('l', 'L')}",
    "return {('hello'):gsub('l', function(c) return c:upper() end)}",
    "return {('hello'):gsub('', '-')}",
    "return {('hello'):gsub('', function() return '-' end)}",
    "return {('hello'):gsub('%w*', function() return 'x' end)}",
    "return {('hello'):gsub('^h', function() return 'x' end)}",
    "return {('a1b2'):gsub('%d', {['1'] = 'one'})}",
    "return {('a1b2'):gsub('%d', setmetatable({}, {__index = function(_, k) return k .. k end}))}",
    "return {('hello world'):gsub('o', function() return false end, 1)}",
    "return {('abc'):gsub('(a)(b)', function(a, b) return b .. a end)}",
    "return ('x'):rep(5)",
    "return string.format('%5.2f|%d|%s|%q', 3.14159, 42, 'x', 'a\"b')",
    "local t = {3, 1, 2}; table.sort(t); return t",
    "local t = {3, 1, 2}; table.sort(t, function(a, b) return a > b end); return t",
    "return table.concat({1, 2, 3}, ',')",
    "return {unpack({1, 2, 3})}",
    "local f = loadstring('return 1 + 1'); return f()",
    "local f = loadstring('return unknown'); return f()",
    "return {loadstring('return +')}",
    "local c = coroutine.wrap(function() for i = 1, 3 do coroutine.yield(i) end end); return {c(), c(), c()}",
    "local c = coroutine.create(function() error('in it') end); return {coroutine.resume(c)}",
    "local c = coroutine.wrap(function() return redis.call('get', 'a') end); return c()",
    "return math.floor(3.7) + math.max(1, 2)",
    "return type(math.random())",
    "return math.random(0)",
    "return math.random(5, 5)",
    "return {type(collectgarbage('count')), _VERSION}",
    "return next({})",
    "local t = setmetatable({}, {__index = function(t, k) return k end}); return t.key",
    "return string.rep('ab', 3, ',')",
    "return tonumber('0x10')",
    "return {1, 2} == {1, 2}",
    // cjson.
    "return cjson.encode({1, 2, 3})",
    "return cjson.encode({})",
    "return cjson.encode({a = 1})",
    "return cjson.encode({[1] = 1, [2] = 2, [4] = 4})",
    "return cjson.encode({[1] = 1, [100] = 2})",
    "return cjson.encode({1, 'two', {3}, true, cjson.null})",
    "return cjson.encode('\"\\\\/\\b\\f\\n\\r\\t\\1\\127')",
    "return cjson.encode(0.1)",
    "return cjson.encode(1e20)",
    "return cjson.encode(12345678901234567)",
    "return cjson.encode(1/0)",
    "return cjson.encode(0/0)",
    "return cjson.encode(print)",
    "return cjson.encode(function() end)",
    "return cjson.encode({[true] = 1})",
    "return cjson.encode({[1.5] = 1})",
    "local t = {}; t[1] = t; return cjson.encode(t)",
    "return cjson.decode('[1, 2.5, -3e2, \"x\", true, false, {\"a\": [1]}]')",
    "return cjson.decode('{\"a\": {\"b\": 5}}').a.b",
    "return cjson.decode('null') == cjson.null",
    "return tostring(cjson.decode('[null]')[1])",
    "return cjson.decode('\"\\\\u00e9\\\\ud83d\\\\ude00\\\\n\"')",
    "return cjson.decode('[1')",
    "return cjson.decode('[1,]')",
    "return cjson.decode('{1: 2}')",
    "return cjson.decode('{\"a\" 2}')",
    "return cjson.decode('{\"a\": 2')",
    "return cjson.decode('[1] x')",
    "return cjson.decode('')",
    "return cjson.decode('x')",
    "return cjson.decode('\"abc')",
    "return cjson.decode('\"\\\\x\"')",
    "return cjson.decode('\"\\\\ud800\"')",
    "return cjson.decode('[0x10, 012, +1]')",
    "return cjson.decode('[0x10, 012]')",
    "return cjson.decode('-')",
    "return cjson.decode(('['):rep(1001))",
    "return #cjson.encode(cjson.decode(('['):rep(900) .. (']'):rep(900)))",
    "return {pcall(cjson.decode, 'x')}",
    "return cjson.encode(cjson.decode('{\"a\":[],\"b\":{}}'))",
    "return cjson.encode_max_depth(5)",
    "return {cjson.encode_sparse_array()}",
    "cjson.encode_sparse_array(true); return cjson.encode({[1] = 1, [100] = 2})",
    "cjson.encode_sparse_array(false); return 1",
    "cjson.encode_number_precision(3); return cjson.encode(3.14159)",
    "return cjson.encode_number_precision(15)",
    "return cjson._VERSION",
    // cmsgpack.
    "return redis.sha1hex(cmsgpack.pack({1, -1, 127, 128, -32, -33, 255, 256, 65536, -65536, 1e10, -1e10}))",
    "return redis.sha1hex(cmsgpack.pack({0.5, 0.1, 'text', true, false, {a = 1}}, 'more', nil))",
    "return redis.sha1hex(cmsgpack.pack(('x'):rep(31), ('x'):rep(32), ('x'):rep(256), ('x'):rep(70000)))",
    "return cmsgpack.unpack(cmsgpack.pack({1, {2, {3}}, 'x', 0.5, -5, 300, 70000, -70000}))",
    "return {cmsgpack.unpack(cmsgpack.pack(1, 2, 3))}",
    "return {cmsgpack.unpack_one(cmsgpack.pack(1, 2, 3), 1)}",
    "return {cmsgpack.unpack_one(cmsgpack.pack(1))}",
    "return {cmsgpack.unpack_limit(cmsgpack.pack(1, 2, 3), 2, 0)}",
    "return cmsgpack.unpack('\\205\\1')",
    "return cmsgpack.unpack('\\193')",
    "return cmsgpack.pack()",
    "local t = {}; t[1] = t; return #cmsgpack.pack(t)",
    "return cmsgpack.unpack_one('x', 5)",
    // bit.
    "return {bit.band(255, 15), bit.bor(1, 2, 4), bit.bxor(5, 1), bit.bnot(0)}",
    "return {bit.lshift(1, 31), bit.rshift(-1, 28), bit.arshift(-16, 2), bit.rol(0x12345678, 8)}",
    "return {bit.tohex(255), bit.tohex(255, 4), bit.tohex(255, -2), bit.bswap(0x12345678), bit.tobit(2^32 + 5)}",
    "return bit.band('x', 1)",
    "return bit.band()",
    // struct.
    "return redis.sha1hex(struct.pack('>bBhHlLiI', -1, 255, -2, 65535, -3, 7, -4, 8))",
    "return redis.sha1hex(struct.pack('<dfs!8i8', 0.5, 0.25, 'text', 9))",
    "return {struct.unpack('>I2c3s', struct.pack('>I2c3s', 258, 'abc', 'tail'))}",
    "return {struct.unpack('Bc0', struct.pack('Bc0', 3, 'abc'))}",
    "return {struct.unpack('<i4', '\\255\\255\\255\\255')}",
    "return struct.size('<i4i2!8d')",
    "return struct.size('s')",
    "return struct.pack('q', 1)",
    "return struct.size('c0')",
    "return struct.size('q')",
    "return struct.unpack('q', 'a')",
    "return struct.unpack('s', 'a')",
    "return struct.unpack('c0', 'a')",
    "return struct.pack('!3i', 1)",
    "return struct.pack('i33', 1)",
    "return struct.unpack('i4', 'abcd', 0)",
    "return struct.unpack('i4', 'abcd', 9)",
    "return cjson.decode('+x')",
    "return cjson.encode_max_depth(0)",
    "return cjson.encode_max_depth('x')",
    "return cjson.encode()",
    "return cjson.decode({})",
    "return bit.tohex()",
    "return math.random(1, 2, 3)",
    "return math.random(2, 1)",
    "return cmsgpack.unpack('')",
    "return cmsgpack.unpack_one('abc', -1)",
    "return redis.sha1hex(nil)",
    "return pcall(cjson.decode, 'x')",
    "return {xpcall(function() return cjson.decode('x') end, function(e) return e end)}",
    "return {xpcall(function() return redis.call('nothing') end, function(e) return e.err end)}",
    "local c = coroutine.create(function() return redis.call('nothing') end); local _, e = coroutine.resume(c); return e",
    "return rawset({}, 1, 2)",
    "return setmetatable({}, {__index = {a = 1}}).a",
    "setmetatable(1, {})",
    "return struct.unpack('i4', 'abc')",
    "return struct.pack('i', 'x')",
    "return struct.pack('c5', 'abc')",
];

/// A stock server and one of ours, with a client each.
struct Pair {
    redis: Redis,
    _server: Server,
    ours: Client,
}

impl Pair {
    fn start(durability: Policy) -> Option<Pair> {
        let redis = Redis::start()?;
        let server = Server::start(|options| {
            options.durability = durability;
            options.dram_bytes = 64 << 20;
        });
        let ours = server.client();
        Some(Pair { redis, _server: server, ours })
    }

    /// Sends a request to both and compares the replies. Returns ours.
    fn same(&mut self, words: &[&[u8]]) -> Reply {
        let expected = self.redis.client.command(words);
        let found = self.ours.command(words);
        let shown: Vec<_> = words.iter().map(|word| String::from_utf8_lossy(word)).collect();
        assert_eq!(expected, found, "Redis replies the first to {shown:?}");
        found
    }

    fn line(&mut self, line: &str) -> Reply {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        self.same(&words)
    }

    fn eval(&mut self, body: &str, words: &[&str]) -> Reply {
        let mut request: Vec<&[u8]> = vec![b"EVAL", body.as_bytes()];
        request.extend(words.iter().map(|word| word.as_bytes()));
        self.same(&request)
    }
}

fn compare(durability: Policy, hello: &str) {
    let Some(mut pair) = Pair::start(durability) else {
        eprintln!("there is no redis-server (Debian: redis-server): nothing to compare with");
        return;
    };
    for client in [&mut pair.redis.client, &mut pair.ours] {
        assert!(!matches!(client.call(hello), Reply::Error(_)));
    }
    let mut differences = Vec::new();
    for body in BODIES {
        let words: [&[u8]; 3] = [b"EVAL", body.as_bytes(), b"0"];
        let (expected, found) = (pair.redis.client.command(&words), pair.ours.command(&words));
        if expected != found {
            differences.push(format!("{body:?}\n  Redis: {expected:?}\n  here:  {found:?}"));
        }
    }
    assert!(differences.is_empty(), "\n{}", differences.join("\n"));
}

#[test]
fn scripts_give_the_replies_of_redis() {
    compare(Policy::Every(Span::from_us(100_000)), "hello 2");
}

#[test]
fn scripts_in_resp3_give_the_replies_of_redis() {
    compare(Policy::None, "hello 3");
}

#[test]
fn keys_and_arguments_are_tables_and_the_number_of_keys_is_checked() {
    let Some(mut pair) = Pair::start(Policy::Every(Span::from_us(100_000))) else { return };
    let all = "return {KEYS[1] or 'none', KEYS[2] or 'none', ARGV[1] or 'none', #KEYS, #ARGV}";
    for words in [&["0"][..], &["1", "k"], &["2", "k", "l", "a"], &["0", "a", "b"], &["3", "a"]] {
        pair.eval(all, words);
    }
    for words in [&["-1"][..], &["x"], &["1.5"], &["99999999999999999999"]] {
        pair.eval(all, words);
    }
    for line in [
        "eval",
        "eval return",
        "evalsha aaa 0",
        "evalsha 0000000000000000000000000000000000000000 0",
        "script",
        "script nothing",
        "script load",
        "script exists",
        "script flush maybe",
        "script kill",
        "script exists 0000000000000000000000000000000000000000 e0e1f9fabfc9d4800c877a703b823ac0578ff8db",
    ] {
        pair.line(line);
    }
    let sha = pair.same(&[b"SCRIPT", b"LOAD", b"return ARGV[1]"]);
    let Reply::Bulk(sha) = sha else { panic!("{sha:?}") };
    pair.same(&[b"EVALSHA", &sha, b"0", b"x"]);
    pair.same(&[b"EVALSHA", &sha.to_ascii_uppercase(), b"0", b"y"]);
    pair.same(&[b"SCRIPT", b"EXISTS", &sha, b"x"]);
    pair.same(&[b"SCRIPT", b"LOAD", b"return +"]);
    pair.line("script flush");
    pair.same(&[b"EVALSHA", &sha, b"0", b"x"]);
    for body in [
        "#!lua\nreturn 1",
        "#!lua flags=no-writes\nreturn redis.call('set', KEYS[1], 1)",
        "#!lua name=x\nreturn 1",
        "#!lua flags=wrong\nreturn 1",
        "#!lua",
        "#!python\nreturn 1",
        "#!lua flags=no-writes,allow-stale\nreturn redis.call('get', KEYS[1])",
    ] {
        pair.eval(body, &["1", "k"]);
    }
    for body in [
        "return redis.call('set', KEYS[1], 1)",
        "return redis.call('get', KEYS[1])",
        "return redis.call('publish', 'a', 'b')",
    ] {
        pair.same(&[b"EVAL_RO", body.as_bytes(), b"1", b"k"]);
    }
}

/// Scripts of rate limits and locks, as libraries send them.
#[test]
fn scripts_of_libraries_give_the_replies_of_redis() {
    let Some(mut pair) = Pair::start(Policy::Every(Span::from_us(100_000))) else { return };
    // limits and slowapi: a fixed window.
    let window = "local current\ncurrent = tonumber(redis.call(\"incrby\", KEYS[1], ARGV[2]))\n\
                  if current == tonumber(ARGV[2]) then\n    redis.call(\"expire\", KEYS[1], ARGV[1])\n\
                  end\nreturn current";
    // redis-py's Lock.
    let release = "local token = redis.call('get', KEYS[1])\nif not token or token ~= ARGV[1] then\n\
                   return 0\nend\nredis.call('del', KEYS[1])\nreturn 1";
    let extend = "local token = redis.call('get', KEYS[1])\nif not token or token ~= ARGV[1] then\n\
                  return 0\nend\nlocal expiration = redis.call('pttl', KEYS[1])\n\
                  if not expiration then\n expiration = 0\nend\nif expiration < 0 then\n return 0\n\
                  end\nlocal newttl = ARGV[2]\nif ARGV[3] == \"0\" then\n\
                  newttl = ARGV[2] + expiration\nend\nredis.call('pexpire', KEYS[1], newttl)\n\
                  return 1";
    let reacquire = "local token = redis.call('get', KEYS[1])\n\
                     if not token or token ~= ARGV[1] then\n return 0\nend\n\
                     redis.call('pexpire', KEYS[1], ARGV[2])\nreturn 1";
    for _ in 0..4 {
        pair.eval(window, &["1", "limit", "60", "2"]);
    }
    pair.line("set lock token px 100000 nx");
    pair.eval(release, &["1", "lock", "other"]);
    pair.eval(extend, &["1", "lock", "token", "10000", "1"]);
    pair.eval(reacquire, &["1", "lock", "token", "10000"]);
    pair.eval(release, &["1", "lock", "token"]);
    pair.eval(release, &["1", "lock", "token"]);
    // As BullMQ: the keys are made of arguments.
    let undeclared = "local n = redis.call('incr', ARGV[1] .. ':id')\n\
                      redis.call('set', ARGV[1] .. ':' .. n, ARGV[2])\n\
                      redis.call('incr', KEYS[1])\nreturn {n, redis.call('get', KEYS[1])}";
    for _ in 0..4 {
        pair.eval(undeclared, &["1", "bull:meta", "bull", "data"]);
    }
    // A key is changed before another one, which is not declared, is touched.
    let late = "redis.call('incr', KEYS[1])\nredis.call('incr', ARGV[1])\n\
                return redis.call('mget', KEYS[1], ARGV[1])";
    for round in 0..3 {
        pair.eval(&format!("{late} -- {round}"), &["1", "declared", "other"]);
    }
    pair.eval("return redis.call('dbsize')", &["0"]);
    pair.eval("return #redis.call('keys', '*')", &["1", "x"]);
}

#[test]
fn scripts_in_a_transaction_take_effect_with_it() {
    for durability in [Policy::None, Policy::Every(Span::from_us(100_000))] {
        let Some(mut pair) = Pair::start(durability) else { return };
        pair.line("multi");
        pair.line("set a 1");
        pair.eval("return redis.call('incr', KEYS[1])", &["1", "a"]);
        pair.eval("return redis.call('incr', 'undeclared')", &["0"]);
        pair.eval("return redis.call('nothing')", &["0"]);
        pair.eval("return if", &["0"]);
        pair.line("evalsha aaa 0");
        pair.line("get a");
        pair.line("exec");
        pair.line("get undeclared");
        pair.line("watch a");
        pair.eval("return redis.call('set', 'a', 5)", &["0"]);
        pair.line("multi");
        pair.line("get a");
        pair.line("exec");
    }
}

#[test]
fn messages_of_a_script_come_before_its_reply_and_after_its_changes() {
    let Some(mut pair) = Pair::start(Policy::Every(Span::from_us(100_000))) else { return };
    for client in [&mut pair.redis.client, &mut pair.ours] {
        client.call("hello 3");
        assert!(matches!(client.call("subscribe news"), Reply::Push(_)));
    }
    let body = "redis.call('publish', 'news', 'one'); redis.call('incr', KEYS[1]); \
                redis.call('publish', 'news', ARGV[1]); return redis.call('get', ARGV[2])";
    pair.eval(body, &["1", "a", "two", "undeclared"]);
    for client in [&mut pair.redis.client, &mut pair.ours] {
        assert!(matches!(client.reply(), Some(Reply::Push(_))));
        assert_eq!(client.reply(), Some(Reply::Null));
    }
}

/// Every way to fill memory or the stack ends the script, and the server goes on.
#[test]
fn a_script_that_takes_too_much_ends_and_the_server_goes_on() {
    let server = Server::start(|options| options.dram_bytes = 16 << 20);
    let mut client = server.client();
    for body in [
        "local t = {}; for i = 1, 1e9 do t[i] = i end",
        "local s = 'x'; while true do s = s .. s end",
        "return string.rep('x', 1e9)",
        "local s = string.rep('x', 100000); local t = {}; for i = 1, 1000 do t[i] = s end; return t",
        "local s = string.rep('x', 100000); local t = {}; for i = 1, 1000 do t[i] = s end; return cjson.encode(t)",
        "local s = string.rep('x', 100000); local t = {}; for i = 1, 1000 do t[i] = s end; return cmsgpack.pack(t)",
        "local s = string.rep('x', 100000); local t = {}; for i = 1, 1000 do t[i] = s end; return redis.call('del', unpack(t))",
        "while true do pcall(string.rep, 'x', 1e9); local t = {}; for i = 1, 1e9 do t[i] = {} end end",
        "local function f() return f() + 1 end; f()",
        "local function f() pcall(f) f() end; f()",
        "local function f() return tostring(setmetatable({}, {__tostring = f})) end; f()",
        "local t = setmetatable({}, {}); getmetatable(t).__index = function(t, k) return t[k .. 'x'] end; return t.x",
        "local function f(s) return (s:gsub('.', f)) end; f('x')",
        "local function f(s) return (s:gsub('.', setmetatable({}, {__index = function(_, k) return f(k) end}))) end; f('x')",
        "local function f() table.sort({3, 2, 1, 5, 4}, function(a, b) f() return a < b end) end; f()",
        "local function f() local c = coroutine.wrap(f); c() end; f()",
        "local function f() return loadstring('return ...')(f()) end; f()",
        "return loadstring(string.rep('(', 10000))",
        "return loadstring('return ' .. string.rep('{', 500))",
        "return loadstring(string.rep('local function f() ', 300))",
        "return loadstring('return ' .. string.rep('a..', 1000) .. 'a')",
        "return ('a'):rep(100000):find(('a?'):rep(50000))",
        "return ('a'):rep(100000):match(('a?'):rep(256))",
        "return ('a'):rep(100000):match(('(a)'):rep(170))",
        "return ('a'):rep(1000):gsub(('a-'):rep(256), 'x')",
        "local t = {}; for i = 1, 100000 do t = {t} end; return t",
        "local t = {}; t[1] = t; return t",
        "local t = {}; for i = 1, 100000 do t = {t} end; return cjson.encode(t)",
        "cjson.decode_max_depth(10000); return #cjson.decode(('['):rep(10000) .. (']'):rep(10000))",
        "return cmsgpack.unpack(('\\145'):rep(100000) .. '\\1')",
        "return table.concat({string.rep('x', 300000), string.rep('x', 300000), string.rep('x', 300000)})",
        "local function f(...) return f(1, ...) end; f()",
        "return {unpack({}, 1, 1e7)}",
        "return string.format(('%s'):rep(100), unpack({}, 1, 100))",
        "error(setmetatable({}, {__tostring = function() error('x') end}))",
        "xpcall(function() error('x') end, function() local function g() g() end g() end)",
    ] {
        let replied = client.command(&[b"EVAL", body.as_bytes(), b"0"]);
        println!("{body:.100}: {replied:.200?}");
        assert_eq!(client.command(&[b"EVAL", b"return 'alive'", b"0"]), bulk("alive"), "{body}");
    }
    assert_eq!(client.call("set a b"), ok());
}

#[test]
fn a_script_that_lacks_memory_says_so() {
    let server = Server::start(|options| options.dram_bytes = 16 << 20);
    let mut client = server.client();
    client.command(&[b"SET", b"long", &[b'v'; 200_000]]);
    for body in [
        "local t = {}; for i = 1, 1000 do t[i] = redis.call('get', 'long') .. i end",
        "local t = {}; for i = 1, 1000 do t[i] = redis.pcall('get', 'long') .. i end",
        "local s = 'x'; while true do s = s .. s end",
        "local t = {}; for i = 1, 1e9 do t[i] = i end",
    ] {
        let Reply::Error(text) = client.command(&[b"EVAL", body.as_bytes(), b"0"]) else {
            panic!("{body}")
        };
        assert!(text.ends_with(", not enough memory"), "{body}: {text}");
    }
}

/// Other connections of the core get `BUSY`, and `SCRIPT KILL` ends the script. Its changes are
/// dropped where they can be.
#[test]
fn a_script_without_end_can_be_killed() {
    for (durability, body, killed) in [
        (
            Policy::Every(Span::from_us(100_000)),
            "redis.call('incr', KEYS[1]) while true do end",
            true,
        ),
        (
            Policy::Every(Span::from_us(100_000)),
            "while true do pcall(redis.call, 'incr', 'other') end",
            true,
        ),
        (Policy::None, "while true do pcall(error) end", true),
        (Policy::None, "coroutine.wrap(function() while true do end end)()", true),
        (
            Policy::None,
            "xpcall(function() while true do end end, function() while true do end end)",
            true,
        ),
        (Policy::None, "redis.call('incr', KEYS[1]) for i = 1, 1e8 do end return 'ended'", false),
    ] {
        let server = Server::start(|options| options.durability = durability);
        let (mut client, mut other) = (server.client(), server.client());
        assert!(
            matches!(other.call("script kill"), Reply::Error(text) if text.starts_with("NOTBUSY"))
        );
        assert_eq!(other.call("config set lua-time-limit 20"), ok());
        client.request(&[b"EVAL", body.as_bytes(), b"1", b"counter"]);
        while !is_busy(&other.call("ping")) {}
        assert!(is_busy(&other.call("get x")));
        let kill = other.call("script kill");
        if killed {
            assert_eq!(kill, ok(), "{body}");
            let Some(Reply::Error(text)) = client.reply() else { panic!("{body}") };
            assert!(text.contains("Script killed by user with SCRIPT KILL"), "{text}");
        } else {
            assert!(matches!(kill, Reply::Error(text) if text.starts_with("UNKILLABLE")));
            assert_eq!(client.reply(), Some(bulk("ended")));
        }
        let counter = if killed { Reply::Null } else { bulk("1") };
        assert_eq!(other.call("get counter"), counter, "{body}");
        assert_eq!(client.call("ping"), Reply::Status("PONG".into()));
    }
}

fn is_busy(reply: &Reply) -> bool {
    matches!(reply, Reply::Error(text) if text.starts_with("BUSY"))
}

/// A command that waits for a key of a slow script, or for a page that the script has changed,
/// gives up.
#[test]
fn commands_that_wait_for_a_script_without_end_get_busy() {
    for (durability, first) in
        [(Policy::None, "get"), (Policy::Every(Span::from_us(100_000)), "incr")]
    {
        let server = Server::start(|options| options.durability = durability);
        let (mut client, mut other) = (server.client(), server.client());
        assert_eq!(other.call("config set lua-time-limit 500"), ok());
        assert_eq!(other.call("set counter 7"), ok());
        let body = format!("redis.call('{first}', KEYS[1]) while true do end");
        client.request(&[b"EVAL", body.as_bytes(), b"1", b"counter"]);
        let lines = [
            "get counter",
            "get beside",
            "set counter 1",
            "mget counter beside",
            "append beside x",
        ];
        std::thread::scope(|scope| {
            for line in lines {
                let mut waiter = server.client();
                scope.spawn(move || {
                    // It runs a few times before the script begins.
                    while !is_busy(&waiter.call(line)) {}
                });
            }
            for body in ["return redis.call('get', KEYS[1])", "return redis.call('get', 'other')"] {
                let mut waiter = server.client();
                let request = [&b"EVAL"[..], body.as_bytes(), b"1", b"counter"];
                scope.spawn(move || while !is_busy(&waiter.command(&request)) {});
            }
            let mut waiter = server.client();
            scope.spawn(move || {
                loop {
                    waiter.call("multi");
                    waiter.call("incr counter");
                    match waiter.call("exec") {
                        Reply::Error(text) if text.contains("BUSY") => break,
                        _ => {}
                    }
                }
            });
        });
        assert_eq!(other.call("script kill"), ok());
        let Some(Reply::Error(text)) = client.reply() else { panic!("it was killed") };
        assert!(text.contains("Script killed by user with SCRIPT KILL"), "{text}");
        for line in ["set counter 1", "get counter", "set beside 1", "mget counter beside"] {
            assert!(!matches!(other.call(line), Reply::Error(_)), "{line}");
        }
    }
}

/// Many scripts at once on few interpreters, over data that DRAM does not hold, on two cores.
#[test]
fn scripts_of_many_connections_take_effect_one_by_one() {
    for durability in [Policy::None, Policy::Every(Span::from_us(100_000))] {
        let server = Server::start(|options| {
            options.durability = durability;
            options.cores = 2;
            options.dram_bytes = 24 << 20;
        });
        let body = "local n = redis.call('incr', KEYS[1])\n\
                    redis.call('set', 'made:' .. ARGV[1] .. ':' .. n, string.rep('x', 3000))\n\
                    return redis.call('incrby', KEYS[2], 2)";
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let mut client = server.client();
                scope.spawn(move || {
                    for round in 0..100 {
                        let own = format!("own{thread}");
                        let argument = thread.to_string();
                        let words = [body, "2", &own, "all", &argument];
                        let mut request: Vec<&[u8]> = vec![b"EVAL"];
                        request.extend(words.iter().map(|word| word.as_bytes()));
                        let reply = client.command(&request);
                        assert!(matches!(reply, Reply::Integer(_)), "round {round}: {reply:?}");
                    }
                });
            }
        });
        let mut client = server.client();
        assert_eq!(client.call("get all"), bulk("1600"));
        assert_eq!(client.call("get own3"), bulk("100"));
        assert_eq!(client.call("strlen made:7:100"), Reply::Integer(3000));
        assert_eq!(client.call("dbsize"), Reply::Integer(809));
    }
}

#[test]
fn a_seed_decides_the_random_numbers_as_in_redis() {
    let Some(mut pair) = Pair::start(Policy::None) else { return };
    let body = "math.randomseed(ARGV[1]) return {tostring(math.random()), math.random(1000)}";
    let seeds = ["10", "20", "-1", "0", "4294967297"];
    let numbers: Vec<Reply> = seeds.iter().map(|seed| pair.eval(body, &["0", seed])).collect();
    assert_ne!(numbers[0], numbers[1]);
}
