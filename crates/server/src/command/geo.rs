//! Commands on places. They are members of sorted sets, with geohashes as scores.

use ebbtide_core::FullMemory;
use ebbtide_structures::keyspace::{Collection, Kind, Score};

use super::building::Building;
use super::sorted_sets::{AddOptions, add_all, check_member, score_of};
use super::{Call, Failure, LONG_REPLY, NOT_FLOAT, NOT_INTEGER, Outcome, SYNTAX, Stop};
use crate::geo::{Area, Extent, Point};
use crate::number;
use crate::protocol::Protocol;

const BAD_UNIT: &str = "ERR unsupported unit provided. please use M, KM, FT, MI";

/// DRAM bytes of a found place, without its member.
const FOUND_BYTES: usize = 64;

/// Returns the meters of a unit.
fn unit(name: &[u8]) -> Result<f64, Failure> {
    Ok(match name.to_ascii_lowercase().as_slice() {
        b"m" => 1.0,
        b"km" => 1000.0,
        b"ft" => 0.3048,
        b"mi" => 1609.34,
        _ => return Err(BAD_UNIT.into()),
    })
}

/// Parses a longitude and a latitude.
fn point(longitude: &[u8], latitude: &[u8]) -> Result<Point, Failure> {
    let parse = |text| number::float(text).ok_or(Failure::from(NOT_FLOAT));
    let point = Point { longitude: parse(longitude)?, latitude: parse(latitude)? };
    match point.is_valid() {
        true => Ok(point),
        false => {
            let Point { longitude, latitude } = point;
            let text = format!("ERR invalid longitude,latitude pair {longitude:.6},{latitude:.6}");
            Err(text.into())
        }
    }
}

/// Returns the place of a member.
fn place_of<M: FullMemory>(
    call: &mut Call<'_, M>,
    set: Option<&Collection>,
    member: &[u8],
) -> Option<Point> {
    score_of(call, set?, member).map(Point::of_score)
}

pub(super) fn geoadd<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let (mut options, mut index) = (AddOptions::default(), 2);
    while index < call.arguments.len() && options.read(call.arguments[index], &["NX", "XX", "CH"]) {
        index += 1;
    }
    let (places, odd) = call.arguments[index..].as_chunks::<3>();
    if !odd.is_empty() || places.is_empty() || options.check(1).is_err() {
        return Err(SYNTAX.into());
    }
    let mut members = Vec::with_capacity(places.len());
    for [longitude, latitude, member] in places {
        members.push((point(longitude, latitude)?.encode() as f64, *member));
    }
    members.iter().try_for_each(|(_, member)| check_member(member))?;
    add_all(call, options, &members)
}

pub(super) fn geodist<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let meters = match &call.arguments[4..] {
        [] => 1.0,
        [name] => unit(name)?,
        _ => return Err(SYNTAX.into()),
    };
    let key = call.key(1);
    let set = call.collection(&key, Kind::SortedSet)?;
    let [one, other] = [2, 3].map(|index| place_of(call, set.as_ref(), call.arguments[index]));
    match one.zip(other) {
        Some((one, other)) => reply_distance(call, one.distance(&other) / meters),
        None => call.reply.null(),
    }
    Ok(())
}

fn reply_distance<M>(call: &mut Call<'_, M>, distance: f64) {
    call.reply.bulk(format!("{distance:.4}").as_bytes());
}

/// Replies with a longitude and a latitude.
fn reply_point<M>(call: &mut Call<'_, M>, point: &Point) {
    call.reply.array(2);
    for degrees in [point.longitude, point.latitude] {
        let digits = format!("{degrees:.17}");
        let digits = digits.trim_end_matches('0').trim_end_matches('.');
        match call.reply.protocol {
            Protocol::Three => call.reply.raw(format!(",{digits}\r\n").as_bytes()),
            Protocol::Two => call.reply.bulk(digits.as_bytes()),
        }
    }
}

pub(super) fn geohash<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    each_place(call, |call, place| {
        call.reply.bulk_or_null(place.map(|place| place.text()).as_ref().map(|text| &text[..]));
    })
}

