"""From what a publisher writes down to one exact limit for each sensitive value."""
