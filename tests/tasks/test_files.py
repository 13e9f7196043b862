"""Any file or folder: what is read, what is refused and how it is named, and that splits never share a question."""

from __future__ import annotations

import csv
import gzip
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from combee.errors import CombeeError, DataError, UsageError
from combee.kernel.learn.roles import Task
from combee.tasks import Fields, TaskSet, load
from combee.tasks.files import counts_of, split
from combee.tasks.rows import MAX_LINE, read_table

ALL_TRAIN = (None, 0, 0)


def write(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text.encode("utf-8") if isinstance(text, str) else text)
    return path


def pairs(tasks: TaskSet) -> list[tuple[str, str | None]]:
    return sorted((task.question, task.target) for task in tasks)


def rows(count: int, start: int = 0) -> str:
    return "".join(json.dumps({"question": f"Q{i}?", "answer": f"A{i}"}) + "\n" for i in range(start, start + count))


# --- forms -----------------------------------------------------------------------------------------------------------

EXPECTED = [("Grüße, “Σ” 🐝?", "ja"), ('two\nlines, "quoted"', "1.10")]
FORMS = [
    ("a.jsonl", '{"question": "FIRST", "answer": "ja"}\n{"question": "SECOND", "answer": 1.10}\n'),
    ("a.ndjson", '\n{"input": "FIRST", "output": "ja"}\n\n{"input": "SECOND", "output": "1.10"}'),
    ("a.json", '[{"prompt": "FIRST", "label": "ja"}, {"prompt": "SECOND", "label": 1.10}]'),
    ("a.json", '{"v": 1, "rows": [{"Query": "FIRST", "Target": "ja"},\n{"Query": "SECOND", "Target": 1.10}]}'),
    ("a.csv", 'question,answer\n"FIRST",ja\n"SECOND",1.10\n'),
    ("a.csv", 'question;answer\n"FIRST";ja\n"SECOND";1.10\n;\n\n'),
    ("A.CSV", 'question\tanswer\n"FIRST"\tja\n"SECOND"\t1.10'),
    ("a.tsv", 'id\tquestion\tanswer\n7\t"FIRST"\tja\n9\t"SECOND"\t1.10'),
    ("a.csv", 'sep=;\nquestion;answer\n"FIRST";ja\n"SECOND";1.10\n'),
    ("a.csv", 'question|answer\n"FIRST"|ja\n"SECOND"|1.10\n\x1a'),
    ("a.csv", 'question, answer\n"FIRST", "ja"\n"SECOND", "1.10"\n'),
    ("a.csv", 'question,answer\n"FIRST",ja,\n"SECOND",1.10, ,\n'),
    ("a.json", '{"instruction": "FIRST", "completion": "ja"}\n{"instruction": "SECOND", "completion": "1.10"}'),
    ("a.jsonl", ' [\n{"text": "FIRST", "ideal": "ja"},\n{"text": "SECOND", "ideal": 1.10}\n]'),
]


def test_a_packed_file_is_the_file(tmp_path: Path) -> None:
    (tmp_path / "all").mkdir()
    for name in ("train", "test"):
        write(tmp_path / "all" / f"{name}.jsonl.gz", gzip.compress(rows(6, start=6 * (name == "test")).encode()))
    tasks = load(tmp_path / "all")
    assert (len(tasks.train), len(tasks.test)) == (6, 6)
    assert len(load(tmp_path / "all" / "train.jsonl.gz").train) == 4
    torn = write(tmp_path / "torn.csv.gz", gzip.compress(b"question,answer\nQ,A\n")[:-9])
    with pytest.raises(DataError, match="not a whole gzip file"):
        load(torn)


