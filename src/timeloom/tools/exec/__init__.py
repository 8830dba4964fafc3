"""The exec tool: runs programs that the agent writes in a sandbox and collects the files that they produce.

Reading order:

- `tool`: the tool itself.
- `settings`, `contract`: limits, and the files that a call promises to produce.
- `code`, `inputs`, `conversation_files`, `guest_modules`: the program, its input files and the tools it may import.
- `broker`: answers requests of the running program.
- `output_folder`, `collect_outputs`, `content`: find the produced files, keep them and put them on the timeline.
- `report`: the result that the model reads.
"""
