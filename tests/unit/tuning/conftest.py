import pytest

pytest.register_assert_rewrite("tests.unit.tuning.searcher_conformance", "tests.unit.tuning.scheduler_conformance")
