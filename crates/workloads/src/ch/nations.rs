//! The 62 nations. Their keys are the codes of the characters that a customer's state may begin with.
//!
//! Invariant: a key is the code of a digit or letter, each once, so every customer belongs to a nation. The queries
//! name Germany and Cambodia, and the region Europe.

/// Names of the regions; their keys count from 1.
pub(crate) const REGIONS: [&str; 5] = ["Africa", "America", "Asia", "Australia", "Europe"];

const AFRICA: i32 = 1;
const AMERICA: i32 = 2;
const ASIA: i32 = 3;
const AUSTRALIA: i32 = 4;
const EUROPE: i32 = 5;

/// Name, key and region of each nation.
pub(crate) const NATIONS: [(&str, u8, i32); 62] = [
    ("Australia", b'0', AUSTRALIA),
    ("Belgium", b'1', EUROPE),
    ("Cameroon", b'2', AFRICA),
    ("Denmark", b'3', EUROPE),
    ("Ecuador", b'4', AMERICA),
    ("France", b'5', EUROPE),
    ("Germany", b'6', EUROPE),
    ("Hungary", b'7', EUROPE),
    ("Italy", b'8', EUROPE),
    ("Japan", b'9', ASIA),
    ("Argentina", b'A', AMERICA),
    ("Bolivia", b'B', AMERICA),
    ("Cambodia", b'C', ASIA),
    ("Dominican Republic", b'D', AMERICA),
    ("Egypt", b'E', AFRICA),
    ("Finland", b'F', EUROPE),
    ("Ghana", b'G', AFRICA),
    ("Haiti", b'H', AMERICA),
    ("India", b'I', ASIA),
    ("Jamaica", b'J', AMERICA),
    ("Kenya", b'K', AFRICA),
    ("Lithuania", b'L', EUROPE),
    ("Mexico", b'M', AMERICA),
    ("Netherlands", b'N', EUROPE),
    ("Oman", b'O', ASIA),
    ("Portugal", b'P', EUROPE),
    ("Qatar", b'Q', ASIA),
    ("Rwanda", b'R', AFRICA),
    ("Serbia", b'S', EUROPE),
    ("Togo", b'T', AFRICA),
    ("United States", b'U', AMERICA),
    ("Vietnam", b'V', ASIA),
    ("Western Samoa", b'W', AUSTRALIA),
    ("Christmas Island", b'X', AUSTRALIA),
    ("Yemen", b'Y', ASIA),
    ("Zimbabwe", b'Z', AFRICA),
    ("Austria", b'a', EUROPE),
    ("Brazil", b'b', AMERICA),
    ("China", b'c', ASIA),
    ("Djibouti", b'd', AFRICA),
    ("Estonia", b'e', EUROPE),
    ("Fiji", b'f', AUSTRALIA),
    ("Greece", b'g', EUROPE),
    ("Honduras", b'h', AMERICA),
    ("Iceland", b'i', EUROPE),
    ("Jordan", b'j', ASIA),
    ("Kiribati", b'k', AUSTRALIA),
    ("Luxembourg", b'l', EUROPE),
    ("Morocco", b'm', AFRICA),
    ("New Zealand", b'n', AUSTRALIA),
    ("Nauru", b'o', AUSTRALIA),
    ("Peru", b'p', AMERICA),
    ("Tuvalu", b'q', AUSTRALIA),
    ("Romania", b'r', EUROPE),
    ("Spain", b's', EUROPE),
    ("Thailand", b't', ASIA),
    ("United Kingdom", b'u', EUROPE),
    ("Vanuatu", b'v', AUSTRALIA),
    ("Papua New Guinea", b'w', AUSTRALIA),
    ("Canada", b'x', AMERICA),
    ("Ukraine", b'y', EUROPE),
    ("Zambia", b'z', AFRICA),
];
