//! Messages that `pgwire` writes and this crate reads.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;
use bytes::{Buf, Bytes, BytesMut};
use pgwire::messages::Message;
use pgwire::messages::extendedquery as theirs;

const MAX: usize = 1 << 20;

/// Message: its first byte and its body.
struct Frame {
    kind: u8,
    body: Bytes,
}

fn next(input: &mut BytesMut, message_max: usize) -> Result<Option<Frame>, Broken> {
    let Some((kind, length)) = whole(input, message_max)? else { return Ok(None) };
    let mut body = input.split_to(length).freeze();
    body.advance(HEAD);
    Ok(Some(Frame { kind, body }))
}

fn framed(message: &impl Message) -> Frame {
    let mut bytes = BytesMut::new();
    message.encode(&mut bytes).unwrap();
    let whole = bytes.len();
    for length in 0..whole {
        assert!(next(&mut BytesMut::from(&bytes[..length]), MAX).unwrap().is_none(), "{length} of {whole} bytes");
    }
    bytes.extend_from_slice(b"rest");
    let frame = next(&mut bytes, MAX).unwrap().unwrap();
    assert_eq!(&bytes[..], b"rest");
    frame
}

/// Asserts that every prefix of a body is refused, and so is one more byte.
fn refuses_parts<T>(body: &[u8], read: impl Fn(&[u8]) -> Result<T, Malformed>) {
    for length in 0..body.len() {
        assert!(read(&body[..length]).is_err(), "{length} of {} bytes", body.len());
    }
    assert!(read(&[body, &[0]].concat()).is_err());
}

#[test]
fn what_pgwire_writes_is_read() {
    let frame = framed(&theirs::Parse::new(Some("s".into()), "select $1".into(), vec![23, 0]));
    assert_eq!(frame.kind, b'P');
    assert_eq!(Parse::read(&frame.body), Ok(Parse { name: "s", text: "select $1", types: vec![23, 0] }));
    refuses_parts(&frame.body, |body| Parse::read(body).map(drop));

    let values = vec![None, Some(Bytes::from_static(b"ab")), Some(Bytes::new())];
    let frame = framed(&theirs::Bind::new(None, Some("s".into()), vec![1], values, vec![0, 1]));
    let Bind { portal, statement, formats, values, results } = Bind::read(&frame.body).unwrap();
    assert_eq!((portal, statement, formats.count(), values.count(), results.count()), ("", "s", 1, 3, 2));
    assert_eq!(values.iter().collect::<Vec<_>>(), [None, Some(&b"ab"[..]), Some(&b""[..])]);
    assert_eq!(formats.iter().chain(results.iter()).collect::<Vec<_>>(), [1, 0, 1]);
    refuses_parts(&frame.body, |body| Bind::read(body).map(drop));

    let frame = framed(&theirs::Describe::new(b'P', Some("p".into())));
    assert_eq!(target(&frame.body), Ok((b'P', "p")));
    refuses_parts(&frame.body, |body| target(body).map(drop));

    let frame = framed(&theirs::Execute::new(Some("p".into()), -5));
    assert_eq!(execute(&frame.body), Ok(("p", -5)));
    refuses_parts(&frame.body, |body| execute(body).map(drop));

    let frame = framed(&pgwire::messages::simplequery::Query::new("select 1".into()));
    assert_eq!(query(&frame.body), Ok("select 1"));
    refuses_parts(&frame.body, |body| query(body).map(drop));
}

#[test]
fn lengths_are_judged_before_anything_is_awaited() {
    let judge = |bytes: &[u8]| next(&mut BytesMut::from(bytes), MAX).map(|frame| frame.is_some());
    assert_eq!(judge(b""), Ok(false));
    assert_eq!(judge(b"Q\0\0"), Ok(false));
    assert_eq!(judge(b"S\0\0\0\x04"), Ok(true));
    assert_eq!(judge(b"\0"), Err(Broken::Kind(0)));
    assert_eq!(judge(b"S\0\0\0\x03"), Err(Broken::Length(3)));
    assert_eq!(judge(b"Q\xff\xff\xff\xff"), Err(Broken::Length(-1)));
    assert_eq!(judge(b"Q\x7f\xff\xff\xff"), Err(Broken::TooLong(0x7fff_fffb)));
    assert_eq!(judge(b"Q\0\x10\0\x04"), Ok(false));
    assert_eq!(judge(b"Q\0\x10\0\x05"), Err(Broken::TooLong(MAX + 1)));
    assert_eq!(judge(b"E\0\0\x27\x15"), Err(Broken::TooLong(10_001)));
}

#[test]
fn counts_do_not_promise() {
    assert_eq!(Parse::read(b"\0\0\xff\xff"), Err(Malformed::Short));
    assert_eq!(Bind::read(b"\0\0\xff\xff"), Err(Malformed::Short));
    assert_eq!(Bind::read(b"\0\0\0\0\xff\xff"), Err(Malformed::Short));
    assert_eq!(Bind::read(b"\0\0\0\0\0\0\xff\xff"), Err(Malformed::Short));
    assert_eq!(Bind::read(b"\0\0\0\0\0\x01\xff\xff\xff\xfe\0\0"), Err(Malformed::Negative));
    assert_eq!(Bind::read(b"\0\0\0\0\0\x01\x7f\xff\xff\xff\0\0"), Err(Malformed::Short));
}

#[test]
fn text_is_utf8() {
    let not = |bytes: &[u8]| match query(bytes) {
        Err(Malformed::NotUtf8(first, count)) => first[..count].to_vec(),
        other => panic!("{other:?}"),
    };
    assert_eq!(not(b"a\xff\0"), b"\xff");
    assert_eq!(not(b"\xc3(x\0"), b"\xc3(");
    assert_eq!(not(b"\xe2\x82\0"), b"\xe2\x82");
    assert_eq!(query(b"a\0b\0"), Err(Malformed::Long));
}
