"""Pure decisions over views: the next step of a turn and the steps that policies allow."""
