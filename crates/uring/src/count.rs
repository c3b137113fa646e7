//! Bytes that connections hold, as the process counts them.

/// Hears how many bytes more are held; fewer if it is negative.
pub type Counts = fn(i64);

/// Bytes of one connection, for as long as it exists.
#[derive(Debug)]
pub(crate) struct Counted {
    counts: Counts,
    bytes: usize,
}

impl Counted {
    pub(crate) fn new(counts: Counts) -> Counted {
        Counted { counts, bytes: 0 }
    }

    /// Replaces the number of bytes.
    pub(crate) fn set(&mut self, bytes: usize) {
        if bytes != self.bytes {
            (self.counts)(bytes as i64 - self.bytes as i64);
            self.bytes = bytes;
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.set(0);
    }
}
