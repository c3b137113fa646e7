//! Images: static executables of Linux for x86-64.
//!
//! **Invariant:** the bytes are those of a user. No offset in them is trusted.

/// Address at which code that can be anywhere begins.
const BASE: u64 = 0x20_0000;
/// Bytes of a header of a segment.
const SEGMENT: usize = 56;
const PT_LOAD: u32 = 1;
const PT_INTERP: u32 = 3;
const ET_EXEC: u16 = 2;
const ET_DYN: u16 = 3;
const EM_X86_64: u16 = 62;

/// Image.
#[derive(Clone, Copy, Debug)]
pub struct Image<'a> {
    bytes: &'a [u8],
    base: u64,
    /// Address at which the code begins.
    pub entry: u64,
    headers_at: u64,
    /// Number of segments' headers.
    pub headers: u16,
}

/// Segment that is loaded.
#[derive(Clone, Copy, Debug)]
pub struct Segment<'a> {
    /// Address of its first byte.
    pub address: u64,
    /// Bytes from the file.
    pub contents: &'a [u8],
    /// Bytes in memory.
    pub len: u64,
    /// Bits of `PF_X`, `PF_W`, `PF_R`.
    pub flags: u32,
}

fn number<const N: usize>(bytes: &[u8], at: u64) -> Option<[u8; N]> {
    bytes.get(usize::try_from(at).ok()?..)?.first_chunk().copied()
}

fn u16_at(bytes: &[u8], at: u64) -> Option<u16> {
    number(bytes, at).map(u16::from_le_bytes)
}

fn u32_at(bytes: &[u8], at: u64) -> Option<u32> {
    number(bytes, at).map(u32::from_le_bytes)
}

fn u64_at(bytes: &[u8], at: u64) -> Option<u64> {
    number(bytes, at).map(u64::from_le_bytes)
}

/// Reason for bytes that end too early.
const CUT: &str = "it ends within its headers";

impl<'a> Image<'a> {
    /// Reads the headers of an image.
    ///
    /// # Errors
    /// The reason if it is none.
    pub fn read(bytes: &'a [u8]) -> Result<Image<'a>, &'static str> {
        if !bytes.starts_with(b"\x7fELF\x02\x01") || u16_at(bytes, 18) != Some(EM_X86_64) {
            return Err("it is no ELF file for x86-64");
        }
        let base = match u16_at(bytes, 16) {
            Some(ET_EXEC) => 0,
            Some(ET_DYN) => BASE,
            _ => return Err("it is no executable"),
        };
        let entry = u64_at(bytes, 24).ok_or(CUT)?;
        let headers_at = u64_at(bytes, 32).ok_or(CUT)?;
        let (size, headers) = (u16_at(bytes, 54).ok_or(CUT)?, u16_at(bytes, 56).ok_or(CUT)?);
        if usize::from(size) != SEGMENT {
            return Err("its headers are of another size");
        }
        let image = Image { bytes, base, entry: entry.wrapping_add(base), headers_at, headers };
        for at in 0..headers {
            if image.header(at).ok_or(CUT)?.0 == PT_INTERP {
                return Err("it needs a loader; a guest is a static executable");
            }
            image.segment(at)?;
        }
        Ok(image)
    }

    /// Returns type and place of a header.
    fn header(&self, at: u16) -> Option<(u32, u64)> {
        let place = self.headers_at.checked_add(u64::from(at) * SEGMENT as u64)?;
        number::<SEGMENT>(self.bytes, place)?;
        Some((u32_at(self.bytes, place)?, place))
    }

    /// Returns the segment of a header; `None` if it is not loaded.
    ///
    /// # Errors
    /// The reason if its bytes are not there.
    pub fn segment(&self, at: u16) -> Result<Option<Segment<'a>>, &'static str> {
        let (of, place) = self.header(at).ok_or(CUT)?;
        if of != PT_LOAD {
            return Ok(None);
        }
        let field = |offset| u64_at(self.bytes, place + offset).ok_or(CUT);
        let (offset, address, from_file, len) = (field(8)?, field(16)?, field(32)?, field(40)?);
        let flags = u32_at(self.bytes, place + 4).ok_or(CUT)?;
        let beyond = "a segment is beyond its end";
        let (begin, count) = (usize::try_from(offset), usize::try_from(from_file));
        let (begin, count) = (begin.map_err(|_| beyond)?, count.map_err(|_| beyond)?);
        let contents = self.bytes.get(begin..).and_then(|rest| rest.get(..count)).ok_or(beyond)?;
        if len < from_file {
            return Err("a segment is shorter than its contents");
        }
        let address = address.checked_add(self.base).ok_or("a segment is beyond all addresses")?;
        Ok(Some(Segment { address, contents, len, flags }))
    }

    /// Returns the address of the headers in memory; 0 if no segment has them.
    pub fn headers_address(&self) -> u64 {
        for at in 0..self.headers {
            let Ok(Some(segment)) = self.segment(at) else { continue };
            let begin = (segment.contents.as_ptr() as u64).wrapping_sub(self.bytes.as_ptr() as u64);
            if let Some(within) = self.headers_at.checked_sub(begin)
                && within < segment.contents.len() as u64
            {
                return segment.address + within;
            }
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_images_are_refused_or_read() {
        let own = std::fs::read("/proc/self/exe").expect("this test");
        assert!(Image::read(&own).is_err_and(|reason| reason.contains("loader")));
        let head = &own[..4_096];
        for at in 0..256 {
            for value in [0, 1, 3, 0x7f, 0xff] {
                let mut changed = head.to_vec();
                changed[at] = value;
                if let Ok(image) = Image::read(&changed) {
                    image.headers_address();
                }
            }
        }
        for len in 0..512 {
            assert!(Image::read(&own[..len]).is_err());
        }
    }
}
