"""Chance as an argument: the hash behind a key is even, uncorrelated, and the same for every split of a batch."""

import math
from itertools import combinations, product

import numpy as np
import pytest

from minigpt.ops.random_keys import Key, fold, keep_mask, uniform

N = 1 << 17
KEYS = [Key.of(seed, step).fold(layer, site) for seed, step, layer, site in product((0, 1), (0, 1, 2), (0, 1), (0, 1))]
FIVE_SIGMA = 5.0


def bits(key, n=N, rate=0.5):
    return keep_mask(key, rate, (n,), np)


def signs(key, n=N):
    """The bits as +1 and -1."""
    return 2.0 * bits(key, n) - 1


def correlation(a, b):
    """In standard deviations of what chance alone gives."""
    return abs(float(a @ b)) / math.sqrt(len(a))


def by_hand(key, i):
    """The 32 bits of one element, in Python's own integers."""
    word = 0xFFFFFFFF
    x = (i & word) ^ key.bits
    x ^= x >> 16
    x = x * 0x7FEB352D & word
    x ^= x >> 15
    x = (x + key.bits) * 0x846CA68B & word
    return x ^ x >> 16


# --- the bits themselves ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.5, 0.999])
def test_the_hash_by_hand(rate):
    key = Key.of(5, 6, 7)
    expected = [by_hand(key, i) >= rate * 2**32 for i in range(300)]
    assert keep_mask(key, rate, (3, 100), np).ravel().tolist() == expected


def test_the_bits_of_a_key_never_change():
    """A run resumed with a later version must see the same masks."""
    assert Key.of(0).bits == 0x4C080CEA
    assert Key.of(1337, 42).fold(3, 1).bits == 0x78C603C8
    assert np.packbits(bits(Key.of(0, 0), 64)).tobytes().hex() == "9cc63a27d61f26ee"


@pytest.mark.parametrize("rate", [0.05, 0.1, 0.5, 0.9])
def test_keep_rate(rate):
    sigma = math.sqrt(N * rate * (1 - rate))
    for key in KEYS:
        assert abs(int(bits(key, rate=rate).sum()) - N * (1 - rate)) < FIVE_SIGMA * sigma


def test_rates_nest_and_the_ends_are_exact():
    """An element kept at a high rate is kept at every lower one; rate 0 keeps all."""
    key = KEYS[3]
    kept = [bits(key, rate=rate) for rate in (0.0, 0.2, 0.5, 0.8)]
    assert kept[0].all() and kept[0].dtype == bool
    for more, fewer in zip(kept, kept[1:], strict=False):
        assert (more | ~fewer).all() and (more & ~fewer).any()
    assert bits(key, rate=1 - 1e-12).sum() == 0


