//! Replies that are longer than a connection may hold in DRAM.

use ebbtide_core::Span;
use ebbtide_core::durability::Policy;

use super::client::{Client, Reply, Server, encode};

/// Bytes of an element. A reply of all elements is twice what connections may hold.
const ELEMENT_BYTES: usize = 20_000;

const ELEMENTS: usize = 200;

/// As many elements as `MULTI` and `EXEC` may remove.
const FEW: usize = 30;

fn server(policy: Policy) -> Server {
    Server::start(|options| {
        options.dram_bytes = 32 << 20;
        options.capacity_bytes = Some(128 << 20);
        options.durability = policy;
    })
}

fn element(number: usize) -> Vec<u8> {
    let mut element = vec![b'x'; ELEMENT_BYTES];
    element[..5].copy_from_slice(format!("{number:05}").as_bytes());
    element
}

/// Makes a list `l`, a hash `h`, a set `s` or a sorted set `z` of the elements.
fn fill(client: &mut Client, key: &str) {
    client.call("flushall");
    for number in 0..ELEMENTS {
        let (element, score) = (element(number), number.to_string());
        match key {
            "l" => client.command(&[b"rpush", b"l", &element]),
            "h" => client.command(&[b"hset", b"h", score.as_bytes(), &element]),
            "s" => client.command(&[b"sadd", b"s", &element]),
            _ => client.command(&[b"zadd", b"z", score.as_bytes(), &element]),
        };
    }
}

/// Returns the numbers of all elements in a reply, sorted.
fn numbers(reply: &Reply) -> Vec<usize> {
    fn add(reply: &Reply, numbers: &mut Vec<usize>) {
        match reply {
            Reply::Array(parts) => parts.iter().for_each(|part| add(part, numbers)),
            Reply::Bulk(bytes) if bytes.len() == ELEMENT_BYTES => {
                let digits = std::str::from_utf8(&bytes[..5]).expect("digits");
                numbers.push(digits.parse().expect("a number"));
            }
            Reply::Error(error) => panic!("{error}"),
            _ => {}
        }
    }
    let mut numbers = Vec::new();
    add(reply, &mut numbers);
    numbers.sort_unstable();
    numbers
}

fn assert_all(reply: &Reply, what: &str) {
    assert!(numbers(reply).into_iter().eq(0..ELEMENTS), "{what}");
}

/// Runs one command within `MULTI` and `EXEC`.
fn within_exec(client: &mut Client, command: &str) -> Reply {
    client.call("multi");
    client.call(command);
    client.call("exec")
}

#[test]
fn collections_of_long_elements_are_read_whole() {
    let server = server(Policy::None);
    let mut client = server.client();
    for (key, reads) in [
        ("l", ["lrange l 0 -1", "lrange l -200 -1"]),
        ("h", ["hgetall h", "hvals h"]),
        ("s", ["smembers s", "srandmember s 200"]),
        ("z", ["zrange z 0 -1", "zrevrange z 0 -1 withscores"]),
    ] {
        fill(&mut client, key);
        for read in reads {
            assert_all(&client.call(read), read);
            assert_all(&within_exec(&mut client, read), read);
        }
    }
}

#[test]
fn a_pop_with_a_long_reply_removes_what_it_replies_with() {
    let server = server(Policy::Every(Span::from_us(100_000)));
    let mut client = server.client();
    let pops = [
        ("l", "lpop l ", "lrange l 0 -1"),
        ("l", "rpop l ", "lrange l 0 -1"),
        ("l", "lmpop 1 l right count ", "lrange l 0 -1"),
        ("l", "blmpop 1 1 l left count ", "lrange l 0 -1"),
        ("s", "spop s ", "smembers s"),
        ("z", "zpopmin z ", "zrange z 0 -1"),
        ("z", "zmpop 1 z max count ", "zrange z 0 -1"),
    ];
    for (key, pop, rest) in pops {
        fill(&mut client, key);
        let mut popped = numbers(&within_exec(&mut client, &format!("{pop}{FEW}")));
        assert_eq!(popped.len(), FEW, "{pop}");
        popped.extend(numbers(&client.call(&format!("{pop}150"))));
        assert_eq!(popped.len(), FEW + 150, "{pop}");
        popped.extend(numbers(&client.call(rest)));
        popped.sort_unstable();
        assert!(popped.into_iter().eq(0..ELEMENTS), "{pop}");
        client.call(&format!("{pop}150"));
        assert_eq!(client.call("exists l s z"), Reply::Integer(0), "{pop}");
    }
}

#[test]
fn elements_in_the_order_of_other_keys_are_read_and_stored_whole() {
    let server = server(Policy::None);
    let mut client = server.client();
    for number in 0..60 {
        client.command(&[b"rpush", b"l", &element(number)]);
    }
    let sorted = client.call("sort l by weight_* get #");
    assert!(numbers(&sorted).into_iter().eq(0..60));
    assert_eq!(client.call("sort l by weight_* get # store to"), Reply::Integer(60));
    assert!(numbers(&client.call("lrange to 0 -1")).into_iter().eq(0..60));
}

#[test]
fn a_script_that_pops_too_much_removes_nothing() {
    let server = server(Policy::None);
    let mut client = server.client();
    for (key, pop, count) in
        [("l", "LPOP", "llen l"), ("s", "SPOP", "scard s"), ("z", "ZPOPMIN", "zcard z")]
    {
        fill(&mut client, key);
        let text = format!("return redis.call('{pop}', KEYS[1], 200)");
        client.send(&encode(&[b"eval", text.as_bytes(), b"1", key.as_bytes()]));
        let Some(Reply::Error(error)) = client.reply() else { panic!("{pop} takes too much") };
        assert!(error.contains("memory"), "{error}");
        assert_eq!(client.call(count), Reply::Integer(200), "{pop}");
    }
}
