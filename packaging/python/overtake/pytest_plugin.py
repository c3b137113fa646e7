"""pytest's fixtures: `overtake_dsn` is a new, empty server for each test."""

import pytest

import overtake


@pytest.fixture
def overtake_settings():
    """Settings of the server: override it in a test file or in conftest.py."""
    return {}


@pytest.fixture
def overtake_dsn(overtake_settings):
    """DSN of a server that ends with the test."""
    with overtake.serve(settings=overtake_settings) as dsn:
        yield dsn