def test_answers_that_count_as_the_same_are_said(tmp_path: Path) -> None:
    odd = ["bug", "Bug", "bug\u200b", "\ufeffBUG", "caf\u00e9", "cafe\u0301", "other"]
    lines = [json.dumps({"question": f"Q{place}?", "answer": answer}) for place, answer in enumerate(odd)]
    tasks = load(write(tmp_path / "a.jsonl", "\n".join(lines)))
    assert any(note.startswith("2 answers are spelled in several ways (like 'bug'") for note in tasks.notes)
    assert not any("spelled" in note for note in load(write(tmp_path / "b.jsonl", rows(4))).notes)


@pytest.mark.parametrize(
    ("name", "text", "says", "hint"),
    [
        ("a.csv", "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\n", "Git LFS", "git lfs pull"),
        ("a.jsonl", "<!DOCTYPE html><html><body>Sign in</body></html>", "a web page", "Download the file"),
        ("a.csv", "Report of May\nquestion,answer\nQ,A\n", "2 cells where", "Take out what stands above"),
        ("a.xlsx", "PK", "unknown kind", "Save the sheet as CSV"),
        ("a.jsonl", '{"messages": []}', "no column is called", "combee learn --from"),
    ],
)
def test_what_is_no_table_is_said_with_what_to_do(tmp_path: Path, name: str, text: str, says: str, hint: str) -> None:
    with pytest.raises(CombeeError, match=says) as caught:
        load(write(tmp_path / name, text))
    assert hint in str(caught.value.hint)


@pytest.mark.parametrize(("name", "form"), FORMS)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_every_form_encoding_and_line_end_gives_the_same_rows(
    tmp_path: Path, name: str, form: str, encoding: str, end: str
) -> None:
    in_json = "json" in name
    second = r"two\nlines, \"quoted\"" if in_json else 'two\nlines, ""quoted""'
    text = form.replace("FIRST", EXPECTED[0][0]).replace("SECOND", second)
    tasks = load(write(tmp_path / name, text.replace("\n", end).encode(encoding)), sizes=ALL_TRAIN)
    assert pairs(tasks) == sorted(EXPECTED)
    assert tasks.kind == "rows"
    assert (f"{name}: read as {encoding}" in tasks.notes) == (encoding in ("utf-16", "utf-32"))


def test_numbers_keep_their_characters_and_true_is_an_answer(tmp_path: Path) -> None:
    written = ["1.10", "1e400", "Infinity", "-Infinity", "9" * 6000, "0", "true", '"true"']
    lines = "\n".join(f'{{"question": "Q{i}", "answer": {value}}}' for i, value in enumerate(written))
    tasks = load(write(tmp_path / "a.jsonl", lines), sizes=ALL_TRAIN)
    assert [target for _, target in pairs(tasks)] == [value.strip('"') for value in written]


def test_separators_inside_text_end_no_line(tmp_path: Path) -> None:
    text = "a\u2028b\u0085c\x1cd"
    line = json.dumps({"question": text, "answer": "x"}, ensure_ascii=False)
    assert load(write(tmp_path / "a.jsonl", line), sizes=ALL_TRAIN).train[0].question == text


def test_surrogates_and_nul_escapes_become_replacement_characters(tmp_path: Path) -> None:
    text = '{"question": "a\\ud800b\\u0000c \\ud83d\\ude00", "answer": "\\udc00"}'
    task = load(write(tmp_path / "a.jsonl", text), sizes=ALL_TRAIN).train[0]
    assert (task.question, task.target) == ("a\ufffdb\ufffdc \U0001f600", "\ufffd")


def test_ids_come_from_a_column_or_from_the_place_in_the_file(tmp_path: Path) -> None:
    with_ids = write(tmp_path / "a.csv", "id,question,answer\nx1,Q1,A1\nx2,Q2,A2\n")
    assert {task.id for task in load(with_ids)} == {"x1", "x2"}
    repeated = write(tmp_path / "my rows.csv", "id,question,answer\nx,Q1,A1\nx,Q2,A2\n")
    assert {task.id for task in load(repeated)} == {"my_rows-2", "my_rows-3"}
    with pytest.raises(DataError, match="stands at line 2 too"):
        load(repeated, fields=Fields(id="id"))


