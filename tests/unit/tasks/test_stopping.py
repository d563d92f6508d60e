"""Requests to stop."""

import signal
import threading

import pytest

from prunus.tasks.stopping import stop_requests


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_asks(number):
    before = signal.getsignal(number)
    with stop_requests() as request:
        assert not request.asked
        signal.raise_signal(number)
        assert request.asked
    assert signal.getsignal(number) is before


def test_the_second_signal_ends():
    def impatient():
        with stop_requests():
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        impatient()
    assert signal.getsignal(signal.SIGINT) is before


def test_in_another_thread_nothing_is_touched():
    found = []

    def run():
        with stop_requests() as request:
            found.append((request.asked, signal.getsignal(signal.SIGINT)))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert found == [(False, signal.getsignal(signal.SIGINT))]
