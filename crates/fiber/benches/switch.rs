//! The cost of a fiber switch pair (into a fiber and back), with one and with many fibers.

use criterion::{Criterion, criterion_group, criterion_main};
use ebbtide_fiber::{Fiber, StackPool};

fn switch(criterion: &mut Criterion) {
    for fibers in [1usize, 128, 4096] {
        let mut stacks = StackPool::new(fibers, 16 * 1024).expect("stacks can be mapped");
        let mut all: Vec<Fiber<(), ()>> = std::iter::from_fn(|| stacks.take())
            .map(|stack| {
                Fiber::new(stack, |suspend, ()| {
                    loop {
                        suspend.suspend(());
                    }
                })
            })
            .collect();
        let mut turn = 0;
        criterion.bench_function(&format!("switch pair, {fibers} fibers"), |bencher| {
            bencher.iter(|| {
                turn = (turn + 1) % fibers;
                all[turn].resume(())
            });
        });
    }
}

criterion_group!(benches, switch);
criterion_main!(benches);
