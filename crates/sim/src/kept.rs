//! Calibrations and warm machines, kept from run to run for runs over the same jobs.
//!
//! This process keeps calibrations in memory. If the program has named a [folder](keep_in),
//! calibrations and warm machines are kept there, too, for its later runs. A kept item is a pure
//! function of a plan's basis and of the program. So a run returns the same results with and
//! without it.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::SystemTime;

use ebbtide_core::{Archive, Watch, crc32c, crc32c_append};
use ebbtide_workloads::Program;

use crate::calibration::Calibration;
use crate::machine::{Machine, SimError};
use crate::plan::Plan;
use crate::warm::{Steady, warmed_up};

/// The folder of this process.
static FOLDER: OnceLock<Folder> = OnceLock::new();

/// The most bytes that a folder holds.
const ROOM_BYTES: u64 = 4 << 30;

/// Keeps calibrations and warm machines in `folder`, up to 4 GiB. Beyond that, the least recently
/// used files are removed.
///
/// `maker` identifies this program, such as the [checksum of its file](checksum_of_file). Files of
/// another maker are not used. Damaged files are made anew. If the folder cannot be written,
/// nothing is kept. The first named folder stays. Returns false if that is another one.
pub fn keep_in(folder: PathBuf, maker: u32) -> bool {
    let path = folder.clone();
    FOLDER.get_or_init(|| Folder { path, maker, room_bytes: ROOM_BYTES }).path == folder
}

/// The default folder, by the XDG Base Directory Specification: `ebbtide` in the user's cache
/// folder. `None` if there is no home.
pub fn user_folder() -> Option<PathBuf> {
    let given = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let caches = given("XDG_CACHE_HOME").or_else(|| Some(given("HOME")?.join(".cache")))?;
    Some(caches.join("ebbtide"))
}

/// The CRC-32C of a file, such as a program's own, which tells builds of the same version apart.
///
/// # Errors
/// When the file cannot be read.
pub fn checksum_of_file(path: &Path) -> io::Result<u32> {
    let (mut file, mut buffer, mut sum) = (File::open(path)?, vec![0; 1 << 20], 0);
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(sum),
            length => sum = crc32c_append(sum, &buffer[..length]),
        }
    }
}

/// A calibration that is in progress or complete.
type Making = Arc<Mutex<Option<Calibration>>>;

/// The last calibrations of this process.
static CALIBRATIONS: Mutex<Vec<(Plan, Making)>> = Mutex::new(Vec::new());

/// Most calibrations that this process keeps.
const CALIBRATIONS_MAX: usize = 64;

/// The calibration of `plan`, whose program is `program`. A second caller for the same plan waits
/// for the first.
///
/// # Errors
/// [`SimError`].
pub(crate) fn calibration(
    plan: &Plan,
    program: &Program,
    watch: Watch<'_>,
) -> Result<Calibration, SimError> {
    let basis = plan.calibration_basis();
    let making = {
        let mut kept = CALIBRATIONS.lock().unwrap_or_else(PoisonError::into_inner);
        match kept.iter().find(|(of, _)| *of == basis) {
            Some((_, making)) => Arc::clone(making),
            None => {
                if kept.len() == CALIBRATIONS_MAX {
                    kept.remove(0);
                }
                let making = Making::default();
                kept.push((basis.clone(), Arc::clone(&making)));
                making
            }
        }
    };
    let mut known = making.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = &*known {
        return Ok(known.clone());
    }
    let folder = FOLDER.get();
    let of = format!("{basis:?}");
    let read = folder.and_then(|folder| folder.read(CALIBRATION, &of));
    let calibration = match read.and_then(|bytes| postcard::from_bytes(&bytes).ok()) {
        Some(read) => read,
        None => {
            let made = Calibration::new(plan, program, watch)?;
            let bytes = postcard::to_stdvec(&made).expect("calibrations are plain data");
            folder.inspect(|folder| folder.write(CALIBRATION, &of, &bytes));
            made
        }
    };
    Ok(known.insert(calibration).clone())
}

/// The state of the last warm machine, kept in memory.
#[derive(Default)]
pub(crate) struct LastWarm(Option<(String, Vec<u8>)>);

