"""Exercise 28: find the bug (lesson 28). An order task that is learned without reading a word.

The author has written ALBERT's second task, and tested it with texts of eight words: all was well. With texts of nine
words every model is soon right in 100 % of the pairs, the smallest too, and it stays right when all words are covered.
Say where the answer can be seen, before you look for the line; mend it in `order_rows`; run this file again.

Judge it:  python lessons/exercises/28_find_the_bug.py
"""

import numpy as np

START, END = 1, 2


def order_rows(words, seed):
    """words (B,N) -> ids (B,N+3): start, a part, end, the other part, end; labels (B,): 1 where they are exchanged"""
    rng = np.random.default_rng(seed)
    labels = rng.integers(2, size=len(words))
    middle = words.shape[1] // 2
    rows = []
    for text, label in zip(words, labels, strict=True):
        earlier, later = text[:middle], text[middle:]
        front, back = (later, earlier) if label else (earlier, later)
        rows.append([START, *front, END, *back, END])
    return np.array(rows), labels


# --- the judge: nothing below is yours --------------------------------------------------------------------------------


def fault_of(n_words: int) -> str:
    """One line about rows of so many words, or nothing."""
    words = np.random.default_rng(0).integers(3, 50, size=(2000, n_words))
    ids, labels = order_rows(words, 1)
    if ids.shape != (2000, n_words + 3) or not 0.4 < labels.mean() < 0.6:
        return f"ids have shape {ids.shape}, expected {(2000, n_words + 3)}, and half of the pairs are exchanged"
    for text, row, label in zip(words, ids, labels, strict=True):
        inner = list(row[1:-1])
        if inner.count(END) != 1 or not 1 <= inner.index(END) <= n_words - 1:
            return "each row has two parts of one word or more, with one end between them and one behind"
        at = inner.index(END)
        front, back = inner[:at], inner[at + 1 :]
        whole = back + front if label else front + back
        if whole != list(text):
            return "the parts, put back in their sequence, are not the text"
    places = (ids == END).argmax(axis=1)
    said = {place: round(labels[places == place].mean()) for place in set(places.tolist())}
    right = np.mean([said[place] == label for place, label in zip(places.tolist(), labels, strict=True)])
    if right > 0.6:
        return f"who reads no word, and looks at something else, is right in {right:.0%} of the rows"
    return ""


def main() -> int:
    """Judge the rows; the exit status."""
    wrong = False
    for n_words in (8, 9):
        fault = fault_of(n_words)
        print(f"texts of {n_words} words: {fault or 'right'}")
        wrong = wrong or bool(fault)
    print("this is not right yet" if wrong else "mended: only who reads the words can tell")
    return int(wrong)


if __name__ == "__main__":
    raise SystemExit(main())
