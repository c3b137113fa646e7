//! Bytes of a file: those that a reader sees, and those that are durable.

use super::survival::{Chooser, SurvivingItem};
use crate::SECTOR;
use std::ops::Range;

/// Bytes of a file.
#[derive(Clone, Debug, Default)]
pub(super) struct Content {
    /// Bytes that a reader sees.
    now: Vec<u8>,
    durable: Vec<u8>,
    /// Changes since the last sync, in order.
    pending: Vec<ContentChange>,
}

#[derive(Clone, Debug)]
enum ContentChange {
    Write { at: usize, bytes: Vec<u8> },
    Length(usize),
}

impl ContentChange {
    /// Applies the change to durable bytes, as far as its parts are kept: the length, or sectors by their numbers.
    fn apply(&self, to: &mut Vec<u8>, mut keeps: impl FnMut(Option<usize>) -> bool) {
        match self {
            ContentChange::Length(length) => {
                if keeps(None) {
                    to.resize(*length, 0);
                }
            }
            ContentChange::Write { at, bytes } => {
                for (number, sector) in sectors(*at, bytes.len()).enumerate() {
                    // Bytes behind the end of the file are nowhere: the length was lost.
                    if keeps(Some(number))
                        && let Some(place) = to.get_mut(sector.start..sector.end)
                        && let Some(written) = bytes.get(sector.start - at..sector.end - at)
                    {
                        place.copy_from_slice(written);
                    }
                }
            }
        }
    }
}

/// Returns the places of the sectors, cut to the bytes that were written.
fn sectors(at: usize, length: usize) -> impl Iterator<Item = Range<usize>> {
    let end = at + length;
    let first = at / SECTOR * SECTOR;
    (first..end).step_by(SECTOR).map(move |begin| begin.max(at)..(begin + SECTOR).min(end))
}

impl Content {
    pub(super) fn length(&self) -> usize {
        self.now.len()
    }

    pub(super) fn read(&self, to: &mut [u8], at: usize) -> usize {
        let from = self.now.get(at..).unwrap_or_default();
        let count = from.len().min(to.len());
        to.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
        count
    }

    pub(super) fn write(&mut self, bytes: &[u8], at: usize) {
        let end = at + bytes.len();
        if self.now.len() < end {
            self.set_length(end);
        }
        if let Some(place) = self.now.get_mut(at..end) {
            place.copy_from_slice(bytes);
        }
        self.pending.push(ContentChange::Write { at, bytes: bytes.to_vec() });
    }

    pub(super) fn set_length(&mut self, length: usize) {
        self.now.resize(length, 0);
        self.pending.push(ContentChange::Length(length));
    }

    pub(super) fn sync(&mut self) {
        let durable = &mut self.durable;
        self.pending.drain(..).for_each(|change| change.apply(durable, |_| true));
    }

    /// Fails to sync: the changes never become durable, although a reader sees them.
    pub(super) fn lose(&mut self) {
        self.pending.clear();
    }

    /// Returns the number of sectors of the last write.
    pub(super) fn last_sectors(&self) -> usize {
        match self.pending.last() {
            Some(ContentChange::Write { at, bytes }) => sectors(*at, bytes.len()).count(),
            Some(ContentChange::Length(_)) | None => 0,
        }
    }

    /// Returns the file after a crash. `is_in_flight` says that the disk crashed at the last change.
    pub(super) fn after_crash(&self, chooser: &mut Chooser, is_in_flight: bool) -> Content {
        let mut left = self.durable.clone();
        for (number, change) in self.pending.iter().enumerate() {
            let is_in_flight = is_in_flight && number + 1 == self.pending.len();
            change.apply(&mut left, |sector| {
                chooser.keeps(match sector {
                    None => SurvivingItem::Length,
                    Some(sector) if is_in_flight => SurvivingItem::SectorInFlight(sector),
                    Some(_) => SurvivingItem::Sector,
                })
            });
        }
        Content { now: left.clone(), durable: left, pending: Vec::new() }
    }

    /// Flips one bit of the durable bytes.
    pub(super) fn flip(&mut self, bit: usize) {
        for bytes in [&mut self.now, &mut self.durable] {
            if let Some(byte) = bytes.get_mut(bit / 8) {
                *byte ^= 1 << (bit % 8);
            }
        }
    }
}
