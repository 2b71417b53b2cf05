//! The patches of a tile, as input of a vision encoder.

use half::bf16;

use super::picture::Picture;
use crate::error::{Error, Result, try_vec};

/// Returns rows of `3 * patch * patch` numbers (channel, row, column) per frame of a tile, each `(byte / 255 - mean) /
/// std`. Patches are in row order, or in blocks of `merge` by `merge` patches, in row order within the block. All
/// `frames` must have the same size. `is_half`: rounds each step to bfloat16, as the reference does.
///
/// # Errors
/// `InvalidArgument` if the tile is not a whole number of blocks.
pub fn patches(
    frames: &[&Picture],
    patch: usize,
    merge: usize,
    [mean, std]: [[f32; 3]; 2],
    is_half: bool,
) -> Result<Vec<f32>> {
    let block = patch.saturating_mul(merge);
    let [width, height] = frames.first().map_or([0; 2], |tile| [tile.width, tile.height]);
    if block == 0 || !width.is_multiple_of(block) || !height.is_multiple_of(block) {
        let what = format!("{merge} x {merge} patches of {patch} x {patch} pixels");
        return Err(Error::invalid(format!("cannot cut a tile of {width} x {height} into blocks of {what}")));
    }
    let mut tables = [[0.0f32; 256]; 3];
    for (table, (mean, std)) in tables.iter_mut().zip(mean.into_iter().zip(std)) {
        let half = |x: f32| bf16::from_f32(x).to_f32();
        (0..=255u8).map(f32::from).zip(table).for_each(|(byte, value)| {
            *value = match is_half {
                true => half(half(half(byte * (1.0 / 255.0)) - half(mean)) / half(std)),
                false => (byte / 255.0 - mean) / std,
            }
        });
    }
    let mut out = try_vec("patches", frames.iter().map(|tile| tile.rgb.len()).sum())?;
    for (block_y, block_x) in grid(height / block, width / block) {
        for (y, x) in grid(merge, merge) {
            let (top, left) = (block_y * block + y * patch, block_x * block + x * patch);
            let planes = frames.iter().flat_map(|tile| tables.iter().enumerate().map(move |plane| (&tile.rgb, plane)));
            for (rgb, (channel, table)) in planes {
                for row in rgb.chunks_exact(3 * width).skip(top).take(patch) {
                    let pixels = row[3 * left..3 * (left + patch)].chunks_exact(3);
                    out.extend(pixels.map(|pixel| table[usize::from(pixel[channel])]));
                }
            }
        }
    }
    Ok(out)
}

fn grid(rows: usize, columns: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..rows).flat_map(move |row| (0..columns).map(move |column| (row, column)))
}
