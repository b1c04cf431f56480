//! `ebbtide trace`: a real program traced end to end, and the possible errors.

mod common;

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use common::{complaint, ebbtide, folder};
use serde_json::Value;

/// Whether there is a Valgrind; says so if there is none.
fn has_valgrind() -> bool {
    let found = Command::new("valgrind").arg("--version").stdout(Stdio::null()).status().is_ok();
    if !found {
        eprintln!("skipped: valgrind is not installed");
    }
    found
}

fn run(command: &mut Command) -> Output {
    command.output().expect("the program runs")
}

fn info(folder: &Path, trace: &str) -> Value {
    let output = run(&mut ebbtide(folder, &["trace", "info", trace, "--json"]));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[test]
fn a_traced_program_keeps_its_input_output_and_status() {
    if !has_valgrind() {
        return;
    }
    let folder = folder();
    let script = "read line; echo \"$line to you\"; echo oops >&2; exit 7";
    let mut command = ebbtide(folder.path(), &["trace", "-o", "t.ebt", "--", "sh", "-c", script]);
    let mut child = command.stdin(Stdio::piped()).spawn().expect("the program runs");
    child.stdin.take().expect("a pipe").write_all(b"hello\n").expect("it listens");
    let output = child.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(7), "{said}");
    assert_eq!(output.stdout, b"hello to you\n");
    assert!(said.starts_with("oops\n") && said.contains("ebbtide: t.ebt: "), "{said}");
    let info = info(folder.path(), "t.ebt");
    // A shell that starts touches some hundred KiB, and memory sees each line once at least.
    assert!(info["reads"].as_u64() > Some(1000), "{info}");
    assert!(info["footprint_bytes"].as_u64() > Some(100 << 10), "{info}");
}

