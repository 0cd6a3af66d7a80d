"""The table of commands: for each its name, its summary, lines to type, the options of its job, and the job."""

from minigpt.cli import command
from minigpt.cli.command import Command, Group

RUN = "runs/gpt1-stories-nano"  # what `minigpt train` writes where nothing is given
TUNED = f"{RUN}-sentiment"
LESSONS = "my-lessons"
CLASSROOM = "minigpt.learn.classroom.commands"

OVERVIEW = (
    "learn start 03",
    "train",
    f'sample {RUN} --prompt "Once upon a time"',
)

LESSON = Command(
    "lesson", "read a lesson in the terminal, cell by cell",
    ("lesson 03", "lesson 06 --cell 12"),
    "minigpt.learn.lesson:LessonOptions", "minigpt.learn.lesson:step_through",
)  # fmt: skip

COPY_LESSONS = Command(
    "lessons", "copy the lessons and their exercises into a folder",
    (f"lessons {LESSONS}",),
    "minigpt.learn.lessons:LessonsOptions", "minigpt.learn.lessons:copy_lessons",
)  # fmt: skip

LEARN = Group("learn", "exercises with a judge: start, check, hint, and what is next", (
    Command(
        "status", "what is done, what is next, and how long it takes",
        ("learn status",),
        f"{CLASSROOM}:StatusOptions", f"{CLASSROOM}:status",
    ),
    Command(
        "start", "hand out the exercises of a lesson",
        ("learn start 03",),
        f"{CLASSROOM}:LessonOptions", f"{CLASSROOM}:start",
    ),
    Command(
        "check", "judge what you have written",
        ("learn check 03", "learn check 03 03_operations.py --json"),
        f"{CLASSROOM}:CheckOptions", f"{CLASSROOM}:check",
    ),
    Command(
        "hint", "the next hint, from a question to nearly the line",
        ("learn hint 03", "learn hint 03 2"),
        f"{CLASSROOM}:HelpOptions", f"{CLASSROOM}:hint",
    ),
    Command(
        "answer", "the answer of a question, or an explanation, after an honest try",
        ("learn answer 03 4",),
        f"{CLASSROOM}:AnswerOptions", f"{CLASSROOM}:answer",
    ),
    Command(
        "reset", "begin a lesson again; what you wrote is kept in a folder",
        ("learn reset 03",),
        f"{CLASSROOM}:LessonOptions", f"{CLASSROOM}:reset",
    ),
    Command(
        "words", "the terms of the lessons, in English and Korean",
        ("learn words", "learn words gradient"),
        "minigpt.learn.classroom.glossary:WordsOptions", "minigpt.learn.classroom.glossary:words",
    ),
    Command(
        "claim", "try a change of your own: is it an improvement, or noise?",
        ("learn claim my_gelu.py", "learn claim my_schedule.py --seeds 12"),
        "minigpt.learn.classroom.claim:ClaimOptions", "minigpt.learn.classroom.claim:claim",
    ),
    Command(
        "grade", "judge a class of submissions: a table, and a page for the teacher",
        ("learn grade submissions", "learn grade submissions --out week3"),
        "minigpt.learn.classroom.grade:GradeOptions", "minigpt.learn.classroom.grade:grade",
    ),
    Command(
        "bug", "a model with a planted mistake: name it, find the line, mend it",
        ("learn bug", "learn bug name 3", "learn bug line 17", "learn bug check"),
        "minigpt.learn.classroom.bug:BugOptions", "minigpt.learn.classroom.bug:bug",
    ),
))  # fmt: skip

TRAIN = Command(
    "train", "pre-train a model on a text",
    (
        "train",
        "train --model gpt2 --data pydocs --tokenizer bpe:4096 --steps 3000",
        f"train --resume --out {RUN}",
        "train --model gpt2 --compare",
        "train --processes 2",
    ),
    "minigpt.jobs.pretrain:PretrainOptions", command.train, shared=True,
)  # fmt: skip

SAMPLE = Command(
    "sample", "write text with a trained model",
    (
        f'sample {RUN} --prompt "Once upon a time"',
        'sample gpt2 --prompt "The old man" --tokens 50 --temperature 0',
    ),
    "minigpt.jobs.sample:SampleOptions", "minigpt.jobs.sample:sample", writes=True,
)  # fmt: skip

CHAT = Command(
    "chat", "talk with a model that was trained for conversations",
    ("chat smollm2", 'chat smollm2 --system "You answer in one sentence." --temperature 0'),
    "minigpt.jobs.chat:ChatOptions", "minigpt.jobs.chat:chat", writes=True,
)  # fmt: skip

FINETUNE = Command(
    "finetune", "teach a pre-trained model a task, from labelled examples",
    (
        f"finetune {RUN} --task sentiment --train stories:200 --out {TUNED}",
        "finetune gpt2 --task classification --train train.tsv --columns text=document,label=stars --seeds 3",
    ),
    "minigpt.jobs.finetune:FinetuneOptions", command.finetune,
)  # fmt: skip

INSTRUCT = Command(
    "instruct", "teach a model to answer, from instructions of your own",
    ("instruct smollm2 mine.jsonl", "instruct gpt2 alpaca_data.json --lora 16 --epochs 1 --out runs/answers"),
    "minigpt.jobs.instruct:InstructOptions", command.instruct,
)  # fmt: skip

