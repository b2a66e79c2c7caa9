"""Studio: the publisher's work in the browser, on this machine alone."""
