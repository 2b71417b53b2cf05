//! The search for the grid of tiles for an image. Each function searches all grids up to the maximum number of tiles:
//! about 7,000 for 1,024 tiles.

/// `get_best_fit`, in the 32-bit arithmetic of the reference implementation.
pub fn canvas(width: usize, height: usize, tile: usize, max_tiles: usize) -> (usize, usize) {
    let scale = |[columns, lines]: [usize; 2]| {
        ((columns * tile) as f32 / width as f32).min((lines * tile) as f32 / height as f32)
    };
    let mut best = [1, 1];
    for [columns, lines] in all(1, max_tiles) {
        let (new, old) = (scale([columns, lines]), scale(best));
        let is_better = if old >= 1.0 { new >= 1.0 && new < old } else { new > old };
        if is_better || new == old && columns * lines < best[0] * best[1] {
            best = [columns, lines];
        }
    }
    (best[0], best[1])
}

/// Returns the columns and lines of the grid with the closest aspect ratio. Ties go to the last grid whose tiles are at
/// least half filled by the image, in order of tiles and then columns, otherwise to the first grid.
pub fn split_ratio(width: usize, height: usize, tile: usize, min_tiles: usize, max_tiles: usize) -> (usize, usize) {
    let ratio = width as f64 / height as f64;
    let order = |[columns, lines]: [usize; 2]| (columns * lines, columns);
    let is_filled = |[columns, lines]: [usize; 2]| {
        width as f64 * height as f64 > 0.5 * tile as f64 * tile as f64 * (columns * lines) as f64
    };
    let (mut best, mut closest) = ([1, 1], f64::INFINITY);
    for grid in all(min_tiles.max(1), max_tiles) {
        let off = (ratio - grid[0] as f64 / grid[1] as f64).abs();
        // If the image fills a grid, it also fills grids with fewer tiles.
        let is_better = off < closest
            || off == closest
                && match is_filled(grid) {
                    true => order(grid) > order(best) || !is_filled(best),
                    false => order(grid) < order(best) && !is_filled(best),
                };
        if is_better {
            (best, closest) = (grid, off);
        }
    }
    (best[0], best[1])
}

/// Returns all grids of `min_tiles` to `max_tiles` tiles.
fn all(min_tiles: usize, max_tiles: usize) -> impl Iterator<Item = [usize; 2]> {
    let lines = move |columns: usize| min_tiles.div_ceil(columns)..=max_tiles / columns;
    (1..=max_tiles).flat_map(move |columns| lines(columns).map(move |lines| [columns, lines]))
}

/// `get_sliced_grid`, with logarithms as in the reference: for a square image, a grid and its transpose differ only in
/// the last bit.
pub fn sliced(width: usize, height: usize, side: usize, max_tiles: usize) -> Option<(usize, usize)> {
    let (ratio, area) = (width as f64 / height as f64, width as f64 * height as f64);
    let n = ((area / (side * side) as f64).ceil() as usize).min(max_tiles);
    if n <= 1 {
        return None;
    }
    let (mut best, mut closest, wanted) = ((1, 1), f64::INFINITY, logarithm(ratio));
    for tiles in (n - 1..=n + 1).filter(|&tiles| tiles > 1 && tiles <= max_tiles) {
        for columns in divisors(tiles) {
            let lines = tiles / columns;
            let off = (wanted - logarithm(columns as f64 / lines as f64)).abs();
            if off < closest {
                (best, closest) = ((columns, lines), off);
            }
        }
    }
    Some(best)
}

/// Returns the natural logarithm of a positive ratio, correctly rounded, because the last bit decides. Uses the series
/// of `2 artanh((x - 1) / (x + 1))` in fixed point with 74 bits.
fn logarithm(x: f64) -> f64 {
    const BITS: u32 = 74;
    const HALF: u32 = BITS / 2;
    const LN_2: i128 = 13_093_180_052_687_519_395_624;
    let multiply = |a: i128, b: i128| ((a * (b >> HALF)) >> HALF) + ((a * (b & ((1 << HALF) - 1))) >> BITS);
    let (mantissa, exponent) = (x.to_bits() & ((1 << 52) - 1) | 1 << 52, (x.to_bits() >> 52) as i128 - 1023);
    // Reduced to 11/16 .. 11/8, where the series is short.
    let halved = i128::from(mantissa > 11 << 49);
    let (m, one) = (i128::from(mantissa), 1i128 << (52 + halved));
    let z = ((m - one) << BITS) / (m + one);
    let square = multiply(z, z);
    let (mut power, mut sum) = (z, 0);
    for i in (1..48).step_by(2) {
        sum += power / i;
        power = multiply(power, square);
    }
    (2 * sum + (exponent + halved) * LN_2) as f64 / (1i128 << BITS) as f64
}

/// Returns the divisors of a number in ascending order, in about as many steps as its square root.
fn divisors(n: usize) -> impl Iterator<Item = usize> {
    let low = move |i: &usize| n.is_multiple_of(*i);
    let root = n.isqrt();
    let high = (1..=root).rev().filter(low).map(move |i| n / i).filter(move |i| *i > root);
    (1..=root).filter(low).chain(high)
}
