"""What limits cost, answered while a hand is still on the slider."""
