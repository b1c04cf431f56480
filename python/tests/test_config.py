"""Parameters as typed objects, with the keys and units of TOML files."""

import copy
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT

import ebbtide


def test_parameters_are_attributes_and_complete() -> None:
    config = ebbtide.Config("astriflash")
    assert config.cores.count == 16 and config.design == "astriflash"
    assert config.promotion is None
    assert {"dram_cache", "to_toml", "update"} <= set(dir(config))
    assert {"size", "ways", "policy"} <= set(dir(config.dram_cache))
    assert ebbtide.Config("flatflash").promotion is not None


def test_an_assignment_checks_the_whole_and_reaches_the_run(small) -> None:
    config = ebbtide.Config("astriflash", set=small)
    config.dram_cache.ways = 8
    config.parts.core_side = "flash-sync"
    config.switch = {"threads": 4, "cost_ns": 0}
    run = ebbtide.simulate(config, workload="array-swap", jobs=200)
    assert run.config.dram_cache.ways == 8
    assert (run.config.switch.threads, run.config.switch.cost_ns) == (4, 0)
    assert run.config.parts.core_side == "flash-sync"
    assert config.to_dict() == run.config


def test_errors_name_the_key_and_change_nothing() -> None:
    config = ebbtide.Config()
    before = config.to_toml()
    with pytest.raises(ebbtide.InputError, match=r"dram_cache\.way'; did you mean 'ways'"):
        config.dram_cache.way = 8  # type: ignore[attr-defined]
    with pytest.raises(ebbtide.InputError, match=r"dram_cache\.ways"):
        config.dram_cache.ways = "many"  # type: ignore[assignment]
    with pytest.raises(ebbtide.InputError, match=r"less than dataset\.size"):
        config.dram_cache.size = "512GiB"
    with pytest.raises(AttributeError, match=r"unknown key 'dram_cache\.way'"):
        _ = config.dram_cache.way  # type: ignore[attr-defined]
    assert config.to_toml() == before
    config.update({"dram_cache.size": "512GiB", "dataset.size": "4TiB"})
    assert config.dataset.size == "4TiB"


def test_a_configuration_survives_files_pickles_and_copies(tmp_path: Path) -> None:
    config = ebbtide.Config("cxl-flash", preset="atc23", set={"prefetch.in_flight": 7})
    for other in (
        pickle.loads(pickle.dumps(config)),
        copy.deepcopy(config),
        ebbtide.Config(config.save(tmp_path / "mine.toml")),
    ):
        assert other == config and other.prefetch.in_flight == 7
    with pytest.raises(ebbtide.InputError, match=r"ends in \.toml"):
        config.save(tmp_path / "mine")


def test_the_classes_are_those_of_the_model() -> None:
    script = ROOT / "python/tools/make_config.py"
    done = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("design", ebbtide.designs())
def test_every_key_of_every_design_has_a_class(design: str) -> None:
    config = ebbtide.Config(design)

    def check(section: object, values: dict[str, object]) -> None:
        known = type(section).__annotations__
        for name, value in values.items():
            assert name in known, f"{type(section).__name__}.{name}"
            if isinstance(value, dict) and name != "flash":
                check(getattr(section, name), value)

    check(config, config.to_dict())
