"""Trains the models of all experiments and writes them into a file: in a process without the tests' checks of shapes.

Those that stand alone are trained alone, as in the notebooks: side by side their last digits are other ones.
"""

import pickle
import sys
from pathlib import Path

from toy_transformer.experiments import EXPERIMENTS, run
from toy_transformer.studies.sweeps import run_all

if __name__ == "__main__":
    runs = run_all() | {name: run(name) for name, experiment in EXPERIMENTS.items() if len(experiment.seeds) == 1}
    Path(sys.argv[1]).write_bytes(pickle.dumps(runs))
