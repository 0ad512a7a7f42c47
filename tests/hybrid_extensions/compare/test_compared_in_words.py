"""What a comparison says: of rows that were only on their way, nothing that looks like a loss."""

from __future__ import annotations

from hybrid_extensions.compare.compare_source import SourceComparison
from hybrid_extensions.compare.compare_whole import FurtherLooks, compared_in_words

FIRST = SourceComparison(
    table="public.orders",
    rows=2971,
    found=3000,
    only_in_source=301,
    only_in_target=330,
    examples=['only in the source: {"id":10}'],
    columns=["id"],
)


def test_rows_that_were_on_their_way_are_no_differences() -> None:
    assert compared_in_words(FIRST, FurtherLooks("0 keys differ after further looks.", 0)) == [
        "public.orders: 2,971 rows; no key differs.",
        "A first look found 631 rows of both tables whose changes were on their way.",
    ]


def test_what_differs_still_is_named_without_what_has_arrived() -> None:
    again = FurtherLooks("1 key differs after further looks.", 1, ['{"id":4} is missing'])
    assert compared_in_words(FIRST, again) == [
        "public.orders: 1 key differs after further looks.",
        '{"id":4} is missing',
    ]


def test_what_can_not_be_judged_is_shown_as_the_first_look_found_it() -> None:
    first, example, unknown = compared_in_words(FIRST, FurtherLooks("It is unknown.", None))
    assert "301 only in the source, 330 only in the target" in first
    assert (example, unknown) == (FIRST.examples[0], "It is unknown.")
