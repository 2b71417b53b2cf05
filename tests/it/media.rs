//! Images: resizing, tiles and decoded files compared with Pillow and the reference processors
//! (`tests/data/media/make.py`), and damaged files.

use std::cell::Cell;
use std::fs;
use std::path::PathBuf;

use realizar::error::{Error, Result};
use realizar::media::{
    Filter, Grids, Layout, Narrow, Part, Picture, PixelFormat, Pixels, Sizing, Tiling, WHITE, patches,
};
use serde_json::Value;

const MANY: u64 = 1 << 26;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/media")
}

fn read(name: &str) -> Vec<u8> {
    fs::read(folder().join(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

fn expected() -> Value {
    serde_json::from_slice(&read("pictures.json")).expect("JSON")
}

fn list(value: &Value) -> &[Value] {
    value.as_array().expect("a list")
}

fn number(value: &Value) -> usize {
    value.as_u64().expect("a number") as usize
}

pub fn hash(picture: &Picture) -> String {
    assert_eq!(picture.rgb.len(), 3 * picture.width * picture.height);
    format!("{:016x}", twox_hash::XxHash64::oneshot(0, &picture.rgb))
}

/// `noise` of `make.py`.
fn noise(width: usize, height: usize) -> Picture {
    let byte = |i: u32| {
        let x = i.wrapping_mul(2654435761).wrapping_add((width * 31 + height) as u32);
        match ((x ^ x >> 15).wrapping_mul(2246822519) >> 24) as u8 {
            x if x < 43 => 0,
            x if x > 212 => 255,
            x => x,
        }
    };
    Picture { width, height, rgb: (0..(3 * width * height) as u32).map(byte).collect() }
}

fn filter(name: &Value) -> Filter {
    match name.as_str() {
        Some("bilinear") => Filter::Bilinear,
        Some("bicubic") => Filter::Bicubic,
        Some("lanczos") => Filter::Lanczos,
        Some("nearest") => Filter::Nearest,
        Some("box") => Filter::Box,
        Some("hamming") => Filter::Hamming,
        _ => panic!("{name}"),
    }
}

fn sizing(rule: &Value, filter: Filter) -> Sizing {
    let of = |name: &str| number(&rule[name]);
    match rule["rule"].as_str() {
        Some("square") => Sizing::Square { side: of("side"), filter },
        Some("shortest_edge") => Sizing::ShortestEdge { side: of("side"), filter },
        Some("expanded") => {
            let color = [0, 1, 2].map(|i| number(&rule["color"][i]) as u8);
            Sizing::Expanded { side: of("side"), color, filter }
        }
        Some("area") => {
            let narrow = match rule["narrow"].as_str() {
                None => Narrow::Own,
                Some("cut") => Narrow::Cut,
                Some("rounded") => Narrow::Rounded,
                Some(other) => panic!("{other}"),
            };
            Sizing::Area { grain: of("grain"), least: of("least"), most: of("most"), frames: 1, narrow, filter }
        }
        Some("padded") => {
            Sizing::Padded { patch: of("patch"), grain: of("grain"), most: of("most"), longest: of("longest"), filter }
        }
        Some("fitted") => Sizing::Fitted { grain: of("grain"), least: of("least"), most: of("most"), filter },
        Some("filled") => Sizing::Filled { patch: of("patch"), most: of("most"), filter },
        Some("rows") => Sizing::Rows { grain: of("grain"), rows: of("rows"), most: of("rows"), filter },
        Some("pinpoints") => {
            let mut grids = Grids::default();
            let pairs = list(&rule["grids"]).iter();
            grids.0.iter_mut().zip(pairs).for_each(|(grid, pair)| *grid = [0, 1].map(|i| number(&pair[i]) as u8));
            Sizing::Pinpoints { tile: of("tile"), grids, filter }
        }
        Some("canvas") => Sizing::Canvas { tile: of("tile"), max_tiles: of("max_tiles"), filter },
        Some("slices") => Sizing::Slices { side: of("side"), patch: of("patch"), max_tiles: of("max_tiles"), filter },
        Some("split_large") => Sizing::SplitLarge {
            grain: of("grain"),
            patch: of("patch"),
            least: of("least"),
            most: of("most"),
            large: of("large"),
            tile: of("tile"),
            min_tiles: of("min_tiles"),
            max_tiles: of("max_tiles"),
            filter,
        },
        Some("longest_edge") => Sizing::LongestEdge { longest: of("longest"), grain: of("grain"), filter },
        Some("split_longest") => Sizing::SplitLongest { longest: of("longest"), tile: of("tile"), filter },
        Some("split_ratio") => {
            Sizing::SplitRatio { tile: of("tile"), min_tiles: of("min_tiles"), max_tiles: of("max_tiles"), filter }
        }
        _ => panic!("{rule}"),
    }
}

#[test]
fn resizing_has_the_bytes_of_pillow() {
    let all = expected();
    assert!(list(&all["resized"]).len() > 30);
    for case in list(&all["resized"]) {
        let n: Vec<usize> = list(case).iter().take(4).map(number).collect();
        let resized = noise(n[0], n[1]).resize(n[2], n[3], filter(&case[4])).expect("resized");
        assert_eq!((resized.width, resized.height), (n[2], n[3]));
        assert_eq!(hash(&resized), case[5].as_str().unwrap(), "{case}");
    }
}

#[test]
fn a_part_of_a_resized_picture_is_what_it_is_in_the_whole() {
    let picture = noise(61, 47);
    for filter in [Filter::Nearest, Filter::Box, Filter::Hamming, Filter::Bilinear, Filter::Bicubic, Filter::Lanczos] {
        for (width, height) in [(30, 20), (100, 90), (61, 20), (20, 47), (61, 47)] {
            let whole = picture.resize(width, height, filter).unwrap();
            for part in [(0, 0, 5, 6), (3, 7, 17, 13), (width - 1, height - 1, 1, 1), (0, 5, width, 2)] {
                let part = Part { x: part.0, y: part.1, width: part.2, height: part.3 };
                let direct = picture.resize_part(width, height, part, filter).unwrap();
                assert!(direct == whole.crop(part).unwrap(), "{filter:?} {width} x {height} {part:?}");
            }
        }
    }
    // One column stretched to a strip, of which little is asked: the rest takes neither time nor memory.
    let part = Part { x: 0, y: 11_000_000, width: 336, height: 336 };
    let middle = noise(1, 65535).resize_part(336, 336 * 65535, part, Filter::Bicubic).unwrap();
    assert_eq!((middle.width, middle.height), (336, 336));
    let outside = |x, y, width, height| noise(4, 4).crop(Part { x, y, width, height });
    for part in [outside(0, 0, 5, 1), outside(0, 4, 1, 1), outside(0, 0, 0, 1), outside(usize::MAX, 0, 2, 2)] {
        assert!(matches!(part, Err(Error::InvalidArgument(_))), "{part:?}");
    }
    assert!(matches!(noise(4, 4).resize(0, 4, Filter::Lanczos), Err(Error::InvalidArgument(_))));
}

#[test]
fn sizes_are_those_of_the_makers() {
    let all = expected();
    let given = list(&all["sizes"]["given"]);
    let (mut seen, mut refused) = (0, 0);
    for rule in list(&all["sizes"]["rules"]) {
        let sizing = sizing(rule, Filter::Bicubic);
        assert_eq!(list(&rule["results"]).len(), given.len());
        for (size, result) in given.iter().zip(list(&rule["results"])) {
            let layout = sizing.layout(number(&size[0]), number(&size[1]));
            if result.is_null() {
                assert!(matches!(layout, Err(Error::InvalidArgument(_))), "{sizing:?} {size}: {layout:?}");
                refused += 1;
                continue;
            }
            let n: Vec<usize> = list(result).iter().map(number).collect();
            let layout = layout.unwrap_or_else(|e| panic!("{sizing:?} {size}: {e}"));
            let found = [layout.tile_width, layout.tile_height, layout.columns, layout.lines];
            assert_eq!(found[..], n[..], "{sizing:?} {size}");
            assert_eq!((layout.seen_width, layout.seen_height), (n[0] * n[2], n[1] * n[3]));
            assert_eq!(layout.overview, n[2] * n[3] > 1);
            seen += 1;
        }
    }
    assert!(seen > 1900 && refused > 50, "{seen} {refused}");
}

#[test]
fn tiles_are_those_of_the_makers() {
    for case in list(&expected()["tiles"]) {
        let sizing = sizing(case, filter(&case["filter"]));
        let picture = noise(number(&case["width"]), number(&case["height"]));
        let layout = sizing.layout(picture.width, picture.height).unwrap();
        let tiles = sizing.tiles(&picture, &layout).unwrap();
        assert_eq!(tiles.len(), layout.n_tiles());
        let found: Vec<(usize, usize, String)> = tiles.iter().map(|t| (t.width, t.height, hash(t))).collect();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let expected: Vec<(usize, usize, String)> =
            list(&case["tiles"]).iter().map(|t| (number(&t[0]), number(&t[1]), text(&t[2]))).collect();
        assert_eq!(found, expected, "{sizing:?} of {picture:?}");
    }
}

/// The work on tiles is cut between any two rows, and a reader of a file ends where it has to.
#[test]
fn pauses_change_no_pixel() {
    let mut pauses = 0;
    for case in list(&expected()["tiles"]) {
        let sizing = sizing(case, filter(&case["filter"]));
        let picture = noise(number(&case["width"]), number(&case["height"]));
        let layout = sizing.layout(picture.width, picture.height).unwrap();
        let (mut tiling, mut looks) = (Tiling::new(sizing, layout).unwrap(), 0);
        let mut pauses_each_third = || {
            looks += 1;
            looks % 3 == 0
        };
        while !tiling.advance(&picture, &mut pauses_each_third).unwrap() {
            pauses += 1;
        }
        assert!(tiling.finish() == sizing.tiles(&picture, &layout).unwrap(), "{sizing:?}");
    }
    assert!(pauses > 1000, "{pauses}");
    // Decoders that check at each row stop at a later check too.
    let rows: &[&str] = if cfg!(feature = "images") { &["rgb.bmp", "runs8.bmp", "clear.gif"] } else { &["rgb.bmp"] };
    for name in rows {
        let looks = Cell::new(0);
        let stops = || {
            looks.set(looks.get() + 1);
            looks.get() > 5
        };
        let stopped = Picture::decode_unless(&read(name), MANY, WHITE, &stops);
        assert!(matches!(stopped, Err(Error::Cancelled)), "{name}: {stopped:?}");
    }
    if cfg!(feature = "images") {
        for name in ["rgb.png", "420.jpg", "progressive.jpg", "lossy.webp", "palette.gif"] {
            let stopped = Picture::decode_unless(&read(name), MANY, WHITE, &|| true);
            assert!(matches!(stopped, Err(Error::Cancelled)), "{name}: {stopped:?}");
        }
    }
}

#[test]
fn sizes_without_sense_are_refused() {
    let filter = Filter::Bicubic;
    for sizing in [
        Sizing::Square { side: 0, filter },
        Sizing::Square { side: 1 << 20, filter },
        Sizing::Area { grain: 0, least: 1, most: 2, frames: 1, narrow: Narrow::Own, filter },
        Sizing::Area { grain: 28, least: 3, most: 2, frames: 1, narrow: Narrow::Own, filter },
        Sizing::Area { grain: 28, least: 0, most: usize::MAX, frames: 1, narrow: Narrow::Own, filter },
        Sizing::LongestEdge { longest: 0, grain: 16, filter },
        Sizing::LongestEdge { longest: 16, grain: 0, filter },
        Sizing::SplitLongest { longest: 2048, tile: 0, filter },
        Sizing::SplitRatio { tile: 448, min_tiles: 2, max_tiles: 1, filter },
        Sizing::SplitRatio { tile: 448, min_tiles: 1, max_tiles: usize::MAX, filter },
        Sizing::Rows { grain: 48, rows: 0, most: 1, filter },
        Sizing::Rows { grain: 0, rows: 280, most: 280, filter },
        Sizing::Pinpoints { tile: 336, grids: Grids::default(), filter },
        Sizing::Canvas { tile: 336, max_tiles: 0, filter },
        Sizing::Slices { side: 448, patch: 0, max_tiles: 9, filter },
        Sizing::Slices { side: 448, patch: 14, max_tiles: 0, filter },
        Sizing::SplitLarge {
            grain: 32,
            patch: 16,
            least: 1,
            most: 2,
            large: 4,
            tile: 512,
            min_tiles: 0,
            max_tiles: 2,
            filter,
        },
    ] {
        let layout = sizing.layout(640, 480);
        assert!(matches!(layout, Err(Error::InvalidArgument(_))), "{layout:?}");
    }
    for sizing in [
        Sizing::Square { side: 65535, filter },
        Sizing::LongestEdge { longest: 65535, grain: 65535, filter },
        Sizing::SplitRatio { tile: 65535, min_tiles: 1, max_tiles: 1024, filter },
    ] {
        let layout = sizing.layout(40000, 40000);
        assert!(matches!(layout, Err(Error::TooComplex(_))), "{layout:?}");
    }
    let square = Sizing::Square { side: 14, filter };
    assert!([(0, 1), (1, 0), (65536, 1)].iter().all(|&(w, h)| square.layout(w, h).is_err()));
}

#[test]
fn patches_are_those_of_the_maker() {
    let all = expected();
    let case = &all["normalized"];
    let three = |name: &str| -> [f32; 3] {
        let values: Vec<f32> = list(&case[name]).iter().map(|x| x.as_f64().unwrap() as f32).collect();
        values.try_into().unwrap()
    };
    let (patch, merge) = (number(&case["patch"]), number(&case["merge"]));
    let tile = noise(number(&case["width"]), number(&case["height"]));
    let rows = patches(&[&tile], patch, merge, [three("mean"), three("std")], false).unwrap();
    assert_eq!(rows.len(), number(&case["numbers"]));
    for (found, expected) in rows.iter().step_by(number(&case["every"])).zip(list(&case["values"])) {
        assert!((f64::from(*found) - expected.as_f64().unwrap()).abs() < 1e-6, "{found} {expected}");
    }
    // Without merging patches stand row by row: the second begins right of the first.
    let plain = patches(&[&tile], patch, 1, [[0.0; 3], [1.0; 3]], false).unwrap();
    assert_eq!(plain[3 * patch * patch], f32::from(tile.rgb[3 * patch]) / 255.0);
    for (patch, merge) in [(0, 1), (13, 1), (14, 5), (14, 0), (usize::MAX, 2)] {
        assert!(matches!(patches(&[&tile], patch, merge, [[0.0; 3], [1.0; 3]], false), Err(Error::InvalidArgument(_))));
    }
}

#[test]
fn pixels_of_the_host_are_taken_in_every_format() {
    let (width, height) = (3, 2);
    let picture = noise(width, height);
    let spread = |places: &[usize], gap: usize| -> Vec<u8> {
        let rows = picture.rgb.chunks(3 * width).map(|row| {
            let pixels = row.chunks(3).flat_map(|p| places.iter().map(|&i| *p.get(i).unwrap_or(&255)));
            pixels.chain(std::iter::repeat_n(9, gap)).collect::<Vec<u8>>()
        });
        rows.flatten().collect()
    };
    let formats: [(PixelFormat, &[usize]); 3] =
        [(PixelFormat::Rgb8, &[0, 1, 2]), (PixelFormat::Rgba8, &[0, 1, 2, 3]), (PixelFormat::Bgra8, &[2, 1, 0, 3])];
    for (format, places) in formats {
        for gap in [0, 5] {
            let data = spread(places, gap);
            let stride = if gap == 0 { 0 } else { places.len() * width + gap };
            let copy = |data| Picture::from_pixels(Pixels { format, width, height, stride, data }, WHITE);
            let found = copy(&data).unwrap();
            assert!(found == picture, "{format:?} {gap}");
            // Only the gap after the last row may be missing.
            let all = &data[..data.len() - gap];
            assert!(copy(all).is_ok());
            let short = copy(&all[..all.len() - 1]);
            assert!(matches!(short, Err(Error::InvalidArgument(_))), "{short:?}");
        }
    }
    let gray = Pixels { format: PixelFormat::Gray8, width: 2, height: 1, stride: 0, data: &[5, 250] };
    let gray = Picture::from_pixels(gray, WHITE).unwrap();
    assert_eq!(gray.rgb, [5, 5, 5, 250, 250, 250]);
    for (width, height, stride) in
        [(0, 1, 0), (1, 0, 0), (65536, 1, 0), (1, 65536, 0), (2, 2, 1), (2, 2, usize::MAX), (65535, 65535, 0)]
    {
        let pixels = Pixels { format: PixelFormat::Rgba8, width, height, stride, data: &[0; 64] };
        let refused = Picture::from_pixels(pixels, WHITE);
        assert!(matches!(refused, Err(Error::InvalidArgument(_))), "{width} {height} {stride}: {refused:?}");
    }
}

#[test]
fn transparent_pixels_show_the_color_behind_them() {
    let pixels = [10, 20, 30, 0, 10, 20, 30, 255, 0, 0, 0, 128, 255, 0, 100, 51];
    let seen = |format, background| {
        let pixels = Pixels { format, width: 4, height: 1, stride: 0, data: &pixels };
        Picture::from_pixels(pixels, background).expect("a picture").rgb
    };
    // Of Pillow's alpha_composite.
    let on_white = [255, 255, 255, 10, 20, 30, 127, 127, 127, 255, 204, 224];
    assert_eq!(seen(PixelFormat::Rgba8, WHITE), on_white);
    let on_blue = [0, 64, 200, 10, 20, 30, 0, 32, 100, 51, 51, 180];
    assert_eq!(seen(PixelFormat::Rgba8, [0, 64, 200]), on_blue);
    let mirrored = [0, 64, 200, 30, 20, 10, 0, 32, 100, 20, 51, 211];
    assert_eq!(seen(PixelFormat::Bgra8, [0, 64, 200]), mirrored);
    // Black on nothing is black on white, whatever the file.
    if cfg!(feature = "images") {
        for name in ["clear.webp", "clear-color.png", "clear-gray.png", "clear-palette.png", "rgba16.png"] {
            let [white, black] =
                [WHITE, [0; 3]].map(|background| Picture::decode(&read(name), MANY, background).expect("a picture"));
            assert!(white != black && white.rgb.iter().zip(&black.rgb).all(|(w, b)| w >= b), "{name}");
        }
    }
}

/// Runs of a bitmap: two pixels, a jump of one to the right and one up, a pixel, the end.
#[test]
fn jumps_of_bitmaps_leave_pixels_of_the_first_color() {
    let le = |x: u32| x.to_le_bytes();
    let colors: Vec<u8> = (0..4).flat_map(|i| [i, 10 * i, 20 * i, 0]).collect();
    let codes = [2, 1, 0, 2, 1, 1, 1, 3, 0, 1];
    let head = [&le(40)[..], &le(4), &le(3), &[1, 0, 8, 0], &le(1), &[0; 12], &le(4), &le(0)].concat();
    let file = [&b"BM"[..], &[0; 8], &le(70), &head, &colors, &codes].concat();
    let picture = Picture::decode(&file, MANY, WHITE).unwrap();
    let indices: Vec<u8> = picture.rgb.chunks(3).map(|pixel| pixel[2]).collect();
    assert_eq!(indices, [0, 0, 0, 0, 0, 0, 0, 3, 1, 1, 0, 0]);
    for end in 70..file.len() - 1 {
        assert!(matches!(Picture::decode(&file[..end], MANY, WHITE), Err(Error::Format { .. })), "{end}");
    }
    // Nothing is written beyond the picture, and a jump out of it ends it.
    let far = [&file[..70], &[0, 2, 255, 255, 9, 1]].concat();
    assert!(Picture::decode(&far, MANY, WHITE).unwrap().rgb == [0; 36]);
}

/// A picture of any proportions is padded without a picture of that square.
#[test]
fn long_pictures_are_padded_to_a_square() {
    let sizing = Sizing::Expanded { side: 28, color: [122, 116, 104], filter: Filter::Bicubic };
    for (width, height) in [(1, 65535), (65535, 1)] {
        let tiles = sizing.tiles(&noise(width, height), &sizing.layout(width, height).unwrap()).unwrap();
        let ground = tiles[0].rgb.chunks(3).filter(|pixel| *pixel == [122, 116, 104]).count();
        assert!(ground >= 28 * 26, "{ground}");
    }
    let red = Picture { width: 30, height: 10, rgb: [255, 0, 0].repeat(300) };
    let tile = &sizing.tiles(&red, &sizing.layout(30, 10).unwrap()).unwrap()[0];
    let [top, middle] = [0, 28 * 14 + 14].map(|at| tile.rgb[3 * at..][..3].to_vec());
    assert_eq!((top, middle), (vec![122, 116, 104], vec![255, 0, 0]));
}

/// Names of the files that were decoded by Pillow.
fn names() -> Vec<String> {
    let all = expected();
    list(&all["files"]).iter().map(|file| file[0].as_str().unwrap().to_owned()).collect()
}

#[cfg(feature = "images")]
#[test]
fn files_have_the_pixels_of_pillow() {
    let all = expected();
    assert!(list(&all["files"]).len() > 45);
    for file in list(&all["files"]) {
        let name = file[0].as_str().unwrap();
        let picture = Picture::decode(&read(name), MANY, WHITE).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!((picture.width, picture.height), (number(&file[1]), number(&file[2])), "{name}");
        if !name.ends_with(".jpg") {
            assert_eq!(hash(&picture), file[3].as_str().unwrap(), "{name}");
            continue;
        }
        // Decoders of JPEG round in their own ways.
        let theirs = Picture::decode(&read(&format!("{name}.png")), MANY, WHITE).unwrap();
        let off: Vec<u32> = picture.rgb.iter().zip(&theirs.rgb).map(|(a, b)| u32::from(a.abs_diff(*b))).collect();
        let (most, sum) = (off.iter().max().unwrap(), off.iter().sum::<u32>());
        let mean = f64::from(sum) / off.len() as f64;
        println!("{name}: at most {most}, {mean:.3} in the mean");
        assert!(*most <= 4 && mean < 0.5, "{name}: {most} {mean}");
    }
}

/// A call that may fail, but only as calls on damaged files do.
fn survives(name: &str, file: &[u8], max_pixels: u64) -> Option<Picture> {
    match Picture::decode(file, max_pixels, WHITE) {
        Ok(picture) => {
            assert_eq!(picture.rgb.len(), 3 * picture.width * picture.height, "{name}");
            assert!((picture.width * picture.height) as u64 <= max_pixels, "{name}");
            Some(picture)
        }
        Err(Error::Format { path, what }) => {
            assert!(!path.is_empty() && !what.is_empty(), "{name}");
            None
        }
        Err(Error::Unsupported(_) | Error::TooComplex(_)) => None,
        Err(e) => panic!("{name}: {e}"),
    }
}

#[test]
fn files_that_were_cut_off_are_refused() {
    for name in names() {
        let file = read(&name);
        let whole = survives(&name, &file, MANY);
        for length in 0..file.len() {
            let Some(picture) = survives(&name, &file[..length], MANY) else { continue };
            // A truncated file is decoded only if later images, or marks after the pixels, are missing.
            assert!(name.starts_with("animated") || file.len() - length <= 40, "{name} cut to {length}");
            assert!(Some(&picture) == whole.as_ref(), "{name} cut to {length}");
        }
    }
}

/// Number of rounds of a test that changes files at random: `few`, or as many as the variable ROUNDS says.
pub fn rounds(few: usize) -> usize {
    std::env::var("ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(few)
}

/// Numbers below `n`, the same in each run.
pub fn random_numbers() -> impl FnMut(usize) -> usize {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    move |n| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as usize % n
    }
}

#[test]
fn files_with_changed_bytes_do_no_harm() {
    let mut random = random_numbers();
    let mut refused = 0;
    for name in names() {
        let file = read(&name);
        for i in 0..rounds(120) {
            let mut changed = file.clone();
            for _ in 0..1 + i % 3 {
                // Half of the changes are in the headers.
                let most = if i % 2 == 0 { file.len() } else { file.len().min(100) };
                let at = random(most);
                changed[at] = [random(256) as u8, 0, 0xff, changed[at] ^ 1 << random(8)][random(4)];
            }
            refused += usize::from(survives(&name, &changed, 1 << 16).is_none());
        }
    }
    assert!(refused > 1000, "{refused}");
}

/// Headers of files that claim a size, and little else.
fn claims(width: u32, height: u32) -> Vec<(&'static str, Vec<u8>)> {
    let (be, le) = (|x: u32| x.to_be_bytes(), |x: u32| x.to_le_bytes());
    let (w, h) = (be(width), be(height));
    let head = [b"IHDR".as_slice(), &w, &h, &[8, 2, 0, 0, 0]].concat();
    let mut crc = !0u32;
    for byte in &head {
        crc ^= u32::from(*byte);
        (0..8).for_each(|_| crc = crc >> 1 ^ if crc & 1 == 1 { 0xedb88320 } else { 0 });
    }
    let png = [b"\x89PNG\r\n\x1a\n\0\0\0\x0d".as_slice(), &head, &be(!crc), &be(0), b"IDAT"].concat();
    let sof = [b"\xff\xd8\xff\xc0\0\x0b\x08".as_slice(), &h[2..], &w[2..], b"\x01\x01\x11\0"].concat();
    let jpeg = [&sof[..], b"\xff\xda\0\x08\x01\x01\0\0\x3f\0\0\0\0\0\0\0"].concat();
    let bmp = [b"BM".as_slice(), &[0; 8], &le(54), &le(40), &le(width), &le(height), &[1, 0, 24, 0], &[0; 24]].concat();
    let three = |x: u32| le(x.wrapping_sub(1))[..3].to_vec();
    let extended = [b"VP8X\x0a\0\0\0\0\0\0\0".as_slice(), &three(width), &three(height)].concat();
    let frame = b"VP8 \x0a\0\0\0\x10\0\0\x9d\x01\x2a\x01\0\x01\0";
    let webp = [b"RIFF\x28\0\0\0WEBP".as_slice(), &extended, frame].concat();
    let short = |x: u32| (x.min(65535) as u16).to_le_bytes();
    let image = [b"\x2c\0\0\0\0".as_slice(), &short(width), &short(height), &[0, 2, 1, 0x44]].concat();
    let gif = [b"GIF89a".as_slice(), &short(width), &short(height), &[0x80, 0, 0], &[0; 6], &image].concat();
    vec![("PNG", png), ("JPEG", jpeg), ("BMP", bmp), ("WebP", webp), ("GIF", gif)]
}

fn decoders_are_here(name: &str) -> bool {
    cfg!(feature = "images") || name == "BMP"
}

#[test]
fn sizes_that_headers_claim_are_checked_first() {
    let refused = |width, height, max_pixels: u64, is_expected: fn(&Result<Picture>) -> bool| {
        for (name, file) in claims(width, height).iter().filter(|(name, _)| decoders_are_here(name)) {
            // JPEG and GIF have sides of 16 bits, and WebP no side without pixels.
            if ["JPEG", "GIF"].contains(name) && width > 65535 || *name == "WebP" && width == 0 {
                continue;
            }
            let found = Picture::decode(file, max_pixels, WHITE);
            assert!(is_expected(&found), "{name} of {width} x {height}: {found:?}");
        }
    };
    let is_large = |found: &Result<Picture>| matches!(found, Err(Error::TooComplex(what)) if what.contains("65535"));
    refused(65535, 65535, MANY, is_large);
    refused(65535, 65535, u64::MAX, is_large);
    refused(65536, 1, MANY, is_large);
    refused(100, 100, 9999, is_large);
    refused(0, 0, MANY, |found| matches!(found, Err(Error::Format { .. })));
    // Within the bounds the rest of the file is missed.
    refused(100, 100, 10000, |found| matches!(found, Err(Error::Format { .. })));
}

#[cfg(feature = "images")]
#[test]
fn frames_larger_than_their_picture_are_refused() {
    let huge = b"VP8 \x0a\0\0\0\x10\0\0\x9d\x01\x2a\xff\x3f\xff\x3f";
    let extended = |flags: u8| [b"VP8X\x0a\0\0\0", &[flags, 0, 0, 0][..], &[0; 6]].concat();
    let still = [b"RIFF\x28\0\0\0WEBP".as_slice(), &extended(0), huge].concat();
    let anim = b"ANIM\x06\0\0\0\0\0\0\0\0\0ANMF\x22\0\0\0";
    let animated = [b"RIFF\x60\0\0\0WEBP".as_slice(), &extended(2), anim, &[0; 16], huge].concat();
    for file in [still, animated] {
        let found = Picture::decode(&file, MANY, WHITE);
        let is_named = matches!(&found, Err(Error::Format { what, .. }) if what.contains("16383 x 16383"));
        assert!(is_named, "{found:?}");
    }
}

#[test]
fn other_formats_are_refused_by_their_names() {
    let others: [(&str, &[u8]); 13] = [
        ("HEIC", b"\0\0\0\x18ftypheic"),
        ("HEIC", b"\0\0\0\x18ftypmif1"),
        ("AVIF", b"\0\0\0\x18ftypavif"),
        ("TIFF", b"II*\0"),
        ("TIFF", b"MM\0*"),
        ("SVG", b"<svg xmlns="),
        ("SVG", b"\xef\xbb\xbf\n <?xml version="),
        ("PSD", b"8BPS"),
        ("JPEG XL", b"\xff\x0a"),
        ("JPEG XL", b"\0\0\0\x0cJXL \r\n\x87\n"),
        ("JPEG 2000", b"\0\0\0\x0cjP  \r\n\x87\n"),
        ("ICO", b"\0\0\x01\0\x01\0"),
        ("PDF", b"%PDF-1.7"),
    ];
    for (name, file) in others {
        let found = Picture::decode(file, MANY, WHITE);
        assert!(matches!(&found, Err(Error::Unsupported(what)) if what.contains(name)), "{name}: {found:?}");
    }
    for file in [&b""[..], b"\0", b"text of no format", b"RIFF\0\0\0\0WAVE"] {
        assert!(matches!(Picture::decode(file, MANY, WHITE), Err(Error::Format { .. })), "{file:?}");
    }
    if cfg!(not(feature = "images")) {
        let found = Picture::decode(&read("rgb.png"), MANY, WHITE);
        assert!(matches!(&found, Err(Error::Unsupported(what)) if what.contains("PNG")), "{found:?}");
    }
}

#[test]
fn a_layout_counts_its_tiles() {
    let sizing = Sizing::SplitRatio { tile: 28, min_tiles: 1, max_tiles: 6, filter: Filter::Bicubic };
    let expected = Layout {
        tile_width: 28,
        tile_height: 28,
        columns: 3,
        lines: 1,
        overview: true,
        overview_width: 28,
        overview_height: 28,
        width: 300,
        height: 100,
        seen_width: 84,
        seen_height: 28,
        pairs: 0,
    };
    assert_eq!(sizing.layout(300, 100).unwrap(), expected);
    assert_eq!(expected.n_tiles(), 4);
    assert_eq!(sizing.layout(28, 28).unwrap().n_tiles(), 1);
}
