//! Whether bytes are those of a picture, a sound or a font, as far as their beginning says.

/// How files of these formats begin, whatever their ending: pictures are often named by another format's.
const BEGINNINGS: [&[u8]; 19] = [
    b"\x89PNG\r\n\x1a\n",
    b"\xff\xd8\xff",
    b"GIF87a",
    b"GIF89a",
    b"BM",
    b"\0\0\x01\0",
    b"icns",
    b"ID3",
    b"\xff\xfb",
    b"\xff\xf3",
    b"\xff\xf2",
    b"\xff\xfa",
    b"OggS",
    b"\x1a\x45\xdf\xa3",
    b"wOFF",
    b"wOF2",
    b"\0\x01\0\0",
    b"true",
    b"OTTO",
];
/// How the end of a ZIP archive begins. Python starts one whatever stands before it.
const END_OF_ARCHIVE: &[u8] = b"PK\x05\x06";
/// The longest end of an archive, with its comment.
const LONGEST_END: usize = 22 + 65_535;

/// Whether this begins as a picture, a sound or a font, and is no archive at the same time.
pub(super) fn is_media(bytes: &[u8]) -> bool {
    let is_in_box = bytes.get(4..8) == Some(b"ftyp");
    let is_in_riff = bytes.starts_with(b"RIFF") && matches!(bytes.get(8..12), Some(b"WEBP" | b"WAVE"));
    let is_known = is_in_box || is_in_riff || BEGINNINGS.iter().any(|start| bytes.starts_with(start));
    is_known && !is_archive(bytes)
}

fn is_archive(bytes: &[u8]) -> bool {
    let end = bytes.get(bytes.len().saturating_sub(LONGEST_END)..).unwrap_or(bytes);
    end.windows(END_OF_ARCHIVE.len()).any(|window| window == END_OF_ARCHIVE)
}
