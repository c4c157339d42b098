"""How Sphinx makes the pages."""

import os

project = "A Transformer of 36 numbers"
html_title = project
# In a workflow of GitHub: the repository from which the pages are built, be it a fork.
repository = os.environ.get("GITHUB_REPOSITORY")
a_copy = f"[a copy of the project](https://github.com/{repository})" if repository else "a copy of the project"
myst_enable_extensions = ["substitution"]
myst_substitutions = {"a_copy": a_copy}
extensions = ["myst_nb", "sphinx.ext.autodoc"]
nb_execution_mode = "off"
nb_ipywidgets_js = {}
myst_heading_anchors = 3
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
default_role = "code"
html_theme = "sphinx_book_theme"
html_static_path = ["_static"]
html_css_files = ["explorer.css", "site.css"]
html_js_files = [(name, {"defer": "defer"}) for name in ("explorer.js", "live.js")]
html_copy_source = False
html_show_copyright = False
html_context = {"default_mode": "auto"}
html_sidebars = {"**": ["search-button-field.html", "sbt-sidebar-nav.html"]}  # the logo would lie outside all landmarks
html_theme_options = {
    "home_page_in_toc": True,
    "use_download_button": False,
    "use_fullscreen_button": False,
    "show_toc_level": 2,
    "navbar_persistent": [],
    "footer_content_items": [],
    "back_to_top_button": False,
}