pub(super) fn geopos<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    each_place(call, |call, place| match place {
        Some(place) => reply_point(call, &place),
        None => call.reply.null_array(),
    })
}

/// Replies with the places of members.
fn each_place<M: FullMemory>(
    call: &mut Call<'_, M>,
    reply: impl Fn(&mut Call<'_, M>, Option<Point>),
) -> Outcome {
    let (key, members) = (call.key(1), &call.arguments[2..]);
    let set = call.collection(&key, Kind::SortedSet)?;
    call.visits(members.len() as u64)?;
    call.reply.array(members.len());
    for (index, member) in members.iter().enumerate() {
        let place = place_of(call, set.as_ref(), member);
        reply(call, place);
        if index % 64 == 63 {
            call.pause()?;
        }
    }
    Ok(())
}

/// Returns the place of the member that a search starts from. Without a set, returns any place: the
/// search ends after its options were checked.
fn center_at<M: FullMemory>(
    call: &mut Call<'_, M>,
    set: Option<&Collection>,
    member: &[u8],
) -> Result<Point, Failure> {
    let nowhere = Point { longitude: 0.0, latitude: 0.0 };
    let place = set.map_or(Some(nowhere), |set| place_of(call, Some(set), member));
    Ok(place.ok_or("ERR could not decode requested zset member")?)
}

/// Options of a search.
#[derive(Default)]
struct Search<'a> {
    center: Option<Point>,
    extent: Option<Extent>,
    /// Meters of the unit of distances.
    meters: f64,
    /// True if the nearest comes first, false if it comes last.
    nearest_first: Option<bool>,
    count: Option<u64>,
    any: bool,
    with_distance: bool,
    with_hash: bool,
    with_point: bool,
    stores_distance: bool,
    /// The key that gets the result, of an option.
    to: Option<&'a [u8]>,
}

/// The options that a command takes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// `GEOSEARCH`.
    Search,
    /// `GEOSEARCHSTORE`.
    Store,
    /// `GEORADIUS` and `GEORADIUSBYMEMBER`.
    Radius,
    /// Their forms that only read.
    RadiusReads,
}

/// Parses the length of an area.
fn length(text: &[u8], what: &str) -> Result<f64, Failure> {
    number::float(text).ok_or_else(|| format!("ERR need numeric {what}").into())
}

