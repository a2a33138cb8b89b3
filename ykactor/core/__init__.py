"""The decisions: plain functions over plain data, without trio, clock, randomness or environment.

One package for each noun, from the ground up; a package imports strictly lower floors only:

     1 values      plain values
     2 config      the configured queue tree
     3 messages    what goes in and what comes out
     4 accounting  accounts and records of the past
     5 objects     the owners: leaf, parent, node, application      quota       how much is used and may be
     6 placement   which queue an application enters                queueing    the scheduling queues
     7 partition   membership and the order of input                nodes       where something may run
     8 preemption  which tasks are preempted
     9 waiting     why asks wait
    10 state       what the scheduler knows
    11 planner     one cycle
    12 turn        one turn, phase by phase
    13 inspection  looking at all of it                             records     the state as rows

``tests/test_architecture.py`` holds this table. Start reading in ``planner/planner.py`` (the walk) and ``partition/partition.py``
(the input).
"""
