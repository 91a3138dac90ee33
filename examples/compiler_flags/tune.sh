#!/bin/sh
# Tune 14 flags of the C compiler on a small kernel, by the instructions that it takes:
#   sh tune.sh [--budget 60] [--time user] [other options of levers run]
# The storage is levers.db here, so that the same command goes on.
cd "$(dirname "$0")" || exit 2
exec ${LEVERS:-levers} run flags --space flags.toml --goal minimize --time instructions "$@" \
    --setup 'cc {level} {tree_vectorize} {unroll_loops} {inline_functions} {omit_frame_pointer} {gcse} {ivopts} {peel_loops} {loop_interchange} {split_loops} {tree_pre} {ipa_cp_clone} {if_conversion} {schedule_insns2} kernel.c -o kernel' \
    -- ./kernel
