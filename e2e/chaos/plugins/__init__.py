"""What packages of other people might bring along: on the path of the operators, so that they find it installed."""
