//! What runs over the same jobs need alike: calibrations and warm machines, kept from run to run.
//!
//! A calibration is kept in this process. If the program has named a [folder](keep_in), calibrations and
//! warm machines are kept there, too, for its later runs. Whatever is kept is a pure function of a plan's
//! basis and of the program: a run gives the same results with it and without.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::SystemTime;

use ebbtide_core::{Watch, crc32c, crc32c_append};
use ebbtide_workloads::Program;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::calibration::Calibration;
use crate::machine::{Machine, SavedMachine, SimError};
use crate::plan::Plan;
use crate::warm::{Steady, warmed_up};

/// The folder of this process.
static FOLDER: OnceLock<Folder> = OnceLock::new();

/// The most that a folder holds.
const ROOM_BYTES: u64 = 4 << 30;

/// Keeps calibrations and warm machines in `folder`, up to 4 GiB, of which those that were used last stay.
/// `maker` is whatever tells this program from others, as the [checksum of its file](checksum_of_file): what
/// another one made is not used. Files that are damaged are made anew, and a folder that cannot be written
/// keeps nothing. The folder that was named first stays; false if that is another one.
pub fn keep_in(folder: PathBuf, maker: u32) -> bool {
    let path = folder.clone();
    FOLDER.get_or_init(|| Folder { path, maker, room_bytes: ROOM_BYTES }).path == folder
}

/// The folder that programs keep them in unless told otherwise, by the XDG Base Directory Specification:
/// `ebbtide` in the user's cache folder. `None` if there is no home.
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

/// A calibration that is being made, or was.
type Making = Arc<Mutex<Option<Calibration>>>;

/// The calibrations of this process, the last of which stay.
static CALIBRATIONS: Mutex<Vec<(Plan, Making)>> = Mutex::new(Vec::new());

/// Most calibrations that this process keeps.
const CALIBRATIONS_MAX: usize = 64;

/// The calibration of `plan`, whose program is `program`. Whoever needs the same one meanwhile waits.
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
    let calibration = match folder.and_then(|folder| folder.read(CALIBRATION, &basis)) {
        Some(read) => read,
        None => {
            let made = Calibration::new(plan, program, watch)?;
            folder.inspect(|folder| folder.write(CALIBRATION, &basis, &made));
            made
        }
    };
    Ok(known.insert(calibration).clone())
}

/// A warm machine in a file.
type Warm = (Steady, SavedMachine);

/// Warms `machine` of `plan` as [`warmed_up`] does, or gives it the state that it had afterwards in an
/// earlier run.
///
/// # Errors
/// [`SimError`].
pub(crate) fn warm(
    machine: &mut Machine,
    plan: &Plan,
    watch: Watch<'_>,
) -> Result<Steady, SimError> {
    warm_by(FOLDER.get(), machine, plan, watch)
}

fn warm_by(
    folder: Option<&Folder>,
    machine: &mut Machine,
    plan: &Plan,
    watch: Watch<'_>,
) -> Result<Steady, SimError> {
    let basis = plan.warm_up_basis();
    if let Some((steady, saved)) = folder.and_then(|folder| folder.read::<Warm>(WARM, &basis))
        && machine.restore(saved)
    {
        return Ok(steady);
    }
    let steady = warmed_up(machine, plan, watch)?;
    if let Some(folder) = folder
        && let Some(saved) = machine.saved()
    {
        folder.write(WARM, &basis, &(steady, saved));
    }
    Ok(steady)
}

const CALIBRATION: &str = "calibration";
const WARM: &str = "warm";

/// A folder of files, each of which holds something that a basis decides.
struct Folder {
    path: PathBuf,
    maker: u32,
    room_bytes: u64,
}

impl Folder {
    /// All that decides the contents of a file.
    fn key(&self, kind: &str, basis: &Plan) -> String {
        format!("{:08x} {kind} {basis:?}", self.maker)
    }

    fn file(&self, kind: &str, key: &str) -> PathBuf {
        // The file says which key it is of, so two keys of one name only displace each other.
        let name =
            u64::from(crc32c(key.as_bytes())) << 32 | u64::from(crc32c_append(1, key.as_bytes()));
        self.path.join(format!("{name:016x}.{kind}"))
    }

    /// What the file of `basis` holds, if it is whole.
    fn read<T: DeserializeOwned>(&self, kind: &str, basis: &Plan) -> Option<T> {
        let key = self.key(kind, basis);
        let path = self.file(kind, &key);
        let bytes = fs::read(&path).ok()?;
        let (checksum, held) = bytes.split_first_chunk()?;
        if crc32c(held) != u32::from_le_bytes(*checksum) {
            return None;
        }
        let (of, state) = postcard::take_from_bytes::<String>(held).ok()?;
        if of != key {
            return None;
        }
        let state = postcard::from_bytes(state).ok()?;
        // What was used last stays longest.
        let _stays_shorter = File::open(path).and_then(|file| file.set_modified(SystemTime::now()));
        Some(state)
    }

    /// Writes the file of `basis`, whole or not at all. What cannot be kept is made anew some day.
    fn write(&self, kind: &str, basis: &Plan, state: &impl Serialize) {
        let key = self.key(kind, basis);
        let held = postcard::to_stdvec(&(&key, state)).expect("states are plain data");
        let write = || {
            fs::create_dir_all(&self.path)?;
            let mut file = tempfile::NamedTempFile::new_in(&self.path)?;
            file.write_all(&crc32c(&held).to_le_bytes())?;
            file.write_all(&held)?;
            file.persist(self.file(kind, &key))?;
            self.make_room()
        };
        let _not_kept: Result<(), io::Error> = write();
    }

