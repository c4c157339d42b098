"""What every run of pytest here does, that of the notebooks alone too: see also the two plugins in `tests/`."""

pytest_plugins = ["tidy", "nbval_cells"]

LONGEST_FIRST = [
    "06-improving-generalization.ipynb",
    "07-pruning.ipynb",
    "test_notebooks.py",
    "04-how-long-until-it-fails.ipynb",
    "test_explorer_in_jupyterlab.py",
    "test_explorer_page.py",
    "test_site.py",
    "test_fuzz.py",
    "test_javascript.py",
    "test_sweeps.py",
    "test_plots.py",
    "test_heads.py",
    "08-self-attention-not-really.ipynb",
    "05-right-at-every-length.ipynb",
    "test_horizon.py",
    "03-generalization-errors.ipynb",
    "02-self-attention-block.ipynb",
]


def pytest_collection_modifyitems(items):
    """With the long files first, no worker is left alone with one at the end."""
    places = {name: place for place, name in enumerate(LONGEST_FIRST)}
    items.sort(key=lambda item: places.get(item.path.name, len(places)))