#[test]
fn a_trace_holds_what_the_program_does_to_memory() {
    if !has_valgrind() {
        return;
    }
    let folder = folder();
    // 8 MiB that are written once and leave a cache of 256 KiB again.
    let program = ["head", "-c", "8388608", "/dev/zero"];
    let fill = ["dd", "if=/dev/zero", "of=/dev/null", "bs=8M", "count=1"];
    for (command, name) in [(&program[..], "small.ebt"), (&fill[..], "great.ebt")] {
        let mut arguments = vec!["trace", "-o", name, "--llc", "256KiB,16", "--"];
        arguments.extend(command);
        let output = run(&mut ebbtide(folder.path(), &arguments));
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let [small, great] = ["small.ebt", "great.ebt"].map(|name| info(folder.path(), name));
    for info in [&small, &great] {
        let count = |key: &str| info[key].as_u64().expect("a number");
        assert_eq!(count("reads") + count("writes"), count("accesses"));
        assert!(info["inter_arrival_ns"].as_f64() > Some(0.0), "{info}");
    }
    let output =
        run(&mut ebbtide(folder.path(), &["trace", "convert", "small.ebt", "-", "--to=text"]));
    let text = String::from_utf8(output.stdout).expect("text");
    assert_eq!(text.lines().count() as u64, small["accesses"].as_u64().expect("a number"));
    assert!(text.lines().all(|line| line.split(' ').nth(3) == Some("64")), "lines of 64 bytes");
}

#[test]
fn a_limit_ends_the_program_and_a_skip_leaves_the_start_out() {
    if !has_valgrind() {
        return;
    }
    let folder = folder();
    let arguments = [
        "trace",
        "-o",
        "t.ebt",
        "--skip=500",
        "--limit=1000",
        "--",
        "sh",
        "-c",
        "while :; do :; done",
    ];
    let shell = run(&mut ebbtide(folder.path(), &arguments));
    let said = String::from_utf8_lossy(&shell.stderr);
    assert!(shell.status.success() && said.contains("ended at the limit"), "{said}");
    assert_eq!(info(folder.path(), "t.ebt")["accesses"], 1000);
}

#[test]
fn children_are_traced_in_address_spaces_of_their_own() {
    if !has_valgrind() {
        return;
    }
    let folder = folder();
    let script = "/bin/true; exit 0";
    let arguments = ["trace", "-o", "t.ebt", "--", "sh", "-c", script];
    let output = run(&mut ebbtide(folder.path(), &arguments));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = run(&mut ebbtide(folder.path(), &["trace", "convert", "t.ebt", "-", "--to=text"]));
    let text = String::from_utf8(text.stdout).expect("text");
    let address = |line: &str| line.split(' ').nth(2).and_then(|field| field.parse::<u64>().ok());
    let mut processes: Vec<_> = text.lines().filter_map(address).map(|at| at >> 47).collect();
    processes.sort_unstable();
    processes.dedup();
    assert_eq!(processes, [0, 1]);
}

/// Compiles a program in C into `folder`.
fn compiled(folder: &Path, text: &str) {
    fs::write(folder.join("program.c"), text).expect("room");
    let mut compiler = Command::new("cc");
    let compiler = compiler.args(["-O1", "-pthread", "-o", "program", "program.c"]);
    assert!(compiler.current_dir(folder).status().expect("a C compiler").success());
}

#[test]
fn forked_processes_and_threads_are_traced_and_named() {
    if !has_valgrind() {
        return;
    }
    let folder = folder();
    // Each process writes 4 MiB of its own: 1,024 pages.
    compiled(
        folder.path(),
        "#include <pthread.h>\n#include <stdlib.h>\n#include <sys/wait.h>\n#include <unistd.h>\n\
         static void fill(void) {\n\
             volatile char *bytes = malloc(4 << 20);\n\
             for (long at = 0; at < 4 << 20; at += 64) bytes[at] = 1;\n\
         }\n\
         static void *thread(void *nothing) { return nothing; }\n\
         int main(void) {\n\
             for (int child = 0; child < 3; child++)\n\
                 if (fork() == 0) { fill(); _exit(0); }\n\
             if (fork() == 0) execl(\"/bin/true\", \"true\", (char *) 0);\n\
             while (wait(0) > 0);\n\
             pthread_t other;\n\
             pthread_create(&other, 0, thread, 0);\n\
             pthread_join(other, 0);\n\
             fill();\n\
         }\n",
    );
    let output = run(&mut ebbtide(folder.path(), &["trace", "-o", "t.ebt", "--", "./program"]));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    let text = run(&mut ebbtide(folder.path(), &["trace", "convert", "t.ebt", "-", "--to=text"]));
    let text = String::from_utf8(text.stdout).expect("text");
    let mut pages = std::collections::BTreeMap::new();
    for line in text.lines() {
        let address: u64 = line.split(' ').nth(2).expect("a field").parse().expect("a number");
        let process: &mut std::collections::BTreeSet<u64> = pages.entry(address >> 47).or_default();
        process.insert(address >> 12);
    }
    let filled = pages.values().filter(|pages| pages.len() > 1024).count();
    assert_eq!((pages.len(), filled), (5, 4), "{said}");
    let origin = info(folder.path(), "t.ebt")["origin"].as_str().expect("it says").to_string();
    for part in ["./program; ./program", "/bin/true", "; 5 processes; 1 more thread", "LLC 1048576"]
    {
        assert!(origin.contains(part), "{part}: {origin}");
    }
    let shown = run(&mut ebbtide(folder.path(), &["trace", "info", "t.ebt"]));
    assert!(String::from_utf8_lossy(&shown.stdout).contains(&origin));
}

#[test]
fn threads_are_told_apart_and_run_on_cores_of_their_own() {
    if !has_valgrind() {
        return;
    }
    let folder = folder();
    // Two threads write 4 MiB each, 64 KiB in turn, and compute before each line.
    compiled(
        folder.path(),
        "#include <pthread.h>\n#include <semaphore.h>\n#include <stdlib.h>\n\
         static sem_t turns[2];\n\
         static void *fill(void *number) {\n\
             long own = (long)number;\n\
             volatile char *bytes = malloc(4 << 20);\n\
             for (long at = 0; at < 4 << 20; at += 64) {\n\
                 if (at % (64 << 10) == 0) sem_wait(&turns[own]);\n\
                 for (int n = 0; n < 32; n++) __asm__ volatile(\"\");\n\
                 bytes[at] = 1;\n\
                 if ((at + 64) % (64 << 10) == 0) sem_post(&turns[1 - own]);\n\
             }\n\
             return 0;\n\
         }\n\
         int main(void) {\n\
             pthread_t both[2];\n\
             sem_init(&turns[0], 0, 1);\n\
             sem_init(&turns[1], 0, 0);\n\
             for (long n = 0; n < 2; n++) pthread_create(&both[n], 0, fill, (void *)n);\n\
             for (long n = 0; n < 2; n++) pthread_join(both[n], 0);\n\
         }\n",
    );
    let output = run(&mut ebbtide(folder.path(), &["trace", "-o", "t.ebt", "--", "./program"]));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = run(&mut ebbtide(folder.path(), &["trace", "convert", "t.ebt", "-", "--to=csv"]));
    let mut accesses = std::collections::BTreeMap::new();
    for line in String::from_utf8(text.stdout).expect("text").lines().skip(1) {
        let thread: u32 = line.rsplit(',').next().expect("a field").parse().expect("a number");
        *accesses.entry(thread).or_insert(0) += 1;
    }
    assert_eq!(accesses.keys().copied().collect::<Vec<_>>(), [0, 1, 2]);
    // A line is read once, and most are written back.
    let lines = (4 << 20) / 64;
    assert!((lines..3 * lines).contains(&accesses[&1]), "{accesses:?}");
    assert!((lines..3 * lines).contains(&accesses[&2]), "{accesses:?}");
    assert_eq!(info(folder.path(), "t.ebt")["threads"], 3);
    let simulated_ns = |cores: &str| {
        let cores = format!("--set=cores.count={cores}");
        let sim = ["sim", "--design=dram-only", "--trace=t.ebt", "--by-thread", "--json", &cores];
        let output = run(&mut ebbtide(folder.path(), &sim));
        let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(json["cores"].to_string(), cores.rsplit('=').next().expect("a count"));
        json["simulated_ns"].as_f64().expect("a number")
    };
    let ratio = simulated_ns("1") / simulated_ns("3");
    assert!((1.7..2.05).contains(&ratio), "{ratio}");
}

#[test]
fn columns_that_are_not_read_are_told() {
    let folder = folder();
    fs::write(folder.path().join("t.csv"), "clock,address\n5,64\n").expect("room");
    for arguments in [&["trace", "info", "t.csv"][..], &["trace", "convert", "t.csv", "t.ebt"]] {
        let output = run(&mut ebbtide(folder.path(), arguments));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.contains("columns 'clock'"), "{said}");
    }
}

