"""Spoils the package in one place after another and counts how many of the spoilt ones the quick tests notice:
`make mutants`.

Cosmic Ray knows the places and the changes. Each mutant is tested in a process forked from one that has loaded torch
and the like already, which would otherwise be most of the time. With a time box, the mutants come in a random order,
always the same one. Survivors are printed; those of `mutants.toml` change nothing that a test could see.
"""

import argparse
import json
import math
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names
from tqdm import tqdm

ROOT = Path(__file__).parent.parent
PACKAGE = Path("src/toy_transformer")
EQUIVALENT = tomllib.loads((ROOT / "tests" / "mutants.toml").read_text())
PARALLEL = 2
PATIENCE = 4
"""How many times as long as the sound module a mutant may take; one that takes longer is noticed, too."""

TESTS = {
    "task": ["task"],
    "model": ["model", "training", "published"],
    "data": ["data", "published"],
    "_gradients": ["gradients"],
    "training": ["training", "published"],
    "evaluation": ["experiments", "published"],
    "experiments": ["experiments", "published"],
    "studies/sweeps": ["sweeps", "experiments"],
    "proofs/logit": ["horizon", "certificate", "reduction"],
    "proofs/bounds": ["horizon"],
    "proofs/horizon": ["horizon", "certificate", "explorer"],
    "proofs/certificate": ["certificate", "horizon", "all_lengths"],
    "proofs/all_lengths": ["all_lengths"],
    "editing/reduction": ["reduction", "heads"],
    "editing/heads": ["heads", "reduction"],
}
"""The tests of each module, without those in a browser and those that run notebooks."""

TRAINS = ("task", "model", "data", "_gradients", "training", "evaluation", "experiments", "studies/sweeps")
"""Modules whose mutants must train the models themselves; the others are handed models that were trained before."""

OPERATORS = re.compile(
    r"core/(NumberReplacer|AddNot|ReplaceTrueWithFalse|ReplaceFalseWithTrue|ReplaceAndWithOr|ReplaceOrWithAnd"
    r"|ReplaceBreakWithContinue|ReplaceContinueWithBreak|ZeroIterationForLoop|RemoveDecorator|ExceptionReplacer"
    r"|ReplaceUnaryOperator_Delete_(USub|Not)"
    r"|ReplaceBinaryOperator_(Add_Sub|Sub_Add|Mul_Div|Div_Mul|Mul_Add|FloorDiv_Mul|Mod_Mul|Pow_Mul|BitAnd_BitOr)"
    r"|ReplaceComparisonOperator_(Lt_(LtE|Gt)|LtE_(Lt|Gt)|Gt_(GtE|Lt)|GtE_(Gt|Lt)|Eq_NotEq|NotEq_Eq|Is_IsNot|IsNot_Is))"
)
"""Changes that may make sense; Cosmic Ray has more, such as to shift a number by a matrix."""


class Mutant(NamedTuple):
    module: str
    source: str
    change: str
    """What the lines were, and what they are: "x < y → x <= y"."""


def mutants_of(module: str) -> Iterator[Mutant]:
    source = (ROOT / PACKAGE / f"{module}.py").read_text()
    nodes = list(ast_nodes(get_ast(source)))
    for name in filter(OPERATORS.fullmatch, operator_names()):
        operator = get_operator(name)()
        for occurrence in range(sum(len(list(operator.mutation_positions(node))) for node in nodes)):
            mutated = mutate_code(source, operator, occurrence)
            if mutated.count("strict=True") == source.count("strict=True"):  # a check that sound code passes
                yield Mutant(module, mutated, _change(source, mutated))


def _change(before: str, after: str) -> str:
    lines = zip(before.splitlines(), after.splitlines(), strict=False)
    old, new = next((old, new) for old, new in lines if old != new)
    return f"{old.strip()} → {new.strip()}"


class QuickFirst:
    """A plugin of pytest: the tests that took less than half a second when they ran before come first."""

    def __init__(self, path: Path):
        self.path, self.seconds = path, Counter(json.loads(path.read_text()) if path.exists() else {})

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items):
        files = list(dict.fromkeys(item.path for item in items))
        seconds = [self.seconds[item.nodeid] for item in items]
        places = {item: (took > 0.5, files.index(item.path), took) for item, took in zip(items, seconds, strict=True)}
        items.sort(key=places.get)

    def pytest_runtest_logreport(self, report):
        self.seconds[report.nodeid] += report.duration

    def pytest_sessionfinish(self):
        if not self.path.exists():
            self.path.write_text(json.dumps(self.seconds))


