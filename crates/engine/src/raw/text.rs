//! Text out of a row image, without validating it at each read.

/// Returns the text that these bytes of a row image are.
///
/// **Invariant:** text slots of images that [`crate::row::layout::Image::text`] and [`crate::gather`] read are written by `Layout::encode` and
/// `RowWriter` alone, whole, from a `&str`; images from elsewhere (a redo record) are read by `Layout::try_value`.
#[inline]
pub(crate) fn trusted(bytes: &[u8]) -> &str {
    debug_assert!(std::str::from_utf8(bytes).is_ok());
    // SAFETY: the invariant above: the bytes were copied from one whole `&str`.
    unsafe { std::str::from_utf8_unchecked(bytes) }
}