/// Warms `machine` of `plan` as [`warmed_up`] does, or restores the state of such a machine after
/// its warm-up. That is the `last` state if it is given, or the state of an earlier run.
///
/// # Errors
/// [`SimError`].
pub(crate) fn warm(
    machine: &mut Machine,
    last: Option<&mut LastWarm>,
    plan: &Plan,
    watch: Watch<'_>,
) -> Result<Steady, SimError> {
    warm_by(FOLDER.get(), machine, last, plan, watch)
}

fn warm_by(
    folder: Option<&Folder>,
    machine: &mut Machine,
    last: Option<&mut LastWarm>,
    plan: &Plan,
    watch: Watch<'_>,
) -> Result<Steady, SimError> {
    let Some(of) = warm_machine(machine, plan).filter(|_| folder.is_some() || last.is_some())
    else {
        return warmed_up(machine, plan, watch);
    };
    if let Some(LastWarm(Some((last_of, state)))) = &last
        && *last_of == of
    {
        return Ok(restored(machine, state));
    }
    let (steady, state) = match folder.and_then(|folder| folder.read(WARM, &of)) {
        Some(state) => (restored(machine, &state), state),
        None => {
            let mut steady = warmed_up(machine, plan, watch)?;
            let state = Archive::bytes_of(|archive| warm_state(machine, &mut steady, archive));
            folder.inspect(|folder| folder.write(WARM, &of, &state));
            (steady, state)
        }
    };
    if let Some(last) = last {
        *last = LastWarm(Some((of, state)));
    }
    Ok(steady)
}

/// All that decides the state of `machine` of `plan` after its warm-up, or `None` if it cannot be
/// kept.
fn warm_machine(machine: &mut Machine, plan: &Plan) -> Option<String> {
    let types = Archive::types_of(|archive| machine.state(archive))?;
    Some(format!("{:?} {types}", plan.warm_up_basis()))
}

fn warm_state(machine: &mut Machine, steady: &mut Steady, archive: &mut Archive<'_>) {
    archive.part(steady);
    machine.state(archive);
}

/// Restores in `machine` the `state` of such a machine after its warm-up.
fn restored(machine: &mut Machine, state: &[u8]) -> Steady {
    let mut steady = Steady::default();
    let whole = Archive::restore(state, |archive| warm_state(machine, &mut steady, archive));
    assert!(whole, "a state fits the machines that it is of");
    steady
}

const CALIBRATION: &str = "calibration";
const WARM: &str = "warm";

/// A folder of files. `of` decides the contents of each file.
struct Folder {
    path: PathBuf,
    maker: u32,
    room_bytes: u64,
}

impl Folder {
    /// All that decides the contents of a file.
    fn key(&self, kind: &str, of: &str) -> String {
        format!("{:08x} {kind} {of}", self.maker)
    }

    fn file(&self, kind: &str, key: &str) -> PathBuf {
        // The file contains its key, so two keys of one name only displace each other.
        let name =
            u64::from(crc32c(key.as_bytes())) << 32 | u64::from(crc32c_append(1, key.as_bytes()));
        self.path.join(format!("{name:016x}.{kind}"))
    }

    /// The contents of the file, if it is whole.
    fn read(&self, kind: &str, of: &str) -> Option<Vec<u8>> {
        let key = self.key(kind, of);
        let path = self.file(kind, &key);
        let mut bytes = fs::read(&path).ok()?;
        let (checksum, held) = bytes.split_first_chunk()?;
        if crc32c(held) != u32::from_le_bytes(*checksum) {
            return None;
        }
        let (own, held) = postcard::take_from_bytes::<&str>(held).ok()?;
        if own != key {
            return None;
        }
        bytes.drain(..bytes.len() - held.len());
        // The most recently used files stay longest.
        let _stays_shorter = File::open(path).and_then(|file| file.set_modified(SystemTime::now()));
        Some(bytes)
    }

    /// Writes the file, whole or not at all. If it cannot be kept, a later run makes it anew.
    fn write(&self, kind: &str, of: &str, held: &[u8]) {
        let key = self.key(kind, of);
        let own = postcard::to_stdvec(&key).expect("a text is plain data");
        let checksum = crc32c_append(crc32c(&own), held);
        let write = || {
            fs::create_dir_all(&self.path)?;
            let mut file = tempfile::NamedTempFile::new_in(&self.path)?;
            file.write_all(&checksum.to_le_bytes())?;
            file.write_all(&own)?;
            file.write_all(held)?;
            file.persist(self.file(kind, &key))?;
            self.make_room()
        };
        let _not_kept: Result<(), io::Error> = write();
    }

