//! Abbreviations of time zones, as in PostgreSQL's set `Default` (`timezonesets/Default` of PostgreSQL 15).
//!
//! **Invariant:** the table is in the order of the names, in lower case, since it is searched by bisection.

/// Meaning of an abbreviation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ZoneAbbreviation {
    /// Fixed offset in seconds east of UTC, at any time.
    Fixed(i32),
    /// Offset that the zone of this name calls so at the time in question.
    Of(&'static str),
}

/// Returns the meaning of an abbreviation in lower case.
pub(super) fn meaning(abbreviation: &str) -> Option<ZoneAbbreviation> {
    TABLE.binary_search_by(|(name, _)| (*name).cmp(abbreviation)).ok().map(|at| TABLE[at].1)
}

use ZoneAbbreviation::{Fixed, Of};

#[rustfmt::skip]
static TABLE: [(&str, ZoneAbbreviation); 195] = [
    ("acdt", Fixed(37800)), ("acsst", Fixed(37800)), ("acst", Fixed(34200)), ("act", Fixed(-18000)),
    ("acwst", Fixed(31500)), ("adt", Fixed(-10800)), ("aedt", Fixed(39600)), ("aesst", Fixed(39600)),
    ("aest", Fixed(36000)), ("aft", Fixed(16200)), ("akdt", Fixed(-28800)), ("akst", Fixed(-32400)),
    ("almst", Fixed(25200)), ("almt", Fixed(21600)), ("amst", Of("Asia/Yerevan")), ("amt", Fixed(-14400)),
    ("anast", Of("Asia/Anadyr")), ("anat", Of("Asia/Anadyr")), ("arst", Of("America/Argentina/Buenos_Aires")),
    ("art", Of("America/Argentina/Buenos_Aires")), ("ast", Fixed(-14400)), ("awsst", Fixed(32400)),
    ("awst", Fixed(28800)), ("azost", Fixed(0)), ("azot", Fixed(-3600)), ("azst", Of("Asia/Baku")),
    ("azt", Of("Asia/Baku")), ("bdst", Fixed(7200)), ("bdt", Fixed(21600)), ("bnt", Fixed(28800)),
    ("bort", Fixed(28800)), ("bot", Fixed(-14400)), ("bra", Fixed(-10800)), ("brst", Fixed(-7200)),
    ("brt", Fixed(-10800)), ("bst", Fixed(3600)), ("btt", Fixed(21600)), ("cadt", Fixed(37800)), ("cast", Fixed(34200)),
    ("cct", Fixed(28800)), ("cdt", Fixed(-18000)), ("cest", Fixed(7200)), ("cet", Fixed(3600)), ("cetdst", Fixed(7200)),
    ("chadt", Fixed(49500)), ("chast", Fixed(45900)), ("chut", Fixed(36000)), ("ckt", Of("Pacific/Rarotonga")),
    ("clst", Fixed(-10800)), ("clt", Of("America/Santiago")), ("cot", Fixed(-18000)), ("cst", Fixed(-21600)),
    ("cxt", Fixed(25200)), ("davt", Of("Antarctica/Davis")), ("ddut", Fixed(36000)), ("easst", Of("Pacific/Easter")),
    ("east", Of("Pacific/Easter")), ("eat", Fixed(10800)), ("edt", Fixed(-14400)), ("eest", Fixed(10800)),
    ("eet", Fixed(7200)), ("eetdst", Fixed(10800)), ("egst", Fixed(0)), ("egt", Fixed(-3600)), ("est", Fixed(-18000)),
    ("fet", Fixed(10800)), ("fjst", Fixed(46800)), ("fjt", Fixed(43200)), ("fkst", Of("Atlantic/Stanley")),
    ("fkt", Of("Atlantic/Stanley")), ("fnst", Fixed(-3600)), ("fnt", Fixed(-7200)), ("galt", Fixed(-21600)),
    ("gamt", Fixed(-32400)), ("gest", Of("Asia/Tbilisi")), ("get", Of("Asia/Tbilisi")), ("gft", Fixed(-10800)),
    ("gilt", Fixed(43200)), ("gmt", Fixed(0)), ("gyt", Of("America/Guyana")), ("hkt", Fixed(28800)),
    ("hst", Fixed(-36000)), ("ict", Fixed(25200)), ("idt", Fixed(10800)), ("iot", Of("Indian/Chagos")),
    ("irkst", Of("Asia/Irkutsk")), ("irkt", Of("Asia/Irkutsk")), ("irt", Fixed(12600)), ("ist", Fixed(7200)),
    ("jayt", Fixed(32400)), ("jst", Fixed(32400)), ("kdt", Fixed(36000)), ("kgst", Fixed(21600)),
    ("kgt", Of("Asia/Bishkek")), ("kost", Of("Pacific/Kosrae")), ("krast", Of("Asia/Krasnoyarsk")),
    ("krat", Of("Asia/Krasnoyarsk")), ("kst", Fixed(32400)), ("lhdt", Of("Australia/Lord_Howe")),
    ("lhst", Fixed(37800)), ("ligt", Fixed(36000)), ("lint", Of("Pacific/Kiritimati")), ("lkt", Of("Asia/Colombo")),
    ("magst", Of("Asia/Magadan")), ("magt", Of("Asia/Magadan")), ("mart", Fixed(-34200)),
    ("mawt", Of("Antarctica/Mawson")), ("mdt", Fixed(-21600)), ("mest", Fixed(7200)), ("mesz", Fixed(7200)),
    ("met", Fixed(3600)), ("metdst", Fixed(7200)), ("mez", Fixed(3600)), ("mht", Fixed(43200)), ("mmt", Fixed(23400)),
    ("mpt", Fixed(36000)), ("msd", Fixed(14400)), ("msk", Of("Europe/Moscow")), ("mst", Fixed(-25200)),
    ("must", Fixed(18000)), ("mut", Fixed(14400)), ("mvt", Fixed(18000)), ("myt", Fixed(28800)), ("ndt", Fixed(-9000)),
    ("nft", Fixed(-12600)), ("novst", Of("Asia/Novosibirsk")), ("novt", Of("Asia/Novosibirsk")), ("npt", Fixed(20700)),
    ("nst", Fixed(-12600)), ("nut", Of("Pacific/Niue")), ("nzdt", Fixed(46800)), ("nzst", Fixed(43200)),
    ("nzt", Fixed(43200)), ("omsst", Of("Asia/Omsk")), ("omst", Of("Asia/Omsk")), ("pdt", Fixed(-25200)),
    ("pet", Fixed(-18000)), ("petst", Of("Asia/Kamchatka")), ("pett", Of("Asia/Kamchatka")), ("pgt", Fixed(36000)),
    ("pht", Fixed(28800)), ("pkst", Fixed(21600)), ("pkt", Fixed(18000)), ("pmdt", Fixed(-7200)),
    ("pmst", Fixed(-10800)), ("pont", Fixed(39600)), ("pst", Fixed(-28800)), ("pwt", Fixed(32400)),
    ("pyst", Fixed(-10800)), ("pyt", Of("America/Asuncion")), ("ret", Fixed(14400)), ("sadt", Fixed(37800)),
    ("sast", Fixed(7200)), ("sct", Fixed(14400)), ("sgt", Of("Asia/Singapore")), ("taht", Fixed(-36000)),
    ("tft", Fixed(18000)), ("tjt", Fixed(18000)), ("tkt", Of("Pacific/Fakaofo")), ("tmt", Of("Asia/Ashgabat")),
    ("tot", Fixed(46800)), ("trut", Fixed(36000)), ("tvt", Fixed(43200)), ("uct", Fixed(0)), ("ulast", Fixed(32400)),
    ("ulat", Of("Asia/Ulaanbaatar")), ("ut", Fixed(0)), ("utc", Fixed(0)), ("uyst", Fixed(-7200)),
    ("uyt", Fixed(-10800)), ("uzst", Fixed(21600)), ("uzt", Fixed(18000)), ("vet", Of("America/Caracas")),
    ("vlast", Of("Asia/Vladivostok")), ("vlat", Of("Asia/Vladivostok")), ("volt", Of("Europe/Volgograd")),
    ("vut", Fixed(39600)), ("wadt", Fixed(28800)), ("wakt", Fixed(43200)), ("wast", Fixed(25200)), ("wat", Fixed(3600)),
    ("wdt", Fixed(32400)), ("wet", Fixed(0)), ("wetdst", Fixed(3600)), ("wft", Fixed(43200)), ("wgst", Fixed(-7200)),
    ("wgt", Fixed(-10800)), ("xjt", Fixed(21600)), ("yakst", Of("Asia/Yakutsk")), ("yakt", Of("Asia/Yakutsk")),
    ("yapt", Fixed(36000)), ("yekst", Fixed(21600)), ("yekt", Of("Asia/Yekaterinburg")), ("z", Fixed(0)),
    ("zulu", Fixed(0)),
];