    /// Removes the files that were not used for longest until the others fit.
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
    use ebbtide_core::Span;
    use ebbtide_workloads::Kind;

    use super::*;
    use crate::designs::{compose, resolve};
    use crate::experiment::Simulation;
    use crate::offered::Offered;

    fn folder(path: &Path, room_bytes: u64) -> Folder {
        Folder { path: path.to_path_buf(), maker: 1, room_bytes }
    }

    fn plan(design: &str, workload: Kind, seed: u64) -> Plan {
        let config = resolve(design, &[]).unwrap().scaled(1, 1024);
        Plan { config, workload, jobs: 200, seed, arrivals: Offered::Saturating }
    }

    #[test]
    fn a_machine_warmed_by_a_file_does_what_one_does_that_was_warmed_by_jobs() {
        let path = tempfile::tempdir().unwrap();
        let folder = folder(path.path(), u64::MAX);
        let outcome = |plan: &Plan, folder: Option<&Folder>| {
            let (parts, watch) = (compose(&plan.config).unwrap(), Watch::unattended());
            let warm = |machine: &mut Machine| warm_by(folder, machine, plan, watch);
            let mut outcome =
                Simulation::by(plan, parts, watch, warm).unwrap().measure(watch).unwrap();
            (outcome.wall_s, outcome.accesses_per_wall_s) = (0.0, 0.0);
            format!("{outcome:?}")
        };
        let does_the_same = |(design, workload): (&str, Kind)| {
            let plan = plan(design, workload, 1);
            let by_jobs = outcome(&plan, None);
            outcome(&plan, Some(&folder));
            let kept: Option<Warm> = folder.read(WARM, &plan.warm_up_basis());
            assert!(kept.is_some(), "{design} under {workload:?}");
            assert_eq!(outcome(&plan, Some(&folder)), by_jobs, "{design} under {workload:?}");
        };
        std::thread::scope(|scope| {
            scope.spawn(|| does_the_same(("astriflash", Kind::Silo)));
            does_the_same(("astriflash", Kind::ArraySwap));
            does_the_same(("flash-sync", Kind::ArraySwap));
            does_the_same(("os-swap", Kind::HashTable));
        });
    }

    fn calibration(work_us: u64) -> Calibration {
        Calibration {
            lru_misses_per_job: 0.1,
            bare_job_ns: 1e3 / 3.0,
            work: Span::from_us(work_us),
            dram_jobs_per_s: 1e6,
        }
    }

    #[test]
    fn what_is_damaged_or_of_another_program_or_plan_is_not_used() {
        let path = tempfile::tempdir().unwrap();
        let own = folder(path.path(), u64::MAX);
        let basis = plan("astriflash", Kind::HashTable, 1).calibration_basis();
        own.write(CALIBRATION, &basis, &calibration(7));
        let read = |folder: &Folder, basis: &Plan| folder.read::<Calibration>(CALIBRATION, basis);
        assert_eq!(read(&own, &basis), Some(calibration(7)));
        assert_eq!(read(&Folder { maker: 2, ..folder(path.path(), u64::MAX) }, &basis), None);
        assert_eq!(read(&own, &Plan { seed: 2, ..basis.clone() }), None);
        let file = own.file(CALIBRATION, &own.key(CALIBRATION, &basis));
        let whole = fs::read(&file).unwrap();
        for cut in 0..whole.len() {
            fs::write(&file, &whole[..cut]).unwrap();
            assert_eq!(read(&own, &basis), None, "cut after {cut} bytes");
            let mut flipped = whole.clone();
            flipped[cut] ^= 1;
            fs::write(&file, flipped).unwrap();
            assert_eq!(read(&own, &basis), None, "byte {cut} is another one");
        }
        // The file of another key under the same name.
        own.write(CALIBRATION, &Plan { seed: 3, ..basis.clone() }, &calibration(8));
        let other = Plan { seed: 3, ..basis.clone() };
        fs::rename(own.file(CALIBRATION, &own.key(CALIBRATION, &other)), &file).unwrap();
        assert_eq!(read(&own, &basis), None);
    }

    #[test]
    fn what_was_not_used_for_longest_makes_room() {
        let path = tempfile::tempdir().unwrap();
        let roomy = folder(path.path(), u64::MAX);
        let bases = [1, 2, 3].map(|seed| plan("astriflash", Kind::HashTable, seed));
        for (basis, age) in bases.iter().zip([30, 20, 10]) {
            roomy.write(CALIBRATION, basis, &calibration(7));
            let file = File::open(roomy.file(CALIBRATION, &roomy.key(CALIBRATION, basis))).unwrap();
            file.set_modified(SystemTime::now() - std::time::Duration::from_secs(age)).unwrap();
        }
        let size = fs::read_dir(path.path()).unwrap().next().unwrap().unwrap().metadata().unwrap();
        assert!(roomy.read::<Calibration>(CALIBRATION, &bases[0]).is_some(), "it is used again");
        let tight = folder(path.path(), 2 * size.len() + size.len() / 2);
        tight.make_room().unwrap();
        let kept = bases.each_ref().map(|b| tight.read::<Calibration>(CALIBRATION, b).is_some());
        assert_eq!(kept, [true, false, true]);
    }

    #[test]
    fn a_folder_that_cannot_be_written_keeps_nothing_and_harms_nothing() {
        let nowhere = folder(Path::new("/proc/nowhere"), u64::MAX);
        let basis = plan("astriflash", Kind::HashTable, 1);
        nowhere.write(CALIBRATION, &basis, &calibration(7));
        assert_eq!(nowhere.read::<Calibration>(CALIBRATION, &basis), None);
    }
}
