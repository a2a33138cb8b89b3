"""What is decided. Plain functions over plain data: no trio, no clock, no randomness, no environment.

One package for each noun, from the ground up; a package imports strictly lower floors only:

     1 values      plain values
     2 config      the configured queue tree
     3 messages    what goes in and what comes out
     4 objects     the owners: leaf, parent, node, application      quota       how much is used and may be
     5 placement   which queue an application enters                queueing    the scheduling queues
     6 partition   membership and the order of input                nodes       where something may run
     7 preemption  which tasks are preempted
     8 state       what the scheduler knows
     9 planner     one cycle
    10 turn        one turn, phase by phase
    11 inspection  looking at all of it

``tests/test_architecture.py`` holds this table. Start reading in ``planner/planner.py`` (the walk) and ``partition/partition.py``
(the input).
"""
