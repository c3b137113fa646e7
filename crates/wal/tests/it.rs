//! Tests of the log on a fake disk: crashes and faults at every operation, damage of every bit.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use disk::{CrashSite, Disk, DiskFault, FakeDisk, SECTOR, Survival, crash_everywhere};
use proptest::prelude::*;
use std::sync::Arc;
use wal::{LENGTH_MAX, LogError, LogOptions, LogRecord, LogResult, LogWriter, Lsn};

/// Small segments, so that a short log has several.
const OPTIONS: LogOptions = LogOptions { segment_bytes: 4 * SECTOR as u64, database: 7, reserve: 1 };

/// Records that recovery passes on.
type Found = Vec<(Lsn, Vec<u8>)>;

fn open_from(disk: &FakeDisk, start: Lsn) -> LogResult<(LogWriter, Found)> {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let mut found = Found::new();
    let mut each = |record: LogRecord<'_>| {
        assert_eq!(usize::from(record.kind), record.bytes.len() % 256, "the kind is the record's");
        found.push((record.begin, record.bytes.to_vec()));
        Ok(())
    };
    let writer = LogWriter::open(&disk, OPTIONS, start, &mut each)?;
    Ok((writer, found))
}

fn open(disk: &FakeDisk) -> LogResult<(LogWriter, Found)> {
    open_from(disk, Lsn(0))
}

/// Record of this number: its length and its bytes follow from that.
fn content(number: u32) -> Vec<u8> {
    let length = [1, 30, 500, 0, 1_400, 470, 12][number as usize % 7];
    (0..length).map(|at: u32| (number * 31 + at) as u8).collect()
}

fn append(writer: &mut LogWriter, number: u32) -> LogResult<Lsn> {
    let bytes = content(number);
    writer.append((bytes.len() % 256) as u8, &bytes)
}

fn check_records(found: &Found, context: &str) {
    for (number, (_, bytes)) in (0..).zip(found) {
        assert_eq!(*bytes, content(number), "record {number}, {context}");
    }
}

/// Numbers of records in what a workload does.
#[derive(Clone, Copy, Debug, Default)]
struct Journal {
    /// Records that are durable, as the log has said.
    acknowledged: usize,
    /// Records that were added.
    sent: usize,
}

/// Continues the log by `count` records, with a flush after each group of three.
fn work(disk: &FakeDisk, count: u32) -> Journal {
    let mut journal = Journal::default();
    let _ = worked(disk, count, &mut journal);
    journal
}

fn worked(disk: &FakeDisk, count: u32, journal: &mut Journal) -> LogResult<()> {
    let (mut writer, found) = open(disk)?;
    (journal.acknowledged, journal.sent) = (found.len(), found.len());
    let first = found.len() as u32;
    for number in first..first + count {
        journal.sent += 1;
        append(&mut writer, number)?;
        if number % 3 == 2 {
            writer.flush()?;
            journal.acknowledged = journal.sent;
        }
    }
    writer.flush()?;
    journal.acknowledged = journal.sent;
    Ok(())
}

/// Checks the log of a disk, continues it, and checks it again.
fn check(disk: &FakeDisk, journal: Journal, context: &str) {
    let (mut writer, found) = open(disk).unwrap_or_else(|error| panic!("{error}, {context}"));
    assert!((journal.acknowledged..=journal.sent).contains(&found.len()), "{} of {journal:?}, {context}", found.len());
    check_records(&found, context);
    // Shorter than what was lost: nothing of that may come after them.
    let mut wanted: Vec<Vec<u8>> = found.into_iter().map(|(_, bytes)| bytes).collect();
    for _ in 0..2 {
        writer.append(5, b"later").unwrap();
        wanted.push(b"later".to_vec());
        writer.flush().unwrap();
        // What recovery has accepted stays, even if the machine fails now.
        let left = disk.after_crash(Survival::Nothing);
        let (_, found) = open(&left).unwrap_or_else(|error| panic!("{error}, {context}"));
        assert_eq!(found.into_iter().map(|(_, bytes)| bytes).collect::<Vec<_>>(), wanted, "{context}");
    }
}

#[test]
fn places_are_written_as_in_postgresql() {
    assert_eq!(Lsn(0x1_6B37_4D48).to_string(), "1/6B374D48");
    assert_eq!(Lsn(0).to_string(), "0/00000000");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Goal: what was written is read, from the begin and from any record on.
    #[test]
    fn records_come_back(lengths in prop::collection::vec(0..1_600_usize, 1..30), flushed in any::<u32>(), from in any::<prop::sample::Index>()) {
        let disk = FakeDisk::new();
        let (mut writer, _) = open(&disk).unwrap();
        let mut places = Vec::new();
        for (at, length) in lengths.iter().enumerate() {
            let begin = writer.end();
            let end = writer.append((length % 256) as u8, &vec![at as u8; *length]).unwrap();
            prop_assert!(begin < end);
            places.push(begin);
            if flushed >> (at % 32) & 1 == 1 {
                prop_assert!(end <= writer.flush().unwrap());
            }
        }
        writer.flush().unwrap();
        let wanted: Found = places.iter().zip(lengths.iter().enumerate())
            .map(|(place, (at, length))| (*place, vec![at as u8; *length])).collect();
        let disk = disk.after_crash(Survival::Nothing);
        let from = from.index(places.len());
        prop_assert_eq!(open_from(&disk, places[from]).unwrap().1, &wanted[from..]);
        let (writer, found) = open(&disk).unwrap();
        prop_assert_eq!(found, wanted);
        // The end is a place to begin at, too.
        prop_assert_eq!(open_from(&disk, writer.end()).unwrap().1, vec![]);
    }
}