PREDICT = Command(
    "predict", "answer examples with a fine-tuned model",
    (
        f"predict {TUNED} {LESSONS}/data/tasks/sentiment.tsv",
        f"predict {TUNED} {LESSONS}/data/tasks/sentiment.tsv --out answers.tsv",
    ),
    "minigpt.jobs.predict:PredictOptions", "minigpt.jobs.predict:predict",
)  # fmt: skip

EVALUATE = Command(
    "eval", "try a task that the model was not trained for",
    (
        f"eval {RUN} perplexity {LESSONS}/data/stories_sample.txt",
        "eval gpt2 winograd wsc273.txt --json winograd.json",
        "eval gpt2 answer dev-v1.1.json --limit 50",
        "eval gpt2 --suite gpt2-table3 --data published --limit 50",
    ),
    "minigpt.jobs.evaluate:EvaluateOptions", command.evaluate,
)  # fmt: skip

FILL = Command(
    "fill", "fill in the words that a text lacks",
    ('fill runs/bert-stories-nano "the [MASK] went to the park"', "fill bert-base-uncased --file texts.txt --top 3"),
    "minigpt.jobs.fill:FillOptions", "minigpt.jobs.fill:fill",
)  # fmt: skip

SIMILAR = Command(
    "similar", "find the lines of a file that are nearest to a question",
    (
        'similar minilm notes.txt "how do I train a model?"',
        "similar minilm notes.txt --vectors notes.safetensors",
    ),
    "minigpt.jobs.similar:SimilarOptions", "minigpt.jobs.similar:similar",
)  # fmt: skip

TOKENIZER = Group("tokenizer", "train a vocabulary, or use one", (
    Command(
        "train", "learn a vocabulary from a text",
        (
            "tokenizer train --data pydocs --vocab 2000 --out runs/words",
            "tokenizer train --kind gpt2 --data pydocs --out runs/bytes",
        ),
        "minigpt.jobs.vocabulary:VocabularyOptions", "minigpt.jobs.vocabulary:train_vocabulary",
    ),
    Command(
        "encode", "from text to token ids",
        ('tokenizer encode runs/words "the old man"', f'tokenizer encode {RUN} "Once upon a time"'),
        "minigpt.jobs.vocabulary:EncodeOptions", "minigpt.jobs.vocabulary:encode",
    ),
    Command(
        "decode", "from token ids to text",
        ("tokenizer decode runs/words 10 20 30", f"tokenizer decode {RUN} 10 20 30"),
        "minigpt.jobs.vocabulary:DecodeOptions", "minigpt.jobs.vocabulary:decode",
    ),
    Command(
        "list", "print every token, what it was merged from, and its id",
        ("tokenizer list runs/words", "tokenizer list gpt2"),
        "minigpt.jobs.vocabulary:ListOptions", "minigpt.jobs.vocabulary:list_tokens",
    ),
))  # fmt: skip

DOWNLOAD = Command(
    "download", "fetch a published model",
    ("download gpt2", "download minilm", "download bert-base-uncased --out models/bert"),
    "minigpt.jobs.download:DownloadOptions", "minigpt.jobs.download:download",
)  # fmt: skip

CONVERT = Command(
    "convert", "turn a GGUF file, or weights of llama2.c, into a model directory",
    ("convert model.gguf models/mine", "convert stories260K.bin models/stories --vocabulary tok512.bin"),
    "minigpt.jobs.convert:ConvertOptions", "minigpt.jobs.convert:convert",
)  # fmt: skip

INFO = Command(
    "info", "show every tensor of a model, and what it costs",
    ("info --model gpt2 --size small --batch 4", f"info {RUN} --ops"),
    "minigpt.jobs.info:InfoOptions", "minigpt.jobs.info:info",
)  # fmt: skip

TRACE = Command(
    "trace", "one training step as a table: every operation, forward and backward",
    ("trace --layers 1", f'trace {RUN} --text "Once upon a time"', "trace --tensor h.0.attn.c_attn.weight"),
    "minigpt.learn.tracing.job:TraceOptions", "minigpt.learn.tracing.job:run",
)  # fmt: skip

EXPLORE = Command(
    "explore", "a page in which a small model computes, forward and backward, in the browser",
    ("explore", f'explore {RUN} --text "Once upon a time" -o page.html', "explore gpt2 --record -o gpt2.html"),
    "minigpt.explorer.job:ExploreOptions", "minigpt.explorer.job:explore",
)  # fmt: skip

STORIES = Command(
    "stories", "print stories of the story world, or examples of its tasks",
    ("stories --n 2 --events", "stories --task entailment --split test", "stories --judge story.txt"),
    "minigpt.jobs.stories:StoriesOptions", "minigpt.jobs.stories:show",
)  # fmt: skip

CHECK = Command(
    "check", "check every gradient; or judge a file of your own",
    ("check", f"check {LESSONS}/exercises/06_layernorm.py"),
    "minigpt.jobs.check:CheckOptions", command.check,
)  # fmt: skip

COMMANDS = (
    LESSON, COPY_LESSONS, LEARN, TRAIN, SAMPLE, CHAT, FILL, SIMILAR, FINETUNE, INSTRUCT, PREDICT, EVALUATE, TOKENIZER,
    DOWNLOAD, CONVERT, INFO, TRACE, EXPLORE, STORIES, CHECK,
)  # fmt: skip