impl<'a> Search<'a> {
    /// Parses the options from argument `index` on.
    fn parse<M: FullMemory>(
        mut self,
        call: &mut Call<'a, M>,
        mut index: usize,
        set: Option<&Collection>,
        form: Form,
    ) -> Result<Search<'a>, Stop> {
        while index < call.arguments.len() {
            index += self.option(call, index, set, form)?;
        }
        let mut search = self;
        let name = String::from_utf8_lossy(call.arguments[0]);
        let shows = search.with_distance || search.with_hash || search.with_point;
        if shows && (form == Form::Store || search.to.is_some()) {
            let what = match form {
                Form::Store => "GEOSEARCHSTORE",
                _ => "STORE option in GEORADIUS",
            };
            let text = format!(
                "ERR {what} is not compatible with WITHDIST, WITHHASH and WITHCOORD options"
            );
            return Err(text.into());
        }
        let missing = |names: &str| {
            Failure::from(format!("ERR exactly one of {names} can be specified for {name}"))
        };
        search.center.ok_or_else(|| missing("FROMMEMBER or FROMLONLAT"))?;
        search.extent.ok_or_else(|| missing("BYRADIUS and BYBOX"))?;
        if search.any && search.count.is_none() {
            return Err("ERR the ANY argument requires COUNT argument".into());
        }
        if search.count.is_some() && !search.any && search.nearest_first.is_none() {
            search.nearest_first = Some(true);
        }
        Ok(search)
    }

    /// Parses an option. Returns the number of its arguments.
    fn option<M: FullMemory>(
        &mut self,
        call: &mut Call<'a, M>,
        index: usize,
        set: Option<&Collection>,
        form: Form,
    ) -> Result<usize, Stop> {
        let rest = &call.arguments[index + 1..];
        let searches = matches!(form, Form::Search | Form::Store);
        let width = match (call.arguments[index].to_ascii_uppercase().as_slice(), rest) {
            (b"WITHDIST", _) => Search::set(&mut self.with_distance),
            (b"WITHHASH", _) => Search::set(&mut self.with_hash),
            (b"WITHCOORD", _) => Search::set(&mut self.with_point),
            (b"ANY", _) => Search::set(&mut self.any),
            (b"STOREDIST", _) if form == Form::Store => Search::set(&mut self.stores_distance),
            (b"ASC", _) => {
                self.nearest_first = Some(true);
                1
            }
            (b"DESC", _) => {
                self.nearest_first = Some(false);
                1
            }
            (b"COUNT", [count, ..]) => {
                let count = number::integer(count).ok_or(NOT_INTEGER)?;
                let count = u64::try_from(count).ok().filter(|count| *count > 0);
                self.count = Some(count.ok_or("ERR COUNT must be > 0")?);
                2
            }
            (word @ (b"STORE" | b"STOREDIST"), [key, ..]) if form == Form::Radius => {
                (self.to, self.stores_distance) = (Some(*key), word == b"STOREDIST");
                2
            }
            (b"FROMMEMBER", [member, ..]) if searches && self.center.is_none() => {
                self.center = Some(center_at(call, set, member)?);
                2
            }
            (b"FROMLONLAT", [longitude, latitude, ..]) if searches && self.center.is_none() => {
                self.center = Some(point(longitude, latitude)?);
                3
            }
            (b"BYRADIUS", [radius, name, ..]) if searches && self.extent.is_none() => {
                self.set_radius(radius, name)?;
                3
            }
            (b"BYBOX", [width, height, name, ..]) if searches && self.extent.is_none() => {
                let (width, height) = (length(width, "width")?, length(height, "height")?);
                if width < 0.0 || height < 0.0 {
                    return Err("ERR height or width cannot be negative".into());
                }
                self.meters = unit(name)?;
                let (width, height) = (width * self.meters, height * self.meters);
                self.extent = Some(Extent::Box { width, height });
                4
            }
            _ => return Err(SYNTAX.into()),
        };
        Ok(width)
    }

    fn set_radius(&mut self, radius: &[u8], name: &[u8]) -> Outcome {
        let radius = length(radius, "radius")?;
        if radius < 0.0 {
            return Err("ERR radius cannot be negative".into());
        }
        self.meters = unit(name)?;
        self.extent = Some(Extent::Radius(radius * self.meters));
        Ok(())
    }

    fn set(option: &mut bool) -> usize {
        *option = true;
        1
    }

    /// Returns the places in the area, as many and in the order that the options say.
    fn run<M: FullMemory>(
        &self,
        call: &mut Call<'_, M>,
        set: &Collection,
    ) -> Result<Vec<Found>, Stop> {
        let (Some(center), Some(extent)) = (self.center, self.extent) else {
            return Ok(Vec::new());
        };
        let area = Area { center, extent };
        let most = self.count.unwrap_or(u64::MAX) as usize;
        let (mut found, mut bytes) = (Vec::new(), 0);
        let limit = call.state.settings().argument_bytes_max;
        for (start, end) in area.ranges() {
            if self.any && found.len() >= most {
                break;
            }
            let rank = |hash: u64| Score::of(hash as f64).0;
            let from = set.rank_of(call.memory, &rank(start));
            let to = set.rank_of(call.memory, &rank(end));
            call.each_element(set, (from, to.saturating_sub(from)), |_, element| {
                let (score, member) = Score::split(element);
                let place = Point::of_score(score);
                let Some(distance) = area.distance(&place) else { return Ok(()) };
                bytes += member.len() + FOUND_BYTES;
                if bytes > limit {
                    return Err(LONG_REPLY.into());
                }
                found.push(Found { distance, score, place, member: member.to_vec() });
                Ok(())
            })?;
        }
        if self.any {
            found.truncate(most);
        }
        if let Some(nearest_first) = self.nearest_first {
            found.sort_by(|one, other| {
                let order = one.distance.total_cmp(&other.distance);
                if nearest_first { order } else { order.reverse() }
            });
        }
        found.truncate(most);
        Ok(found)
    }
}

/// A place that was found.
struct Found {
    /// Meters from the center.
    distance: f64,
    score: f64,
    place: Point,
    member: Vec<u8>,
}

