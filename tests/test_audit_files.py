"""Files as they come: broken, cut, quoted at random, packed, empty, with other columns."""

import gzip

import polars as pl
import pytest

from steadyrank.click_logs import files
from steadyrank.click_logs.click_log import read

pytestmark = pytest.mark.pure

ROW = '{"items": ["a", "b"], "clicked": 1}\n'


@pytest.fixture
def log(tmp_path):
    """Writes a file and gives its path."""

    def write(name, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def facts(*paths, **options):
    found = read(list(paths), {}, most_broken=1.0, **options)
    return found.rows, found.broken, found.impressions.n, int(found.impressions.bits.sum())


def test_a_line_with_too_few_fields_is_broken_not_a_list_without_a_click(log):
    path = log("log.csv", "items,clicked\na|b,1\na|b\nb|a,\nb|a,2\n")
    assert facts(path) == (4, 1, 3, 2)
    assert read([path], {}, most_broken=1.0).examples[0] == (1, "1 fields, not 2", "a|b")
    quoted = log("quoted.csv", 'items,clicked\n"a,b",1\n"a,b"\n"b,a",\n')
    assert facts(quoted) == (3, 1, 2, 1)


def test_a_quote_that_never_ends_costs_its_own_line_only(log):
    path = log("log.csv", 'items,clicked\na|b,1\n"a|b,1\n' + "b|a,2\n" * 50)
    assert facts(path) == (52, 1, 51, 51)


def test_quotes_inside_of_fields_do_not_stop_reading(log, monkeypatch):
    monkeypatch.setattr(files, "BLOCK", 1_000)
    path = log("log.csv", 'items,clicked\n5" disk|b,1\n' + "a|b|c|d,1\n" * 1_000)
    assert facts(path)[:2] == (1_001, 0)
    assert max(map(len, files.pieces(path, quotes=True))) <= 2_000  # the rest of the file does not wait for a quote


def test_a_block_does_not_end_in_a_quoted_field(log, monkeypatch):
    monkeypatch.setattr(files, "BLOCK", 97)
    path = log("log.csv", "items,clicked\n" + '"a\nx|b",1\nc|d,2\n' * 100)
    assert facts(path) == (200, 0, 200, 200)


def test_empty_lines_are_no_rows(log):
    assert facts(log("log.csv", "items,clicked\na|b,1\n\nb|a,2\r\n\r\n")) == (2, 0, 2, 2)


@pytest.mark.parametrize("separator", [";", "\t", ","])
def test_the_header_says_what_separates_fields(log, separator):
    assert facts(log("log.csv", f"items{separator} clicked\na|b{separator}1\nb|a{separator}2\n")) == (2, 0, 2, 2)


def test_fields_of_any_length_are_read(log):
    path = log("log.csv", "items,clicked\n" + "|".join(map(str, range(40_000))) + ",1\na|b,1,3\n")
    assert facts(path) == (2, 1, 1, 1)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("log.csv.gz", b"items,clicked\na|b,1\n", "log.csv.gz cannot be unpacked: Not a gzipped file"),
        ("log.csv", "items,clicked\ra|b,1\rb|a,2\r", "log.csv cannot be read as CSV: new-line character"),
        ("log.csv", "items,\na|b,1\n", "different column names, not 'items,': column 2 has no name"),
        ("log.csv", "items,clicked,items\na,1,b\n", "different column names.*: two are called 'items'"),
        ("log.json", "[1, 2]", "log.json must be an array of JSON objects"),
        ("log.jsonl", "hello\nworld\n", "no row can be read; row 0: no JSON object.*'hello'"),
        ("log.jsonl", "{}\n{}\n", "holds no rows"),
        ("log.csv", "", "holds no rows"),
    ],
)
def test_files_that_cannot_be_read_are_named(log, name, content, words):
    with pytest.raises(ValueError, match=words):
        read([log(name, content)], {})


def test_a_damaged_packed_file_is_named(log):
    packed = gzip.compress(b"items,clicked\n" + b"a|b,1\n" * 5000)
    for damaged in (packed[:-20], packed[:30] + b"xxxxxx" + packed[36:]):
        with pytest.raises(ValueError, match=r"log.csv.gz cannot be unpacked"):
            read([log("log.csv.gz", damaged)], {})


def test_lines_nested_too_deeply_are_broken(log):
    assert facts(log("log.jsonl", ROW * 3 + "[" * 100_000 + "\n")) == (4, 1, 3, 3)


def test_empty_files_among_others_do_no_harm(log):
    empty = [log("empty.csv", "items,clicked\n"), log("empty.jsonl", ""), log("none.csv", "")]
    assert facts(*empty, log("log.jsonl", "oops\n" + ROW), log("last.csv", "")) == (2, 1, 1, 1)


def test_a_file_without_a_column_of_the_others_is_refused(log, tmp_path):
    good = log("log.jsonl", ROW)
    assert facts(good, log("partly.jsonl", ROW + '{"items": ["a", "b"]}\n')) == (3, 0, 3, 2)
    pl.DataFrame({"items": [["a"]], "click": [1]}).write_parquet(tmp_path / "other.parquet")
    for other in (
        log("other.jsonl", ROW.replace("clicked", "click")), log("other.csv", "items,click\na,1\n"),
        tmp_path / "other.parquet", pl.DataFrame({"items": [["a"]], "click": [1]}),
    ):  # fmt: skip
        with pytest.raises(ValueError, match="lacks the columns clicked; it has items, click"):
            read([good, other], {})


def test_a_name_with_brackets_is_a_name(tmp_path):
    path = tmp_path / "log[1]*.parquet"
    pl.DataFrame({"items": [["a"]], "clicked": [1]}).write_parquet(path)
    assert facts(path) == (1, 0, 1, 1)


@pytest.mark.parametrize("kind", [pl.Categorical, pl.Enum(["3", "2", "1"])])
def test_names_of_a_fixed_set_are_text(kind):
    lists = pl.Series("items", [["3", "2", "1"]] * 3, pl.Array(kind, 3))
    clicked = pl.Series("clicked", ["3", "1", None], kind)
    found = read([pl.DataFrame([lists, clicked])], {})
    assert found.items == ["3", "2", "1"]
    assert found.impressions.bits.tolist() == [False, False, True, True, False, False, False]


def test_a_file_without_a_header_loses_no_row(log):
    path = log("log.csv", "a|b,1,2026-03-01\nb|a,2,2026-03-02\n")
    with pytest.raises(ValueError, match=r"columns found: column_1 \(String, such as 'a\|b'\), column_2"):
        read([path], {})
    found = read([path], {"items": "column_1", "clicked": "column_2", "time": "column_3"})
    assert (found.rows, found.impressions.n, found.items) == (2, 2, ["a", "b"])


def test_the_index_that_pandas_writes_is_no_obstacle(log):
    assert facts(log("log.csv", ",items,clicked\n0,a|b,1\n1,b|a,2\n")) == (2, 0, 2, 2)


@pytest.mark.parametrize(
    "text", ["[" + ROW.strip() + ",\n" + ROW.strip() + "]", '{"rows": [' + ROW.strip() + "," + ROW + "]}", ROW * 2]
)
def test_json_that_is_no_lines_is_read_too(log, text):
    assert facts(log("log.json", text)) == (2, 0, 2, 2)
    assert facts(log("broken.json", f"[{ROW}, 7, {ROW}]")) == (3, 1, 2, 2)
