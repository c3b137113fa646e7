//! Tests of the fake disk: against a directory of the operating system, and against its own contract.

use super::*;
use crate::{FolderDisk, SECTOR, crash_everywhere};
use proptest::prelude::*;
use std::cell::Cell;

/// Operation on one of a few paths.
#[derive(Clone, Debug)]
enum Operation {
    Create(u8),
    Write { file: u8, at: u16, bytes: Vec<u8> },
    Read { file: u8, at: u16, length: u8 },
    Reserve(u8, u16),
    Cut(u8, u16),
    Rename(u8, u8),
    Remove(u8),
    Folder(u8),
    Names(u8),
}

fn operation() -> impl Strategy<Value = Operation> {
    let file = 0..6_u8;
    let bytes = prop::collection::vec(any::<u8>(), 0..700);
    prop_oneof![
        file.clone().prop_map(Operation::Create),
        (file.clone(), 0..2_000_u16, bytes).prop_map(|(file, at, bytes)| Operation::Write { file, at, bytes }),
        (file.clone(), 0..2_500_u16, any::<u8>()).prop_map(|(file, at, length)| Operation::Read { file, at, length }),
        (file.clone(), 0..3_000_u16).prop_map(|(file, length)| Operation::Reserve(file, length)),
        (file.clone(), 0..3_000_u16).prop_map(|(file, length)| Operation::Cut(file, length)),
        (file.clone(), file.clone()).prop_map(|(from, to)| Operation::Rename(from, to)),
        file.prop_map(Operation::Remove),
        (0..2_u8).prop_map(Operation::Folder),
        (0..3_u8).prop_map(Operation::Names),
    ]
}

const FOLDERS: [&str; 3] = ["", "log", "none"];

/// Path of a file: three are in the root, three in the folder `log`.
fn path(file: u8) -> String {
    if file < 3 { format!("f{file}") } else { format!("log/f{file}") }
}

/// Does an operation, and returns what is seen of it.
fn done(disk: &dyn Disk, operation: &Operation) -> Result<String, io::ErrorKind> {
    let shown = match operation {
        Operation::Create(file) => disk.create(&path(*file)).map(|_| String::new()),
        Operation::Write { file, at, bytes } => disk.open(&path(*file)).and_then(|file| {
            file.write_all_at(bytes, (*at).into())?;
            Ok(file.length()?.to_string())
        }),
        Operation::Read { file, at, length } => disk.open(&path(*file)).map(|file| {
            let mut bytes = vec![0; usize::from(*length)];
            let read = file.read_all_at(&mut bytes, (*at).into()).map_err(|error| error.kind());
            format!("{read:?} {bytes:?}")
        }),
        Operation::Reserve(file, length) => disk.open(&path(*file)).and_then(|file| {
            file.reserve((*length).into())?;
            Ok(file.length()?.to_string())
        }),
        Operation::Cut(file, length) => disk.open(&path(*file)).and_then(|file| {
            file.cut((*length).into())?;
            Ok(file.length()?.to_string())
        }),
        Operation::Rename(from, to) => {
            let (folder, to) = (if *from < 3 { "" } else { "log" }, format!("f{to}"));
            disk.rename(folder, &format!("f{from}"), &to).map(|()| String::new())
        }
        Operation::Remove(file) => disk.remove(&path(*file)).map(|()| String::new()),
        Operation::Folder(at) => disk.create_folder(["log", "other"][usize::from(*at)]).map(|()| String::new()),
        Operation::Names(at) => disk.names(FOLDERS[usize::from(*at)]).map(|names| format!("{names:?}")),
    };
    shown.map_err(|error| error.kind())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Goal: without a crash, the fake disk is one. Method: the same operations on both.
    #[test]
    fn the_fake_does_what_a_directory_does(operations in prop::collection::vec(operation(), 1..60)) {
        let folder = tempfile::tempdir().unwrap();
        let (real, fake) = (FolderDisk::new(folder.path()), FakeDisk::new());
        for operation in &operations {
            prop_assert_eq!(done(&real, operation), done(&fake, operation), "{:?}", operation);
        }
    }

    /// Goal: what was synced survives, whatever else does.
    #[test]
    fn synced_bytes_survive(seed in any::<u64>(), later in prop::collection::vec(any::<u8>(), 0..2_000)) {
        let disk = FakeDisk::new();
        let file = disk.create("f").unwrap();
        file.write_all_at(&[7; 3 * SECTOR], 0).unwrap();
        file.sync().unwrap();
        disk.sync_folder("").unwrap();
        file.write_all_at(&later, 3 * SECTOR as u64).unwrap();
        disk.create("g").unwrap();
        let left = disk.after_crash(Survival::Chance { seed });
        prop_assert_eq!(&bytes(&left, "f")[..3 * SECTOR], &[7; 3 * SECTOR]);
    }
}

