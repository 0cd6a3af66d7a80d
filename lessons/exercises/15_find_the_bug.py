"""Exercise 15: find the bug. A streaming decoder that is right for every text in every language.

It was shipped, and one day a model said three words and then nothing more, though it went on writing. Run the file: it
plays back what the model wrote. Why does the decoder never speak again? Mend `feed`. What is no character must become
U+FFFD, as bytes.decode("utf-8", errors="replace") does it, and what may still become one must wait.

Judge it:  python lessons/exercises/15_find_the_bug.py
"""


def feed(held, raw):
    """held: the bytes that wait; raw: those of one more token -> the text that may be shown now, the bytes that wait"""
    held = held + raw
    try:
        text = held.decode("utf-8")
    except UnicodeDecodeError:  # the last character is not whole yet: wait for the rest
        return "", held
    return text, b""


# --- the judge: nothing below is yours --------------------------------------------------------------------------------


def play(pieces):
    """The texts that are shown, token by token, and the bytes that wait at the end."""
    held, raw, shown = b"", b"", []
    for piece in pieces:
        raw += piece
        text, held = feed(held, piece)
        shown.append(text)
        whole = raw.decode("utf-8", errors="replace")
        if not whole.startswith("".join(shown)):
            raise SystemExit(f"after {raw} you have shown {''.join(shown)!r}, which is not how {whole!r} begins")
        missing = len(whole) - len("".join(shown))
        if missing > 1 or (missing and not whole.endswith("\N{REPLACEMENT CHARACTER}")):
            raise SystemExit(f"after {raw} you have shown {''.join(shown)!r}: {whole[-missing:]!r} is held back")
    if "".join(shown) + held.decode("utf-8", errors="replace") != whole:
        raise SystemExit(f"{raw}: with what waits at the end it must be {whole!r}")
    return shown, held


if __name__ == "__main__":
    for pieces in (
        [b"the", b" cat", b" sat"],
        [b"\xea", b"\xb0", b"\x80", b"!"],
        [b"caf", b"\xc3", b"\xa9 ", b"\xf0\x9f", b"\x91", b"\x8b", b" ok"],
        [b"so it was", b"\xb0", b" done", b" and all", b" were glad"],
        [b"\xea\xb0", b" and on", b"\xec\x9d\xb4"],
        [b"caf\xc3", b"\xa9", b"a\xea", b"\xea\xb0\x80", b"\xff", b"b"],
    ):
        shown, _ = play(pieces)
        print(f"{shown}: right")
    for unfinished in ([b"\xea"], [b"\xf0\x9f", b"\x91"]):
        if play(unfinished) != ([""] * len(unfinished), b"".join(unfinished)):
            raise SystemExit(f"{unfinished} may still become a character: wait")
    print("right: it waits for what may come, and for nothing else")
    raise SystemExit(0)
