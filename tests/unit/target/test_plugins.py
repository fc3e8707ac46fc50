"""Discovery: what is installed, what is refused."""

import shutil
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import bpuc_targets
import pytest

from bpuc import plugins
from bpuc.base.errors import ConfigError


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Pretend that packages are installed: a name becomes a package with copies of these folders of bpuc_targets."""
    points: list[EntryPoint] = []

    def add(name, *folders):
        package = tmp_path / name
        package.mkdir()
        (package / "__init__.py").write_text("")
        for folder in folders:
            shutil.copytree(Path(bpuc_targets.__path__[0]) / folder, package / folder)
        points.append(EntryPoint(name, name, "bpuc.targets"))

    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(plugins, "entry_points", lambda group: points)
    plugins.targets.cache_clear()
    yield add
    plugins.targets.cache_clear()
    for point in points:
        sys.modules.pop(point.value, None)


def test_all_built_in_marches():
    assert set(plugins.targets()) == {"bernoulli2", "bayes", "bayes-e", "nash-e", "nash-m", "nash-p"}


def test_nash_is_nash_e():
    assert plugins.get_target("nash") is plugins.targets()["nash-e"]


def test_unknown_march_names_the_known_ones():
    with pytest.raises(ConfigError) as e:
        plugins.get_target("bayes-f")
    assert "bernoulli2" in str(e.value)
    assert "did you mean 'bayes-e'" in str(e.value)


def test_nothing_installed(install):
    with pytest.raises(ConfigError, match=r"no targets found; run `pip install -e \.`"):
        plugins.targets()


def test_package_without_targets(install):
    install("empty_plugin")
    with pytest.raises(ConfigError, match="no targets found"):
        plugins.targets()


def test_third_party_target(install):
    install("one_plugin", "bernoulli2")
    assert set(plugins.targets()) == {"bernoulli2"}


def test_two_packages_claim_one_march(install):
    install("one_plugin", "bernoulli2")
    install("other_plugin", "bernoulli2")
    with pytest.raises(ConfigError, match=r"'bernoulli2'.*one_plugin and other_plugin"):
        plugins.targets()


def test_package_that_cannot_be_imported(install):
    install("good_plugin", "bernoulli2")
    shutil.rmtree(Path(sys.path[0]) / "good_plugin")
    with pytest.raises(ConfigError, match="cannot be imported"):
        plugins.targets()


def test_modules_of_a_group_are_listed():
    names = {m.__name__ for m in plugins.modules("bpuc.observers")}
    assert {"bpuc.observe.min_max", "bpuc.observe.kl"} <= names
