# Descends to the minimum of (x - 3)² with momentum, and prints the loss of each epoch.
awk -v rate="$PODTUNE_PARAM_rate" -v momentum="$PODTUNE_PARAM_momentum" 'BEGIN {
  for (epoch = 1; epoch <= 10; epoch++) {
    speed = momentum * speed - rate * 2 * (x - 3)
    x += speed
    print "epoch=" epoch " loss=" (x - 3) ^ 2
    system("sleep 0.2")
  }
}'
