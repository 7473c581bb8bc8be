"""Tables and labels in a pipe and in a terminal."""

from __future__ import annotations

from podtune.cli.views.columns import align_columns, align_labels, align_with_message

MESSAGE = "stopped at rung 1: accuracy 0.2 is below the cutoff 0.4"


def test_a_column_is_as_wide_as_its_widest_cell_and_an_empty_cell_is_a_dash() -> None:
    assert align_columns(["NAME", "LR"], [["digits-10", ""], ["d", "0.01"]]) == [
        "NAME        LR",
        "digits-10   -",
        "d           0.01",
    ]


def test_a_column_of_messages_is_left_out_where_there_is_none() -> None:
    assert align_with_message(["NAME", "MESSAGE"], [["a", ""], ["b", ""]], 80) == ["NAME", "a", "b"]


def test_a_message_is_not_broken_in_a_pipe() -> None:
    assert align_with_message(["NAME", "MESSAGE"], [["a", MESSAGE * 3]], None) == [
        "NAME   MESSAGE",
        f"a      {MESSAGE * 3}",
    ]


def test_a_message_is_broken_beside_its_row_where_there_is_room() -> None:
    assert align_with_message(["NAME", "MESSAGE"], [["a", MESSAGE], ["b", ""]], 44) == [
        "NAME   MESSAGE",
        "a      stopped at rung 1: accuracy 0.2 is",
        "       below the cutoff 0.4",
        "b",
    ]


def test_a_message_goes_below_its_row_where_there_is_no_room_beside() -> None:
    assert align_with_message(["NAME", "MESSAGE"], [["digits-10", MESSAGE], ["b", ""]], 36) == [
        "NAME",
        "digits-10",
        "    stopped at rung 1: accuracy 0.2",
        "    is below the cutoff 0.4",
        "b",
    ]


def test_labels_stand_in_two_columns_and_what_is_empty_is_left_out() -> None:
    assert align_labels({"State": "RUNNING", "Reason": "", "Best": MESSAGE}, 45) == [
        "State:   RUNNING",
        "Best:    stopped at rung 1: accuracy 0.2 is",
        "         below the cutoff 0.4",
    ]
