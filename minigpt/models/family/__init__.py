"""The relatives of GPT: each a small difference on one body. A file stands here only where the structure changes.

Who inherits from whom, and where a member says something else than its body:

    LanguageModel
        ELMo               cells of an LSTM, from both sides
        PublishedModel     opens and writes the files of transformers
            Encoder            GPT-1's blocks; every place sees both sides; a head that tells words
                PairEncoder        judges two sentences beside
                    BERT               its objectives, and the keys and names that most encoders have
                    ALBERT             one block for all layers, narrow tables, another second task
                RoBERTa            rows of positions behind those of the padding
                SpanBERT           spans, and a second loss from their edges
                Student            may have a teacher
                    DistilBERT         other keys and names
                ELECTRA            a generator, and a loss at every token
                DeBERTa            distances in the scores, a decoder where words are told, three versions of files
                XLM                segments are languages; other keys and names
                XLNet              two streams, and no table of positions
            EncoderDecoder     one stack reads, another one writes
                MASS               its objective
                BART               its noises; rows of positions that no text uses
                T5                 distances, RMSNorm, a gate, and a configuration that shares no key with the others
            Decoder            positions turn; RMSNorm
                Llama              a gate, and fewer heads of keys
                Mistral            sees a window
                GPTNeoX            LayerNorm; attention and MLP read the same stream

A member's file, NAME.py, has its configuration, what differs, its sizes and its card. Its layers, where it has many,
are in NAME_blocks.py, and older forms of its files in NAME_files.py. What a file of transformers is called is a table,
a `Layout` (forms.py), or `keys` of the configuration (published.py); published_model.py reads and writes by them.
"""