# --- columns ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("header", "fields", "says"),
    [
        ("question,context,answer", None, "question and context could each be the question"),
        ("question,answer,label", None, "answer and label could each be the answer"),
        ("body,answer", None, "no column is called question"),
        ("question,reply", None, "columns: question, reply"),
        ("question,reply", Fields(answer="replly"), "no column 'replly'; there are: question, reply"),
        ("question,answer", Fields(id="nr"), "no column 'nr'"),
    ],
)
def test_columns_that_are_not_clear_are_asked_for(
    tmp_path: Path, header: str, fields: Fields | None, says: str
) -> None:
    path = write(tmp_path / "a.csv", f"{header}\n{','.join('abc'[: header.count(',') + 1])}\n")
    with pytest.raises(UsageError) as caught:
        load(path, fields=fields)
    assert says in str(caught.value)
    assert "--" in str(caught.value) or "Did you mean" in str(caught.value) or "Known" in str(caught.value)


def test_named_columns_win_and_settle_what_was_ambiguous(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "question,context,answer,label,nr\nQ,C,A,L,7\n")
    tasks = load(path, fields=Fields(question="context", answer="label", id="nr"))
    assert [(task.id, task.question, task.target) for task in tasks] == [("7", "C", "L")]


def test_the_same_column_is_never_guessed_as_both(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "label,output\nQ,A\n")
    assert pairs(load(path, fields=Fields(question="label"))) == [("Q", "A")]


# --- bad input -------------------------------------------------------------------------------------------------------

GOOD = '{"question": "Q", "answer": "A"}'


