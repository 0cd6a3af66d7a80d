"""Exercise 15: bytes from an empty page.

Write the two functions without str.encode, bytes.decode and the module codecs. Lesson 15, sections 1 and 5.

Judge it:  python lessons/exercises/15_byte_level_bpe.py
"""


def utf8(code):
    """The bytes of the character with this number, as a bytes object: utf8(0xAC00) is b"\\xea\\xb0\\x80"."""
    ...  # your turn


def certain(raw):
    """How many bytes at the beginning of `raw` may be shown now: a whole number, 0 to len(raw).

    All of them, unless the last one to three are the beginning of a character whose other bytes may still come. Bytes
    that can never become a character are not waited for; nor is a byte of the form 10xxxxxx that follows nothing.
    """
    ...  # your turn


# --- the judge: nothing below is yours --------------------------------------------------------------------------------


def judge():
    for code in (0x00, 0x41, 0x7F, 0x80, 0xE9, 0x7FF, 0x800, 0xAC00, 0xFFFD, 0xFFFF, 0x10000, 0x1F44B, 0x10FFFF):
        yield f"utf8(0x{code:04X})", utf8(code), chr(code).encode("utf-8")
    for raw, right in (
        (b"", 0), (b"cat", 3),
        (b"\xea", 0), (b"\xea\xb0", 0), (b"\xea\xb0\x80", 3), (b"\xea\xb0\x80\xec", 3), (b"a\xc3", 1),
        (b"a\xc3\xa9", 3), (b"\xf0\x9f\x91", 0), (b"\xf0\x9f\x91\x8b", 4), (b"ok\xf0\x9f", 2),
        (b"\x80", 1), (b"\xea\xb0\x80\x80", 4), (b"\xc3\xa9\xa9", 3),
        (b"\xff", 1), (b"\xf8\x90", 2), (b"\xc1", 1), (b"\xf5\x90", 2),
        (b"\xc2", 0), (b"\xdf", 0), (b"\xe0", 0), (b"\xef\xbf", 0), (b"\xea\x80", 0), (b"\xf0", 0),
        (b"\xf4\x8f\xbf", 0), (b"\xeaab", 3), (b"\xea\xb0\xea", 2),
    ):  # fmt: skip
        yield f"certain({raw})", certain(raw), right


if __name__ == "__main__":
    for what, yours, right in judge():
        if yours is None:
            raise SystemExit(f"{what}: returns nothing yet")
        if yours != right:
            raise SystemExit(f"{what}: yours is {yours}, right is {right}")
        print(f"{what}: right")
    print("all of it is right")
    raise SystemExit(0)
