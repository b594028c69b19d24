"""What an event takes in a PostgreSQL: bytes on its disk, and time to write it.

    python bench/store.py
    python bench/store.py --pg postgresql://postgres@db/postgres

Lists of ten places for visitors with names, and their answers, as a worker writes them: many in a commit, and each
commit waits for the disk. Bytes are those of the tables and indices after all rows were written once.
"""

import argparse
import contextlib
import os
import time

import psycopg
from workers import database, fresh

from steadyrank.service.board import events
from steadyrank.service.storage import NewEntry, Sender, open_store

BOARDS, VISITORS = 64, 20_000


def pair(k, board):
    """A list and its answer, of a visitor with a name."""
    head = 2**62 + k, 10_000 + k, 9_990 + k, 1, [(7 * k + n) % 200 for n in range(10)], []
    shown = events.ListShown(*head, 1.7e9 + k / 100.0, k % VISITORS)
    answered = events.Answered(*head, [k % 10], 10, 1.7e9 + k / 100.0, k % VISITORS)
    sender = Sender(1 + k % VISITORS, 0)
    yield NewEntry(board, lambda numbers: events.encode(events.of_sender(shown, numbers[0])), [sender])
    yield NewEntry(board, events.encode(answered))


def measure(url, pairs, at_once):
    with contextlib.closing(open_store(url)) as store:
        start = events.encode(events.Created(events.Config(length=10), [f"item {k}" for k in range(200)]))
        boards = [store.create_board(f"board {k}", start, 1.7e9) for k in range(BOARDS)]
        rows = [row for k in range(pairs) for row in pair(k, boards[k % BOARDS])]
        begin = time.perf_counter()
        for first in range(0, len(rows), at_once):
            store.append(rows[first : first + at_once], 1.7e9)
        seconds = time.perf_counter() - begin
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CHECKPOINT")
        sizes = "SELECT pg_total_relation_size('events'), pg_total_relation_size('clients')"
        events_size, clients_size = connection.execute(sizes).fetchone()
    return len(rows) / seconds, events_size / len(rows), clients_size / min(pairs, VISITORS * BOARDS)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pg", help="a PostgreSQL that is there")
    parser.add_argument("--pairs", type=int, default=50_000)
    options = parser.parse_args()
    cores = os.sched_getaffinity(0)
    with contextlib.nullcontext(options.pg) if options.pg else database(cores) as url:
        print(f"{'events a commit':>16}{'events/s':>12}{'bytes an event':>16}{'bytes a client':>16}")
        for at_once in (20, 200, 2_000):
            speed, size, clients = measure(fresh(url, f"store_{at_once}"), options.pairs, at_once)
            print(f"{at_once:>16,}{speed:>12,.0f}{size:>16,.0f}{clients:>16,.0f}", flush=True)


if __name__ == "__main__":
    main()