/// Goal: after a crash at any operation, whatever the disk has kept, all acknowledged records are there, in order, and
/// only those that were sent; and the log goes on.
#[test]
fn crashes_lose_nothing() {
    let mut recoveries = Vec::new();
    for count in [1, 14] {
        let begun = FakeDisk::new();
        work(&begun, count);
        let checks = crash_everywhere(
            &begun,
            |disk| work(disk, 9),
            |disk, journal, site| {
                // The journal counts from what this run has found.
                let least = Journal { acknowledged: journal.acknowledged.max(count as usize), sent: journal.sent };
                let least = Journal { sent: least.sent.max(least.acknowledged), ..least };
                check(disk, least, &site.to_string());
            },
        );
        assert!(200 < checks, "{checks}");
        recoveries.push(begun);
    }
    // The first start, too.
    crash_everywhere(
        &FakeDisk::new(),
        |disk| work(disk, 4),
        |disk, journal, site| {
            check(disk, *journal, &site.to_string());
        },
    );
}

/// Goal: a crash within a recovery, and within the recovery from that, harms nothing.
#[test]
fn crashes_in_recoveries_lose_nothing() {
    let begun = FakeDisk::new();
    work(&begun, 5);
    // The flush is torn: the recovery has blocks to erase and one to cut.
    let site = |disk: &FakeDisk| {
        let (mut writer, _) = open(disk).unwrap();
        (5..8).for_each(|number| append(&mut writer, number).map(drop).unwrap());
        disk.fail(disk.operations() + 1, DiskFault::Crash);
        writer.flush().unwrap_err();
    };
    site(&begun);
    for seed in 0..40 {
        let left = begun.after_crash(Survival::Chance { seed });
        crash_everywhere(
            &left,
            |disk| drop(open(disk)),
            |disk, (), first: &CrashSite| {
                let journal = Journal { acknowledged: 5, sent: 8 };
                check(disk, journal, &format!("{seed}, {first}"));
            },
        );
    }
}

/// Goal: a fault of any operation ends in an error and a log that can be opened again, by a new process as well as
/// after the machine has failed.
#[test]
fn faults_lose_nothing() {
    let whole = FakeDisk::new();
    work(&whole, 12);
    for fault in [DiskFault::Io, DiskFault::Full, DiskFault::Short] {
        for operation in 0..whole.operations() {
            let disk = FakeDisk::new();
            disk.fail(operation, fault);
            let journal = work(&disk, 12);
            let context = format!("{fault:?} at operation {operation}");
            for seed in 0..4 {
                check(&disk.after_crash(Survival::Chance { seed }), journal, &context);
            }
            // A process that starts again on the same machine sees bytes that are not on the disk.
            check(&disk, journal, &context);
        }
    }
}

/// Goal: one flipped bit is refused, with its file and offset, or it is where nothing was written.
#[test]
fn every_flipped_bit_is_found() {
    let disk = FakeDisk::new();
    let journal = work(&disk, 6);
    let (_, records) = open(&disk).unwrap();
    let mut refused = 0;
    for name in disk.names("log").unwrap() {
        let path = format!("log/{name}");
        let length = disk.open(&path).unwrap().length().unwrap();
        for bit in 0..length as usize * 8 {
            let damaged = disk.after_crash(Survival::Everything);
            damaged.flip(&path, bit).unwrap();
            match open(&damaged) {
                Err(LogError::Damaged { file, offset, .. }) => {
                    let block = bit / 8 / SECTOR * SECTOR;
                    assert_eq!((&file, offset), (&path, block as u64), "bit {bit}");
                    refused += 1;
                }
                Err(error) => panic!("bit {bit} of {path}: {error}"),
                Ok((_, found)) => panic!("bit {bit} of {path} was not noticed: {} of {}", found.len(), records.len()),
            }
        }
    }
    assert_eq!(journal.acknowledged, 6);
    assert!(10_000 < refused, "{refused}");
}

