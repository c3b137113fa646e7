//! Goal: after any patching an image is what encoding the patched values gives, text order aside. Method: random patches
//! beside a plain list of values.

use super::*;
use crate::row::value::Type;
use crate::schema::table::Column;

#[test]
fn a_patched_image_holds_the_patched_values() {
    let kinds = [Type::Int32, Type::Text, Type::Int64, Type::Text, Type::Decimal { precision: 20, scale: 0 }];
    let columns: Vec<Column> = kinds.iter().map(|kind| Column::nullable("c", *kind)).collect();
    let layout = Layout::new(7, &columns);
    let texts = ["", "a", "four", "something longer than the others"];
    let mut values = [Value::Int32(1), Value::Text("x"), Value::Null, Value::Text("tail"), Value::Decimal(1 << 66)];
    let mut image = Vec::new();
    layout.encode(&values, &mut image).unwrap();
    let mut state = 1_u64;
    for _ in 0..10_000 {
        let mut writer = RowWriter::new(&layout, &mut image, false);
        let mut wanted = Touched::default();
        for _ in 0..3 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let (column, pick) = ((state >> 33) as usize % kinds.len(), (state >> 48) as usize % 5);
            let value = match kinds[column] {
                _ if pick == 4 => Value::Null,
                Type::Int32 => Value::Int32(pick as i32),
                Type::Int64 => Value::Int64(-(pick as i64)),
                Type::Text => Value::Text(texts[pick]),
                _ => Value::Decimal(pick as i128),
            };
            writer.set(column, value);
            values[column] = value;
            wanted.add(column);
        }
        assert_eq!(writer.finish().unwrap(), wanted);
        let read = Image { layout: &layout, bytes: &image };
        assert_eq!([0, 1, 2, 3, 4].map(|column| read.value(column)), values);
        assert_eq!(image[..4], 7_u32.to_le_bytes());
        let mut fresh = Vec::new();
        layout.encode(&values, &mut fresh).unwrap();
        assert_eq!(image.len(), fresh.len(), "no dead text is left");
    }
}

#[test]
fn touched_columns_beyond_the_63rd_share_a_bit() {
    let mut touched = Touched::default();
    touched.add(0);
    touched.add(62);
    assert!(touched.is_exact());
    assert_eq!(touched.columns().collect::<Vec<_>>(), [0, 62]);
    touched.add(100);
    assert!(!touched.is_exact());
    let mut other = Touched::default();
    other.add(63);
    assert!(touched.meets(other));
}