    /// Removes the least recently used files until the others fit.
    fn make_room(&self) -> Result<(), io::Error> {
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            let about = entry.metadata()?;
            files.push((about.modified()?, about.len(), entry.path()));
        }
        files.sort_unstable();
        let mut bytes: u64 = files.iter().map(|(_, bytes, _)| bytes).sum();
        for (_, own, path) in files {
            if bytes <= self.room_bytes {
                break;
            }
            fs::remove_file(path)?;
            bytes -= own;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use ebbtide_core::Stop;
    use ebbtide_core::replacement::PolicyKind;
    use ebbtide_workloads::Kind;

    use super::*;
    use crate::designs::{Overrides, compose, resolve};
    use crate::experiment::Simulation;
    use crate::offered::Offered;

    fn folder(path: &Path, room_bytes: u64) -> Folder {
        Folder { path: path.to_path_buf(), maker: 1, room_bytes }
    }

    fn plan(design: &str, set: Overrides<'_>, workload: Kind) -> Plan {
        let config = resolve(design, set).unwrap().scaled(1, 1024);
        Plan { config, workload, jobs: 200, seed: 1, arrivals: Offered::Saturating }
    }

    fn basis(seed: u64) -> String {
        let plan = Plan { seed, ..plan("astriflash", &[], Kind::HashTable) };
        format!("{:?}", plan.calibration_basis())
    }

    /// The outcome of a run of `plan`, and whether jobs warmed its machine.
    fn outcome(plan: &Plan, folder: Option<&Folder>) -> (String, bool) {
        let (stop, by_jobs) = (Stop::new(), AtomicBool::new(false));
        let show = |stage: &str, _: f64| {
            by_jobs.fetch_or(stage == "warming up", Ordering::Relaxed);
        };
        let (parts, watch) = (compose(&plan.config).unwrap(), Watch::new(&show, &stop));
        let warm = |machine: &mut Machine| warm_by(folder, machine, None, plan, watch);
        let mut outcome = Simulation::by(plan, parts, watch, warm).unwrap().measure(watch).unwrap();
        (outcome.wall_s, outcome.accesses_per_wall_s) = (0.0, 0.0);
        (format!("{outcome:?}"), by_jobs.into_inner())
    }

    #[test]
    fn a_machine_warmed_by_a_file_does_what_one_does_that_was_warmed_by_jobs() {
        let path = tempfile::tempdir().unwrap();
        let folder = folder(path.path(), u64::MAX);
        let does_the_same = |plan: &Plan, of: &str| {
            let (by_jobs, _) = outcome(plan, None);
            outcome(plan, Some(&folder));
            let (by_file, warmed) = outcome(plan, Some(&folder));
            assert!(!warmed, "{of}: the state is kept");
            assert!(by_file == by_jobs, "{of}:\n{by_file}\n{by_jobs}");
        };
        std::thread::scope(|scope| {
            scope.spawn(|| does_the_same(&plan("astriflash", &[], Kind::Silo), "Silo"));
            for policy in PolicyKind::ALL {
                let set = [("dram_cache.policy", policy.name())];
                does_the_same(&plan("astriflash", &set, Kind::ArraySwap), policy.name());
            }
            // Sets that are looked up by hash.
            for policy in [PolicyKind::Lru, PolicyKind::MiniSim] {
                let set = [("dram_cache.policy", policy.name()), ("dram_cache.ways", "0")];
                does_the_same(&plan("os-swap", &set, Kind::HashTable), policy.name());
            }
            // Sizes that can be divided by 1024.
            let llc = ("llc.size", "128MiB");
            let memories: [(&str, Overrides<'_>); 6] = [
                ("dram-only", &[]),
                ("astriflash", &[("dram_cache.fill", "footprint")]),
                ("astriflash-nodp", &[]),
                ("hams-mmap", &[llc]),
                ("cxl-flash", &[]),
                ("lhams-e", &[llc]),
            ];
            for (design, set) in memories {
                does_the_same(&plan(design, set, Kind::ArraySwap), design);
            }
            let device = [("dram_cache.size", "512MiB"), ("dram_cache.ways", "16")];
            let rows: [Overrides<'_>; 3] = [
                &[("promotion.meets", "equal")],
                &[("promotion.clean_after_us", "20")],
                // Every page leaves the device's cache at once, as its sets have no other frame.
                &[("promotion.threshold_max", "1"), ("dram_cache.ways", "1")],
            ];
            for own in rows {
                let set = [&device[..], own].concat();
                does_the_same(&plan("flatflash", &set, Kind::Tatp), own[0].0);
            }
        });
    }

    #[test]
    fn a_memory_does_not_take_the_state_of_another_kind() {
        let path = tempfile::tempdir().unwrap();
        let folder = folder(path.path(), u64::MAX);
        let mapped = plan("unified-mmap", &[("os.read_ahead", "128KiB")], Kind::ArraySwap);
        let mut hardware = mapped.clone();
        hardware.config.parts.memory_side = Some("astriflash".to_string());
        assert_eq!(hardware.warm_up_basis(), mapped.warm_up_basis());
        outcome(&mapped, Some(&folder));
        assert_eq!(outcome(&hardware, Some(&folder)), outcome(&hardware, None));
        assert!(!outcome(&hardware, Some(&folder)).1, "its own state is kept");
        assert!(!outcome(&mapped, Some(&folder)).1, "beside the other");
    }

    #[test]
    fn what_is_damaged_or_of_another_program_or_plan_is_not_used() {
        let path = tempfile::tempdir().unwrap();
        let own = folder(path.path(), u64::MAX);
        let held = b"what is held".to_vec();
        own.write(CALIBRATION, &basis(1), &held);
        let read = |folder: &Folder, seed| folder.read(CALIBRATION, &basis(seed));
        assert_eq!(read(&own, 1), Some(held));
        assert_eq!(read(&Folder { maker: 2, ..folder(path.path(), u64::MAX) }, 1), None);
        assert_eq!(read(&own, 2), None);
        let file = own.file(CALIBRATION, &own.key(CALIBRATION, &basis(1)));
        let whole = fs::read(&file).unwrap();
        for cut in 0..whole.len() {
            fs::write(&file, &whole[..cut]).unwrap();
            assert_eq!(read(&own, 1), None, "cut after {cut} bytes");
            let mut flipped = whole.clone();
            flipped[cut] ^= 1;
            fs::write(&file, flipped).unwrap();
            assert_eq!(read(&own, 1), None, "byte {cut} is another one");
        }
        // The file of another key under the same name.
        own.write(CALIBRATION, &basis(3), &[8]);
        fs::rename(own.file(CALIBRATION, &own.key(CALIBRATION, &basis(3))), &file).unwrap();
        assert_eq!(read(&own, 1), None);
    }

    #[test]
    fn what_was_not_used_for_longest_makes_room() {
        let path = tempfile::tempdir().unwrap();
        let roomy = folder(path.path(), u64::MAX);
        let bases = [1, 2, 3].map(basis);
        for (basis, age) in bases.iter().zip([30, 20, 10]) {
            roomy.write(CALIBRATION, basis, &[7; 100]);
            let file = File::open(roomy.file(CALIBRATION, &roomy.key(CALIBRATION, basis))).unwrap();
            file.set_modified(SystemTime::now() - std::time::Duration::from_secs(age)).unwrap();
        }
        let size = fs::read_dir(path.path()).unwrap().next().unwrap().unwrap().metadata().unwrap();
        assert!(roomy.read(CALIBRATION, &bases[0]).is_some(), "it is used again");
        let tight = folder(path.path(), 2 * size.len() + size.len() / 2);
        tight.make_room().unwrap();
        let kept = bases.each_ref().map(|b| tight.read(CALIBRATION, b).is_some());
        assert_eq!(kept, [true, false, true]);
    }

    #[test]
    fn a_folder_that_cannot_be_written_keeps_nothing_and_harms_nothing() {
        let nowhere = folder(Path::new("/proc/nowhere"), u64::MAX);
        nowhere.write(CALIBRATION, &basis(1), &[7]);
        assert_eq!(nowhere.read(CALIBRATION, &basis(1)), None);
    }
}
