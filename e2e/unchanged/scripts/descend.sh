#!/bin/sh
# Usage: STEP=0.1 ./descend.sh
set -eu
echo "step size ${STEP:=0.1}"
awk -v step="$STEP" 'BEGIN {
  for (i = 1; i <= 5; i++) {
    w -= step * 2 * (w - 3)
    printf "iteration %d of 5: loss %.6f\n", i, (w - 3) * (w - 3)
  }
}'
