"""Every constant of CFS. None affects the guarantee but the shares of the failure probability (docs/decisions/0010)."""

SCREENING, LOOK, SELECTION, BLOCK = "screening", "look", "selection", "block"
RULES = 2
"""What a study in two stages keeps to from its beginning: 1, of 0.1.0, knew no planned look of a stage of its own, and
made other designs."""
CERTIFY, BEST = "certify", "best"
AIMS = (CERTIFY, BEST)
"""What the next runs serve: the smallest tolerance that can be certified, or the setting recommended at the end."""
POOLED_RULES, SPARSE_RULES = 3, 4
"""The same of studies whose answer comes from all their runs, and of those that find few parents among many factors."""
DAY_RULES = 5
"""Pooled studies whose rounds are divided into days, or parts, with constants of their own."""
SUBSET_RULES = 6
"""Studies that may leave levers alone: a pooled study in which all are set, and a comparison of what to leave alone."""
THIN_RULES = 7
"""Pooled studies whose last round leaves out levels far behind, and whose short budgets are one design."""
TOGETHER_RULES = 8
"""Pooled studies that see levers work together where a budget is spent for the best setting."""
STEADY_RULES = 9
"""Pooled studies that draw in outcomes far out where a budget is spent for the best setting, and whose rounds are
divided into days alike on every processor."""
LEADER_RULES = 10
"""Pooled studies whose certificate, where a budget was spent for the best setting, is about the leader and the levels
that are not far behind it at the end."""
PARTS_RULES = 11
"""Pooled studies in which levers that forbidden combinations tie together are at stake by their parts, on designs that
are searched among what is allowed."""
PROMISE_RULES = 12
"""Pooled studies in which later runs of a budget for the best setting serve what can be promised of it, too, more
combinations of tied levers are tried, and fewer runs than parameters show no interactions."""
LATEST_RULES = PROMISE_RULES
COMPARING = "comparing"
"""The stage of runs that leave levers alone, and of those beside them that set all."""
NOISES = ("gaussian", "subgaussian")
WHOLE_BLOCK = 2**40
"""A batch size for studies: they hand out runs one by one, so a block may as well be planned at once."""
MOST_CELLS = 200_000_000
"""Runs times factors of the largest design: 400 MB."""
STUDY_CELLS, STUDY_RUNS = 20_000_000, 2_000_000
"""The same in a durable study, whose blocks are stored and read again by every process, and its longest block."""

# shares of the failure probability
SCREENING_SHARE = 0.1
DISMISSAL_SHARE = 0.4
UNCLAIMED_EVIDENCE = 0.2  # of what a promise without claims may take, for the evidence on every pair of levels
UNCLAIMED_LOOK = 0.67  # of the rest, for the leaders of a look, where there was one; the selection has what is left
AFTER_LOOK_SHARE = 0.03  # for screening, when a planned look does most of it
NOISE_SHARE = 0.1

# lengths of blocks
FIRST_BLOCK = (1.8, 3.0)  # runs of the first block per parameter, at least and at most
FIRST_SHARE = 0.3  # in between, this share of the runs that would settle everything at once
FIRST_SHARE_OF_BUDGET = 0.2
NEXT_BLOCK = 1.5  # runs of a later block per parameter still open, at least
GROWTH = 0.6  # and at least this share of the runs so far
LEAST_DOF = 20  # degrees of freedom for the noise in the first block, when it has to be estimated
USUAL_NOISE = 2.0  # tolerances: what the first block takes the noise for while it is not known
TO_MEASURE = 2.2  # runs per parameter, at least, of a first block that has to tell the noise as well