pub(super) fn geosearch<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let key = call.key(1);
    let set = call.collection(&key, Kind::SortedSet)?;
    let search = Search::default().parse(call, 2, set.as_ref(), Form::Search)?;
    reply(call, &search, set.as_ref())
}

pub(super) fn geosearchstore<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let from = call.key(2);
    let set = call.collection(&from, Kind::SortedSet)?;
    let search = Search::default().parse(call, 3, set.as_ref(), Form::Store)?;
    store(call, &search, set.as_ref(), call.arguments[1])
}

pub(super) fn georadius<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    around_point(call, Form::Radius)
}

pub(super) fn georadius_ro<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    around_point(call, Form::RadiusReads)
}

pub(super) fn georadiusbymember<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    around_member(call, Form::Radius)
}

pub(super) fn georadiusbymember_ro<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    around_member(call, Form::RadiusReads)
}

/// Runs `GEORADIUS`.
fn around_point<M: FullMemory>(call: &mut Call<'_, M>, form: Form) -> Outcome {
    let key = call.key(1);
    let set = call.collection(&key, Kind::SortedSet)?;
    let center = Some(point(call.arguments[2], call.arguments[3])?);
    let mut search = Search { center, ..Search::default() };
    search.set_radius(call.arguments[4], call.arguments[5])?;
    around(call, search, 6, set.as_ref(), form)
}

/// Runs `GEORADIUSBYMEMBER`.
fn around_member<M: FullMemory>(call: &mut Call<'_, M>, form: Form) -> Outcome {
    let key = call.key(1);
    let set = call.collection(&key, Kind::SortedSet)?;
    let center = Some(center_at(call, set.as_ref(), call.arguments[2])?);
    let mut search = Search { center, ..Search::default() };
    let radius = search.set_radius(call.arguments[3], call.arguments[4]);
    // As in Redis, the radius is not looked at if the set is missing.
    if set.is_some() {
        radius?;
    }
    search.extent = search.extent.or(Some(Extent::Radius(0.0)));
    around(call, search, 5, set.as_ref(), form)
}

/// Parses the options from argument `index` on, and runs the search.
fn around<'a, M: FullMemory>(
    call: &mut Call<'a, M>,
    search: Search<'a>,
    index: usize,
    set: Option<&Collection>,
    form: Form,
) -> Outcome {
    let search = search.parse(call, index, set, form)?;
    match search.to {
        Some(to) => store(call, &search, set, to),
        None => reply(call, &search, set),
    }
}

fn reply<M: FullMemory>(
    call: &mut Call<'_, M>,
    search: &Search<'_>,
    set: Option<&Collection>,
) -> Outcome {
    let found = match set {
        Some(set) => search.run(call, set)?,
        None => Vec::new(),
    };
    let options = [search.with_distance, search.with_hash, search.with_point];
    let parts = options.iter().filter(|given| **given).count();
    call.reply.array(found.len());
    for (index, Found { distance, score, place, member }) in found.iter().enumerate() {
        if parts > 0 {
            call.reply.array(parts + 1);
        }
        call.reply.bulk(member);
        if search.with_distance {
            reply_distance(call, distance / search.meters);
        }
        if search.with_hash {
            call.reply.integer(*score as i64);
        }
        if search.with_point {
            reply_point(call, place);
        }
        if index % 64 == 63 {
            call.pause()?;
        }
    }
    Ok(())
}

fn store<M: FullMemory>(
    call: &mut Call<'_, M>,
    search: &Search<'_>,
    set: Option<&Collection>,
    to: &[u8],
) -> Outcome {
    let to = call.keyspace().key(to);
    let found = match set {
        Some(set) => search.run(call, set)?,
        None => Vec::new(),
    };
    let mut building = Building::new(call, &to, Kind::SortedSet);
    for Found { distance, score, member, .. } in &found {
        let stored = if search.stores_distance { distance / search.meters } else { *score };
        building.add(call, &to, &Score::of(stored).with(member))?;
    }
    let database = call.session.database;
    let count = building.finish(call, (database, &to), None)?;
    call.reply.integer(count as i64);
    Ok(())
}
