//! Numbers in files determine neither the duration nor the behavior of a call: tiling rules with the largest numbers
//! that a file may have, compared with the searches of the reference implementations.

use std::cell::Cell;

use realizar::error::Error;
use realizar::media::{Filter, Layout, Narrow, Sizing};

const FILTER: Filter = Filter::Bicubic;

/// Sizes of images of many proportions, and the smallest and largest ones.
const SIZES: [[usize; 2]; 12] = [
    [1, 1],
    [1, 65_535],
    [65_535, 1],
    [65_535, 65_535],
    [1920, 1080],
    [1080, 1920],
    [1000, 1000],
    [4032, 3024],
    [333, 10_000],
    [3000, 1999],
    [640, 427],
    [5000, 5001],
];

/// The divisors of a number, in order.
fn divisors(n: usize) -> impl Iterator<Item = usize> {
    (1..=n).filter(move |i| n.is_multiple_of(*i))
}

/// InternVL's search: the grids in the order of their tiles.
fn closest([width, height]: [usize; 2], tile: usize, [least, most]: [usize; 2]) -> [usize; 2] {
    let ratio = width as f64 / height as f64;
    let (mut best, mut difference) = ([1, 1], f64::INFINITY);
    for tiles in least.max(1)..=most {
        for columns in divisors(tiles) {
            let lines = tiles / columns;
            let off = (ratio - columns as f64 / lines as f64).abs();
            let is_large = (width * height) as f64 > 0.5 * (tile * tile * tiles) as f64;
            if off < difference || off == difference && is_large {
                (best, difference) = ([columns, lines], off);
            }
        }
    }
    best
}

/// Rows of 7 for each tile, and for the overview.
fn rows(layout: &Layout) -> usize {
    7 * layout.n_tiles()
}

#[test]
fn grids_of_many_tiles_are_those_of_the_authors_search() {
    for (tile, bounds) in [(14, [1, 1024]), (28, [1, 300]), (2, [700, 1024]), (56, [13, 400]), (14, [1024, 1024])] {
        let sizing = Sizing::SplitRatio { tile, min_tiles: bounds[0], max_tiles: bounds[1], filter: FILTER };
        for size in SIZES {
            let layout = sizing.layout(size[0], size[1]).unwrap();
            assert_eq!([layout.columns, layout.lines], closest(size, tile, bounds), "{sizing:?} {size:?}");
        }
    }
}

/// The bounds of a caller take one tile off a rule at a time, until the image fits.
#[test]
fn bounds_of_a_caller_find_the_largest_rule_that_fits() {
    let taken = |sizing: &Sizing, off: usize| {
        let mut smaller = *sizing;
        match &mut smaller {
            Sizing::SplitRatio { min_tiles, max_tiles, .. } => {
                *max_tiles -= off;
                *min_tiles = (*min_tiles).min(*max_tiles);
            }
            Sizing::Canvas { max_tiles, .. } | Sizing::Slices { max_tiles, .. } => *max_tiles -= off,
            Sizing::LongestEdge { longest, grain, .. } if off > 0 => {
                *longest = ((*longest - 1) / *grain + 1 - off) * *grain
            }
            _ => {}
        }
        smaller
    };
    for (sizing, most) in [
        (Sizing::SplitRatio { tile: 14, min_tiles: 1, max_tiles: 90, filter: FILTER }, 90),
        (Sizing::SplitRatio { tile: 14, min_tiles: 37, max_tiles: 60, filter: FILTER }, 60),
        (Sizing::Canvas { tile: 14, max_tiles: 90, filter: FILTER }, 90),
        (Sizing::Slices { side: 28, patch: 14, max_tiles: 90, filter: FILTER }, 90),
        (Sizing::LongestEdge { longest: 1400, grain: 14, filter: FILTER }, 100),
    ] {
        for size in SIZES {
            for [most_rows, most_tiles] in [[7, 9999], [14, 9999], [21, 9999], [150, 9999], [9999, 5], [400, 41]] {
                let by_area = |layout: &Layout| match sizing {
                    Sizing::LongestEdge { .. } => layout.tile_width / 14 * (layout.tile_height / 14),
                    _ => rows(layout),
                };
                let fits =
                    |layout: &Layout| by_area(layout) <= most_rows && layout.columns * layout.lines <= most_tiles;
                // An error of a rule ends the search.
                let layouts = (0..most).map(|off| taken(&sizing, off).layout(size[0], size[1]));
                let expected = layouts.into_iter().find(|layout| layout.as_ref().map_or(true, fits));
                let found = sizing.within(size, [most_rows, most_tiles], by_area);
                let what = format!("{sizing:?} {size:?} within {most_rows} rows, {most_tiles} tiles");
                match (expected, found) {
                    (Some(Ok(expected)), Ok((_, found))) => assert_eq!(found, expected, "{what}"),
                    (None, Err(Error::TooComplex(_))) => {}
                    (Some(Err(Error::InvalidArgument(_))), Err(Error::InvalidArgument(_))) => {}
                    (expected, found) => panic!("{what}: {expected:?} {found:?}"),
                }
            }
        }
    }
}

