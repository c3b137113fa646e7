//! Keys, hashes and conversions. The tests of `ops` cover the results of operators and functions.

use super::{Numeric, key};
use proptest::prelude::*;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

fn number(text: &str) -> Numeric {
    Numeric::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn hash(number: &Numeric) -> u64 {
    let mut hasher = DefaultHasher::new();
    number.hash(&mut hasher);
    hasher.finish()
}

#[test]
fn keys_have_the_order_of_the_numbers() {
    let ascending = [
        "-Infinity",
        "-1e200",
        "-12345678901234567890.5",
        "-100",
        "-99.99",
        "-99",
        "-1.01",
        "-1",
        "-0.1",
        "-0.0999",
        "-1e-30",
        "0",
        "1e-30",
        "0.01",
        "0.0999",
        "0.1",
        "0.11",
        "1",
        "1.001",
        "1.01",
        "9",
        "10",
        "99",
        "100",
        "101",
        "9999.5",
        "10000",
        "12345678901234567890",
        "1e200",
        "Infinity",
        "NaN",
    ];
    for (index, a) in ascending.iter().enumerate() {
        for (other, b) in ascending.iter().enumerate() {
            let (a, b) = (number(a), number(b));
            assert_eq!(a.cmp(&b), index.cmp(&other), "{a} and {b}");
            let (a_key, b_key) = (a.to_key(), b.to_key());
            assert_eq!(key::ordering_part(&a_key).cmp(key::ordering_part(&b_key)), index.cmp(&other), "{a} and {b}");
        }
    }
}

#[test]
fn equal_numbers_of_different_scales() {
    for (a, b) in [("1.0", "1.00"), ("0", "0.000"), ("-100", "-100.0"), ("1e30", "1000000000000000000000000000000.00")]
    {
        let (a, b) = (number(a), number(b));
        assert_eq!(a, b);
        assert_eq!(hash(&a), hash(&b));
        assert_eq!(key::ordering_part(&a.to_key()), key::ordering_part(&b.to_key()));
        assert_ne!(a.to_key(), b.to_key());
    }
}

#[test]
fn decimals_of_a_fixed_scale() {
    assert_eq!(number("12.345").to_i128_with_scale(2), Some(1235));
    assert_eq!(number("-12.3").to_i128_with_scale(2), Some(-1230));
    assert_eq!(number("1e40").to_i128_with_scale(0), None);
    assert_eq!(Numeric::from_parts(-1230, 2).to_string(), "-12.30");
    assert_eq!(number("2.5").to_i128(), Some(3));
    assert_eq!(number("NaN").to_i128(), None);
}

#[test]
fn bytes_that_are_no_number() {
    for bytes in [&[][..], &[3], &[9, 0, 0], &[3, 0, 0, 0], &[3, 128, 0, 1, 2, 5, 0, 0]] {
        assert_eq!(Numeric::from_key(bytes), None, "{bytes:?}");
    }
    for (mut bytes, state) in [
        (&[0, 1][..], "08P01"),
        (&[0, 1, 0, 0, 0, 0, 0, 0], "08P01"),
        (&[0, 1, 0, 0, 0, 0, 0, 0, 0x27, 0x10], "22P03"),
        (&[0, 1, 0, 0, 0xC0, 0, 0, 0], "08P01"),
        (&[0, 1, 0, 0, 0xC0, 0, 0, 0, 0x27, 0x10], "22P03"),
        (&[0, 0, 0, 0, 0x12, 0x34, 0, 0], "22P03"),
    ] {
        let error = Numeric::receive(&mut bytes).expect_err("no number");
        assert_eq!(error.state().0, state);
    }
}

/// Numbers of all sizes, some with trailing zeros.
fn numbers() -> impl Strategy<Value = Numeric> {
    (any::<i128>(), 0_u32..100, 0_u16..60)
        .prop_map(|(unscaled, shift, scale)| Numeric::from_parts(unscaled >> shift, scale))
}

proptest! {
    #[test]
    fn what_is_written_is_read(number in numbers()) {
        let same = |back: &Numeric| *back == number && back.scale() == number.scale();
        prop_assert!(same(&Numeric::parse(&number.to_string()).expect("a number")));
        prop_assert!(same(&Numeric::from_key(&number.to_key()).expect("a key")));
        let mut bytes = Vec::new();
        number.send(&mut bytes);
        prop_assert!(same(&Numeric::receive(&mut &bytes[..]).expect("a number")));
    }

    #[test]
    fn keys_of_any_numbers_have_their_order(a in numbers(), b in numbers()) {
        let (a_key, b_key) = (a.to_key(), b.to_key());
        prop_assert_eq!(key::ordering_part(&a_key).cmp(key::ordering_part(&b_key)), a.cmp(&b));
        let difference = a.sub(&b).expect("in range");
        prop_assert_eq!(difference.signum(), a.cmp(&b) as i32);
    }

    #[test]
    fn square_roots_are_rounded(a in any::<u64>(), b in any::<u64>(), shift in 0_u32..400) {
        let number = |n: u64| Numeric::from_parts(i128::from(n), 0);
        let high = Numeric::made(super::ten_to(shift), 0).mul(&number(a)).expect("in range");
        let root = high.add(&number(b)).expect("in range");
        let square = root.mul(&root).expect("in range");
        // (root + 1/2)² is between these two.
        let below = square.add(&root).expect("in range");
        let above = below.add(&Numeric::from(1)).expect("in range");
        prop_assert_eq!(square.sqrt_at(0).expect("in range"), root.clone());
        prop_assert_eq!(below.sqrt_at(0).expect("in range"), root.clone());
        prop_assert_eq!(above.sqrt_at(0).expect("in range"), root.add(&Numeric::from(1)).expect("in range"));
    }

    #[test]
    fn quotient_and_remainder(a in any::<i64>(), b in any::<i64>(), s in 0_u16..9, t in 0_u16..9) {
        prop_assume!(b != 0);
        let (a, b) = (Numeric::from_parts(i128::from(a), s), Numeric::from_parts(i128::from(b), t));
        let whole = a.div_trunc(&b).expect("in range");
        let back = whole.mul(&b).and_then(|product| product.add(&a.rem(&b)?)).expect("in range");
        prop_assert_eq!(back, a);
    }
}
