//! Shared by the targets of images: a file whose first bytes are replaced by the first bytes of its format.

use realizar::media::Picture;

pub fn decode(first: &[u8], data: &[u8]) {
    let mut file = data.to_vec();
    file.resize(data.len().max(first.len()), 0);
    file[..first.len()].copy_from_slice(first);
    if let Ok(picture) = Picture::decode(&file, 1 << 20, [255; 3]) {
        assert_eq!(picture.rgb.len(), 3 * picture.width * picture.height);
    }
}
