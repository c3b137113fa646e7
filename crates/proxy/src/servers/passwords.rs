//! Password of the URL's user, searched where libpq searches it: in the URL, in `PGPASSWORD`, in a file (`passfile=` of
//! the URL, else `PGPASSFILE`, else `~/.pgpass`).
//!
//! **Invariant:** the first place that has one counts. A file that others may read is ignored.

use crate::servers::url::{ServerAddress, Url};
use locked::Locked;
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// Folders in which libpq searches unix sockets by default; a password file calls them `localhost`.
const SOCKET_DIRECTORIES: [&str; 3] = ["/tmp", "/var/run/postgresql", "/run/postgresql"];

/// Sources of the password for the URL's user.
pub(crate) struct Passwords {
    known: Option<String>,
    file: Option<PasswordFile>,
}

/// Password file. It is read for each connection whose server asks for a password, so that a new one takes effect at
/// once.
struct PasswordFile {
    path: PathBuf,
    /// True if the file is configured by name, and so should exist.
    is_named: bool,
    /// Last problem with the file, so that the log reports it once.
    trouble: Mutex<String>,
}

impl fmt::Debug for Passwords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = self.file.as_ref().map(|file| &file.path);
        f.debug_struct("Passwords").field("file", &file).finish_non_exhaustive()
    }
}

impl Passwords {
    /// Sources for a URL, in this environment.
    pub(crate) fn of(url: &Url, variable: impl Fn(&str) -> Option<OsString>) -> Passwords {
        let variable = |name: &str| variable(name).filter(|value| !value.is_empty());
        let known = url.password.clone().or_else(|| variable("PGPASSWORD")?.into_string().ok());
        let named = url.password_file.clone().or_else(|| variable("PGPASSFILE").map(PathBuf::from));
        let is_named = named.is_some();
        let path = named.or_else(|| Some(PathBuf::from(variable("HOME")?).join(".pgpass")));
        let file = path.map(|path| PasswordFile { path, is_named, trouble: Mutex::default() });
        Passwords { known, file }
    }

    /// Finds the password for a login to this database of this server. May read a file.
    pub(crate) fn find(&self, host: &ServerAddress, user: &str, database: &str) -> Option<String> {
        self.known.clone().or_else(|| self.file.as_ref()?.find(host, user, database))
    }
}

impl PasswordFile {
    fn find(&self, host: &ServerAddress, user: &str, database: &str) -> Option<String> {
        let (lines, trouble) = match self.read() {
            Ok(lines) => (lines, String::new()),
            Err(trouble) => (String::new(), trouble),
        };
        {
            let mut before = self.trouble.locked_anyway();
            if !trouble.is_empty() && *before != trouble {
                tracing::warn!("{trouble}");
            }
            *before = trouble;
        }
        let found = |name: &str, port: &str| lines.lines().find_map(|line| of_line(line, [name, port, database, user]));
        let password = match host {
            ServerAddress::Tcp(name, port) => found(name, &port.to_string()),
            ServerAddress::Unix(path) => {
                let directory = path.parent().and_then(Path::to_str).unwrap_or_default();
                let port = path.extension().and_then(|port| port.to_str()).unwrap_or_default();
                let is_default = SOCKET_DIRECTORIES.contains(&directory);
                found(directory, port).or_else(|| is_default.then(|| found("localhost", port)).flatten())
            }
        };
        password.filter(|password| !password.is_empty())
    }

    /// Reads the file's text; empty, if the file is missing and was not configured by name.
    ///
    /// # Errors
    /// The reason why the file cannot be used, in libpq's words where it has some.
    fn read(&self) -> Result<String, String> {
        let name = self.path.display();
        let status = match fs::metadata(&self.path) {
            Ok(status) => status,
            Err(error) if self.is_named => return Err(format!("password file \"{name}\": {error}")),
            Err(_) => return Ok(String::new()),
        };
        if !status.is_file() {
            return Err(format!("password file \"{name}\" is not a plain file"));
        }
        if status.mode() & 0o077 != 0 {
            return Err(format!(
                "password file \"{name}\" has group or world access; permissions should be u=rw (0600) or less"
            ));
        }
        fs::read_to_string(&self.path).map_err(|error| format!("password file \"{name}\": {error}"))
    }
}

/// Password of a line `host:port:database:user:password` that matches these four.
fn of_line(line: &str, wanted: [&str; 4]) -> Option<String> {
    if line.starts_with('#') {
        return None;
    }
    let rest = wanted.into_iter().try_fold(line, behind)?;
    let (mut password, mut letters) = (String::new(), rest.chars());
    while let Some(letter) = letters.next() {
        match letter {
            ':' => break,
            // A backslash at the end of a line stands for itself.
            '\\' => password.push(letters.next().unwrap_or('\\')),
            letter => password.push(letter),
        }
    }
    Some(password)
}

