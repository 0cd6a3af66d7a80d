"""What a person wants done: pretrain, finetune, instruct, sample, chat, evaluate, info, check.

A command that trains is a folder, and goes one way: its settings, the preparation, the folder of the run, the loop, and
what came out. What these folders share:

option_fields   an option: its default, its help, and whether a run that goes on may have it anew
run_folder      what a run leaves on disk, and the file from which it goes on
run_state       what that file says is compared with what can be, and with the command
updates         the loop: its bar, the stop, keeping by the clock, the pauses for evaluations
epochs          the same over examples, epoch by epoch
interrupt       Ctrl-C, and the clock
"""