fn bytes(disk: &FakeDisk, path: &str) -> Vec<u8> {
    let file = disk.open(path).unwrap();
    let mut bytes = vec![0; usize::try_from(file.length().unwrap()).unwrap()];
    file.read_all_at(&mut bytes, 0).unwrap();
    bytes
}

/// Disk with a file of one durable sector.
fn begun() -> (FakeDisk, Arc<dyn DiskFile>) {
    let disk = FakeDisk::new();
    let file = disk.create("f").unwrap();
    file.write_all_at(&[1; SECTOR], 0).unwrap();
    file.sync().unwrap();
    disk.sync_folder("").unwrap();
    (disk, file)
}

#[test]
fn bytes_without_a_sync_are_lost_or_torn() {
    let (disk, file) = begun();
    disk.fail(disk.operations(), DiskFault::Crash);
    // The write begins within a sector, so it has four of them.
    file.write_at(&[2; 3 * SECTOR], 100).unwrap_err();
    assert_eq!(disk.sectors_in_flight(), 4);
    assert_eq!(bytes(&disk.after_crash(Survival::Nothing), "f"), [1; SECTOR]);
    for sectors in 0..=4 {
        let left = bytes(&disk.after_crash(Survival::Torn { sectors }), "f");
        let written = (sectors * SECTOR).saturating_sub(100).min(3 * SECTOR);
        assert_eq!(left.len(), 100 + 3 * SECTOR);
        assert!(left.iter().skip(100).take(written).all(|byte| *byte == 2), "{sectors}");
        assert!(left.iter().skip(100 + written).all(|byte| *byte < 2), "{sectors}");
    }
    assert_eq!(bytes(&disk.after_crash(Survival::Entries), "f")[SECTOR..], [0; 2 * SECTOR + 100]);
    assert_eq!(file.sync().unwrap_err().kind(), io::Error::from(Errno::IO).kind());
}

#[test]
fn sectors_survive_in_any_order() {
    let (disk, file) = begun();
    file.write_all_at(&[2; 2 * SECTOR], 0).unwrap();
    let fates: std::collections::BTreeSet<Vec<u8>> =
        (0..100).map(|seed| bytes(&disk.after_crash(Survival::Chance { seed }), "f")).collect();
    let [old, new, none] = [[1; SECTOR], [2; SECTOR], [0; SECTOR]];
    // Without its new length, the file ends behind the first sector.
    let wanted = [vec![old], vec![new], vec![old, none], vec![old, new], vec![new, none], vec![new, new]];
    assert_eq!(fates, wanted.into_iter().map(|sectors| sectors.concat()).collect());
}

#[test]
fn entries_without_a_sync_of_their_folder_are_lost() {
    let (disk, _) = begun();
    let file = disk.create("new").unwrap();
    file.write_all_at(b"bytes", 0).unwrap();
    file.sync().unwrap();
    disk.create_folder("folder").unwrap();
    disk.create("folder/file").unwrap();
    disk.sync_folder("folder").unwrap();
    let names = |survival| disk.after_crash(survival).names("").unwrap();
    assert_eq!(names(Survival::Nothing), ["f"]);
    assert_eq!(names(Survival::Everything), ["f", "folder", "new"]);
    let without_folder = disk.after_crash(Survival::Nothing);
    assert_eq!(without_folder.names("folder").unwrap_err().kind(), io::ErrorKind::NotFound);
    assert_eq!(disk.after_crash(Survival::Everything).names("folder").unwrap(), ["file"]);
}

