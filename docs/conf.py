"""The documentation site. `./scripts/docs` builds it; docs/references.py writes the pages that come from the code."""

import re
import sys
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Any

from docutils.nodes import Element, SkipNode
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx

sys.path.insert(0, str(Path(__file__).parent))

project = "levers"
author = project_copyright = "the levers developers"
release = version = version_of("levers")
language = "en"

extensions = ["myst_parser", "sphinx.ext.autodoc"]
# index.md names pages that a branch may not have yet; a page that it forgets is a warning, and so is every dead link
suppress_warnings = ["toc.not_readable"]
default_role = "code"
add_module_names = False

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 4

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
maximum_signature_line_length = 100

html_theme = "furo"
html_title = f"levers {version}"
html_copy_source = False
html_show_sphinx = False
html_math_renderer = "mathml"


def write_formula(page: Any, node: Element) -> None:
    """A formula as MathML, which browsers draw themselves: no script, nothing loaded from elsewhere."""
    block = node.tagname == "math_block"
    formula = tex2mathml(node.astext(), as_block=block)
    page.body.append(f'<div class="math">{formula}</div>' if block else formula)
    raise SkipNode


def lead_outside(app: Sphinx, name: str, source: list[str]) -> None:
    """Links to files beside docs/, which work on GitHub: to their page here if they have one, else as plain text."""
    found = re.sub(
        r"\]\((?:\.\./)+(SECURITY|CONTRIBUTING|CHANGELOG)\.md", lambda to: f"](/{to[1].lower()}.md", source[0]
    )
    source[0] = re.sub(r"\[([^\]\n]+)\]\((?:\.\./)+(?:examples|benchmarks|scripts|src|tests)\b[^)\s]*\)", r"\1", found)


def setup(app: Sphinx) -> dict[str, bool]:
    """Write the references before Sphinx looks for pages, and draw formulas."""
    from references import write_references

    write_references(Path(app.srcdir) / "reference")
    app.connect("source-read", lead_outside)
    app.add_html_math_renderer("mathml", (write_formula, None), (write_formula, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
