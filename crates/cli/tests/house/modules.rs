//! The modules of a crate and what each of them imports, read from its source.
//!
//! The source is lexed, not expanded: a path that only a macro's expansion contains is not seen.
//! Modules, imports and paths under `#[cfg(test)]` are left out.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// The modules of one crate. The first is the crate's root.
pub struct Modules {
    modules: Vec<Module>,
}

/// One module.
struct Module {
    /// Its path, such as `config::load`. The root's is empty.
    path: String,
    parent: Option<usize>,
    children: BTreeMap<String, usize>,
    /// Names of the items that the module defines.
    items: BTreeSet<String>,
    imports: Vec<Import>,
    /// Paths that the module's code contains outside of imports.
    mentions: Vec<Vec<String>>,
}

/// One name that a `use` declaration brings into a module.
#[derive(Clone)]
struct Import {
    path: Vec<String>,
    /// The name in the importing module. `None` stands for all names (`*`).
    name: Option<String>,
}

/// One module's use of another, as indices.
pub type Dependency = (usize, usize);

impl Modules {
    /// Reads the crate whose root is `root` (`lib.rs` or `main.rs`).
    pub fn read(root: &Path) -> Modules {
        let mut modules = Modules { modules: Vec::new() };
        modules.add(String::new(), None);
        let folder = root.parent().expect("a file lies in a folder");
        modules.read_file(0, root, folder);
        modules
    }

    /// The module's path, such as `config::load`.
    pub fn path(&self, module: usize) -> &str {
        &self.modules[module].path
    }

    /// The chain of modules from the root down to `module`.
    pub fn lineage(&self, module: usize) -> Vec<usize> {
        let mut chain = vec![module];
        while let Some(parent) = self.modules[chain[chain.len() - 1]].parent {
            chain.push(parent);
        }
        chain.reverse();
        chain
    }

    /// Every use of one module by another.
    pub fn dependencies(&self) -> BTreeSet<Dependency> {
        let mut found = BTreeSet::new();
        for (at, module) in self.modules.iter().enumerate() {
            let imported = module.imports.iter().map(|import| &import.path);
            for path in imported.chain(&module.mentions) {
                found.extend(self.resolve(at, path, 0).map(|target| (at, target)));
            }
        }
        found.retain(|(from, to)| from != to);
        found
    }

    /// The module that defines what `path` names in the module `at`. `None` when it is outside of
    /// the crate.
    fn resolve(&self, at: usize, path: &[String], depth: usize) -> Option<usize> {
        let mut here = at;
        let mut rest = path;
        while let Some((first, after)) = rest.split_first() {
            here = match first.as_str() {
                "crate" => 0,
                "self" => here,
                "super" => self.modules[here].parent?,
                _ => break,
            };
            rest = after;
        }
        if rest.len() == path.len() && !self.modules[at].children.contains_key(&path[0]) {
            return None;
        }
        Some(self.walk(here, rest, depth))
    }

    /// The module that defines `path`, which starts in the module `here`; names are followed
    /// through the imports that bring them there.
    fn walk(&self, mut here: usize, path: &[String], depth: usize) -> usize {
        for (index, name) in path.iter().enumerate() {
            let module = &self.modules[here];
            if let Some(child) = module.children.get(name) {
                here = *child;
                continue;
            }
            if depth > 8 || module.items.contains(name) {
                return here;
            }
            let named = module.imports.iter().find(|import| import.name.as_ref() == Some(name));
            if let Some(import) = named {
                let mut whole = import.path.clone();
                whole.extend_from_slice(&path[index + 1..]);
                return self.resolve(here, &whole, depth + 1).unwrap_or(here);
            }
            let all = module.imports.iter().filter(|import| import.name.is_none());
            let sources = all.filter_map(|import| self.resolve(here, &import.path, depth + 1));
            let source = sources.into_iter().find(|source| self.offers(*source, name));
            return source.map_or(here, |source| self.walk(source, &path[index..], depth + 1));
        }
        here
    }

    /// Whether a module has `name`, as its own or by an import of that name.
    fn offers(&self, module: usize, name: &str) -> bool {
        let module = &self.modules[module];
        module.items.contains(name)
            || module.children.contains_key(name)
            || module.imports.iter().any(|import| import.name.as_deref() == Some(name))
    }

    fn add(&mut self, path: String, parent: Option<usize>) -> usize {
        self.modules.push(Module {
            path,
            parent,
            children: BTreeMap::new(),
            items: BTreeSet::new(),
            imports: Vec::new(),
            mentions: Vec::new(),
        });
        self.modules.len() - 1
    }

    /// Adds the child `name` of `parent`.
    fn add_child(&mut self, parent: usize, name: &str) -> usize {
        let of_parent = self.path(parent);
        let path =
            if of_parent.is_empty() { name.to_string() } else { format!("{of_parent}::{name}") };
        let child = self.add(path, Some(parent));
        self.modules[parent].children.insert(name.to_string(), child);
        child
    }