/// Returns the rest of a line behind its first field, if that is `*` or this text. A character behind a backslash
/// stands for itself.
fn behind<'l>(line: &'l str, text: &str) -> Option<&'l str> {
    if let Some(rest) = line.strip_prefix("*:") {
        return Some(rest);
    }
    let (mut letters, mut wanted) = (line.chars(), text.chars());
    loop {
        let letter = letters.next()?;
        if letter == ':' && wanted.as_str().is_empty() {
            return Some(letters.as_str());
        }
        let letter = if letter == '\\' { letters.next()? } else { letter };
        if wanted.next()? != letter {
            return None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn tcp(name: &str, port: u16) -> ServerAddress {
        ServerAddress::Tcp(name.to_owned(), port)
    }

    #[test]
    fn lines_are_read_as_libpq_does() {
        let of = |line: &str| of_line(line, ["db", "5432", "a:b", "ann"]);
        for (line, password) in [
            ("db:5432:a\\:b:ann:pencil", Some("pencil")),
            ("*:*:*:*:pencil", Some("pencil")),
            ("*:5432:*:ann:p\\:e\\\\n", Some("p:e\\n")),
            ("*:*:*:*:pencil:more", Some("pencil")),
            ("*:*:*:*:", Some("")),
            ("d\\b:*:*:*:pencil\\", Some("pencil\\")),
            ("*:*:*:*", None),
            ("#*:*:*:*:pencil", None),
            ("d*:*:*:*:pencil", None),
            ("dbs:*:*:*:pencil", None),
            ("d:*:*:*:pencil", None),
            ("db:5433:*:*:pencil", None),
            ("", None),
        ] {
            assert_eq!(of(line).as_deref(), password, "{line}");
        }
    }

    #[test]
    fn the_first_place_that_has_one_counts() {
        let folder = std::env::temp_dir().join(format!("overtake-passwords-{}", std::process::id()));
        fs::create_dir(&folder).expect("a folder");
        let write = |name: &str, mode: u32, text: &str| {
            let path = folder.join(name);
            fs::write(&path, text).expect("a file");
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("its mode");
            path.to_str().expect("a name").to_owned()
        };
        let home = write(".pgpass", 0o600, "# mine\n*:*:*:*:home\n");
        let own = write(
            "own",
            0o600,
            "a:1:d:u:one\na:2:d:u:\n\\:\\:1:*:*:*:six\nlocalhost:5432:*:u:socket\n/sock:*:*:*:other\r\n*:*:e:*:all\n",
        );
        let open = write("open", 0o640, "*:*:*:*:open\n");
        let variables = |name: &str| match name {
            "HOME" => Some(folder.clone().into_os_string()),
            _ => None,
        };
        let url = |more: &str| format!("postgres://u{more}").parse::<Url>().expect("a URL");
        let find = |passwords: &Passwords, host: &ServerAddress, database: &str| passwords.find(host, "u", database);
        let of_own = Passwords::of(&url(&format!("@a/d?passfile={own}")), variables);
        for (host, database, password) in [
            (tcp("a", 1), "d", Some("one")),
            (tcp("a", 1), "other", None),
            // The first matching line counts, though its password is empty.
            (tcp("a", 2), "d", None),
            (tcp("::1", 7), "d", Some("six")),
            (ServerAddress::Unix("/tmp/.s.PGSQL.5432".into()), "d", Some("socket")),
            (ServerAddress::Unix("/tmp/.s.PGSQL.5433".into()), "d", None),
            (ServerAddress::Unix("/sock/.s.PGSQL.1".into()), "d", Some("other")),
            (tcp("b", 1), "e", Some("all")),
        ] {
            assert_eq!(find(&of_own, &host, database).as_deref(), password, "{host} {database}");
        }
        let a = tcp("a", 1);
        assert_eq!(find(&Passwords::of(&url("@a"), variables), &a, "d").as_deref(), Some("home"));
        let with_file = |name: &str| match name {
            "PGPASSFILE" => Some(own.clone().into()),
            name => variables(name),
        };
        assert_eq!(find(&Passwords::of(&url("@a"), with_file), &a, "d").as_deref(), Some("one"));
        assert_eq!(
            find(&Passwords::of(&url(&format!("@a?passfile={home}")), with_file), &a, "d").as_deref(),
            Some("home")
        );
        let with_password = |name: &str| match name {
            "PGPASSWORD" => Some("said".into()),
            name => with_file(name),
        };
        assert_eq!(find(&Passwords::of(&url("@a"), with_password), &a, "d").as_deref(), Some("said"));
        assert_eq!(find(&Passwords::of(&url(":own@a"), with_password), &a, "d").as_deref(), Some("own"));
        assert_eq!(find(&Passwords::of(&url(":@a"), with_password), &a, "d").as_deref(), Some("said"));
        // Others may read the first; the second is no file; the third does not exist.
        for wrong in [open, folder.to_str().expect("a name").to_owned(), format!("{own}x")] {
            let passwords = Passwords::of(&url(&format!("@a?passfile={wrong}")), variables);
            assert_eq!(find(&passwords, &a, "d"), None, "{wrong}");
            let trouble = passwords.file.expect("a file").trouble.into_inner().expect("its trouble");
            assert!(trouble.starts_with(&format!("password file \"{wrong}\"")), "{trouble}");
        }
        fs::remove_dir_all(&folder).expect("the folder");
    }
}
