//! Sections of WebAssembly modules.

/// Name of the section of a wasm module with its manifest.
pub(crate) const MANIFEST: &str = "overtake.manifest";
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

/// Numbers of the sections that say what a memory is when an instance begins.
const MEMORY: u8 = 5;
const DATA: u8 = 11;
const DATA_COUNT: u8 = 12;
/// Bytes of a page.
const PAGE: usize = 64 << 10;
/// Number of zeros between two segments: shorter runs are part of one.
const GAP: usize = 64;

/// Returns the module whose instances begin with these contents of its only memory, and with one more custom section.
/// `None` if the bytes are no module with one memory of its own.
///
/// The segments of the module are replaced. Nothing else changes, so its global variables must be as they were when
/// the contents were taken.
pub(crate) fn with_memory(module: &[u8], contents: &[u8], custom: (&str, &[u8])) -> Option<Vec<u8>> {
    let mut rest = module.strip_prefix(HEAD)?;
    let mut out = HEAD.to_vec();
    let mut has_memory = false;
    let mut is_written = false;
    while let Some((kind, after)) = rest.split_first() {
        let (body, after) = sized(after)?;
        rest = after;
        match *kind {
            MEMORY => {
                put_section(&mut out, MEMORY, &memory_of(body, contents.len().div_ceil(PAGE))?);
                has_memory = true;
            }
            DATA => {
                put_section(&mut out, DATA, &segments(contents));
                is_written = true;
            }
            DATA_COUNT => {}
            _ => put_section(&mut out, *kind, body),
        }
    }
    let (name, bytes) = custom;
    let mut body = Vec::new();
    put_sized(&mut body, name.as_bytes());
    body.extend(bytes);
    put_section(&mut out, CUSTOM, &body);
    (has_memory && is_written).then_some(out)
}

/// Returns a memory section like this one, of at least so many pages.
fn memory_of(body: &[u8], pages: usize) -> Option<Vec<u8>> {
    let (1, rest) = unsigned(body)? else { return None };
    let (flags, rest) = rest.split_first()?;
    let (_, most) = unsigned(rest)?;
    let mut out = vec![1, *flags];
    put_unsigned(&mut out, pages);
    out.extend(most);
    Some(out)
}

/// Returns a data section with what is not zero.
fn segments(contents: &[u8]) -> Vec<u8> {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for (at, _) in contents.iter().enumerate().filter(|(_, byte)| **byte != 0) {
        match runs.last_mut() {
            Some((_, end)) if at < *end + GAP => *end = at + 1,
            _ => runs.push((at, at + 1)),
        }
    }
    let mut out = Vec::new();
    put_unsigned(&mut out, runs.len());
    for (begin, end) in runs {
        // Active, of memory 0, at a constant.
        out.extend([0, 0x41]);
        put_signed(&mut out, begin);
        out.push(0x0B);
        put_sized(&mut out, contents.get(begin..end).unwrap_or_default());
    }
    out
}

fn put_section(out: &mut Vec<u8>, kind: u8, body: &[u8]) {
    out.push(kind);
    put_sized(out, body);
}

fn put_sized(out: &mut Vec<u8>, bytes: &[u8]) {
    put_unsigned(out, bytes.len());
    out.extend(bytes);
}

/// Writes a number in LEB128.
fn put_unsigned(out: &mut Vec<u8>, mut value: usize) {
    while 0x7F < value {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Writes a number that is not negative in signed LEB128, whose last byte has a bit for the sign.
fn put_signed(out: &mut Vec<u8>, mut value: usize) {
    while 0x3F < value {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
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

    /// Module with one page of memory, a segment of 3 bytes, and a section between them.
    fn module() -> Vec<u8> {
        let mut module = HEAD.to_vec();
        module.extend([5, 3, 1, 0, 1]);
        module.extend([7, 10, 1, 6, b'm', b'e', b'm', b'o', b'r', b'y', 2, 0]);
        module.extend([12, 1, 1]);
        module.extend([11, 9, 1, 0, 0x41, 0, 0x0B, 3, 1, 2, 3]);
        module
    }

    #[test]
    fn a_module_begins_with_its_memory() {
        let mut contents = vec![0; 2 * PAGE];
        contents[63] = 9;
        contents[63 + GAP] = 8;
        contents[PAGE..PAGE + 200].fill(7);
        let made = with_memory(&module(), &contents, ("m", b"text")).expect("a module");
        let mut expected = HEAD.to_vec();
        expected.extend([5, 3, 1, 0, 2]);
        expected.extend([7, 10, 1, 6, b'm', b'e', b'm', b'o', b'r', b'y', 2, 0]);
        let mut data = vec![2, 0, 0x41, 63, 0x0B, 65, 9];
        data.extend([0; 63]);
        data.extend([8, 0, 0x41, 0x80, 0x80, 0x04, 0x0B, 0xC8, 0x01]);
        data.extend([7; 200]);
        expected.extend([11, (data.len() & 0x7F) as u8 | 0x80, (data.len() >> 7) as u8]);
        expected.extend(data);
        expected.extend([0, 6, 1, b'm', b't', b'e', b'x', b't']);
        assert_eq!(made, expected);
        assert_eq!(custom_section(&made, "m"), Some(&b"text"[..]));
        let module = module();
        for end in 0..module.len() {
            assert_eq!(with_memory(&module[..end], &contents, ("m", b"text")), None, "cut at {end}");
        }
    }

    #[test]
    fn numbers_are_in_leb128() {
        let signed = |value| {
            let mut out = Vec::new();
            put_signed(&mut out, value);
            out
        };
        assert_eq!([signed(0), signed(63)], [[0], [63]]);
        assert_eq!([signed(64), signed(8_191)], [[0xC0, 0], [0xFF, 0x3F]]);
        assert_eq!(signed(8_192), [0x80, 0xC0, 0]);
    }

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