#[test]
fn a_program_that_another_executes_in_its_place_is_followed() {
    if !has_valgrind() {
        return;
    }
    let folder = folder();
    let script = "#!/bin/sh\n/bin/true\nexec /bin/cat small.txt\n";
    let program = folder.path().join("wrapper");
    fs::write(&program, script).expect("room");
    fs::write(folder.path().join("small.txt"), "hello\n").expect("room");
    fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .expect("own");
    let counted = |option: &[&str]| {
        let arguments = [&["trace", "-o", "t.ebt"], option, &["--", "./wrapper"]].concat();
        let output = run(&mut ebbtide(folder.path(), &arguments));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), output.stdout), (Some(0), b"hello\n".to_vec()), "{said}");
        let entries = info(folder.path(), "t.ebt")["accesses"].as_u64().expect("a number");
        (entries, said)
    };
    let (shell, _) = counted(&["--no-follow"]);
    let (both, said) = counted(&["--one-process"]);
    let expected = "traced 2 programs: ./wrapper, then /bin/cat small.txt";
    assert!(said.contains(expected) && !said.contains("/bin/true"), "{said}");
    assert!(said.contains("; 1 process not traced"), "{said}");
    // Another program starts, which takes thousands of lines.
    assert!(both > shell + 1000, "{both} {shell}");
}

#[test]
fn an_interrupt_ends_the_program_and_closes_the_trace() {
    if !has_valgrind() {
        return;
    }
    let folder = folder();
    let script = "echo going; while :; do :; done";
    let arguments = ["trace", "-o", "t.ebt", "--", "sh", "-c", script];
    let mut child = ebbtide(folder.path(), &arguments).spawn().expect("the program runs");
    let mut going = [0; 6];
    std::io::Read::read_exact(child.stdout.as_mut().expect("a pipe"), &mut going).expect("it says");
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("it is there");
    let since = Instant::now();
    let output = child.wait_with_output().expect("it ends");
    assert!(since.elapsed() < Duration::from_secs(60));
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert!(info(folder.path(), "t.ebt")["accesses"].as_u64() > Some(0), "{said}");
}

#[test]
fn a_program_that_a_signal_ends_gives_a_whole_trace_and_the_shells_status() {
    if !has_valgrind() {
        return;
    }
    let folder = folder();
    let arguments = ["trace", "-o", "t.ebt", "--", "sh", "-c", "kill -SEGV $$"];
    let output = run(&mut ebbtide(folder.path(), &arguments));
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(128 + 11), "{said}");
    assert!(said.contains("ended by signal 11"), "{said}");
    assert!(info(folder.path(), "t.ebt")["accesses"].as_u64() > Some(0));
}

