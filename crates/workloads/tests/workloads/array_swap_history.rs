//! Swaps that interleave at every access must look as if they had run one after the other.
//!
//! Each swap reports the version that it found at each place, so the order is known. A checker
//! replays the swaps in this order on a plain array. A lost update, a dirty read or a cycle leaves
//! a swap that never fits.

use ebbtide_core::FullMemory;
use ebbtide_testbed::{Interleaved, Raced, Shared, interleave, race};
use ebbtide_workloads::{ArraySwap, Corrupt, Element, Program, Scatter, Swap};

use crate::common::{image, program};

fn array(pages: u64) -> ArraySwap {
    match program("array-swap", pages, Scatter::Pages) {
        Program::ArraySwap(array) => array,
        _ => unreachable!(),
    }
}

/// Few places, so that swaps collide; sometimes a place with itself.
fn crowded(array: &ArraySwap, job: u64) -> [u64; 2] {
    array.job(job).map(|place| place % 5)
}

/// Replays `history` serially from `model`, one element a place.
fn replay(model: &mut [Element], mut history: Vec<Swap>) -> Result<(), String> {
    while !history.is_empty() {
        let before = history.len();
        history.retain(|swap| {
            let [a, b] = swap.places.map(|place| place as usize);
            let fits = [model[a], model[b]] == swap.found;
            if fits {
                (model[a], model[b]) = (
                    Element { version: model[a].version + 1, ..model[b] },
                    Element { version: model[b].version + 1, ..model[a] },
                );
            }
            !fits
        });
        if history.len() == before {
            return Err(format!("{before} swaps fit nowhere, such as {:?}", history[0]));
        }
    }
    Ok(())
}

/// Checks the history of `swaps`, then that memory holds what the replay ends with.
fn check(
    array: &ArraySwap,
    words: Shared,
    swaps: Vec<Result<Vec<Swap>, Corrupt>>,
) -> Result<(), String> {
    let mut model: Vec<Element> = (0..array.elements()).map(Element::new).collect();
    let swaps: Result<Vec<Vec<Swap>>, Corrupt> = swaps.into_iter().collect();
    replay(&mut model, swaps.map_err(|wrong| wrong.to_string())?.concat())?;
    let mut memory = words.into_plain();
    for (place, expected) in (0..).zip(&model) {
        let found = array.get(&mut memory, place).map_err(|wrong| wrong.to_string())?;
        if found != *expected {
            return Err(format!("place {place} holds {found:?}, not {expected:?}"));
        }
    }
    let mut identities: Vec<u64> = model.iter().map(|element| element.identity).collect();
    identities.sort_unstable();
    assert!(identities.into_iter().eq(0..array.elements()), "the replay lost an element");
    Ok(())
}

fn interleaved(
    seed: u64,
    does: for<'a, 'b, 'c> fn(
        &'a ArraySwap,
        &'b mut Interleaved<'c>,
        [u64; 2],
    ) -> Result<Swap, Corrupt>,
) -> Result<(), String> {
    let array = array(1);
    let words = Shared::new(&image(&array));
    let swaps = interleave(&words, 4, seed, |thread, memory| {
        (0..6)
            .map(|job| does(&array, memory, crowded(&array, seed * 24 + thread as u64 * 6 + job)))
            .collect()
    });
    check(&array, words, swaps)
}

#[test]
fn interleaved_swaps_are_serialisable() {
    for seed in 0..60 {
        interleaved(seed, |array, memory, places| array.swap(memory, places))
            .unwrap_or_else(|violation| panic!("interleaving {seed}: {violation}"));
    }
}

#[test]
fn an_interleaving_can_be_repeated() {
    let array = array(1);
    let history = |seed| {
        let words = Shared::new(&image(&array));
        interleave(&words, 3, seed, |thread, memory| {
            let swap =
                |job: u64| array.swap(memory, crowded(&array, 3 * job + thread as u64)).unwrap();
            (0..5).map(swap).collect::<Vec<Swap>>()
        })
    };
    assert_eq!(history(1), history(1));
    assert!((2..10).any(|seed| history(seed) != history(1)));
}

#[test]
fn the_checker_catches_swaps_without_latches() {
    let caught = (0..20).filter(|&seed| {
        interleaved(seed, |array, memory, places| array.exchange(memory, places)).is_err()
    });
    assert!(caught.count() >= 15);
}

#[test]
fn the_checker_catches_swaps_with_a_latch_each_but_not_both() {
    fn one_latch<M: FullMemory>(
        array: &ArraySwap,
        memory: &mut M,
        places: [u64; 2],
    ) -> Result<Swap, Corrupt> {
        let latch = array.address(places[0]);
        ebbtide_structures::latch::write(memory, latch, |memory| array.exchange(memory, places))
    }
    let caught = (0..20).filter(|&seed| {
        interleaved(seed, |array, memory, places| one_latch(array, memory, places)).is_err()
    });
    assert!(caught.count() >= 5);
}

#[test]
fn the_checker_catches_a_cycle() {
    let [a, b] = [Element::new(0), Element::new(1)];
    let later = |element: Element| Element { version: 1, ..element };
    // Each swap saw the other's write of one place, but not of the other.
    let history = vec![
        Swap { places: [0, 1], found: [a, later(a)] },
        Swap { places: [1, 0], found: [b, later(b)] },
    ];
    assert!(replay(&mut [a, b], history).is_err());
}

#[test]
fn raced_swaps_are_serialisable() {
    let array = array(1);
    let words = Shared::new(&image(&array));
    let swaps = race(&words, |thread, memory: &mut Raced<'_>| {
        (0..4000).map(|job| array.swap(memory, crowded(&array, 2 * job + thread as u64))).collect()
    });
    check(&array, words, swaps).unwrap();
}

#[test]
fn readers_beside_swaps_see_whole_elements() {
    let array = array(1);
    let words = Shared::new(&image(&array));
    let swaps = interleave(&words, 3, 7, |thread, memory| {
        let mut swaps = Vec::new();
        for job in 0..30 {
            if thread == 0 {
                let element = array.get(memory, job % 5)?;
                assert_eq!(element.payload, Element::new(element.identity).payload);
            } else {
                swaps.push(array.swap(memory, crowded(&array, 2 * job + thread as u64))?);
            }
        }
        Ok(swaps)
    });
    check(&array, words, swaps).unwrap();
}
