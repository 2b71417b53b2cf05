// Columns 32c to 32c + 31 of a row of floats.
fn columns_at(row: u32, c: u32) -> array<vec4f, 8> {
    var columns: array<vec4f, 8>;
    for (var i = 0u; i < 8u; i++) { columns[i] = four_at(row, 8u * c + i); }
    return columns;
}