@pytest.mark.parametrize(
    ("name", "content", "line", "says"),
    [
        ("a.jsonl", "", None, "empty"),
        ("a.jsonl", " \n\n ", None, "empty"),
        ("a.jsonl", "\ufeff", None, "empty"),
        ("a.csv", "question,answer\n", None, "no rows"),
        ("a.json", "[]", None, "no rows"),
        ("a.json", '{"rows": []}', None, "no rows"),
        ("a.json", '{"question": "Q", "answer": "A"}', None, "where a list of rows is needed"),
        ("a.json", '"text"', None, "text where a list"),
        ("a.json", "[1]", None, "row 1 is a number"),
        ("a.json", '[{"question": "Q", "answer": "A"}, 5]', None, "row 2 is a number"),
        ("a.json", '[\n{"question": "Q" "answer": "A"}]', 2, "not JSON"),
        ("a.json", f"[{GOOD}]\n{GOOD}", 2, "Extra data"),
        ("a.jsonl", f"{GOOD}\nQ: what?", 2, "not JSON"),
        ("a.jsonl", f'{GOOD}\n{{"question": "Q", "answ', 2, "not JSON"),
        ("a.jsonl", f"{GOOD}\n\n[1, 2]", 3, "a list where an object is needed"),
        ("a.jsonl", f"{GOOD}\nnull", 2, "null where an object"),
        ("a.jsonl", f"{GOOD} {GOOD}", 1, "Extra data"),
        ("a.jsonl", "[" * 100_000, 1, ""),
        ("a.jsonl", f'{GOOD}\n{{"question": "Q2"}}', 2, "no answer: 'answer' is missing"),
        ("a.jsonl", f'{GOOD}\n{{"question": "Q2", "answer": null}}', 2, "no answer: 'answer' is empty"),
        ("a.jsonl", f'{GOOD}\n{{"question": "Q2", "answer": " "}}', 2, "no answer: 'answer' is empty"),
        ("a.jsonl", f'{GOOD}\n{{"question": "", "answer": "A"}}', 2, "no question"),
        ("a.jsonl", f'{GOOD}\n{{"question": 5, "answer": "A"}}', 2, "a number where text is needed"),
        ("a.jsonl", f'{GOOD}\n{{"question": true, "answer": "A"}}', 2, "true or false where text is needed"),
        ("a.jsonl", f'{GOOD}\n{{"question": "Q2", "answer": ["A"]}}', 2, "a list where text or a number"),
        ("a.jsonl", f'{GOOD}\n{{"question": {{"x": 1}}, "answer": "A"}}', 2, "an object where text is needed"),
        ("a.json", f'[{GOOD}, {{"question": "Q2"}}]', None, "row 2: no answer"),
        ("a.csv", "question,answer\nQ,A\nQ2,\n", 3, "no answer"),
        ("a.csv", "question,answer\nQ,A\nQ2\n", 3, "1 cells where the header has 2"),
        ("a.csv", "question,answer\nQ,A\nQ2,A,B\n", 3, "3 cells where the header has 2"),
        ("a.csv", 'question,answer\n"Q\n1",A\nQ2\n', 4, "1 cells"),
        ("a.csv", 'question,answer\nQ,A\n"Q2,A\nQ3,A\n', 3, "not CSV"),
        ("a.csv", 'question,answer\nQ,A\n"Q2"x,A\n', 3, "not CSV"),
        ("a.csv", f"question,answer\nQ,{'A' * 140_000}\n", 2, "field limit"),
        ("a.csv", "question,question,answer\nQ,Q,A\n", 1, "two columns have the name 'question'"),
        ("a.jsonl", f"{GOOD}\nab\0cd", 2, "NUL"),
        ("a.jsonl", GOOD.encode("utf-16-le"), 1, "UTF-16 without a mark"),
        ("a.jsonl", GOOD.encode("utf-16-be"), 1, "UTF-16 without a mark"),
        ("a.jsonl", GOOD.encode("utf-16") + b"\xd8", None, "not valid UTF-16"),
        ("a.jsonl", f"{GOOD}\n".encode() + b'{"question": "caf\xe9"}', 2, "byte 0xe9 at offset 50 is not UTF-8"),
        ("a.jsonl", b"\xef\xbb\xbf" + f"{GOOD}\n".encode() + b"\xe9", 2, "byte 0xe9 at offset 36 is not UTF-8"),
        ("a.csv", b"question,answer\nQ,A\n" + b"caf\xe9,x", 3, "is not UTF-8"),
        ("a.jsonl", "x" * (MAX_LINE + 1), 1, "a line of 10,000,001 characters"),
    ],
)  # fmt: skip
def test_bad_files_are_named_with_their_place(
    tmp_path: Path, name: str, content: str | bytes, line: int | None, says: str
) -> None:
    path = write(tmp_path / name, content)
    with pytest.raises(DataError) as caught:
        load(path)
    assert says in str(caught.value)
    assert caught.value.line == line
    assert str(path) in str(caught.value)
    assert len(str(caught.value)) < 400 + len(str(path))
    assert caught.value.exit_code == 2


def test_column_of_a_json_fault_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        load(write(tmp_path / "a.jsonl", '{"question": "Q", "answer": }'))
    assert (caught.value.line, caught.value.column) == (1, 29)


@pytest.mark.parametrize("name", ["a.txt", "a.parquet", "a.xlsx", "plain", "a.txt.gz", "a.jsonnl"])
def test_an_unknown_suffix_is_a_usage_error(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="unknown kind of file"):
        load(write(tmp_path / name, GOOD))


