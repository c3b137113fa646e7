//! Case for measurements with `strace`, as the comment at the case describes.

use crate::support::Rig;
use wirekit::raw::{bind, execute, named, parse, sync};

/// `strace -f -e trace=network,epoll_wait target/debug/deps/it-… --exec cost::a_thousand_executions`: the
/// calls of all threads but the first are the server's. The messages are those of drivers: Bind, Describe,
/// Execute, Sync in one packet.
pub fn a_thousand_executions() {
    let rig = Rig::new();
    let mut client = rig.client();
    client.ask(&[parse("s", "rows 1", &[]), sync()].concat());
    let execution = [bind("", "s", &[], &[], &[]), named(b'D', b'P', ""), execute("", 0), sync()].concat();
    for _ in 0..1000 {
        assert_eq!(client.ask(&execution), "2 T(n:23:0,t:25:0) D(1,row 1) C(SELECT 1) Z(I)");
    }
}