@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_chi_square_of_patterns(rate):
    """Eight neighbours make one of 256 patterns; each comes as often as its probability says."""
    powers = np.array([1 << i for i in range(8)])
    ones = np.array([bin(i).count("1") for i in range(256)])
    expected = (N // 8) * (1 - rate) ** ones * rate ** (8 - ones)
    cells = expected >= 5
    for key in KEYS:
        counts = np.bincount(bits(key, rate=rate).reshape(-1, 8) @ powers, minlength=256)
        observed = np.append(counts[cells], counts[~cells].sum())
        wanted = np.append(expected[cells], expected[~cells].sum() or 1e-9)
        freedom = cells.sum() if (~cells).any() else cells.sum() - 1
        statistic = ((observed - wanted) ** 2 / np.maximum(wanted, 1e-9)).sum()
        assert abs(statistic - freedom) < FIVE_SIGMA * math.sqrt(2 * freedom)


@pytest.mark.parametrize("lag", [1, 2, 3, 4, 7, 8, 16, 31, 64, 128, 256, 384, 768, 1024, 3072, 65536])
def test_serial_correlation(lag):
    for key in KEYS:
        s = signs(key)
        assert correlation(s[:-lag], s[lag:]) < FIVE_SIGMA


def test_rows_and_columns_are_as_even_as_the_whole():
    """No row or column of a (256, 512) mask is richer than chance: nothing lines up with powers of two."""
    for key in KEYS:
        table = signs(key).reshape(256, 512)
        for axis, n in ((0, 256), (1, 512)):
            z = table.sum(axis) / math.sqrt(n)
            assert np.abs(z).max() < FIVE_SIGMA
            assert abs((z**2).mean() - 1) < FIVE_SIGMA * math.sqrt(2 / len(z))


# --- between keys ----------------------------------------------------------------------------------------------------


def test_neighbouring_keys_are_independent():
    """Seeds, steps, layers and sites side by side: no pair of masks is correlated, nor shifted copies of each other."""
    masks = [signs(key) for key in KEYS]
    for a, b in combinations(masks, 2):
        assert correlation(a, b) < FIVE_SIGMA
        for shift in (1, 2, 8, 128):
            assert correlation(a[shift:], b[:-shift]) < FIVE_SIGMA
            assert correlation(a[:-shift], b[shift:]) < FIVE_SIGMA


def test_three_keys_do_not_conspire():
    """The product of two masks is not the third."""
    masks = [signs(Key.of(0, step)) for step in range(8)]
    for a, b, c in combinations(masks, 3):
        assert correlation(a * b, c) < FIVE_SIGMA


def test_every_bit_of_a_number_moves_half_of_the_key():
    """Avalanche: seeds that differ in one bit give keys that differ in about 16 of 32."""
    for base in (0, 1, 12345):
        flips = [bin(Key.of(base).bits ^ Key.of(base ^ 1 << i).bits).count("1") for i in range(32)]
        assert min(flips) >= 4 and abs(np.mean(flips) - 16) < FIVE_SIGMA * math.sqrt(8 / 32)


def test_keys_of_a_run_are_all_different():
    keys = {Key.of(seed, step).bits for seed in range(3) for step in range(3000)}
    assert len(keys) == 9000
    step = Key.of(0, 1)
    assert len({step.fold(layer).fold(site).bits for layer in range(50) for site in range(3)}) == 150


def test_order_and_size_of_numbers_count():
    assert Key.of(1, 2) == Key.of(1).fold(2) == Key.of().fold(1, 2) != Key.of(2, 1)
    assert len({Key.of(n) for n in (0, 1, -1, 2**32 - 1, 2**32, 2**40, -(2**33))}) == 7
    for n in (-(2**70), 2**70):
        assert 0 <= Key.of(n).bits < 2**32


def test_numbers_of_numpy_are_numbers():
    assert Key.of(np.int64(7), np.uint16(3)) == Key.of(7, 3) and type(Key.of(np.int64(7)).bits) is int
    key = Key.of(1)
    assert (keep_mask(key._replace(row=np.int64(3)), 0.5, (2, 8), np) == keep_mask(key, 0.5, (5, 8), np)[3:]).all()
    with pytest.raises(TypeError):
        Key.of(1.5)


def test_fold_of_none_is_none():
    assert fold(None, 1, 2) is None and fold(Key.of(1), 2) == Key.of(1, 2)


def test_a_table_holds_the_keys_that_fold_makes():
    key = Key.of(7, 2)._replace(row=2)
    table = key.table(3, 2)
    assert table.shape == (4, 3) and table.dtype == np.uint32
    looked_up = Key(table, 2)
    for numbers in ((), (0,), (2,), (0, 1), (2, 0)):
        made, found = key.fold(*numbers), looked_up.fold(*numbers)
        assert found.seed_bits.tolist() == [made.bits] == [made.seed_bits]
        assert (keep_mask(found, 0.4, (3, 7), np) == keep_mask(made, 0.4, (3, 7), np)).all()
    for outside in ((3,), (0, 2)):
        with pytest.raises(IndexError):
            looked_up.fold(*outside)
    assert key.table().tolist() == key.bits


# --- one batch, however it is split ----------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(12,), (12, 5), (12, 3, 7), (12, 2, 5, 5)])
@pytest.mark.parametrize("sizes", [(1,) * 12, (5, 7), (4, 4, 4), (11, 1)])
def test_a_split_along_the_first_axis_gives_the_same_bits(shape, sizes):
    key = Key.of(3, 4)
    whole, row = keep_mask(key, 0.3, shape, np), 0
    for size in sizes:
        part = keep_mask(key._replace(row=row), 0.3, (size, *shape[1:]), np)
        assert (part == whole[row : row + size]).all()
        row += size


def test_fold_keeps_the_row():
    key = Key.of(3)._replace(row=8)
    assert key.fold(1, 2).row == 8 and key.fold(1, 2).bits == Key.of(3).fold(1, 2).bits


def test_far_rows_wrap_around():
    """Elements are counted modulo 2^32, so no batch is too long."""
    key = Key.of(1)
    far = keep_mask(key._replace(row=2**32 // 8 + 3), 0.5, (2, 8), np)
    assert (far == keep_mask(key._replace(row=3), 0.5, (2, 8), np)).all()
    assert keep_mask(key._replace(row=2**50 + 1), 0.5, (2, 8), np).shape == (2, 8)


def test_shapes_without_elements():
    assert keep_mask(Key.of(1), 0.5, (0, 3), np).shape == (0, 3)
    assert keep_mask(Key.of(1), 0.5, (), np).shape == ()


def test_a_mask_is_drawn_without_hidden_state():
    before = np.random.get_state()[1].copy()
    first, second = bits(Key.of(1)), bits(Key.of(1))
    assert (first == second).all() and (np.random.get_state()[1] == before).all()


def test_uniform_numbers_are_the_hash_itself_and_keep_their_place_in_a_divided_batch():
    key = Key.of(3, 4)
    numbers = uniform(key, (6, 5), np)
    assert numbers.dtype == np.float64 and (0 <= numbers).all() and (numbers < 1).all()
    assert numbers[1, 2] == by_hand(key, 7) / 2**32
    assert np.array_equal(uniform(key._replace(row=4), (2, 5), np), numbers[4:])
    assert np.array_equal(keep_mask(key, 0.3, (6, 5), np), numbers >= int(0.3 * 2**32) / 2**32)
    many = uniform(key, (N,), np)
    assert abs(many.mean() - 0.5) < FIVE_SIGMA / math.sqrt(12 * N)