def test_missing_file_and_unknown_name(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file"):
        load(tmp_path / "none.jsonl")
    with pytest.raises(UsageError, match="Did you mean 'finer'"):
        load("finr")
    with pytest.raises(DataError, match="no such file"):
        load("./tags")
    with pytest.raises(CombeeError):
        load("a\0b.jsonl")
    with pytest.raises(CombeeError):
        load("x" * 5000 + ".jsonl")
    with pytest.raises(CombeeError):
        load("")
    with pytest.raises(DataError):
        load("~no-such-user-here/a.jsonl")


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.jsonl")
    with pytest.raises(DataError, match="not a regular file"):
        load(tmp_path / "a.jsonl")


@pytest.fixture
def not_root() -> Iterator[None]:
    """Root may read everything, so take on another user for a moment."""
    if os.geteuid() == 0:
        os.seteuid(65534)
        yield
        os.seteuid(0)
    else:
        yield


def test_no_permission(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    for folder in (tmp_path, *tmp_path.parents):
        if not os.access(folder, os.X_OK):
            pytest.skip(f"{folder} cannot be passed")
    path = write(tmp_path / "a.jsonl", GOOD)
    (tmp_path / "folder").mkdir()
    path.chmod(0)
    (tmp_path / "folder").chmod(0)
    for folder in (tmp_path, tmp_path.parent, tmp_path.parent.parent):
        folder.chmod(0o755)
    request.getfixturevalue("not_root")
    with pytest.raises(DataError, match="no permission"):
        load(path)
    with pytest.raises(DataError, match="no permission"):
        load(tmp_path / "folder")
    with pytest.raises(DataError, match="no permission"):
        load(tmp_path / "folder" / "a.jsonl")


# --- duplicates, splits ----------------------------------------------------------------------------------------------


def test_duplicates_are_kept_once_and_counted(tmp_path: Path) -> None:
    text = rows(5) + rows(2) + '{"question": "Q3?", "answer": "other"}\n{"question": " Q4? ", "answer": "A4"}\n'
    tasks = load(write(tmp_path / "a.jsonl", text), sizes=ALL_TRAIN)
    assert pairs(tasks) == [(f"Q{i}?", f"A{i}") for i in range(5)]
    assert "a.jsonl: 3 duplicate rows kept once" in tasks.notes
    assert any("1 row repeats a question with another answer" in note and "not 8" in note for note in tasks.notes)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 7, 100])
def test_a_file_is_cut_by_shares_and_everything_is_used(tmp_path: Path, count: int) -> None:
    path = write(tmp_path / "a.jsonl", rows(count))
    tasks = load(path, seed=5)
    sizes = (len(tasks.train), len(tasks.val), len(tasks.test))
    assert len(tasks) == count
    assert sizes == {1: (1, 0, 0), 2: (1, 0, 1), 3: (1, 1, 1), 4: (2, 1, 1), 7: (4, 1, 2), 100: (60, 20, 20)}[count]
    assert any("nothing is left" in note for note in tasks.notes) == (count < 3)
    assert load(path, seed=5).digest() == tasks.digest()
    assert count < 7 or load(path, seed=6).digest() != tasks.digest()


