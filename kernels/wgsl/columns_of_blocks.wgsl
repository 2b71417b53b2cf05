// Columns 32c to 32c + 31 of a row of blocks.
fn columns_at(row: u32, c: u32) -> array<vec4f, 8> {
    let w = chunk_at(row, c);
    var columns: array<vec4f, 8>;
    for (var i = 0u; i < 4u; i++) {
        columns[i] = vec4f(unpack4xI8(w.low[i])) * w.scale.x - w.minimum;
        columns[i + 4u] = vec4f(unpack4xI8(w.high[i])) * w.scale.y - w.minimum;
    }
    return columns;
}