# pooled studies
SPARSE_PARAMETERS = 300  # from so many on, with few parents among them, fewer runs than parameters find these
SPARSE_SHARE = 0.25  # of all factors, that may be parents for that
MOST_POOLED_LEVELS = 1500  # of all factors together: the information matrix has the square of it
POOLED_GROWTH = 0.35  # a later block has at least this share of the runs so far,
POOLED_NEXT = 1.0  # and so many runs per parameter still open
NEARLY_ALL = 0.65  # a block that would be more than this share of what is still needed is all of it
SPARE = 1.01  # times what is still needed, so that a last block is seldom followed by a very short one
THIN_BEHIND = 1.5  # standard errors of a mean behind the leader, beyond which the last round leaves a level out
LEAST_PART, PART = 48, 2.0  # runs of the parts of a long round, at least; and so many per parameter
BASELINE_EVERY = 16  # one run in so many is at the setting in place today, where there are no days
SHORT_DAY = 8  # runs of a day, from which on it has one such run; of shorter days only every second or third
RUNS_BEFORE_BASELINE = 1.2  # runs per parameter, at least, besides those
INTERACTION_RUNS, INTERACTION_LEVELS = 600, 300  # of a budget, and of all factors, up to which interactions are seen
SEARCH_STARTS = 12  # settings, of the best runs and again at random, from which the best one is looked for
TIED = 1e-6  # standard errors, or spreads of effects, by which levels are the same but for rounding
LEAST_BLOCK = 4  # runs of a block, at least
CLOSE_ENOUGH = 0.02  # how far below the failure probability, on the log scale, an accepted bound may end
CLOSELY_COUPLED = 2.5  # runs per open parameter below which the coupling of factors is measured
LOOSE_COUPLING, COUPLING_COST = 3.0, 0.1  # what standard errors grow by where it is larger: so much for each unit
HARDLY_MORE, LOOSE_COST = 1.5, 0.03  # so much also where it is smaller, with fewer runs per open parameter than that
RESERVE = 0.05  # of the failure probability, for what is checked numerically and not proven
MANY_SWAPS = 0.7  # of all combinations, from which on these count as levels of one factor
TIED_COST = 1.2  # runs of a study with forbidden combinations, about, over those of one without
FIRST_TO_BEST = 1.0  # runs per parameter of the first block of a study that aims for the best setting,
FIRST_SPARE = 6  # and so many more, so that no single outcome decides what is run later without others to contradict it
ALL_AT_ONCE = 1.5  # runs per parameter: such a budget is one design when it has fewer
BEST_GROWTH = 0.12  # a later block of such a study has at least this share of the runs so far
PROMISE_FROM, PROMISE_OVER = 3.0, 8.0  # runs per parameter from which on, and over which, runs serve the promise too,
FOR_PROMISE = 0.9  # until so large a share of them does
SURELY_FAR = 1.15  # times the distance at which levels are left out at the end, at which they are meant to be then
POOLED_SHARE = 0.05  # of the failure probability, for dropping levels
FAR_BEHIND_SHARE = 0.25  # of it, for levels far behind at the end, which a certificate of the best setting leaves out
FAR_BEHIND_IN_ONE = 0.1  # the same of a budget to certify, whose rows follow outcomes by the levels dropped alone
PLANNED_END = 2.0  # what intervals at an end fixed in advance divide theirs by, because rows followed outcomes
CHOSEN_END = 3.0  # the same where runs also served the promise: what looked far behind got few
RUNS_TO_ELIMINATE = 5.0  # runs per parameter from which a budget is spent in blocks, so that levels can be dropped
EVERY_LOOK = 3.0  # what a certificate that may be read after every run divides its failure probability by
POOLED_NOISE_SHARE = 0.05  # for the bound of an unknown noise, which levels are dropped by
NOISE_MARGIN = 5.0  # an estimated variance is taken to be larger by exp(this / degrees of freedom)

# studies that may leave levers alone
MOST_FREE = 4  # levers that may be: all their subsets are compared
SUBSET_SPREAD, SUBSET_SCALE = 0.3, 30.0  # what the standard error of a subset's mean is planned to be: .3 tolerances,
# and less for studies whose squared scale is larger than this one, as its fourth root
SUBSET_RISK = 0.9  # of what a certificate may take that is charged for looks: as much as that error may cost alone
SUBSET_SHARE = 0.3  # of a budget, or of the most runs, for the comparison
RUNS_A_SUBSET = 4  # of these for each subset, at least
HIDDEN_ERROR = 0.01  # how often a study without hidden causes says that there is one, at most

# whether to have a look, and whether to screen on
LOOK_PAYS = 0.7  # a planned look must be shorter than this share of a design that settles everything
LOOK_ROWS = 1.8  # rows of a look's design for each parameter, at least: what nearly independent factors take
LARGEST_RATIO = 1e6  # of tolerance or least effect to noise, either way, for which a look is planned
FEW_FACTORS = 3  # up to this many factors the tight certificate is cheap enough to look ahead with
WORTH = 0.99  # screening on must promise to cost less than this share of selecting now
GROWTHS = (1.1, 1.25, 1.4, 1.6, 1.8, 2.0, 2.3, 2.7, 3.2, 4.0, 5.0, 6.5, 8.0, 10.0, 13.0, 16.0, 20.0)
"""Lengths of further screening that are looked ahead to, in runs so far."""

# what the anytime radii are tuned to
RHO_SHARE = 0.1  # the mixture is tightest at about twenty times this share of the first block's information
DISMISSED_AT = 6.5  # standard errors of min_effect at which a factor without effect is about to be dismissed

# how many runs are to go
PARAMETER_COST = 1.0  # runs of a pooled study over those of an ideal design, about, for each open parameter,
WORST_SHARE, WORST_PARAMETER_COST = 1.05, 2.0  # and at most so many times its runs, and so many for each parameter
UNLIKELY = 0.001  # how often a noise that is not known turns out larger than a forecast's worst case has it
RUNS_TO_COMPARE = (3, 12)  # a parameter, at least and at most, of designs that tell what forbidden combinations cost,
MOST_COMPARED_CELLS, MOST_COMPARED_PARAMETERS = 20_000, 150  # of so many runs times parameters, but for the least, at
# most, because somebody waits, and not made for more parameters than these
SLACK = 1.25  # the cheap scale may be low by a tenth, and whole copies of an array round up
ROUNDED = 40.0  # runs by which rounding to an array may lengthen even a small design
