"""MkDocs hook that keeps links to files outside `docs` working on the site.

The pages link to the README, the examples and so on by relative paths, which GitHub follows. MkDocs
knows only what lies in `docs`. So each repository file that a page links to becomes a page of the
site below `repository/`: Markdown as it is, anything else as highlighted source. Links are
rewritten accordingly; whether they lead somewhere is then judged by `mkdocs build --strict`.
"""

from __future__ import annotations

import logging
import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
BELOW = "repository/"
# In the navigation whether or not a page links to them.
ALWAYS = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")

# One line for each module otherwise.
logging.getLogger("mkdocs.plugins.api-autonav").setLevel(logging.WARNING)
_LINK = re.compile(r"(?<=\]\()([^)\s#:]+)(?=(?:#[^)\s]*)?\))")
_LANGUAGES = {".py": "python", ".sh": "bash", ".toml": "toml", ".yaml": "yaml", ".yml": "yaml"}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for each repository file that the docs link to, directly or through each other."""
    docs = Path(config.docs_dir)
    pages = [docs / file.src_uri for file in files.documentation_pages() if file.abs_src_path]
    published = {ROOT / name for name in ALWAYS}
    pages += sorted(published)
    while pages:
        for target in _targets(pages.pop()):
            if target.is_file() and not target.is_relative_to(docs) and target not in published:
                published.add(target)
                pages += [target] if target.suffix == ".md" else []
    for path in sorted(published):
        content = path.read_text() if path.suffix == ".md" else _source_page(path)
        uri = _uri(path, docs)
        files.append(
            File.generated(config, uri, content=content, inclusion=InclusionLevel.NOT_IN_NAV)
        )
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Point each relative link of a page at the place of its target on the site."""
    docs = Path(config.docs_dir)
    uri = page.file.src_uri
    if uri.startswith(BELOW):
        source = ROOT / uri.removeprefix(BELOW)
    elif page.file.abs_src_path:
        source = docs / uri
    else:
        return markdown

    def moved(link: re.Match[str]) -> str:
        target = (source.parent / link[0]).resolve()
        if not target.is_relative_to(ROOT):
            return link[0]
        return posixpath.relpath(_uri(target, docs), posixpath.dirname(uri))

    return _LINK.sub(moved, markdown)


def _targets(page: Path) -> list[Path]:
    return [(page.parent / link).resolve() for link in _LINK.findall(page.read_text())]


def _uri(path: Path, docs: Path) -> str:
    """Return where a file of the repository is on the site, as a source path of MkDocs."""
    if path.is_relative_to(docs):
        return path.relative_to(docs).as_posix()
    suffix = "" if path.suffix == ".md" or not path.is_file() else ".md"
    return f"{BELOW}{path.relative_to(ROOT).as_posix()}{suffix}"


def _source_page(path: Path) -> str:
    language = _LANGUAGES.get(path.suffix, "text")
    return f"# {path.relative_to(ROOT)}\n\n````{language}\n{path.read_text()}\n````\n"
