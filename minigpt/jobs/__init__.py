"""What a person wants done: pretrain, finetune, sample, evaluate, info, check."""