    /// Reads `file`, the module `at`, whose children lie in `folder`.
    fn read_file(&mut self, at: usize, file: &Path, folder: &Path) {
        let text = fs::read_to_string(file).unwrap_or_else(|error| {
            panic!("{}: {error}", file.display());
        });
        let tokens: TokenStream = text.parse().unwrap_or_else(|error| {
            panic!("{}: {error}", file.display());
        });
        self.read_tokens(at, tokens, folder);
    }

    fn read_tokens(&mut self, at: usize, tokens: TokenStream, folder: &Path) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut rest = tokens.as_slice();
        while let [first, after @ ..] = rest {
            rest = match (first, after) {
                (TokenTree::Punct(mark), [TokenTree::Group(attribute), item @ ..])
                    if mark.as_char() == '#' =>
                {
                    if is_for_tests(&attribute.stream()) {
                        after_item(item)
                    } else {
                        item
                    }
                }
                (TokenTree::Ident(word), [TokenTree::Ident(name), after @ ..]) if word == "mod" => {
                    let name = name.to_string();
                    let child = self.add_child(at, &name);
                    if let Some(TokenTree::Group(body)) = after.first() {
                        self.read_tokens(child, body.stream(), &folder.join(&name));
                    } else {
                        self.read_file(child, &file_of(folder, &name), &folder.join(&name));
                    }
                    &after[1..]
                }
                (TokenTree::Ident(word), after) if word == "use" => {
                    let end = after.iter().position(|token| is_mark(token, ';'));
                    let (tree, after) = after.split_at(end.unwrap_or(after.len()));
                    read_use_tree(tree, Vec::new(), &mut self.modules[at].imports);
                    after
                }
                (TokenTree::Ident(word), [TokenTree::Ident(name), after @ ..])
                    if ITEMS.iter().any(|item| word == item) =>
                {
                    self.modules[at].items.insert(name.to_string());
                    after
                }
                (TokenTree::Ident(word), [a, b, TokenTree::Ident(next), after @ ..])
                    if ["crate", "super", "self"].iter().any(|start| word == start)
                        && is_mark(a, ':')
                        && is_mark(b, ':') =>
                {
                    let mut path = vec![word.to_string(), next.to_string()];
                    let after = read_path(after, &mut path);
                    self.modules[at].mentions.push(path);
                    after
                }
                (TokenTree::Group(group), after) => {
                    self.read_tokens(at, group.stream(), folder);
                    after
                }
                (_, after) => after,
            };
        }
    }
}

/// Keywords before the name of an item.
const ITEMS: [&str; 8] = ["fn", "struct", "enum", "union", "trait", "type", "const", "static"];

/// The file of the module `name`, declared by a file whose children lie in `folder`.
fn file_of(folder: &Path, name: &str) -> PathBuf {
    let alone = folder.join(format!("{name}.rs"));
    if alone.exists() { alone } else { folder.join(name).join("mod.rs") }
}

fn is_mark(token: &TokenTree, mark: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == mark)
}

/// Returns whether an attribute's content is a `cfg` that only tests have.
fn is_for_tests(attribute: &TokenStream) -> bool {
    let text: String = attribute.to_string().split_whitespace().collect();
    text.starts_with("cfg(test)") || text.starts_with("cfg(all(test")
}

/// Returns the tokens after the item at the start of `tokens`. Attributes may come first.
fn after_item(tokens: &[TokenTree]) -> &[TokenTree] {
    let end = tokens.iter().position(|token| {
        let body = |token: &TokenTree| matches!(token, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace);
        is_mark(token, ';') || body(token)
    });
    &tokens[end.map_or(tokens.len(), |end| end + 1)..]
}

/// Adds the further segments of a path to `path`. Returns the tokens after it.
fn read_path<'t>(mut tokens: &'t [TokenTree], path: &mut Vec<String>) -> &'t [TokenTree] {
    while let [a, b, TokenTree::Ident(next), after @ ..] = tokens
        && is_mark(a, ':')
        && is_mark(b, ':')
    {
        path.push(next.to_string());
        tokens = after;
    }
    tokens
}

/// Adds the imports of the tree of a `use` declaration. `path` leads to the tree.
fn read_use_tree(tokens: &[TokenTree], mut path: Vec<String>, imports: &mut Vec<Import>) {
    let mut name = None;
    let mut rest = tokens;
    while let [first, after @ ..] = rest {
        rest = after;
        match first {
            TokenTree::Group(group) => {
                let inner: Vec<TokenTree> = group.stream().into_iter().collect();
                for tree in inner.split(|token| is_mark(token, ',')).filter(|tree| !tree.is_empty())
                {
                    read_use_tree(tree, path.clone(), imports);
                }
                return;
            }
            TokenTree::Ident(word) if word == "as" => {
                name = after.first().map(ToString::to_string);
                rest = &[];
            }
            TokenTree::Ident(word) if word == "self" && !path.is_empty() => {}
            TokenTree::Ident(word) => path.push(word.to_string()),
            token if is_mark(token, '*') => {
                imports.push(Import { path, name: None });
                return;
            }
            _ => {}
        }
    }
    let name = name.or_else(|| path.last().cloned());
    imports.push(Import { path, name });
}
