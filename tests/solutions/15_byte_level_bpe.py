def utf8(code):
    """The bytes of the character with this number, as a bytes object: utf8(0xAC00) is b"\\xea\\xb0\\x80"."""
    if code < 0x80:
        return bytes([code])
    if code < 0x800:
        return bytes([0xC0 | code >> 6, 0x80 | code & 0x3F])
    if code < 0x10000:
        return bytes([0xE0 | code >> 12, 0x80 | code >> 6 & 0x3F, 0x80 | code & 0x3F])
    return bytes([0xF0 | code >> 18, 0x80 | code >> 12 & 0x3F, 0x80 | code >> 6 & 0x3F, 0x80 | code & 0x3F])


def certain(raw):
    """How many bytes at the beginning of `raw` may be shown now: a whole number, 0 to len(raw).

    All of them, unless the last one to three are the beginning of a character whose other bytes may still come. Bytes
    that can never become a character are not waited for; nor is a byte of the form 10xxxxxx that follows nothing.
    """
    for back in range(1, min(3, len(raw)) + 1):
        first = raw[-back]
        if 0x80 <= first <= 0xBF:
            continue  # it follows another one
        promised = 2 if 0xC2 <= first <= 0xDF else 3 if 0xE0 <= first <= 0xEF else 4 if 0xF0 <= first <= 0xF4 else 1
        return len(raw) - back if promised > back else len(raw)
    return len(raw)
