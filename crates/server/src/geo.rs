//! [`Point`]s on the Earth, their [geohashes](Point::encode) of 52 bits as Redis has them, and the
//! [`Area`]s of searches.

/// Radius of the Earth in meters.
const EARTH_M: f64 = 6_372_797.560_856;

/// The greatest longitude, and the greatest latitude of the projection, in degrees.
const LONGITUDE_MAX: f64 = 180.0;
const LATITUDE_MAX: f64 = 85.051_128_78;

/// Bits of a geohash for the longitude, and as many for the latitude.
const STEPS: u32 = 26;

/// The most cells that cover an area.
const CELLS_MAX: u64 = 16;

/// Degrees that cells cover beyond an area. They allow for rounded distances.
const MARGIN: f64 = 1e-7;

/// Characters of the standard geohash.
const ALPHABET: &[u8; 32] = b"0123456789bcdefghjkmnpqrstuvwxyz";

/// A place on the Earth.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// Degrees to the east.
    pub longitude: f64,
    /// Degrees to the north.
    pub latitude: f64,
}

impl Point {
    /// True if it has a geohash.
    pub fn is_valid(&self) -> bool {
        self.longitude.abs() <= LONGITUDE_MAX && self.latitude.abs() <= LATITUDE_MAX
    }

    /// Returns the geohash: bits of the longitude and the latitude in turn.
    pub fn encode(&self) -> u64 {
        self.encode_within(LATITUDE_MAX)
    }

    /// As [`encode`](Point::encode), with this greatest latitude.
    fn encode_within(&self, latitude_max: f64) -> u64 {
        let place = |value: f64, most: f64| cell(value, most, STEPS);
        join(place(self.longitude, LONGITUDE_MAX), place(self.latitude, latitude_max))
    }

    /// Returns the point in the middle of a geohash.
    pub fn decode(hash: u64) -> Point {
        let middle = |place: u64, most: f64| {
            let edge = |place: u64| -most + place as f64 / f64::from(1 << STEPS) * (2.0 * most);
            ((edge(place) + edge(place + 1)) / 2.0).clamp(-most, most)
        };
        Point {
            longitude: middle(every_other(hash >> 1), LONGITUDE_MAX),
            latitude: middle(every_other(hash), LATITUDE_MAX),
        }
    }

    /// As [`decode`](Point::decode), of any score. Redis casts it to 64 bits, as x86-64 does.
    pub fn of_score(score: f64) -> Point {
        const MOST: f64 = 18_446_744_073_709_551_616.0;
        Point::decode(match score {
            ..0.0 => score as i64 as u64,
            MOST.. => 0,
            _ => score as u64,
        })
    }

    /// Returns the standard geohash of eleven characters. The last one is always 0, as in Redis.
    pub fn text(&self) -> [u8; 11] {
        let hash = self.encode_within(90.0);
        std::array::from_fn(|index| match index {
            10 => ALPHABET[0],
            index => ALPHABET[(hash >> (2 * STEPS as usize - 5 * (index + 1))) as usize & 31],
        })
    }

    /// Returns the distance in meters on a sphere (haversine).
    pub fn distance(&self, other: &Point) -> f64 {
        let half = ((other.longitude.to_radians() - self.longitude.to_radians()) / 2.0).sin();
        if half == 0.0 {
            return self.distance_north(other);
        }
        let (one, two) = (self.latitude.to_radians(), other.latitude.to_radians());
        let north = ((two - one) / 2.0).sin();
        let square = north * north + one.cos() * two.cos() * half * half;
        2.0 * EARTH_M * square.sqrt().asin()
    }

    /// Returns the distance in meters between the latitudes.
    fn distance_north(&self, other: &Point) -> f64 {
        EARTH_M * (other.latitude.to_radians() - self.latitude.to_radians()).abs()
    }
}

/// Returns the number of the cell of a coordinate, if there are 2^`steps` between `-most` and
/// `most`.
fn cell(value: f64, most: f64, steps: u32) -> u64 {
    ((value + most) / (2.0 * most) * f64::from(1 << steps)) as u64
}

/// Joins the bits of two cells in turn. The last bit is one of the latitude.
fn join(longitude: u64, latitude: u64) -> u64 {
    spread(longitude) << 1 | spread(latitude)
}

/// Puts a zero above each bit of a number of 32 bits.
fn spread(mut bits: u64) -> u64 {
    for (shift, mask) in [
        (16, 0x0000_ffff_0000_ffff),
        (8, 0x00ff_00ff_00ff_00ff),
        (4, 0x0f0f_0f0f_0f0f_0f0f),
        (2, 0x3333_3333_3333_3333),
        (1, 0x5555_5555_5555_5555),
    ] {
        bits = (bits | bits << shift) & mask;
    }
    bits
}