#[test]
fn a_failed_sync_loses_what_is_still_seen() {
    let (disk, file) = begun();
    file.write_all_at(&[2; SECTOR], 0).unwrap();
    disk.fail(disk.operations(), DiskFault::Io);
    assert_eq!(file.sync().unwrap_err().raw_os_error(), Some(Errno::IO.raw_os_error()));
    assert_eq!(bytes(&disk, "f"), [2; SECTOR]);
    file.sync().unwrap();
    assert_eq!(bytes(&disk.after_crash(Survival::Everything), "f"), [1; SECTOR]);
}

#[test]
fn a_full_disk_refuses_and_goes_on() {
    let (disk, file) = begun();
    disk.set_room(Some(2 * SECTOR as u64));
    assert_eq!(file.write_at(&[2; SECTOR], SECTOR as u64 + 1).unwrap_err().kind(), io::ErrorKind::StorageFull);
    assert_eq!(file.reserve(3 * SECTOR as u64).unwrap_err().kind(), io::ErrorKind::StorageFull);
    file.write_all_at(&[2; SECTOR], 1).unwrap();
    disk.set_room(None);
    file.reserve(3 * SECTOR as u64).unwrap();
    assert_eq!(file.length().unwrap(), 3 * SECTOR as u64);
    // Room of a file that was removed is free.
    disk.set_room(Some(SECTOR as u64));
    disk.remove("f").unwrap();
    disk.create("g").unwrap().write_all_at(&[3; SECTOR], 0).unwrap();
}

#[test]
fn short_writes_are_continued() {
    let (disk, file) = begun();
    disk.fail(disk.operations(), DiskFault::Short);
    assert_eq!(file.write_at(&[2; 10], 0).unwrap(), 5);
    disk.fail(disk.operations(), DiskFault::Short);
    file.write_all_at(&[3; 11], 0).unwrap();
    assert_eq!(&bytes(&disk, "f")[..12], [3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 1]);
}

#[test]
fn a_flipped_bit_is_one() {
    let (disk, _) = begun();
    disk.flip("f", 8 * 3 + 1).unwrap();
    assert_eq!(&bytes(&disk, "f")[2..5], [1, 3, 1]);
    assert_eq!(disk.flip("none", 0).unwrap_err().kind(), io::ErrorKind::NotFound);
}

/// Ways to replace a file, with one step left out.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LeftOut {
    Nothing,
    /// The sync of the new file.
    Sync,
    /// The sync of the folder, before the change is acknowledged.
    FolderSync,
    /// The other file: the old one is written over.
    Rename,
}

/// Replaces a file by newer versions. Returns the number of the last one that was acknowledged.
fn replace(disk: &FakeDisk, left_out: LeftOut) -> u8 {
    let once = |version: u8| -> io::Result<()> {
        let bytes = [version; 3 * SECTOR];
        let name = if left_out == LeftOut::Rename { "file" } else { "new" };
        let file = match disk.create(name) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => disk.open(name)?,
            file => file?,
        };
        file.write_all_at(&bytes, 0)?;
        if left_out != LeftOut::Sync {
            file.sync()?;
        }
        if left_out != LeftOut::Rename {
            disk.rename("", "new", "file")?;
        }
        if left_out != LeftOut::FolderSync {
            disk.sync_folder("")?;
        }
        Ok(())
    };
    (1..=3).take_while(|version| once(*version).is_ok()).last().unwrap_or(0)
}

/// Goal: exploring finds each classical mistake, and none where there is none.
#[test]
fn every_step_of_a_replacement_is_needed() {
    for (left_out, is_safe) in
        [(LeftOut::Nothing, true), (LeftOut::Sync, false), (LeftOut::FolderSync, false), (LeftOut::Rename, false)]
    {
        let failures = Cell::new(0);
        let checks = crash_everywhere(
            &FakeDisk::new(),
            |disk| replace(disk, left_out),
            |disk, acknowledged, _| {
                let is_there = match disk.open("file") {
                    Ok(_) => {
                        let bytes = bytes(disk, "file");
                        let version = bytes.first().copied().unwrap_or(0);
                        bytes.len() == 3 * SECTOR
                            && bytes.iter().all(|byte| *byte == version)
                            && (*acknowledged..=acknowledged + 1).contains(&version)
                    }
                    Err(_) => *acknowledged == 0,
                };
                failures.set(failures.get() + usize::from(!is_there));
            },
        );
        assert!(100 < checks, "{checks}");
        assert_eq!(failures.get() == 0, is_safe, "{} of {checks}", failures.get());
    }
}
