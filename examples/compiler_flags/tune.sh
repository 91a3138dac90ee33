#!/bin/sh
# Tune 14 flags of the C compiler on a small kernel, by the instructions that it takes or by its user time:
#   sh tune.sh instructions|user --budget 120 [other options of levers run]
# The storage is levers.db here, so that the same command goes on. The baseline is what -O2 stands for.
cd "$(dirname "$0")" || exit 2
measure=$1; shift
case $measure in instructions) repeats=1 ;; user) repeats=200 ;; *) echo "say instructions or user" >&2; exit 2 ;; esac
exec ${LEVERS:-levers} run "flags-$measure" --space flags.toml --goal minimize --time "$measure" --baseline "$(cat o2.txt)" "$@" \
    --setup 'cc {level} {tree_vectorize} {unroll_loops} {inline_functions} {omit_frame_pointer} {gcse} {ivopts} {peel_loops} {loop_interchange} {split_loops} {tree_pre} {ipa_cp_clone} {if_conversion} {schedule_insns2} kernel.c -o kernel' \
    -- ./kernel "$repeats"
