#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tables that scikit-learn brings, trained by tcc-train from a recipe and by scikit-learn's MLP with equal settings:
the same rows, layers, optimizer, batches and epochs. Prints what both reach on the rows that are held out, over a few
seeds.

    sets.py TCC_TRAIN [SEEDS]     needs numpy and scikit-learn
"""
import csv, os, random, subprocess, sys, tempfile, warnings

import numpy as np
from sklearn import datasets
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

HIDDEN, BATCH, EPOCHS, LR = (32,), 32, 60, 3e-3


def numbers(loader):
    data = loader()
    names = [str(n) for n in getattr(data, "feature_names", range(data.data.shape[1]))]
    return [[float(v) for v in row] for row in data.data], list(data.target), [f"x{i}" for i in range(len(names))]


def people(count=4000):
    """Like the adult census: numbers, categories, a tenth of the cells missing."""
    rng = random.Random(1)
    work, school = ["Private", "State-gov", "Self-emp", "Never-worked"], ["HS", "BA", "MA", "PhD", "9th"]
    rows, target = [], []
    for _ in range(count):
        age, hours, w, s = rng.randint(17, 80), rng.randint(10, 80), rng.choice(work), rng.choice(school)
        score = 0.04 * (age - 45) + 0.05 * (hours - 40) + 1.5 * (school.index(s) in (2, 3)) - (w == "Never-worked")
        row = [float(age), float(hours), w, s]
        rows.append([v if rng.random() > 0.1 else None for v in row])
        target.append(int(score + rng.gauss(0, 1) > 0))
    return rows, target, ["age", "hours", "work", "school"]


def with_scikit(rows, target, train, regression, seed):
    x = np.array([[np.nan if v is None else v for v in row] for row in rows], dtype=object)
    texts = [i for i in range(x.shape[1]) if any(isinstance(v, str) for v in x[:, i])]
    other = [i for i in range(x.shape[1]) if i not in texts]
    x[:, other] = x[:, other].astype(float)
    prepare = ColumnTransformer([
        ("number", make_pipeline(SimpleImputer(add_indicator=True), StandardScaler()), other),
        ("text", make_pipeline(SimpleImputer(strategy="constant", fill_value=""),
                               OneHotEncoder(handle_unknown="ignore")), texts)], sparse_threshold=0)
    kind = MLPRegressor if regression else MLPClassifier
    model = kind(hidden_layer_sizes=HIDDEN, alpha=0, batch_size=BATCH, learning_rate_init=LR, max_iter=EPOCHS,
                 n_iter_no_change=EPOCHS, tol=0, random_state=seed)
    y = np.array(target)
    a = prepare.fit_transform(x[train])
    model.fit(a, y[train])
    b = prepare.transform(x[~train])
    if regression:
        return float(np.mean((model.predict(b) - y[~train]) ** 2))
    return float(model.score(b, y[~train]))


def with_traincc(program, folder, rows, target, names, train, regression, seed):
    with open(f"{folder}/t.csv", "w", newline="") as f:
        w = csv.writer(f)
        w.writerow(names + ["part", "y"])
        for row, y, t in zip(rows, target, train):
            w.writerow(["" if v is None else v for v in row] + ["train" if t else "val", y])
    with open(f"{folder}/r.yaml", "w") as f:
        f.write(f"model: {{name: mlp, hidden: {list(HIDDEN)}}}\n"
                f"data: {{kind: csv, path: {folder}/t.csv, label: y, missing: category, columns: {{part: split}},\n"
                f"       batch_size: {BATCH}, drop_last: false, regression: {str(regression).lower()}}}\n"
                f"optimizer: {{name: adam, lr: {LR}}}\ntraining: {{max_epochs: {EPOCHS}, seed: {seed}}}\n")
    out = subprocess.run([program, "--device", "cpu", "--run-dir", f"{folder}/run{seed}", f"{folder}/r.yaml"],
                         check=True, capture_output=True, text=True).stdout
    key = "val_loss " if regression else "val_accuracy "
    return float(out.rsplit(key, 1)[1].split()[0])


def main():
    program, seeds = os.path.abspath(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 3
    warnings.filterwarnings("ignore")
    sets = {"iris": (lambda: numbers(datasets.load_iris), False), "wine": (lambda: numbers(datasets.load_wine), False),
            "breast cancer": (lambda: numbers(datasets.load_breast_cancer), False),
            "digits": (lambda: numbers(datasets.load_digits), False),
            "diabetes": (lambda: numbers(datasets.load_diabetes), True), "people": (people, False)}
    print(f"{'set':<15}{'rows':>6}  {'measure':<9}{'tcc-train':>25}{'scikit-learn':>25}")
    for name, (load, regression) in sets.items():
        rows, target, names = load()
        train = np.random.default_rng(0).random(len(rows)) < 0.8
        with tempfile.TemporaryDirectory() as folder:
            ours = [with_traincc(program, folder, rows, target, names, train, regression, s) for s in range(seeds)]
        theirs = [with_scikit(rows, target, train, regression, s) for s in range(seeds)]
        show = lambda v: f"{np.mean(v):.4g} ({min(v):.4g}-{max(v):.4g})"
        print(f"{name:<15}{len(rows):>6}  {'mse' if regression else 'accuracy':<9}{show(ours):>25}{show(theirs):>25}",
              flush=True)


main()
