"""Settings of the documentation site, which `make docs` builds."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"
sys.path[:0] = [str(ROOT), str(ROOT / "tools"), str(EXAMPLES), str(EXAMPLES / "extension" / "src")]

project = "privsample"
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "sphinx_copybutton",
    "docs_maths",
    "docs_pages",
]
myst_enable_extensions = ["attrs_inline", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
suppress_warnings = ["misc.highlighting_failure"]

autodoc_typehints = "none"  # the docstrings give the types
autosummary_generate = False  # tools/docs_site.py writes the pages
numpydoc_show_class_members = False
autodoc_member_order = "bysource"
python_maximum_signature_line_length = 60
add_module_names = False

# What is copied from an example is the input alone.
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

html_theme = "furo"
html_title = "privsample"
html_math_renderer = "mathml"
html_static_path = [str(ROOT / "docs" / "static")]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
