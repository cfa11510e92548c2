"""`privsample completion`: scripts that the shells run."""

import shutil
import subprocess

import pytest

from privsample.cli import _COMMANDS
from privsample.cli.choice import mechanisms
from privsample.cli.completion import Node, Word, _bash
from privsample.simulations.audit.catalogue import catalogue
from reproduction import NAMES

SHELLS = ("bash", "zsh", "fish")
SCRIPTS: dict[str, str] = {}


@pytest.fixture
def script(run):
    """Write the script of a shell, which all tests share."""

    def written(shell):
        if shell not in SCRIPTS:
            ran = run("completion", shell)
            assert (ran.code, ran.err) == (0, "")
            SCRIPTS[shell] = ran.out
        return SCRIPTS[shell]

    return written


def bash_offers(text, *words):
    """Return what bash offers for the last of these words."""
    if shutil.which("bash") is None:
        pytest.skip("bash is not installed")
    typed = " ".join(f"'{word}'" for word in ("privsample", *words))
    ask = f'COMP_WORDS=({typed}); COMP_CWORD={len(words)}; _privsample; printf "%s\\n" "${{COMPREPLY[@]}}"'
    ran = subprocess.run(
        ["bash", "-c", f"compopt() {{ :; }}\n{text}\n{ask}"], capture_output=True, text=True, check=True
    )
    assert ran.stderr == ""
    return [line for line in ran.stdout.splitlines() if line]


def test_bash_offers_commands_options_and_names(script, tmp_path):
    text = script("bash")
    assert set(bash_offers(text, "")) == set(_COMMANDS)
    assert bash_offers(text, "rep") == ["reproduce"]
    assert bash_offers(text, "ledger", "sh") == ["show"]
    assert "--epsilon" in bash_offers(text, "ledger", "init", "budget", "--")
    assert bash_offers(text, "reproduce", "papernot-8") == ["papernot-8"]
    assert set(bash_offers(text, "reproduce", "")) >= set(NAMES)
    assert set(bash_offers(text, "audit", "")) == set(catalogue())
    assert bash_offers(text, "completion", "") == list(SHELLS)
    assert "--separator" in bash_offers(text, "release", "a.csv", "--s")
    assert not bash_offers(text, "release", "a.csv", "--separator", "")
    assert "beta-bernoulli" in bash_offers(text, "compare", "--model", "beta")
    (tmp_path / "patients.csv").write_text("")
    assert bash_offers(text, "validate", "pat") == ["patients.csv"]
    assert bash_offers(text, "release", "x", "--out", "pat") == ["patients.csv"]
    (tmp_path / "two words *.csv").write_text("")
    (tmp_path / "$(touch made)").write_text("")
    assert bash_offers(text, "validate", "two") == ["two words *.csv"]
    assert bash_offers(text, "validate", "$(t") == ["$(touch made)"]


def test_bash_expands_no_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    odd = ("a b", "$(touch made)", "*", "it's", "`touch made`")
    word = Word(name="shell", help="", values=odd, is_file=False, takes_value=True)
    node = Node(path=("odd",), help="", options=(), arguments=(word,), commands=(), by_mechanism={})
    assert bash_offers(_bash([node]), "odd", "") == list(odd)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_bash_offers_the_options_of_the_mechanism_that_is_given(script):
    text = script("bash")
    assert set(bash_offers(text, "account", "--mechanism", "")) == set(mechanisms())
    assert "--sensitivity" not in bash_offers(text, "account", "--")
    assert "--sensitivity" in bash_offers(text, "account", "--mechanism", "gaussian", "--")
    assert "--sensitivity" in bash_offers(text, "account", "--mechanism", "=", "gaussian", "--")  # as bash splits it
    assert "--sensitivity" not in bash_offers(text, "account", "--mechanism", "diffused", "--")
    assert "--model" in bash_offers(text, "validate", "a.csv", "--")  # its default is a posterior


@pytest.mark.parametrize("shell", SHELLS)
def test_scripts_can_be_parsed(script, shell, tmp_path):
    text = script(shell)
    assert "--rdp-epsilon" in text or "-l rdp-epsilon" in text
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    (tmp_path / "script").write_text(text)
    ran = subprocess.run([shell, "-n", tmp_path / "script"], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")


def test_fish_offers_the_options_of_the_mechanism_that_is_given(script, tmp_path):
    text = script("fish")
    if shutil.which("fish") is None:
        pytest.skip("fish is not installed")
    (tmp_path / "script").write_text(text)

    def offers(line):
        ask = f"source {tmp_path / 'script'}; complete -C '{line}'"
        ran = subprocess.run(["fish", "-c", ask], capture_output=True, text=True, check=True)
        return [offer.partition("\t")[0] for offer in ran.stdout.splitlines()]

    assert offers("privsample repr") == ["reproduce"]
    assert offers("privsample ledger sh") == ["show"]
    assert offers("privsample account --mechanism gaussian --sens") == ["--sensitivity"]
    assert not offers("privsample account --mechanism diffused --sens")


def test_an_unknown_shell(run):
    ran = run("completion", "tcsh")
    assert ran.code == 2
    assert "invalid choice: 'tcsh'" in ran.err
