"""What the publisher does against knowledge beyond the quasi-identifiers: fakes that nothing learned would rule out."""