def test_sizes_of_a_file(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", rows(30) + rows(5))
    tasks = load(path, sizes=(10, 5, 8))
    assert (len(tasks.train), len(tasks.val), len(tasks.test)) == (10, 5, 8)
    rest = load(path, sizes=(None, 0, 10))
    assert (len(rest.train), len(rest.val), len(rest.test)) == (20, 0, 10)
    with pytest.raises(UsageError, match="31 rows are asked for, there are 30 different ones"):
        load(path, sizes=(20, 1, 10))


@pytest.mark.parametrize(
    ("option", "value", "says"),
    [
        ("sizes", (-1, 0, 5), "train size -1 is negative"),
        ("sizes", (0, 0, 0), "all three sizes are 0"),
        ("fractions", (0.5, -0.1, 0.6), "val share"),
        ("fractions", (float("nan"), 0, 1), "train share"),
        ("fractions", (0, 0, 0), "all three shares are 0"),
    ],
)
def test_sizes_and_shares_out_of_range(tmp_path: Path, option: str, value: tuple[float, ...], says: str) -> None:
    path = write(tmp_path / "a.jsonl", rows(10))
    with pytest.raises(UsageError, match=says):
        load(path, **{option: value})  # type: ignore[arg-type]  # one name at a time


@given(
    st.integers(1, 400),
    st.tuples(*[st.floats(0, 1)] * 3).filter(lambda shares: sum(shares) > 0.01),
    st.tuples(*[st.none() | st.integers(0, 100)] * 3),
)
def test_counts_use_all_rows_or_say_why_not(
    n: int, fractions: tuple[float, float, float], sizes: tuple[int | None, int | None, int | None]
) -> None:
    if sum(size or 0 for size in sizes) > n:
        with pytest.raises(UsageError):
            counts_of(n, fractions, sizes)
        return
    counts = counts_of(n, fractions, sizes)
    assert all(size is None or count == size for count, size in zip(counts, sizes, strict=True))
    free = [place for place in range(3) if sizes[place] is None and fractions[place] > 0]
    assert min(counts) >= 0
    assert not free or sum(counts) == n
    left = n - sum(size or 0 for size in sizes)
    assert left < len(free) or all(counts[place] >= 1 for place in free)


@given(
    st.lists(st.sets(st.integers(0, 30), min_size=1, max_size=3), min_size=3, max_size=60),
    st.integers(0, 5),
)
def test_items_that_share_a_key_stay_on_one_side(keys: list[set[int]], seed: int) -> None:
    counts = counts_of(len(keys), (0.6, 0.2, 0.2), (None, None, None))
    parts = split(list(range(len(keys))), keys, counts, seed)
    used = [item for part in parts for item in part]
    assert len(used) == len(set(used))
    sides = [set().union(*(keys[item] for item in part)) for part in parts]
    assert not sides[0] & sides[1]
    assert not sides[0] & sides[2]
    assert not sides[1] & sides[2]
    assert all(len(part) <= count for part, count in zip(parts, counts, strict=True))


# --- folders ---------------------------------------------------------------------------------------------------------


def test_a_folder_gives_its_files_and_takes_shared_questions_out_of_train(tmp_path: Path) -> None:
    write(tmp_path / "train.jsonl", rows(20))
    write(tmp_path / "dev.csv", "question,answer\n" + "".join(f"Q{i}?,A{i}\n" for i in range(18, 25)))
    write(tmp_path / "test.json", json.dumps([{"question": f"Q{i}?", "answer": f"A{i}"} for i in range(24, 30)]))
    write(tmp_path / "extra.jsonl", "not read")
    tasks = load(tmp_path)
    assert [len(tasks.train), len(tasks.val), len(tasks.test)] == [18, 6, 6]
    assert "train: 2 rows left out, with a question or sentence that is in val" in tasks.notes
    assert "val: 1 row left out, with a question or sentence that is in test" in tasks.notes
    assert tasks.name == tmp_path.name


def test_the_same_ids_in_two_files_are_told_apart(tmp_path: Path) -> None:
    write(tmp_path / "train.csv", "id,question,answer\n1,Q1,A\n2,Q2,A\n")
    write(tmp_path / "test.csv", "id,question,answer\n1,Q3,A\n")
    assert sorted(task.id for task in load(tmp_path)) == ["test/1", "train/1", "train/2"]


def test_sizes_of_a_folder(tmp_path: Path) -> None:
    write(tmp_path / "train.jsonl", rows(20))
    write(tmp_path / "test.jsonl", rows(10, start=100))
    tasks = load(tmp_path, sizes=(None, 5, 4))
    assert [len(tasks.train), len(tasks.val), len(tasks.test)] == [15, 5, 4]
    assert "val cut from the train file" in tasks.notes
    assert {task.question for task in tasks.test} <= {f"Q{i}?" for i in range(100, 110)}
    for sizes, says in (
        ((21, 0, None), "21 rows are asked for, the train file has 20"),
        ((16, 5, None), "21 rows are asked for, the train file has 20"),
        ((None, 21, None), "21 rows are asked for"),
        ((None, None, 11), "the test file has 10"),
    ):
        with pytest.raises(UsageError, match=says):
            load(tmp_path, sizes=sizes)


def test_folders_that_cannot_be_used(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="it holds nothing"):
        load(tmp_path)
    write(tmp_path / "data.jsonl", rows(2))
    write(tmp_path / "train.parquet", "x")
    with pytest.raises(DataError, match=r"it holds data\.jsonl, train\.parquet"):
        load(tmp_path)
    write(tmp_path / "val.jsonl", rows(2))
    write(tmp_path / "valid.csv", "question,answer\nQ,A\n")
    with pytest.raises(UsageError, match="both the val split"):
        load(tmp_path)


def test_train_that_is_all_in_test_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "train.jsonl", rows(3))
    write(tmp_path / "test.jsonl", rows(5))
    with pytest.raises(DataError, match="every row of train is in another split"):
        load(tmp_path)


