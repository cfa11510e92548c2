"""Settings of the documentation site, which `make docs` builds."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tools"), str(ROOT / "examples" / "extension" / "src")]

project = "privsample"
extensions = ["myst_parser", "sphinx.ext.autodoc", "docs_docstrings", "docs_maths", "docs_pages"]
myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 3
suppress_warnings = ["misc.highlighting_failure"]

autodoc_typehints_format = "short"
autodoc_member_order = "bysource"
python_maximum_signature_line_length = 120
add_module_names = False

html_theme = "furo"
html_title = "privsample"
html_math_renderer = "mathml"
html_static_path = [str(ROOT / "docs" / "static")]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
