"""Random tokens are drawn many at a time, and each is returned once."""

import subprocess
import sys

from timeloom.ports.ids import POOLED_TOKENS, RandomTokens

FORK = """
import os
from timeloom.ports.ids import RandomTokens

tokens = RandomTokens(16)
tokens.take()
if (child := os.fork()) == 0:
    print(tokens.take().hex(), flush=True)
    os._exit(0)
os.waitpid(child, 0)
print(tokens.take().hex())
"""


def test_each_token_is_returned_once() -> None:
    tokens = RandomTokens(16)
    taken = [tokens.take() for _ in range(3 * POOLED_TOKENS)]
    assert len(set(taken)) == len(taken)
    assert {len(token) for token in taken} == {16}


def test_a_forked_process_draws_its_own_tokens() -> None:
    run = subprocess.run([sys.executable, "-c", FORK], capture_output=True, text=True, check=True)
    child, parent = run.stdout.split()
    assert child != parent
