//! Rules of users against a plain model, and texts of ACL files.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::*;
use crate::command::catalogue;

fn user(rules: &str) -> User {
    let words: Vec<&[u8]> = rules.split(' ').map(str::as_bytes).collect();
    let mut user = User::new(false);
    user.apply_all(catalogue(), &words, false).expect("they are rules");
    user
}

fn text(user: &User) -> String {
    String::from_utf8(user.describe(catalogue())).expect("these are letters")
}

/// A request with keys that it reads and keys that it writes.
fn check(user: &User, line: &str, reads: &[usize], writes: &[usize]) -> Result<(), Denied> {
    let arguments: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
    let read = reads.iter().map(|index| (*index, Rights::READ));
    let keys: Vec<_> = read.chain(writes.iter().map(|index| (*index, Rights::WRITE))).collect();
    let command = catalogue().find(arguments[0]).expect("a command");
    user.check(&Request {
        command,
        is_free: false,
        arguments: &arguments,
        keys: &keys,
        channels: (0, 0),
        are_patterns: false,
    })
}

#[test]
fn rules_are_shown_without_those_that_later_ones_make_void() {
    for (rules, shown) in [
        ("on nopass resetchannels &foo +@all", "on nopass resetchannels &foo +@all"),
        ("+@all -client +client|id", "off resetchannels +@all -client +client|id"),
        ("+memory|usage +memory", "off resetchannels -@all +memory"),
        ("+@all -memory|usage -memory", "off resetchannels +@all -memory"),
        ("+memory|usage +@all +client|id", "off resetchannels +@all"),
        ("+@all -memory -@all", "off resetchannels -@all"),
        ("+@all -get +get", "off resetchannels +@all"),
        ("+select|0 +SELECT|1", "off resetchannels -@all +select|0 +select|1"),
        ("+select|0 -select", "off resetchannels -@all"),
        ("+select|0 +select", "off resetchannels -@all +select"),
        ("%R~a %W~a %RW~b %w~c", "off ~a ~b %W~c resetchannels -@all"),
        ("~a ~* &*", "off ~* &* -@all"),
        (
            "(~a +get) (&b)",
            "off resetchannels -@all (~a resetchannels -@all +get) (resetchannels &b -@all)",
        ),
        ("( ~a +get )", "off resetchannels -@all (~a resetchannels -@all +get)"),
        ("(~a) clearselectors", "off resetchannels -@all"),
        ("on reset", "off sanitize-payload resetchannels -@all"),
    ] {
        assert_eq!(text(&user(rules)), shown, "{rules}");
    }
}

#[test]
fn wrong_rules_are_refused_in_the_words_of_redis() {
    for (rule, error) in [
        ("+nothing", RuleError::Unknown),
        ("+@nothing", RuleError::Unknown),
        ("-get|x", RuleError::Unknown),
        ("+config|nothing", RuleError::Unknown),
        ("+config|get|x", RuleError::FirstArgument),
        ("+get|", RuleError::Syntax),
        ("%~a", RuleError::Syntax),
        ("%R", RuleError::Syntax),
        ("%RR~a", RuleError::Syntax),
        ("~a b", RuleError::Syntax),
        ("bogus", RuleError::Syntax),
        (")", RuleError::Syntax),
        ("(bogus)", RuleError::Syntax),
        ("(~a) )", RuleError::Syntax),
        ("#12", RuleError::Hash),
        ("<a", RuleError::NoPassword),
    ] {
        let mut one = User::new(false);
        assert_eq!(one.apply(catalogue(), rule.as_bytes(), false), Err(error), "{rule}");
        assert_eq!(one, User::new(false), "{rule}");
    }
    let mut all = user("~* &*");
    assert_eq!(all.apply(catalogue(), b"~a", false), Err(RuleError::AllKeys));
    assert_eq!(all.apply(catalogue(), b"&a", false), Err(RuleError::AllChannels));
    let open = User::new(false).apply_all(catalogue(), &[b"(~a", b"+get"], false);
    assert_eq!(open, Err(SetError::Unmatched("(~a".into())));
}

#[test]
fn a_request_needs_one_selector_that_allows_all_of_it() {
    let one = user("(%R~read* +@all) (%W~write* +@all)");
    assert_eq!(check(&one, "get read1", &[1], &[]), Ok(()));
    assert_eq!(check(&one, "get write1", &[1], &[]), Err(Denied::Key(1)));
    assert_eq!(check(&one, "copy read1 write1", &[1], &[2]), Err(Denied::Key(2)));
    let both = user("%R~read* %W~write* +@all");
    assert_eq!(check(&both, "copy read1 write1", &[1], &[2]), Ok(()));
    assert_eq!(check(&both, "copy write1 read1", &[1], &[2]), Err(Denied::Key(1)));
    let first = user("+select|0");
    assert_eq!(check(&first, "select 0", &[], &[]), Ok(()));
    assert_eq!(check(&first, "select 1", &[], &[]), Err(Denied::Command));
}