/// Takes the bits that [`spread`] has put apart.
fn every_other(bits: u64) -> u64 {
    (0..32).fold(0, |all, bit| all | (bits >> (2 * bit) & 1) << bit)
}

/// The extent of an area, in meters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Extent {
    /// A circle with this radius.
    Radius(f64),
    /// A box.
    Box {
        /// From west to east.
        width: f64,
        /// From south to north.
        height: f64,
    },
}

/// An area around a point.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Area {
    /// Its middle.
    pub center: Point,
    /// Its extent.
    pub extent: Extent,
}

impl Area {
    /// Returns the distance of a point from the center; `None` if it is outside.
    pub fn distance(&self, point: &Point) -> Option<f64> {
        let distance = self.center.distance(point);
        let inside = match self.extent {
            Extent::Radius(radius) => distance <= radius,
            Extent::Box { width, height } => {
                let beside = Point { longitude: self.center.longitude, ..*point };
                self.center.distance_north(point) <= height / 2.0
                    && point.distance(&beside) <= width / 2.0
            }
        };
        inside.then_some(distance)
    }

    /// Returns ranges of geohashes that cover the area, in ascending order. The ends are outside.
    pub fn ranges(&self) -> Vec<(u64, u64)> {
        let (north, east) = self.half_degrees();
        let Point { longitude, latitude } = self.center;
        let within = |latitude: f64| latitude.clamp(-LATITUDE_MAX, LATITUDE_MAX);
        let latitudes = (within(latitude - north), within(latitude + north));
        let (west, east) = (longitude - east, longitude + east);
        // An area may lie on both sides of the antimeridian.
        let all = 2.0 * LONGITUDE_MAX;
        let longitudes = match (west < -LONGITUDE_MAX, east > LONGITUDE_MAX) {
            _ if east - west >= all => vec![(-LONGITUDE_MAX, LONGITUDE_MAX)],
            (true, _) => vec![(-LONGITUDE_MAX, east), (west + all, LONGITUDE_MAX)],
            (_, true) => vec![(-LONGITUDE_MAX, east - all), (west, LONGITUDE_MAX)],
            _ => vec![(west, east)],
        };
        let parts = |steps: u32| {
            let rows = cells(latitudes, LATITUDE_MAX, steps);
            let columns = longitudes.iter().map(move |part| cells(*part, LONGITUDE_MAX, steps));
            columns.map(move |columns| (columns, rows))
        };
        let count = |steps: u32| -> u64 {
            parts(steps).map(|(columns, rows)| (columns.1 - columns.0) * (rows.1 - rows.0)).sum()
        };
        let steps = (2..=STEPS).rev().find(|steps| count(*steps) <= CELLS_MAX).unwrap_or(1);
        let mut cells: Vec<u64> = parts(steps)
            .flat_map(|(columns, rows)| {
                (columns.0..columns.1)
                    .flat_map(move |column| (rows.0..rows.1).map(move |row| join(column, row)))
            })
            .collect();
        cells.sort_unstable();
        cells.dedup();
        let shift = 2 * (STEPS - steps);
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        for cell in cells {
            let (start, end) = (cell << shift, (cell + 1) << shift);
            match ranges.last_mut() {
                Some(last) if last.1 == start => last.1 = end,
                _ => ranges.push((start, end)),
            }
        }
        ranges
    }

    /// Returns half of its extent in degrees, to the north and to the east.
    fn half_degrees(&self) -> (f64, f64) {
        let latitude = self.center.latitude.to_radians();
        let (north, east) = match self.extent {
            Extent::Radius(radius) => {
                let angle = radius / EARTH_M;
                let has_pole = latitude.abs() + angle >= std::f64::consts::FRAC_PI_2;
                let east = if has_pole { f64::NAN } else { (angle.sin() / latitude.cos()).asin() };
                (angle, east)
            }
            Extent::Box { width, height } => {
                let north = height / 2.0 / EARTH_M;
                let farthest = (latitude.abs() + north).min(LATITUDE_MAX.to_radians());
                let quarter = width / 4.0 / EARTH_M;
                let is_all = quarter >= std::f64::consts::FRAC_PI_2;
                let sine = if is_all { f64::NAN } else { quarter.sin() / farthest.cos() };
                (north, 2.0 * sine.asin())
            }
        };
        // All longitudes, if there is no limit.
        let east = if east.is_nan() { LONGITUDE_MAX } else { east.to_degrees() + MARGIN };
        (north.to_degrees() + MARGIN, east)
    }
}

/// Returns the first cell of a range of coordinates, and the first one after it.
fn cells((least, greatest): (f64, f64), most: f64, steps: u32) -> (u64, u64) {
    (cell(least, most, steps), cell(greatest, most, steps) + 1)
}