#[test]
fn what_cannot_be_traced_is_said_in_one_line() {
    let folder = folder();
    let trace = |arguments: &[&str]| {
        let all = [&["trace"], arguments].concat();
        ebbtide(folder.path(), &all)
    };
    let without = complaint(trace(&["-o", "t", "--", "true"]).env("PATH", "/nowhere"), 1);
    assert!(without.contains("apt-get install valgrind"), "{without}");
    if has_valgrind() {
        let missing = complaint(&mut trace(&["-o", "t", "--", "no-such-program"]), 2);
        assert!(missing.contains("cannot run 'no-such-program': no such program"), "{missing}");
    }
    let odd = complaint(&mut trace(&["-o", "t", "--llc=3MiB,16", "--", "true"]), 2);
    assert!(odd.contains("last-level cache of 3145728 bytes"), "{odd}");
    let nothing = complaint(&mut trace(&["-o", "t"]), 2);
    assert!(nothing.contains("COMMAND"), "{nothing}");
    let place = complaint(&mut trace(&["-o", "no/folder/t", "--", "true"]), 2);
    assert!(place.contains("cannot open no/folder/t"), "{place}");
    assert_eq!(common::names(folder.path()), [""; 0], "nothing is left behind");
}

/// 100,000 accesses in text form.
fn text(folder: &Path) {
    let line = |n: u64| format!("{} 0 {} 64 {}\n", n * 10, n * n % 9999 * 64, n % 2);
    let text: String = (0..100_000).map(line).collect();
    fs::write(folder.join("t.txt"), text).expect("room");
}

#[test]
fn a_trace_survives_every_form_that_holds_it_and_losses_are_said() {
    let folder = folder();
    text(folder.path());
    let convert = |from: &str, to: &str| {
        let output = run(&mut ebbtide(folder.path(), &["trace", "convert", from, to]));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && output.stdout.is_empty(), "{said}");
        said
    };
    assert_eq!(convert("t.txt", "t.ebt"), "");
    assert_eq!(convert("t.ebt", "t.csv.zst"), "");
    let said = convert("t.csv.zst", "again.txt");
    assert_eq!(said, "ebbtide: text has no place for physical addresses, threads, hints\n");
    let [first, again] = ["t.txt", "again.txt"].map(|name| fs::read(folder.path().join(name)));
    assert_eq!(first.expect("the file"), again.expect("the file"));
}

#[test]
fn a_truncated_trace_says_what_was_read_and_ends_with_status_2() {
    let folder = folder();
    text(folder.path());
    let output = run(&mut ebbtide(folder.path(), &["trace", "convert", "t.txt", "t.ebt"]));
    assert!(output.status.success());
    let whole = fs::read(folder.path().join("t.ebt")).expect("the file");
    fs::write(folder.path().join("t.ebt"), &whole[..whole.len() - 4_000]).expect("room");
    let said = complaint(&mut ebbtide(folder.path(), &["trace", "info", "t.ebt"]), 2);
    assert!(said.contains("65536 entries were read") && said.contains("cut short"), "{said}");
    let said = complaint(&mut ebbtide(folder.path(), &["trace", "convert", "t.ebt", "x.csv"]), 2);
    assert!(said.contains("cut short"), "{said}");
    let said = complaint(&mut ebbtide(folder.path(), &["sim", "--trace", "t.ebt"]), 2);
    assert!(said.contains("cut short"), "{said}");
    assert!(!folder.path().join("x.csv").exists(), "no partial output");
}

#[test]
fn the_simulator_replays_native_traces_by_either_address() {
    let folder = folder();
    text(folder.path());
    let arguments = ["trace", "convert", "t.txt", "t.ebt", "--map", "fragmented:4"];
    assert!(run(&mut ebbtide(folder.path(), &arguments)).status.success());
    for space in ["virtual", "physical"] {
        let arguments = ["sim", "--trace", "t.ebt", "--address", space, "--json"];
        let output = run(&mut ebbtide(folder.path(), &arguments));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        let result: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(result["accesses"], 100_000, "{result}");
    }
    let said = complaint(
        &mut ebbtide(folder.path(), &["sim", "--trace", "t.txt", "--address", "physical"]),
        2,
    );
    assert!(said.contains("has no physical address"), "{said}");
}
