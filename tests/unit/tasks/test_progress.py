"""Time left."""

import time

from prunus.tasks.progress import Clock


def test_time_left_is_at_the_pace_of_this_run(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    clock = Clock(done=30, total=50)
    assert clock.left(30) is None
    now[0] = 110.0
    assert clock.seconds == 10
    assert clock.left(35) == 30
    assert clock.left(50) == 0
