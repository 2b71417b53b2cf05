//! Parameters of a sizing rule, and an image, which is resized, cut into tiles, and divided into patches.
#![no_main]

use libfuzzer_sys::fuzz_target;
use realizar::media::{Filter, Grids, Narrow, Picture, PixelFormat, Pixels, Sizing, patches};

fuzz_target!(|data: &[u8]| {
    let Some((head, pixels)) = data.split_at_checked(14) else { return };
    let n: Vec<usize> = head[2..].chunks_exact(2).map(|n| usize::from(u16::from_le_bytes([n[0], n[1]]))).collect();
    let filter = [Filter::Bilinear, Filter::Bicubic, Filter::Lanczos][usize::from(head[1]) % 3];
    let sizing = match head[0] % 13 {
        0 => Sizing::Square { side: n[0], filter },
        1 => Sizing::ShortestEdge { side: n[0], filter },
        2 => {
            let narrow = [Narrow::Own, Narrow::Cut, Narrow::Rounded][usize::from(head[1]) / 3 % 3];
            Sizing::Area { grain: n[0], least: n[1], most: n[2] * 16, frames: 1, narrow, filter }
        }
        3 => Sizing::LongestEdge { longest: n[0], grain: n[1], filter },
        4 => Sizing::SplitLongest { longest: n[0], tile: n[1], filter },
        5 => Sizing::Rows { grain: n[0], rows: n[1], most: n[1], filter },
        6 => Sizing::SplitLarge {
            grain: n[0],
            patch: n[0] / 2,
            least: n[1],
            most: n[2],
            large: 2 * n[2],
            tile: n[0] * 4,
            min_tiles: 2,
            max_tiles: 10,
            filter,
        },
        7 => {
            let mut grids = Grids::default();
            grids.0[..2].copy_from_slice(&[[head[1] % 5, head[1] % 3], [1, 1]]);
            Sizing::Pinpoints { tile: n[0], grids, filter }
        }
        8 => Sizing::Canvas { tile: n[0], max_tiles: n[1], filter },
        9 => Sizing::Slices { side: n[0], patch: n[1], max_tiles: n[2], filter },
        10 => Sizing::Fitted { grain: n[0], least: n[1], most: n[2] * 16, filter },
        11 => Sizing::Expanded { side: n[0], color: [1, 2, 3], filter },
        _ => Sizing::SplitRatio { tile: n[0], min_tiles: n[1], max_tiles: n[2], filter },
    };
    let Ok(layout) = sizing.layout(n[3], n[4]) else { return };
    let pixels = Pixels { format: PixelFormat::Gray8, width: n[3], height: n[4], stride: 0, data: pixels };
    let Ok(picture) = Picture::from_pixels(pixels, [255; 3]) else { return };
    // Larger images take too long.
    if layout.seen_width * layout.seen_height > 1 << 18 {
        return;
    }
    let tiles = sizing.tiles(&picture, &layout).expect("tiles");
    assert_eq!(tiles.len(), layout.n_tiles());
    for (i, tile) in tiles.into_iter().enumerate() {
        assert_eq!([tile.width, tile.height], layout.tile(i));
        drop(patches(&[&tile], n[5], 1, [[0.5; 3]; 2], head[1] % 2 == 1));
    }
});
