#!/bin/sh
# Fits a line to points around y = 3x + 2 by gradient descent with momentum. There is no Python in sight:
# a parameter is an environment variable, and a result is a line of JSON.
exec awk -v rate="$PODTUNE_PARAM_rate" -v momentum="$PODTUNE_PARAM_momentum" '
BEGIN {
    for (epoch = 1; epoch <= 30; epoch++) {
        loss = slope = offset = 0
        for (x = -10; x <= 10; x++) {
            error = a * x / 10 + b - (3 * x / 10 + 2 + (7 * x * x % 11 - 5) / 50)
            loss += error * error / 21
            slope += 2 * error * x / 10 / 21
            offset += 2 * error / 21
        }
        a += step_a = momentum * step_a - rate * slope
        b += step_b = momentum * step_b - rate * offset
        printf "{\"epoch\": %d, \"loss\": %.6g}\n", epoch, loss
        fflush()
    }
}' >> "$PODTUNE_DIR/results.jsonl"