/// Every rule with the largest numbers that `check` lets through, and the most layouts that it may take to fit an
/// image. Each layout looks at the 7,000 grids of 1,024 tiles at most.
#[test]
fn the_largest_numbers_of_a_file_take_few_layouts() {
    const SIDE: usize = 8192;
    const PIXELS: usize = 1 << 26;
    let filter = FILTER;
    let rules = [
        (Sizing::SplitRatio { tile: 1, min_tiles: 1, max_tiles: 1024, filter }, 4),
        (Sizing::SplitRatio { tile: 1, min_tiles: 1024, max_tiles: 1024, filter }, 4),
        (Sizing::Canvas { tile: 1, max_tiles: 1024, filter }, 4),
        (Sizing::Slices { side: 1, patch: 1, max_tiles: 1024, filter }, 5),
        (Sizing::Slices { side: 448, patch: 1, max_tiles: 1024, filter }, 5),
        (Sizing::SplitLongest { longest: 32, tile: 1, filter }, 40),
        (Sizing::LongestEdge { longest: SIDE, grain: 1, filter }, 20),
        (Sizing::Padded { patch: 1, grain: 1, most: PIXELS, longest: SIDE, filter }, 320),
        (Sizing::Padded { patch: 1, grain: 64, most: PIXELS, longest: SIDE, filter }, 320),
        (Sizing::Area { grain: 1, least: 1, most: PIXELS, frames: 1, narrow: Narrow::Own, filter }, 2),
        (Sizing::Fitted { grain: 1, least: 1, most: PIXELS, filter }, 2),
        (Sizing::Rows { grain: 1, rows: 65_535, most: 65_535, filter }, 2),
        (
            Sizing::SplitLarge {
                grain: 1,
                patch: 1,
                least: 1,
                most: PIXELS,
                large: 1,
                tile: 1,
                min_tiles: 1,
                max_tiles: 1024,
                filter,
            },
            4,
        ),
    ];
    for (sizing, most) in rules {
        for (size, bound) in SIZES.into_iter().flat_map(|size| [2, 3, 50, 1000].map(|bound| (size, bound))) {
            let layouts = Cell::new(0);
            let counted = |layout: &Layout| {
                layouts.set(layouts.get() + 1);
                assert!(layout.columns * layout.lines <= 1024, "{sizing:?} {size:?}: {layout:?}");
                let [width, height] = [layout.tile_width, layout.tile_height];
                match sizing {
                    // Slices have the rows of the queries, whatever their size.
                    Sizing::Slices { .. } => rows(layout),
                    _ => layout.columns * layout.lines * width * height + usize::from(layout.overview),
                }
            };
            match sizing.within(size, [bound, usize::MAX], counted) {
                Ok((_, layout)) => assert!(layout.columns * layout.lines <= bound, "{sizing:?} {size:?}"),
                Err(Error::TooComplex(_) | Error::InvalidArgument(_)) => {}
                Err(e) => panic!("{sizing:?} {size:?}: {e}"),
            }
            // Two more tell the rows of a tile.
            assert!(layouts.get() <= most + 3, "{sizing:?} {size:?} {bound}: {} layouts", layouts.get());
        }
    }
    // The edge has at most 32 tiles.
    let many = Sizing::SplitLongest { longest: SIDE, tile: 1, filter };
    assert!(matches!(many.layout(100, 100), Err(Error::InvalidArgument(_))));
}
