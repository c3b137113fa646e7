//! Sections of WebAssembly modules.

/// Bytes that every module begins with: the magic number and version 1.
const HEAD: &[u8] = b"\0asm\x01\0\0\0";
/// Number of sections that have a name and contents of any kind.
const CUSTOM: u8 = 0;

/// Returns the contents of the custom section of this name. `None` if there is none, or the bytes are no module.
pub(crate) fn custom_section<'a>(module: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let mut rest = module.strip_prefix(HEAD)?;
    while let Some((kind, after)) = rest.split_first() {
        let (contents, after) = sized(after)?;
        rest = after;
        if *kind == CUSTOM {
            let (found, body) = sized(contents)?;
            if found == name.as_bytes() {
                return Some(body);
            }
        }
    }
    None
}

/// Splits off bytes behind their length.
fn sized(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = unsigned(bytes)?;
    rest.split_at_checked(len as usize)
}

/// Reads a number in LEB128.
fn unsigned(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let mut value = 0_u64;
    for (at, byte) in bytes.iter().enumerate().take(5) {
        value |= u64::from(byte & 0x7F) << (7 * at);
        if byte & 0x80 == 0 {
            return Some((u32::try_from(value).ok()?, bytes.get(at + 1..)?));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_section_of_a_name_is_found() {
        let long = vec![b'x'; 300];
        let mut module = HEAD.to_vec();
        module.extend([1, 3, 9, 9, 9]);
        module.extend([0, 6, 1, b'a', 1, 2, 3, 4]);
        // 2 bytes of length: 303 = 0b10_0101111.
        module.extend([0, 0xAF, 0x02, 2, b'm', b'n']);
        module.extend(&long);
        assert_eq!(custom_section(&module, "a"), Some(&[1, 2, 3, 4][..]));
        assert_eq!(custom_section(&module, "mn"), Some(long.as_slice()));
        assert_eq!(custom_section(&module, "o"), None);
        assert_eq!(custom_section(&module[1..], "a"), None);
        for end in 0..module.len() {
            assert_eq!(custom_section(&module[..end], "mn"), None, "cut at {end}");
        }
    }
}
