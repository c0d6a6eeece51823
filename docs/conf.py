"""The documentation site: ``make docs`` writes it to docs/_build/html. Everything it needs is in its folder."""

import os
import sys
from pathlib import Path

# tutorials call ``phasecast`` as a user with this environment would
os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
sys.path.insert(0, str(Path(__file__).parent / "_ext"))

import phasecast

project = "phasecast"
version = release = phasecast.__version__
copyright = "the phasecast authors"

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx_copybutton", "mathml", "docstrings", "generated", "notebooks"]
source_suffix = {".md": "myst-nb", ".rst": "restructuredtext"}
exclude_patterns = ["_build", "**/.ipynb_checkpoints"]
suppress_warnings = ["config.cache"]  # of pickled configurations: says nothing about a page

html_theme = "furo"
html_title = f"phasecast {version}"
html_static_path = ["_static"]
html_css_files = ["phasecast.css"]
html_math_renderer = "mathml"
html_copy_source = False
html_show_sphinx = False
pygments_style = "default"
pygments_dark_style = "monokai"

myst_enable_extensions = ["dollarmath", "deflist", "colon_fence"]
myst_heading_anchors = 3
myst_update_mathjax = False

nb_execution_mode = "force"  # what a page shows is what this version of the code prints
nb_execution_timeout = 600  # seconds per cell, also on a busy machine
nb_execution_in_temp = True  # what a tutorial writes goes with it
nb_execution_raise_on_error = True
nb_execution_show_tb = True
nb_output_stderr = "remove"  # progress lines
nb_ipywidgets_js = {}  # no page has widgets, and their scripts come from elsewhere
nb_merge_streams = True

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88
nitpicky = True
