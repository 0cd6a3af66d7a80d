import codecs


def feed(held, raw):
    """held: the bytes that wait; raw: those of one more token -> the text that may be shown now, the bytes that wait"""
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    text = decoder.decode(held + raw)
    return text, decoder.getstate()[0]
