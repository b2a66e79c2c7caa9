"""Studio: a local web application for the publisher."""