/// Goal: a durable block that is not there is damage, if a later one says that it was durable.
#[test]
fn a_lost_block_is_damage() {
    let disk = FakeDisk::new();
    work(&disk, 9);
    let path = format!("log/{:016x}", 0);
    let file = disk.open(&path).unwrap();
    file.write_all_at(&[0; SECTOR], SECTOR as u64).unwrap();
    match open(&disk) {
        Err(LogError::Damaged { file, offset, what }) => {
            assert_eq!((file, offset, what), (path, SECTOR as u64, "a block is missing that was durable"));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn logs_of_others_are_refused() {
    let disk = FakeDisk::new();
    work(&disk, 3);
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let mut each = |_: LogRecord<'_>| Ok(());
    let other = LogOptions { database: 8, ..OPTIONS };
    let error = LogWriter::open(&shared, other, Lsn(0), &mut each).unwrap_err();
    assert_eq!(
        error.to_string(),
        "file \"log/0000000000000000\" is damaged at offset 0: the block belongs to another database"
    );
    let larger = LogOptions { segment_bytes: 2 * OPTIONS.segment_bytes, ..OPTIONS };
    let error = LogWriter::open(&shared, larger, Lsn(0), &mut each).unwrap_err();
    assert!(error.to_string().ends_with("the segment has another size"), "{error}");
}

/// Goal: a log of any length needs a bounded number of segments, and old blocks in them do no harm.
#[test]
fn segments_are_used_again() {
    let disk = FakeDisk::new();
    let (mut writer, _) = open(&disk).unwrap();
    let mut begin = writer.end();
    for number in 0..200 {
        begin = writer.end();
        append(&mut writer, number).unwrap();
        writer.flush().unwrap();
        writer.forget(begin).unwrap();
        // The segment of the record, the one that it ends in, and one in reserve.
        assert!(disk.names("log").unwrap().len() <= 4, "{number}: {:?}", disk.names("log"));
    }
    let last = content(199);
    let (_, found) = open_from(&disk.after_crash(Survival::Nothing), begin).unwrap();
    assert_eq!(found, vec![(begin, last)]);
    match open(&disk) {
        Err(LogError::Damaged { what, .. }) => assert_eq!(what, "the segment is missing"),
        other => panic!("{other:?}"),
    }
}

/// Goal: the crash of a machine in the use of old segments does no harm.
#[test]
fn crashes_between_old_and_new_segments_lose_nothing() {
    let begun = FakeDisk::new();
    let (mut writer, _) = open(&begun).unwrap();
    (0..6).for_each(|number| append(&mut writer, number).map(drop).unwrap());
    writer.flush().unwrap();
    let begin = writer.end();
    let again = |disk: &FakeDisk| -> usize {
        let once = |acknowledged: &mut usize| -> LogResult<()> {
            let (mut writer, _) = open_from(disk, begin)?;
            writer.forget(begin)?;
            for number in 0..12 {
                append(&mut writer, number)?;
                writer.flush()?;
                *acknowledged += 1;
            }
            Ok(())
        };
        let mut acknowledged = 0;
        let _ = once(&mut acknowledged);
        acknowledged
    };
    let checks = crash_everywhere(&begun, again, |disk, acknowledged, site| {
        let (_, found) = open_from(disk, begin).unwrap_or_else(|error| panic!("{error}, {site}"));
        assert!((*acknowledged..=acknowledged + 1).contains(&found.len()), "{} of {acknowledged}, {site}", found.len());
        check_records(&found, &site.to_string());
    });
    assert!(300 < checks, "{checks}");
}

/// Goal: a full disk refuses records and harms nothing; with room the log goes on.
#[test]
fn a_full_disk_refuses_records() {
    let disk = FakeDisk::new();
    let (mut writer, _) = open(&disk).unwrap();
    disk.set_room(Some(2 * OPTIONS.segment_bytes));
    let mut count = 0;
    while append(&mut writer, count).is_ok() {
        writer.flush().unwrap();
        count += 1;
    }
    assert!(2 < count, "{count}");
    assert!(matches!(append(&mut writer, count), Err(LogError::Full)));
    disk.set_room(None);
    append(&mut writer, count).unwrap();
    writer.flush().unwrap();
    let (_, found) = open(&disk.after_crash(Survival::Nothing)).unwrap();
    assert_eq!(found.len() as u32, count + 1);
    check_records(&found, "full");
}

/// Goal: nothing is acknowledged after a failed sync, and another sync does not bring it back.
#[test]
fn a_failed_sync_ends_the_log() {
    let disk = FakeDisk::new();
    let (mut writer, _) = open(&disk).unwrap();
    append(&mut writer, 0).unwrap();
    // The write, then its sync.
    disk.fail(disk.operations() + 1, DiskFault::Io);
    let error = writer.flush().unwrap_err();
    assert!(matches!(&error, LogError::Broken { file, .. } if *file == format!("log/{:016x}", 0)), "{error}");
    for failed in [writer.flush().map(drop), append(&mut writer, 1).map(drop), writer.forget(Lsn(0))] {
        assert!(matches!(failed, Err(LogError::Broken { .. })));
    }
}

#[test]
fn records_have_a_greatest_length() {
    let disk = FakeDisk::new();
    let (mut writer, _) = open(&disk).unwrap();
    assert!(
        matches!(writer.append(0, &vec![0; LENGTH_MAX + 1]), Err(LogError::TooLong(length)) if length == LENGTH_MAX + 1)
    );
    assert_eq!(writer.end(), LogWriter::end(&open(&FakeDisk::new()).unwrap().0));
    assert_eq!(writer.flush().unwrap(), Lsn(0));
}
