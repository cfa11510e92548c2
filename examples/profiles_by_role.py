"""Hide the person within the role, keep the usage: profile-based privacy beside local privacy on one analyst's query.

The data are real and public, the story is a stand-in. Data: the 1797 handwritten digits that ship with scikit-learn
(E. Alpaydin and C. Kaynak, UCI 1998). What stands for what:

    a job on a shared workstation    one image
    the person who ran it            the digit that the image shows (ten persons)
    the person's role                low digits 0-4 are "analysts", high digits 5-9 "engineers"
    the job's usage class            how much ink the image holds, in eight classes of equal size

The analyst asks for each role's histogram of usage classes. Who within a role ran a job is to be hidden; the role is
not. One half of the images is public: profiles are estimated from it. The other half is released, under a graph that
joins the persons of each role, and for comparison by randomized response at the same epsilon, taken as it comes and
with its known bias removed. Error: the total variation distance to the true histogram, averaged over roles and
repetitions.

`python examples/profiles_by_role.py FOLDER` writes errors.csv, errors.png and what is printed.
"""

import sys
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

import privsample as ps

CLASSES = 8
ROLES = {"analyst": [0, 1, 2, 3, 4], "engineer": [5, 6, 7, 8, 9]}
EPSILONS = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0)


def usage() -> tuple[np.ndarray, np.ndarray]:
    """Persons and usage classes of all jobs, (1797,) each."""
    images = load_digits()
    ink = images.data.sum(axis=1)
    limits = np.quantile(ink, np.arange(1, CLASSES) / CLASSES)
    return images.target, np.searchsorted(limits, ink, side="right")


def histograms(person: np.ndarray, used: np.ndarray) -> np.ndarray:
    """Each role's shares of the usage classes, (roles, classes)."""
    found = [np.bincount(used[np.isin(person, members)], minlength=CLASSES) for members in ROLES.values()]
    return np.array([counts / counts.sum() for counts in found])


def errors(runs: int, seed: int = 7) -> list[dict[str, float]]:
    """For each epsilon the mean error of the three routes, and the largest probability of any one false answer."""
    rng = np.random.default_rng(seed)
    person, used = usage()
    public = rng.permutation(len(person)) < len(person) // 2
    graph = ps.ProfileGraph.from_public_data(person[public], used[public], symbols=CLASSES, edges=ROLES)
    person, used = person[~public], used[~public]
    truth = histograms(person, used)
    rows = []
    for epsilon in EPSILONS:
        ours = ps.SmoothCategorical(graph=graph, epsilon=epsilon)
        local = [
            ps.RandomizedResponse(
                log_odds=epsilon, categories=CLASSES, relation=ps.ReplaceOne(n=int(np.isin(person, members).sum()))
            )
            for members in ROLES.values()
        ]
        found = {"profile-based": [], "local, as released": [], "local, bias removed": []}
        for _ in range(runs):
            released = ours.release({"profile": person, "symbol": used}, rng=rng)["symbols"][0]
            found["profile-based"].append(distance(histograms(person, released), truth))
            raw, unbiased = [], []
            for mechanism, members in zip(local, ROLES.values(), strict=True):
                answers = mechanism.release(used[np.isin(person, members)], rng=rng)
                raw.append(np.bincount(answers["answers"][0], minlength=CLASSES) / answers["answers"].size)
                unbiased.append(proper(mechanism.frequencies(answers)))
            found["local, as released"].append(distance(np.array(raw), truth))
            found["local, bias removed"].append(distance(np.array(unbiased), truth))
        means = {f"error {name}": float(np.mean(each)) for name, each in found.items()}
        changes = {"largest change profile-based": ours.largest_change, "largest change local": ours.baseline}
        rows.append({"epsilon": epsilon} | means | changes)
    return rows


def distance(estimated: np.ndarray, truth: np.ndarray) -> float:
    """Total variation distance, the mean over roles."""
    return float(np.abs(estimated - truth).sum(axis=1).mean() / 2)


def proper(shares: np.ndarray) -> np.ndarray:
    """The nearest histogram to unbiased shares, some of which are below zero: the baseline at its best."""
    ordered = np.sort(shares)[::-1]
    excess = (np.cumsum(ordered) - 1) / np.arange(1, len(shares) + 1)
    return np.maximum(shares - excess[ordered > excess][-1], 0.0)


def draw(rows: list[dict[str, float]], path: Path) -> None:
    """The errors against epsilon."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.6, 3.5), layout="constrained", dpi=160)
    axes = figure.subplots()
    x = [row["epsilon"] for row in rows]
    styles = [("profile-based", "o-", "#0072B2"), ("local, as released", "s--", "#767676")]
    for name, style, colour in [*styles, ("local, bias removed", "^:", "#D55E00")]:
        axes.plot(x, [row[f"error {name}"] for row in rows], style, color=colour, label=name)
    axes.set_xscale("log")
    axes.set_xticks(x, [f"{epsilon:g}" for epsilon in x])
    axes.set_yscale("log")
    axes.set_yticks(
        [0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1],
        ["0.002", "0.005", "0.01", "0.02", "0.05", "0.1", "0.2", "0.5", "1"],
    )
    axes.minorticks_off()
    axes.set(xlabel="ε (nats)", ylabel="error of a role's histogram (total variation)")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color="#e6e6e6", linewidth=0.6)
    axes.legend(frameon=False)
    figure.savefig(path)


def main(arguments: list[str], runs: int = 100) -> int:
    """Write the files and print the table."""
    if len(arguments) != 1:
        print("usage: python examples/profiles_by_role.py FOLDER", file=sys.stderr)
        return 2
    folder = Path(arguments[0])
    folder.mkdir(parents=True, exist_ok=True)
    rows = errors(runs)
    lines = [
        ",".join(f'"{name}"' for name in rows[0]),
        *(",".join(f"{item:.6g}" for item in row.values()) for row in rows),
    ]
    (folder / "errors.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    draw(rows, folder / "errors.png")
    print("error of a role's histogram (total variation)")
    print("".join(f"{name.removeprefix('error '):>22}" for name in list(rows[0])[:4]))
    for row in rows:
        print("".join(f"{item:22.4g}" for item in list(row.values())[:4]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