# --- the whole -------------------------------------------------------------------------------------------------------


def test_the_scorer_can_be_chosen(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", '{"question": "Q", "answer": 5}')
    task = Task("t", "Q", "5")
    assert not load(path).scorer(task, "5.0").passed
    assert load(path, scorer="number").scorer(task, "5.0").passed
    with pytest.raises(UsageError, match="no scorer"):
        load(path, scorer="nummer")


def test_columns_for_the_embedded_set_are_refused() -> None:
    with pytest.raises(UsageError, match="no columns"):
        load("tags", fields=Fields(question="q"))


def test_a_hundred_thousand_rows(tmp_path: Path) -> None:
    tasks = load(write(tmp_path / "a.jsonl", rows(100_000)))
    assert (len(tasks.train), len(tasks.val), len(tasks.test)) == (60_000, 20_000, 20_000)


letters = st.characters(codec="utf-8", exclude_characters="\0\r")
cells = st.text(letters, min_size=1, max_size=30).filter(lambda text: bool(text.strip()))


@given(data=st.lists(st.tuples(cells, cells), min_size=1, max_size=8))
def test_csv_and_json_lines_read_what_was_written(
    tmp_path_factory: pytest.TempPathFactory, data: list[tuple[str, str]]
) -> None:
    folder = tmp_path_factory.mktemp("forms")
    with (folder / "a.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, quoting=csv.QUOTE_ALL)
        writer.writerows([("question", "answer"), *data])
    lines = "\n".join(json.dumps({"question": q, "answer": a}, ensure_ascii=False) for q, a in data)
    write(folder / "a.jsonl", lines)
    for name in ("a.csv", "a.jsonl"):
        table = read_table(folder / name)
        assert [(row.cells["question"], row.cells["answer"]) for row in table.rows] == data


@given(content=st.binary(max_size=300), suffix=st.sampled_from([".jsonl", ".json", ".csv", ".tsv"]))
def test_no_bytes_bring_anything_but_rows_or_a_named_error(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, suffix: str
) -> None:
    path = write(tmp_path_factory.mktemp("bytes") / f"a{suffix}", content)
    try:
        said = f"{len(load(path))} rows of {path}"
    except UsageError as error:
        said = str(error)
    assert str(path) in said


@pytest.mark.parametrize("suffix", [".jsonl", ".json"])
@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ('{"question": "a", "answer": NaN}', "no answer"),
        ('{"question": NaN, "answer": "x"}', "no question"),
        ('{"question": "a", "question": "b", "answer": "x"}', "'question' is named twice"),
        ('{"question": "a", "answer": "x", "more": {"z": 1, "z": 2}}', "'z' is named twice"),
    ],
)
def test_holes_and_fields_named_twice_are_no_answers(tmp_path: Path, suffix: str, row: str, reason: str) -> None:
    path = tmp_path / f"rows{suffix}"
    path.write_text(row if suffix == ".jsonl" else f"[{row}]", encoding="utf-8")
    with pytest.raises(DataError, match=reason):
        load(path)