#[test]
fn passwords_are_compared_by_their_hashes() {
    let one = user("on >secret");
    assert!(one.accepts(b"secret") && !one.accepts(b"Secret") && !one.accepts(b""));
    let digits = Password::of(b"secret").digits();
    assert_eq!(digits, "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b");
    assert!(user(&format!("on #{digits}")).accepts(b"secret"));
    assert!(!user(&format!("on >secret !{digits}")).accepts(b"secret"));
    assert!(!user("off nopass").accepts(b"x") && user("on >x nopass").accepts(b"y"));
}

#[test]
fn equal_refusals_within_a_minute_are_one_entry() {
    let mut log = Log::default();
    let refusal = |object: &str| Refusal {
        reason: Reason::Key,
        context: Context::Top,
        object: object.into(),
        user: b"u".into(),
    };
    log.add(refusal("a"), 1_000, b"one");
    log.add(refusal("b"), 2_000, b"two");
    log.add(refusal("a"), 61_000, b"three");
    let shown: Vec<_> = log.entries().iter().map(|one| (one.count, one.at_ms)).collect();
    assert_eq!(shown, [(2, 61_000), (1, 2_000)]);
    log.add(refusal("b"), 62_001, b"four");
    assert_eq!(log.entries().len(), 3);
    log.keep(2);
    log.add(refusal(&"x".repeat(10_000)), 62_001, &[b'c'; 10_000]);
    assert_eq!(log.entries().len(), 2);
    let longest = &log.entries()[0];
    assert!(longest.refusal.object.len() + longest.client.len() < 1_000);
}

#[test]
fn users_take_bounded_memory() {
    let acl = Acl::new(catalogue(), None, b"secret");
    let long = format!("~{}", "x".repeat(10_000));
    let made = (0..10_000).take_while(|number| {
        acl.set(format!("user{number}").as_bytes(), &[long.as_bytes()]).is_ok()
    });
    let made = made.count();
    assert!((100..250).contains(&made), "{made}");
    assert_eq!(acl.set(b"more", &[long.as_bytes()]).err(), Some(AclError::Full));
    assert!(acl.find(b"more").is_none());
    assert_eq!(acl.delete(&[b"user0", b"nobody"]).map(|gone| gone.len()), Ok(1));
    assert!(acl.set(b"more", &[long.as_bytes()]).is_ok());
    assert_eq!(acl.delete(&[b"user1", b"default"]).map(|gone| gone.len()), Err(AclError::Default));
    assert!(acl.find(b"user1").is_some());
}

#[test]
fn an_account_follows_the_rules_of_its_user() {
    let acl = Acl::new(catalogue(), Some(b"secret"), b"inside");
    assert!(acl.open_default().is_none());
    assert!(acl.log_in(DEFAULT, b"wrong").is_none());
    let default = acl.log_in(DEFAULT, b"secret").expect("the password");
    assert!(default.is_unlimited());
    assert!(acl.set(DEFAULT, &[b"-get"]).expect("rules").is_none());
    assert!(!default.is_unlimited());
    assert!(acl.set(DEFAULT, &[b"+get", b"nopass"]).expect("rules").is_none());
    assert!(default.is_unlimited() && acl.open_default().is_some());
    let lost = acl.set(DEFAULT, &[b"resetchannels", b"&a"]).expect("rules");
    assert!(lost.is_some_and(|account| Arc::ptr_eq(&account, &default)));
    acl.set(b"other", &[b"on", b"nopass", b"+@all"]).expect("rules");
    let other = acl.log_in(b"other", b"").expect("any password");
    let gone = acl.load(b"user other on nopass\n\nuser new on\r\n", "file").expect("lines");
    assert!(other.is_gone() && gone.len() == 1);
    assert!(acl.open_default().is_none(), "the file has no default user");
    assert!(acl.log_in(DEFAULT, b"secret").is_some_and(|account| account.is_unlimited()));
    assert!(acl.log_in(INSIDER, b"inside").is_some());
    assert!(acl.find(INSIDER).is_none());
    let errors = acl.load(b"user a on\nuser a\nusr b\nuser c +nothing", "file").unwrap_err();
    assert_eq!(
        errors,
        "file:2: Duplicate user 'a' found. file:3: expected 'user' and a name. file:4: Error in ACL SETUSER \
         modifier '+nothing': Unknown command or category name in ACL"
    );
    assert!(acl.find(b"new").is_some());
}

/// Words of which random rules are made.
static WORDS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let commands = catalogue().commands().iter().step_by(3);
    let commands = commands.flat_map(|one| [format!("+{}", one.name), format!("-{}", one.name)]);
    let categories = Categories::NAMES.iter().flat_map(|of| [format!("+@{of}"), format!("-@{of}")]);
    let others = [
        "+@all",
        "-@all",
        "+select|0",
        "+get|a",
        "~a*",
        "%R~b*",
        "%W~b*",
        "&c*",
        "&d",
        "resetkeys",
        "resetchannels",
        "allkeys",
        "allchannels",
        "(+get ~s*)",
        "(-@all",
        "+@read",
        "%W~t*)",
        "clearselectors",
        "on",
        "off",
        ">p",
        "<p",
        "nopass",
        "resetpass",
        "reset",
    ];
    categories.chain(commands).chain(others.map(str::to_string)).collect()
});

