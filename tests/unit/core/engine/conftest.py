import pytest

from prunus.core.study import database


@pytest.fixture(autouse=True)
def _files_need_not_survive_the_end_of_the_power(monkeypatch):
    monkeypatch.setattr(database, "SYNCHRONOUS", "OFF")
