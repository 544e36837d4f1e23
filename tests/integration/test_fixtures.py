"""The fixtures that pytest finds by itself, in test runs of their own."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]

SHOP = """
from jumar import Harness, Run

harness = Harness("sqlite:///shop.db")

@harness.tool(effect="read")
def price(item: str) -> int:
    return 7

@harness.agent(tools=[price])
def quote(run: Run, item: str) -> int:
    return price(item)
"""


def outcomes(pytester: pytest.Pytester, test: str, **expected: int) -> pytest.RunResult:
    """Run a test file in a process of its own."""
    pytester.makepyfile(test)
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    result.assert_outcomes(**expected)
    return result


def test_each_test_gets_a_harness_of_its_own_on_memory_and_it_is_closed_after_it(pytester: pytest.Pytester) -> None:
    test = """
        from pathlib import Path
        import pytest
        from jumar import Run

        seen = []

        @pytest.mark.parametrize("number", [1, 2])
        def test_it(jumar_harness, number):
            assert jumar_harness.runs() == []
            for earlier in seen:
                assert earlier is not jumar_harness
                assert earlier._operations is None
            seen.append(jumar_harness)

            @jumar_harness.tool(effect="external")
            def pay(cents: int) -> str:
                return f"paid {cents}"

            @jumar_harness.agent(tools=[pay])
            def settle(run: Run, cents: int) -> str:
                return pay(cents)

            assert jumar_harness.run(settle, number).unwrap() == f"paid {number}"
            assert list(Path.cwd().glob("*.db*")) == []
    """
    outcomes(pytester, test, passed=2)


def test_harnesses_of_the_users_own_are_on_memory_for_one_test_and_then_back_on_their_stores(
    pytester: pytest.Pytester,
) -> None:
    pytester.makepyfile(shop=SHOP, store=SHOP)
    test = """
        from pathlib import Path
        import shop, store

        def test_on_memory(jumar_memory, jumar_harness):
            assert jumar_memory(shop.harness) is shop.harness
            jumar_memory(store.harness)
            assert shop.harness.run(shop.quote, "ink").output == 7
            assert len(shop.harness.runs()) == 1
            assert store.harness.runs() == jumar_harness.runs() == []
            assert not Path("shop.db").exists()

        def test_on_new_memory_that_fails(jumar_memory):
            assert jumar_memory(shop.harness).runs() == []
            assert shop.harness.run(shop.quote, "ink").output == 8

        def test_on_disk():
            assert shop.harness.run(shop.quote, "ink").output == 7
            assert Path("shop.db").exists()
            shop.harness.close()
    """
    result = outcomes(pytester, test, passed=2, failed=1)
    result.stdout.fnmatch_lines(["*test_on_new_memory_that_fails*"])


def test_the_installed_entry_point_is_what_provides_them(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcomes(pytester, "def test_it(jumar_harness, jumar_memory): pass", passed=1)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    result = outcomes(pytester, "def test_it(jumar_harness, jumar_memory): pass", errors=1)
    result.stdout.fnmatch_lines(["*fixture 'jumar_harness' not found*"])


def test_a_test_run_that_uses_none_of_them_does_not_import_jumar(pytester: pytest.Pytester) -> None:
    test = """
        import sys

        def test_it():
            assert "jumar_pytest" in sys.modules
            assert [name for name in sys.modules if name.partition(".")[0] in ("jumar", "msgspec")] == []
    """
    outcomes(pytester, test, passed=1)


def test_the_fixtures_say_what_they_are_for(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_subprocess("--fixtures")
    result.stdout.fnmatch_lines(
        ["jumar_harness*", "*A harness on `memory:`*", "jumar_memory*", "*Puts a harness of yours on `memory:`*"]
    )
