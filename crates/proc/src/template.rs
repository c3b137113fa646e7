//! Files of new projects.

use crate::language::Language;
use anyhow::Context;
use host::refusal::Refusal;
use std::fs;
use std::path::Path;

/// Name of the example's module in the templates.
const EXAMPLE: &str = "bank";

/// Path within the project, and text.
type TemplateFile = (&'static str, &'static str);

macro_rules! files {
    ($folder:literal; $($path:literal),* $(,)?) => {
        &[$(($path, include_str!(concat!("../../../sdk/", $folder, "/", $path)))),*]
    };
}

const COMMON: &[TemplateFile] = files!["example"; "schema.sql", "procedures.sql", "tests/transfer.sql", "tests/transfer.expected", "tests/fee.sql", "tests/fee.expected"];
const RUST: &[TemplateFile] = files!["rust"; "Cargo.toml", "src/main.rs"];
const ASSEMBLYSCRIPT: &[TemplateFile] =
    files!["assemblyscript"; "package.json", "manifest.txt", "assembly/index.ts", "assembly/overtake.ts"];
const TYPESCRIPT: &[TemplateFile] = files![
    "typescript"; "package.json", "tsconfig.json", "main.ts", "overtake.ts", "overtake/wire.ts",
    "overtake/channels.ts", "node.d.ts",
];
const C: &[TemplateFile] = files!["c"; "main.c", "overtake.h", "overtake.c"];
const PYTHON: &[TemplateFile] = files!["python"; "main.py", "overtake.py"];
const JAVA: &[TemplateFile] = files!["java"; "Main.java", "Overtake.java"];

macro_rules! guest {
    ($($module:literal),* $(,)?) => {
        &[
            ("guest/Cargo.toml", include_str!("../../../sdk/rust/guest.toml")),
            $((concat!("guest/src/", $module, ".rs"), include_str!(concat!("../../guest/src/", $module, ".rs")))),*
        ]
    };
}

/// The library of Rust, which no registry has.
const GUEST: &[TemplateFile] = guest![
    "lib", "batch", "bytes", "call", "cursor", "decimal", "error", "heap", "module", "row", "shared", "value", "wasm",
    "worker",
];

fn files(language: Language) -> [&'static [TemplateFile]; 2] {
    match language {
        Language::Rust => [RUST, GUEST],
        Language::AssemblyScript => [ASSEMBLYSCRIPT, &[]],
        Language::TypeScript => [TYPESCRIPT, &[]],
        Language::C => [C, &[]],
        Language::Python => [PYTHON, &[]],
        Language::Java => [JAVA, &[]],
    }
}

/// Writes a project into a new folder, or an empty one. Returns the name of its module.
///
/// # Errors
/// Fails with a [`Refusal`] if the folder has files.
pub fn create(directory: &Path, language: Language) -> anyhow::Result<String> {
    if fs::read_dir(directory).is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(Refusal::new(format!("{} is not empty", directory.display())).into());
    }
    let name = module_name(directory);
    let all = files(language).into_iter().flatten().chain(COMMON);
    for (path, text) in all {
        write(&directory.join(path), &adapted(path, text, &name, language))?;
    }
    write(&directory.join(".gitignore"), "/build\n/node_modules\n/target\n__pycache__\n")?;
    Ok(name)
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let told = || format!("cannot write {}", path.display());
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).with_context(told)?;
    }
    fs::write(path, text).with_context(told)
}

/// Returns the text of a template with the project's name.
fn adapted(path: &str, text: &str, name: &str, language: Language) -> String {
    match path {
        "procedures.sql" => {
            let named = text.replace(&format!("'{EXAMPLE}'"), &format!("'{name}'"));
            let written = named.replace("LANGUAGE wasm", &format!("LANGUAGE {}", language.sql_language()));
            written + language.settings()
        }
        "Cargo.toml" => text
            .replace(&format!("\"{EXAMPLE}\""), &format!("\"{name}\""))
            .replace("path = \"../../crates/guest\"", "path = \"guest\""),
        "package.json" => text.replace(&format!("\"{EXAMPLE}\""), &format!("\"{name}\"")),
        _ => text.to_owned(),
    }
}

/// Returns what is told of a module's name, if it is not that of the folder.
pub(crate) fn renamed(directory: &Path, name: &str) -> String {
    let folder = folder_name(directory);
    if folder == name {
        return String::new();
    }
    format!(
        "The module is named \"{name}\", not \"{folder}\": its name consists of small letters, digits and underscores, \
         and begins with a letter.\n"
    )
}

/// Greatest length of an identifier in bytes.
const NAME_MAX: usize = 63;

fn folder_name(directory: &Path) -> String {
    let full = std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned());
    full.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Returns the name of a folder as the name of a module and of a package.
fn module_name(directory: &Path) -> String {
    let name = folder_name(directory).to_lowercase();
    let name = name.chars().map(|sign| if sign.is_ascii_alphanumeric() { sign } else { '_' });
    let name: String = name.take(NAME_MAX - 1).collect();
    if name.starts_with(|sign: char| sign.is_ascii_lowercase()) { name } else { format!("m{name}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_names_the_module() {
        for (directory, name) in [("shop", "shop"), ("a/My-Shop.2/", "my_shop_2"), ("7", "m7"), ("a/ä", "m_")] {
            assert_eq!(module_name(Path::new(directory)), name);
            let told = renamed(Path::new(directory), name);
            assert_eq!(told.contains(&format!("The module is named \"{name}\", not ")), directory != name, "{told}");
        }
    }

    #[test]
    fn every_language_has_a_project() {
        for language in Language::ALL {
            let folder = tempfile::tempdir().expect("a folder");
            let directory = folder.path().join("shop");
            create(&directory, language).expect("a project");
            assert_eq!(Language::of(&directory), Some(language));
            let project = crate::project::Project::open(&directory).expect("a project");
            assert_eq!((&*project.module, project.tests.len()), ("shop", 2));
            syntax::grammar::parse(&project.procedures).expect("signatures");
            let again = create(&directory, language).expect_err("files are there");
            assert!(again.is::<Refusal>());
        }
    }

    #[test]
    fn the_library_is_complete() {
        let library = std::fs::read_dir("../guest/src").expect("the crate");
        let mut modules: Vec<String> = library
            .map(|entry| entry.expect("a file").path())
            .filter(|path| path.is_file())
            .map(|path| format!("guest/src/{}", path.file_name().expect("a name").to_string_lossy()))
            .collect();
        modules.sort();
        let mut copied: Vec<&str> = GUEST.iter().skip(1).map(|(path, _)| *path).collect();
        copied.sort();
        assert_eq!(copied, modules);
    }
}
