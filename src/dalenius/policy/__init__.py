"""From what a publisher writes down to one exact limit a sensitive value."""