/// The commands that rules allow, by applying them one by one.
fn plain_model(rules: &[&str]) -> Vec<bool> {
    let commands = catalogue().commands();
    let mut allowed = vec![false; commands.len()];
    for rule in rules {
        let (allows, name) = (rule.starts_with('+'), &rule[1..]);
        for index in 0..commands.len() {
            let own = &commands[index];
            let parent = own.name.split('|').next().expect("a first part");
            let names = match name.strip_prefix('@') {
                Some("all") => true,
                Some(of) => {
                    let has = |name: &str| {
                        let found = commands.iter().find(|one| one.name == name);
                        found.is_some_and(|one| one.categories.names().any(|own| own == of))
                    };
                    has(own.name) || has(parent)
                }
                None => own.name == name || parent == name,
            };
            if names {
                allowed[index] = allows;
            }
        }
    }
    allowed
}

#[test]
fn rules_allow_what_a_plain_model_allows() {
    let mut rng = Pcg64Mcg::seed_from_u64(5);
    let signs = |word: &&String| word.starts_with(['+', '-']) && !word.contains("|0");
    let words: Vec<&String> =
        WORDS.iter().filter(signs).filter(|word| *word != "+get|a" && *word != "+@read").collect();
    for _ in 0..300 {
        let count = rng.random_range(1..30);
        let rules: Vec<&str> =
            (0..count).map(|_| words[rng.random_range(0..words.len())].as_str()).collect();
        let one = user(&rules.join(" "));
        let expected = plain_model(&rules);
        for (index, command) in catalogue().commands().iter().enumerate() {
            let request = Request {
                command: index,
                is_free: false,
                arguments: &[command.name.as_bytes()],
                keys: &[],
                channels: (0, 0),
                are_patterns: false,
            };
            assert_eq!(one.check(&request).is_ok(), expected[index], "{rules:?}: {}", command.name);
        }
    }
}

/// Random rules are shown so that they make the same user again, also by an ACL file. Damaged files
/// are refused or make users that can be saved again.
#[test]
fn files_of_random_rules_make_the_same_users_again() {
    let mut rng = Pcg64Mcg::seed_from_u64(6);
    let seconds = std::env::var("EBBTIDE_FUZZ_SECONDS").ok();
    let seconds: Option<u64> = seconds.and_then(|seconds| seconds.parse().ok());
    let until = std::time::Instant::now() + std::time::Duration::from_secs(seconds.unwrap_or(0));
    let (mut round, mut loaded, mut refused) = (0, 0, 0);
    while round < 200 || std::time::Instant::now() < until {
        round += 1;
        let acl = Acl::new(catalogue(), None, b"secret");
        for number in 0..rng.random_range(1..5) {
            let name = format!("user{number}");
            for _ in 0..rng.random_range(1..25) {
                let word = WORDS[rng.random_range(0..WORDS.len())].as_bytes();
                // Some words are only a part of a rule.
                let _ = acl.set(name.as_bytes(), &[word]);
            }
        }
        let saved = acl.save();
        let again = Acl::new(catalogue(), Some(b"x"), b"secret");
        again.load(&saved, "file").unwrap_or_else(|error| panic!("{error}"));
        let users = |acl: &Acl| -> BTreeMap<Vec<u8>, Arc<User>> {
            acl.accounts().iter().map(|one| (one.name().to_vec(), one.user())).collect()
        };
        assert_eq!(users(&acl), users(&again));
        let mut damaged = saved.clone();
        for _ in 0..rng.random_range(1..3) {
            let place = rng.random_range(0..damaged.len());
            let byte = b"()~%&+-@|#<>! \n\r\t\0\xffuser"[rng.random_range(0..23)];
            match rng.random_range(0..3) {
                0 => damaged[place] = byte,
                1 => damaged.insert(place, byte),
                _ => drop(damaged.drain(place..(place + 5).min(damaged.len()))),
            }
            if damaged.is_empty() {
                break;
            }
        }
        match again.load(&damaged, "file") {
            Ok(_) => {
                loaded += 1;
                let third = Acl::new(catalogue(), None, b"secret");
                let saved = again.save();
                third.load(&saved, "file").unwrap_or_else(|error| panic!("{error}: {damaged:?}"));
                assert_eq!(users(&again), users(&third));
            }
            Err(error) => {
                refused += 1;
                assert!(!error.contains('\n') && error.len() < 4_000, "{error}");
                assert_eq!(users(&acl), users(&again), "nothing changes");
            }
        }
    }
    assert!(loaded > 10 && refused > 10, "{loaded} {refused}");
}