class Slot:
    """A copy of the project in which one mutant after another is tested."""

    def __init__(self, folder: Path, runs: Path):
        self.folder, self.runs, self.pid, self.seconds = folder, runs, None, {}
        for name in ("src", "tests", "figures"):
            shutil.copytree(ROOT / name, folder / name)
        for name in ("conftest.py", "pyproject.toml"):
            shutil.copy(ROOT / name, folder)

    def start(self, mutant: Mutant) -> None:
        self.mutant, self.path = mutant, self.folder / PACKAGE / f"{mutant.module}.py"
        self.before, self.began = self.path.read_text(), time.monotonic()
        self.path.write_text(mutant.source)
        self.elsewhere = Path(tempfile.mkdtemp(dir=self.runs.parent))
        if mutant.module not in TRAINS:
            os.link(self.runs, self.elsewhere / self.runs.name)
        self.pid = os.fork()
        if not self.pid:
            os._exit(self.test())

    def test(self) -> int:
        """In the process of the mutant: give pytest's exit code."""
        os.setsid()
        log = os.open(self.folder / "log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(log, 1), os.dup2(log, 2)
        os.chdir(self.folder)
        sys.path.insert(0, str(self.folder / "src"))
        os.environ["PYTHONPATH"] = str(self.folder / "src")
        os.environ["TOY_TRANSFORMER_TESTS"] = str(self.elsewhere)
        files = [f"tests/test_{name}.py" for name in TESTS[self.mutant.module]]
        loaded_before = "ignore::pytest.PytestAssertRewriteWarning"
        quick_first = QuickFirst(self.runs.with_name(f"{self.mutant.module.replace('/', '.')}.json"))
        return pytest.main(["--exitfirst", "--quiet", "--tb=line", "-W", loaded_before, *files], plugins=[quick_first])

    def poll(self) -> bool | None:
        """Say whether the mutant was noticed; None while that is not known."""
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        late = time.monotonic() - self.began > self.seconds.get(self.mutant.module, math.inf)
        if not pid and not late:
            return None
        if not pid:
            os.killpg(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        self.path.write_text(self.before)
        shutil.rmtree(self.elsewhere)
        self.pid = None
        return late or status != 0


def warm_up() -> Path:
    """Load what all tests need; train the models, and give the file with them."""
    import anywidget  # noqa: F401
    import beartype  # noqa: F401
    import distributed  # noqa: F401
    import flint  # noqa: F401
    import hypothesis  # noqa: F401
    import matplotlib.pyplot  # noqa: F401
    import nbval.plugin  # noqa: F401
    import playwright.sync_api  # noqa: F401
    import torch  # noqa: F401

    folder = Path(tempfile.mkdtemp(prefix="toy-transformer-mutants-"))
    subprocess.run([sys.executable, ROOT / "tests" / "train.py", folder / "runs.pickle"], check=True)
    return folder / "runs.pickle"


def run(mutants: list[Mutant], slots: list[Slot], deadline: float = math.inf) -> Iterator[tuple[Slot, bool]]:
    """Give the slot of each mutant, as it gets done, and whether it was noticed; not those beyond the deadline."""
    waiting = iter(mutants)
    while True:
        for slot in slots:
            if slot.pid is None and time.monotonic() < deadline and (mutant := next(waiting, None)):
                slot.start(mutant)
        if not any(slot.pid for slot in slots):
            return
        time.sleep(0.02)
        for slot in slots:
            if slot.pid and (noticed := slot.poll()) is not None:
                yield slot, noticed


def try_sound_modules(slots: list[Slot], modules: list[str]) -> None:
    """Make sure that the tests pass where nothing is spoilt, and see how many seconds a mutant may take."""
    sound = [Mutant(module, (ROOT / PACKAGE / f"{module}.py").read_text(), "nothing") for module in modules]
    seconds = {}
    for slot, noticed in run(sound, slots):
        if noticed:
            sys.exit(f"the tests of {slot.mutant.module} fail as it is: {(slot.folder / 'log').read_text()}")
        took = time.monotonic() - slot.began
        seconds[slot.mutant.module] = PATIENCE * took
        print(f"{slot.mutant.module:20} is tested in {took:.0f} s")
    for slot in slots:
        slot.seconds = seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=240)
    parser.add_argument("--modules", nargs="*", default=[*TESTS])
    arguments = parser.parse_args()
    mutants = [mutant for module in arguments.modules for mutant in mutants_of(module)]
    there = {(mutant.module, mutant.change) for mutant in mutants}
    listed = {(module, change) for module in arguments.modules for change in EQUIVALENT.get(module, {})}
    if listed - there:
        sys.exit(f"listed as equivalent, and no mutants any more: {listed - there}")
    random.Random(0).shuffle(mutants)
    runs = warm_up()
    slots = [Slot(runs.parent / str(i), runs) for i in range(PARALLEL)]
    try_sound_modules(slots, arguments.modules)
    deadline = time.monotonic() + 60 * arguments.minutes
    counts = {module: Counter() for module in arguments.modules}
    for slot, noticed in tqdm(run(mutants, slots, deadline), total=len(mutants), unit="mutant"):
        mutant = slot.mutant
        known = not noticed and mutant.change in EQUIVALENT.get(mutant.module, {})
        counts[mutant.module]["noticed" if noticed else "equivalent" if known else "survived"] += 1
        if not noticed and not known:
            tqdm.write(f"survived: {mutant.module}: {mutant.change}", file=sys.stdout)
    shutil.rmtree(runs.parent)
    for module, count in counts.items():
        print(f"{module:20}", *(f"{count[what]:5} {what}" for what in ("noticed", "equivalent", "survived")))
    total = sum(counts.values(), Counter())
    decided = total["noticed"] + total["survived"]
    print(f"{total['noticed'] / decided:.1%} of {decided:,} noticed, out of {len(mutants):,} mutants")


if __name__ == "__main__":
    main()
